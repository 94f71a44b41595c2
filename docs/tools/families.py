"""Draws docs/pictures/families.png: `python docs/tools/families.py` (needs matplotlib, a few seconds).

Not a part of the build: the picture is kept in the repository.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt

from dqucb.problems import FAMILIES, Problem, generated

SEED, COLUMNS = 3, 4


def main() -> None:
    matplotlib.rcParams.update({"font.size": 9})
    lines = -(-len(FAMILIES) // COLUMNS)
    figure, axes = plt.subplots(lines, COLUMNS, figsize=(9, 2.5 * lines), dpi=100, layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    for axis, family in zip(axes.flat, FAMILIES, strict=False):
        problem = generated(family, SEED, "none")
        axis.axis("on")
        axis.set(xticks=[], yticks=[])
        axis.set_title(f"{family}\nS {problem.n_states}, A {problem.n_actions}, H {problem.horizon}", fontsize=9)
        if problem.n_states == 1:
            draw_arms(axis, problem)
        elif problem.grid is not None:
            draw_map(axis, problem)
        else:
            axis.imshow(shares(problem) ** 0.5, cmap="Blues", vmin=0, vmax=1)
    figure.savefig(Path(__file__).parent.parent / "pictures" / "families.png")


def shares(problem: Problem) -> np.ndarray:
    """The probability of each next state (columns) in each state (rows), for the mean over actions."""
    model = problem.model.written_out()
    row = np.repeat(np.arange(model.row_start.size - 1), np.diff(model.row_start))
    S, A = problem.n_states, problem.n_actions
    found = np.zeros((S, S))
    np.add.at(found, (row // A % S, model.successor), model.probability)
    return found / found.sum(axis=1, keepdims=True)


def draw_arms(axis: plt.Axes, problem: Problem) -> None:
    """The rewards of each arm: their values, with the size of a dot for the chance."""
    model = problem.model.written_out()
    arm = np.repeat(np.arange(problem.n_actions), np.diff(model.row_start))
    axis.scatter(arm, model.reward, s=60 * model.probability, color="#0072b2")
    axis.scatter(range(problem.n_actions), problem.optimal_q()[0, 0], marker="_", color="#d55e00")


def draw_map(axis: plt.Axes, problem: Problem) -> None:
    """Optimal values; walls are black, holes red."""
    rows, cols = len(problem.grid), len(problem.grid[0])
    letters = np.array([list(line) for line in problem.grid])
    axis.imshow(problem.optimal_values()[0].reshape(rows, cols), cmap="Blues")
    for mark, colour in (("#", "black"), ("H", "#d55e00")):
        for r, c in zip(*np.nonzero(letters == mark), strict=True):
            axis.add_patch(plt.Rectangle((c - 0.5, r - 0.5), 1, 1, color=colour))
    for mark in "SG":
        for r, c in zip(*np.nonzero(letters == mark), strict=True):
            axis.text(c, r, mark, ha="center", va="center")


if __name__ == "__main__":
    main()
