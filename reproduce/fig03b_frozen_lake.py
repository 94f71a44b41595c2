"""Figure 3b: cumulative regret on FrozenLake, slip 0, 1/2, then 2/3."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dqucb.problems import frozen_lake
from reproduce._claims import regret_claims, regret_results
from reproduce._drawing import draw_panels
from reproduce._protocol import SCALES, begin

SETTINGS = {"slip": (0, 1 / 2, 2 / 3), "horizon": 500, "episodes": 60_000, "scales": SCALES}


def main() -> None:
    figure = begin("fig03b_frozen_lake", __doc__, SETTINGS)
    panel = figure.panel(
        "FrozenLake",
        lambda episodes: frozen_lake(
            slip=SETTINGS["slip"], change_at=(episodes // 3, 2 * episodes // 3), horizon=SETTINGS["horizon"]
        ),
        SETTINGS["episodes"],
    )
    draw_panels([panel], figure.out / figure.name, "FrozenLake 4x4: slip 0, then 1/2, then 2/3")
    figure.write(regret_claims(panel), regret_results(panel))


if __name__ == "__main__":
    main()
