"""Draws the animations of docs/pictures: `python docs/tools/animation.py [NAME ...]` (needs Pillow, a minute).

Not a part of the build: the pictures are kept in the repository. Each shows where `PlanningDQUCB` goes, its regret
beside that of QUCB, the likelihood and the alarms; CartPole shows the pole and the statistic of a drift detector.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter

from dqucb import QUCB, ContinuousDriftDetector, PlanningDQUCB, Problem, frozen_lake, gridworld, moving_goal, two_rooms
from dqucb.envs import CartPoleEnv

BLUE, RED, GREY = "#0072b2", "#d55e00", "#777777"
PICTURES = Path(__file__).parent.parent / "pictures"
FRAMES, STILL = 50, 10  # the last frame stays for a while


class Case(NamedTuple):
    """A problem with a map, a sentence for each phase, and what stands in the cells of each phase's map."""

    problem: Problem
    episodes: int
    words: tuple[str, ...]
    maps: tuple[tuple[str, ...], ...]
    rival: QUCB


LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
OPEN = ("S.........", "..........", "..........", "..........", ".........G")
WALL = tuple(line if row == 2 else line[:5] + "#" + line[6:] for row, line in enumerate(OPEN))
MOVED = ("S.........", "..........", "..........", "..........", "G.........")
SHARED = QUCB(bonus_scale=0.05, stage_dependent=False)
CASES: dict[str, Callable[[], Case]] = {
    "lake": lambda: Case(
        frozen_lake(slip=(0, 1 / 2, 2 / 3), change_at=(2_000, 4_000), horizon=100), 6_000,
        ("no move slips", "every second move slips", "two moves of three slip"), (LAKE,) * 3, QUCB(bonus_scale=0.05),
    ),
    "gridworld": lambda: Case(
        gridworld(noise=(0.01, 0.2), change_at=(300,), horizon=50), 600,
        ("1 % of the moves are random", "20 % of the moves are random"), (OPEN,) * 2, SHARED,
    ),
    "two_rooms": lambda: Case(
        two_rooms(change_at=(300, 600), horizon=50, wall=5, door=2), 900,
        ("one room", "two rooms and a door", "one room again"), (OPEN, WALL, OPEN), SHARED,
    ),
    "moving_goal": lambda: Case(
        moving_goal(change_at=(300,), horizon=50), 600,
        ("the goal is far away", "the goal has moved to the start's side"), (OPEN, MOVED), SHARED,
    ),
}  # fmt: skip


