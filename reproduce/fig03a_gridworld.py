"""Figure 3a: cumulative regret on GridWorld, noise 0.01 then 0.2."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dqucb.problems import gridworld
from reproduce._claims import regret_claims, regret_results
from reproduce._drawing import draw_panels
from reproduce._protocol import SCALES, begin

SETTINGS = {"noise": (0.01, 0.2), "horizon": 100, "episodes": 50_000, "change_at": 25_000, "scales": SCALES}


def main() -> None:
    figure = begin("fig03a_gridworld", __doc__, SETTINGS)
    panel = figure.panel(
        "GridWorld",
        lambda episodes: gridworld(noise=SETTINGS["noise"], change_at=(episodes // 2,), horizon=SETTINGS["horizon"]),
        SETTINGS["episodes"],
    )
    draw_panels([panel], figure.out / figure.name, "GridWorld 5x10: noise 0.01, then 0.2")
    figure.write(regret_claims(panel), regret_results(panel))


if __name__ == "__main__":
    main()
