"""Figure 9: one room becomes two rooms, noise 0.2."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib.pyplot as plt
import numpy as np

from dqucb.envs import TabularEnv
from dqucb.problems import Problem, two_rooms
from reproduce._claims import regret_claims, regret_results
from reproduce._drawing import draw_panels, save
from reproduce._protocol import SCALES, Figure, begin

SETTINGS = {"noise": 0.2, "horizon": 100, "episodes": 50_000, "scales": SCALES}


def draw_maps(figure: Figure, problem: Problem) -> None:
    """The room before and after the change."""
    picture, axes = plt.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
    for number, (axis, phase) in enumerate(zip(axes, problem.phases, strict=True)):
        env = TabularEnv(phase, render_mode="rgb_array")
        env.reset(seed=0)
        axis.imshow(np.asarray(env.render()))
        axis.set_title(("one room, before the change", "two rooms, after it")[number])
        axis.set_axis_off()
    save(picture, figure.out / "fig09_maps")


def main() -> None:
    figure = begin("fig09_two_rooms", __doc__, SETTINGS)
    panel = figure.panel(
        "TwoRooms",
        lambda episodes: two_rooms(noise=SETTINGS["noise"], change_at=(episodes // 2,), horizon=SETTINGS["horizon"]),
        SETTINGS["episodes"],
    )
    draw_maps(figure, panel.problem)
    draw_panels([panel], figure.out / figure.name, "One room, then two rooms with a door; noise 0.2")
    figure.write(regret_claims(panel), regret_results(panel))


if __name__ == "__main__":
    main()
