"""Text and pictures of a tabular problem, drawn with NumPy alone.

Letters of a layout: S start, G goal, H hole, # wall, T another terminal state; anything else is floor.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dqucb.problems import Problem

CELL = 32  # pixels
BAR = 6  # height of the strip that shows the phase by its colour

_FLOOR = (236, 239, 241)
_COLOURS = {
    "S": (239, 154, 154),
    "G": (255, 213, 79),
    "H": (38, 70, 110),
    "#": (69, 69, 69),
    "T": (120, 144, 156),
    "F": (207, 232, 247),
}
_LINE = (176, 190, 197)
_AGENT = (198, 40, 40)
_OUTLINE = (255, 255, 255)
_PHASES = ((76, 120, 168), (245, 133, 24), (84, 162, 75), (178, 121, 162), (228, 87, 86), (114, 183, 178))


def layout(problem: Problem, phase: int) -> tuple[str, ...]:
    """The grid of a phase, or else the states in a near-square arrangement, blanks after the last one."""
    grid = problem.phases[phase].grid
    if grid is not None:
        return grid
    columns = math.ceil(math.sqrt(problem.n_states))
    letters = "".join("T" if ends else "." for ends in problem.model.terminal)
    letters += " " * (-len(letters) % columns)
    return tuple(letters[start : start + columns] for start in range(0, len(letters), columns))


def text(lines: tuple[str, ...], state: int, header: str) -> str:
    """The layout under a header line, with @ for the agent."""
    width = len(lines[0])
    marked = [list(line) for line in lines]
    marked[state // width][state % width] = "@"
    return "\n".join([header, *("".join(line) for line in marked)]) + "\n"


def picture(lines: tuple[str, ...], state: int, phase: int) -> NDArray[np.uint8]:
    """Coloured cells with a disc for the agent, below a strip in the colour of the phase."""
    rows, columns = len(lines), len(lines[0])
    colours = np.array([[_COLOURS.get(letter, _FLOOR) for letter in line] for line in lines], dtype=np.uint8)
    cells = colours.repeat(CELL, axis=0).repeat(CELL, axis=1)
    cells[::CELL], cells[:, ::CELL] = _LINE, _LINE
    row, column = divmod(state, columns)
    tile = cells[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
    across = np.arange(CELL) - (CELL - 1) / 2
    distance = np.hypot(across[:, None], across)
    tile[distance < 0.36 * CELL] = _OUTLINE
    tile[distance < 0.30 * CELL] = _AGENT
    frame = np.empty((BAR + rows * CELL, columns * CELL, 3), dtype=np.uint8)
    frame[:BAR] = _PHASES[phase % len(_PHASES)]
    frame[BAR:] = cells
    return frame