def draw_map_case(name: str, case: Case) -> None:
    """A map with the visits of the last episodes, regret, likelihood and alarms."""
    problem, episodes, changes = case.problem, case.episodes, case.problem.change_at
    rival = case.rival.train(problem, episodes=episodes, seed=0)
    agent, every = PlanningDQUCB(), episodes // FRAMES
    ends = list(range(every, episodes + 1, every))
    rows, cols = len(case.maps[0]), len(case.maps[0][0])
    shares, before = [], np.zeros(rows * cols)
    for end in ends:
        run = agent.train(problem, episodes=episodes, seed=0, stop_at=end)
        visits = agent.visits_.reshape(-1, rows * cols, 4).sum(axis=(0, 2))
        shares.append(((visits - before) / (visits - before).max()) ** 0.4)  # rare visits can be seen too
        before = visits

    places = [["map", "regret"], ["map", "likelihood"]]
    size = {"figsize": (8, 3.4), "dpi": 80, "layout": "constrained", "width_ratios": (1.2, 1.3)}
    figure, axes = plt.subplot_mosaic(places, **size)
    board = axes["map"].imshow(shares[0].reshape(rows, cols), cmap="Blues", vmin=0, vmax=1.8)  # letters stay legible
    axes["map"].set(xticks=[], yticks=[])
    axes["map"].spines[:].set_visible(False)
    top = max(rival.regret[-1], run.regret[-1]) * 1.05
    axes["regret"].set(xlim=(0, episodes), ylim=(0, top), ylabel="cumulative regret", xticklabels=[])
    axes["likelihood"].set(xlim=(0, episodes), ylim=(0, 1.05), ylabel="likelihood", xlabel="episode")
    for place in ("regret", "likelihood"):
        for number, change in enumerate(changes):
            label = "change" if place == "regret" and number == 0 else None
            axes[place].axvline(change, color=GREY, linestyle=":", label=label)
    (theirs,) = axes["regret"].plot([], [], color=GREY, linestyle="--", label="QUCB")
    (ours,) = axes["regret"].plot([], [], color=BLUE, label="PlanningDQUCB")
    (likely,) = axes["likelihood"].plot([], [], color=BLUE)
    (alarms,) = axes["likelihood"].plot([], [], "^", color=RED, label="alarm")
    axes["regret"].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderpad=0)
    axes["likelihood"].legend(loc="lower left", frameon=False)
    width = max(1, episodes // 300)
    means = run.likelihood.reshape(-1, width).mean(axis=1)
    drawn: list[plt.Artist] = []

    def draw(frame: int) -> None:
        end = ends[frame]
        phase = int(np.searchsorted(changes, end, "left"))
        board.set_data(shares[frame].reshape(rows, cols))
        axes["map"].set_title(f"episode {end:,}: {case.words[phase]}", fontsize=9)
        while drawn:
            drawn.pop().remove()
        drawn.extend(marks(axes["map"], case.maps[phase]))
        theirs.set_data(rival.ends[:end], rival.regret[:end])
        ours.set_data(run.ends[:end], run.regret[:end])
        likely.set_data(np.arange(1, end // width + 1) * width, means[: end // width])
        heard = run.alarms[run.alarms < end]
        alarms.set_data(heard, np.full(len(heard), 0.06))

    save(figure, draw, name)
    print(f"  alarms {run.alarms.tolist()}, regret {run.regret[-1]:.0f}, of QUCB {rival.regret[-1]:.0f}")


def marks(axis: plt.Axes, letters: tuple[str, ...]) -> list[plt.Artist]:
    """Start, goal, holes and walls."""
    words = {"S": ("start", "black"), "G": ("goal", "black"), "H": ("hole", RED)}
    size = 9 if len(letters[0]) < 6 else 7
    made: list[plt.Artist] = []
    for row, line in enumerate(letters):
        for col, letter in enumerate(line):
            if letter == "#":
                made.append(axis.add_patch(plt.Rectangle((col - 0.5, row - 0.5), 1, 1, color="black")))
            elif letter in words:
                word, colour = words[letter]
                made.append(axis.text(col, row, word, ha="center", va="center", color=colour, fontsize=size))
    return made


def draw_cartpole(name: str) -> None:
    """A pole that a fixed rule balances, and a detector that reads its transitions while noise begins."""
    change, first, last = 4_000, 3_940, 4_060
    env = CartPoleEnv(unit="steps", change_at=(change,), noise=0.1)
    detector = ContinuousDriftDetector(n_actions=2)
    states, statistics, alarm = [], [], None
    state, _ = env.reset(seed=0)
    random = np.random.default_rng(0)
    for step in range(last):
        wish = int(state @ np.array([0.5, 1.0, 12.0, 2.5]) > 0)
        action = (
            wish if random.random() < 0.9 else 1 - wish
        )  # a rule that does not vary would teach the detector little
        next_state, _, ended, cut, _ = env.step(action)
        if detector.update(state, action, next_state).drift_detected and alarm is None and step >= change:
            alarm = step
        states.append(state)
        statistics.append(detector.statistic)
        state = env.reset()[0] if ended or cut else next_state

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.0), dpi=80, layout="constrained", width_ratios=(1.2, 1.3))
    axes[0].set(xlim=(-1.6, 1.6), ylim=(-0.4, 1.5), xticks=[], yticks=[], aspect="equal")
    axes[0].spines[:].set_visible(False)
    axes[0].axhline(-0.12, color=GREY, linewidth=1)
    cart = axes[0].add_patch(plt.Rectangle((0, 0), 0.5, 0.24, color=GREY))
    (pole,) = axes[0].plot([], [], color=BLUE, linewidth=5, solid_capstyle="round")
    axes[1].set(xlim=(first, last), ylim=(0, 2), xlabel="step", ylabel="statistic of the detector")
    axes[1].axvline(change, color=GREY, linestyle=":", label="noise begins")
    axes[1].axhline(1.0, color=RED, linewidth=1, label="alarm above this line")
    (line,) = axes[1].plot([], [], color=BLUE)
    (mark,) = axes[1].plot([], [], "^", color=RED, label="alarm")
    axes[1].legend(loc="upper left", frameon=False)
    steps = np.linspace(first, last - 1, FRAMES).astype(int)

    def draw(frame: int) -> None:
        step = steps[frame]
        x, _, angle, _ = states[step]
        cart.set_xy((x - 0.25, -0.12))
        pole.set_data([x, x + np.sin(angle)], [0.05, 0.05 + np.cos(angle)])
        noise = "no noise" if step < change else "noise on both velocities"
        axes[0].set_title(f"step {step:,}: {noise}", fontsize=9)
        line.set_data(range(first, step + 1), np.minimum(statistics[first : step + 1], 1.95))
        if alarm is not None and step >= alarm:
            mark.set_data([alarm], [1.0])

    save(figure, draw, name)
    print(f"  alarm {None if alarm is None else alarm - change} steps after the change")


def save(figure: plt.Figure, draw: Callable[[int], None], name: str) -> None:
    """Write the animation with one palette, so that only what moves is stored."""
    path = PICTURES / f"{name}.gif"
    frames = [*range(FRAMES), *[FRAMES - 1] * STILL]
    FuncAnimation(figure, draw, frames=frames).save(path, writer=PillowWriter(fps=6))
    plt.close(figure)
    from PIL import Image, ImageSequence

    with Image.open(path) as made:
        colours = [frame.convert("RGB") for frame in ImageSequence.Iterator(made)]
        duration = made.info["duration"]
    sample = colours[-1].copy()
    for place, colour in enumerate((BLUE, RED, GREY, "white", "black")):  # small marks keep their colours
        sample.paste(colour, (0, 40 * place, sample.width, 40 * place + 40))
    sample.paste(colours[-1].resize((sample.width, sample.height - 200)), (0, 200))
    palette = sample.quantize(48)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in colours]
    small[0].save(path, save_all=True, append_images=small[1:], duration=duration, loop=0, optimize=True)
    print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB", flush=True)


def main() -> None:
    matplotlib.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    for name in sys.argv[1:] or [*CASES, "cartpole"]:
        if name == "cartpole":
            draw_cartpole(name)
        else:
            draw_map_case(name, CASES[name]())


if __name__ == "__main__":
    main()
