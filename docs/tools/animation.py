"""Draws docs/pictures/lake.gif: `python docs/tools/animation.py` (needs matplotlib and Pillow, about a minute).

Not a part of the build: the picture is kept in the repository.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter

from dqucb import QUCB, PlanningDQUCB, frozen_lake

CHANGES = (2_000, 4_000)
EPISODES, EVERY = 6_000, 100
SLIPS = (0, 1 / 2, 2 / 3)
WORDS = ("no move slips", "every second move slips", "two moves of three slip")
MAP = "SFFFFHFHFFFHHFFG"
BLUE, RED, GREY = "#0072b2", "#d55e00", "#777777"


def main() -> None:
    lake = frozen_lake(slip=SLIPS, change_at=CHANGES, horizon=100)
    rival = QUCB(bonus_scale=0.05).train(lake, episodes=EPISODES, seed=0)
    agent = PlanningDQUCB()
    ends = list(range(EVERY, EPISODES + 1, EVERY))
    shares, before = [], np.zeros(len(MAP))
    for end in ends:
        run = agent.train(lake, episodes=EPISODES, seed=0, stop_at=end)
        visits = agent.visits_.reshape(-1, len(MAP), 4).sum(axis=(0, 2))
        shares.append((visits - before) / (visits - before).max())
        before = visits

    matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplot_mosaic(
        [["lake", "regret"], ["lake", "likelihood"]],
        figsize=(8, 3.6),
        dpi=90,
        layout="constrained",
        width_ratios=(1, 1.5),
    )
    board = axes["lake"].imshow(shares[0].reshape(4, 4), cmap="Blues", vmin=0, vmax=1.8)  # letters stay legible
    names = {"S": "start", "F": "", "H": "hole", "G": "goal"}
    for cell, letter in enumerate(MAP):
        axes["lake"].text(
            cell % 4, cell // 4, names[letter], ha="center", va="center", color=RED if letter == "H" else "black"
        )
    axes["lake"].set(xticks=[], yticks=[])
    axes["lake"].spines[:].set_visible(False)
    axes["regret"].set(
        xlim=(0, EPISODES), ylim=(0, rival.regret[-1] * 1.05), ylabel="cumulative regret", xticklabels=[]
    )
    axes["likelihood"].set(xlim=(0, EPISODES), ylim=(0, 1.05), ylabel="likelihood", xlabel="episode")
    for name in ("regret", "likelihood"):
        for change in CHANGES:
            axes[name].axvline(change, color=GREY, linestyle=":")
    (theirs,) = axes["regret"].plot([], [], color=GREY, linestyle="--", label="QUCB")
    (ours,) = axes["regret"].plot([], [], color=BLUE, label="PlanningDQUCB")
    (likely,) = axes["likelihood"].plot([], [], color=BLUE)
    (alarms,) = axes["likelihood"].plot([], [], "^", color=RED, label="alarm")
    axes["regret"].legend(loc="upper left", frameon=False)
    axes["likelihood"].legend(loc="lower left", frameon=False)
    means = run.likelihood.reshape(-1, 20).mean(axis=1)

    def draw(frame: int) -> None:
        end = ends[frame]
        board.set_data(shares[frame].reshape(4, 4))
        axes["lake"].set_title(WORDS[sum(end > change for change in CHANGES)])
        theirs.set_data(rival.ends[:end], rival.regret[:end])
        ours.set_data(run.ends[:end], run.regret[:end])
        likely.set_data(np.arange(1, end // 20 + 1) * 20, means[: end // 20])
        heard = run.alarms[run.alarms < end]
        alarms.set_data(heard, np.full(len(heard), 0.06))

    path = Path(__file__).parent.parent / "pictures" / "lake.gif"
    frames = [*range(len(ends)), *[len(ends) - 1] * 12]  # the last one stays for a while
    FuncAnimation(figure, draw, frames=frames).save(path, writer=PillowWriter(fps=6))
    print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB; alarms {run.alarms.tolist()}")
    print(f"regret {run.regret[-1]:.0f}, of QUCB {rival.regret[-1]:.0f}")


if __name__ == "__main__":
    main()
