"""FrozenLake seen as an image, for agents that learn from pixels."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.envs import _rendering
from dqucb.envs.tabular import FrozenLakeEnv

GREY = {"H": 0, "G": 255}  # of holes and the goal
ICE, AGENT = 96, 176


class PixelFrozenLakeEnv(gymnasium.Env[NDArray[np.uint8], int]):
    """`dqucb/PixelFrozenLake-v0`: the lake of `dqucb/FrozenLake-v0` as a grey image, channels first.

    Observation space: Box(0, 255, (1, rows * cell, columns * cell), uint8). Holes are black, the goal is white, and a
    cross marks the agent. Actions, rewards, changes and episodes are those of FrozenLake.

    Parameters
    ----------
    cell : int
        Pixels along the side of a cell.
    **parameters
        Those of `dqucb.problems.frozen_lake`.

    Notes
    -----
    v0: initial version.

    Examples
    --------
    >>> import gymnasium
    >>> import dqucb.envs
    >>> image, _ = gymnasium.make("dqucb/PixelFrozenLake-v0").reset(seed=0)
    >>> image.shape, image.dtype
    ((1, 12, 12), dtype('uint8'))
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, cell: int = 3, render_mode: str | None = None, **parameters: Any) -> None:
        self.cell = _validate.integer("cell", cell, 3)
        self._lake = FrozenLakeEnv(render_mode, **parameters)
        if render_mode is not None:
            _validate.one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        lines = _rendering.layout(self._lake.problem, 0)
        grey = np.array([[GREY.get(letter, ICE) for letter in line] for line in lines], np.uint8)
        self._columns, self._picture = grey.shape[1], grey.repeat(self.cell, 0).repeat(self.cell, 1)[None]
        self.observation_space = gymnasium.spaces.Box(0, 255, self._picture.shape, np.uint8)
        self.action_space = self._lake.action_space

    @property
    def change_at(self) -> tuple[int, ...]:
        """Episodes from which on the ice is more slippery."""
        return self._lake.change_at

    @property
    def unit(self) -> str:
        """What the change points count."""
        return self._lake.unit

    def describe(self) -> dict[str, Any]:
        """The lake and the size of its cells, as JSON values."""
        return {"lake": self._lake.problem.description, "cell": self.cell}

    def reset(self, *, seed: int | None = None,
              options: dict[str, Any] | None = None) -> tuple[NDArray[np.uint8], dict[str, Any]]:  # fmt: skip
        """Begin the next episode, or a new run when a seed is given."""
        super().reset(seed=seed)
        state, info = self._lake.reset(seed=seed, options=options)
        return self._image(state), info

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """One move on the ice."""
        state, reward, terminated, truncated, info = self._lake.step(action)
        return self._image(state), reward, terminated, truncated, info

    def _image(self, state: int) -> NDArray[np.uint8]:
        image, (row, column) = self._picture.copy(), divmod(state, self._columns)
        middle = self.cell // 2
        tile = image[0, row * self.cell : (row + 1) * self.cell, column * self.cell : (column + 1) * self.cell]
        tile[middle], tile[:, middle] = AGENT, AGENT
        return image

    def render(self) -> Any:
        """A picture of the last state."""
        return self._lake.render()

    def checkpoint_state(self) -> dict[str, Any]:
        """Everything that a stopped run needs to continue: JSON values."""
        return self._lake.checkpoint_state()

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue exactly from `checkpoint_state()` of an env with the same lake."""
        self._lake.restore_state(state)
