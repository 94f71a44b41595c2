"""Conversion of observations to rows of arrays: vectors, images, and flattened Dict, Tuple and MultiBinary spaces."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dqucb import _validate

Space = gymnasium.Space[Any]


class Observations:
    """Converts observations of a space to rows of one array, and rows to inputs of a network.

    Images (uint8 with two or more axes) keep uint8 and the shape of their space. Everything else becomes float32
    vectors: a Box directly, other spaces by `gymnasium.spaces.flatten`, which encodes Discrete parts one-hot.

    Parameters
    ----------
    space : gymnasium.Space
        The observation space of the env.

    Examples
    --------
    >>> from gymnasium.spaces import Box, Dict, MultiBinary
    >>> Observations(Box(0, 255, (4, 84, 84), np.uint8)).dtype
    dtype('uint8')
    >>> mixed = Observations(Dict(position=Box(-1, 1, (2,)), doors=MultiBinary(3)))
    >>> mixed.row({"position": np.array([0.5, 0.0]), "doors": np.array([1, 0, 1])}).tolist()
    [0.5, 0.0, 1.0, 0.0, 1.0]
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.is_image = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) > 1
        if isinstance(space, spaces.Discrete) or not space.is_np_flattenable or spaces.flatdim(space) == 0:
            raise ValueError(
                f"env must have Box, Dict, Tuple, MultiBinary or MultiDiscrete observations, got {space}; finite ones "
                "are for the tabular agents"
            )
        self.dimension = int(spaces.flatdim(space))
        self.dtype = np.dtype(np.uint8 if self.is_image else np.float32)
        # The space of a network's inputs, which `make_network` is called with.
        shape = space.shape if isinstance(space, spaces.Box) else (self.dimension,)
        self.network_space = space if self.is_image else vector_space(*shape)

    def example(self) -> NDArray[Any]:
        """Return an unscaled input of a network, all zeros."""
        return np.zeros(self.network_space.shape or (), self.dtype)

    def row(self, observation: Any) -> NDArray[Any]:
        """Convert one observation to a row, (dimension,)."""
        if not isinstance(self.space, spaces.Box):
            observation = spaces.flatten(self.space, observation)
        return np.asarray(observation, self.dtype).ravel()

    def rows(self, observation: Any, name: str = "observation") -> tuple[NDArray[Any], bool]:
        """Convert one observation or a batch to (rows, dimension); also return whether it was a single one.

        Raises
        ------
        ValueError
            For other shapes, or values that are not finite.
        """
        if not isinstance(self.space, spaces.Box) and (
            isinstance(observation, dict | tuple) or np.shape(observation) == self.space.shape
        ):
            return _validate.finite_array(name, self.row(observation)[None], 2, np.float32), True
        given = np.asarray(observation)
        single = given.size == self.dimension
        rows = given.reshape(1, -1) if single else given.reshape(len(given) if given.ndim else 0, -1)
        if rows.shape[1:] != (self.dimension,):
            what = f"the shape {self.space.shape}" if self.is_image else f"{self.dimension} numbers"
            raise ValueError(f"{name} must have {what}, got shape {given.shape}")
        if self.is_image:
            if given.dtype.kind not in "ui" or (rows.size and not 0 <= rows.min() <= rows.max() <= 255):
                raise ValueError(f"{name} must have integers from 0 to 255, got {given.dtype}")
            return rows.astype(np.uint8), single
        return _validate.finite_array(name, rows, 2, np.float32), single


def vector_space(*shape: int) -> spaces.Box:
    """Return the space of all float32 arrays of a shape."""
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def space_to_json(space: Space) -> dict[str, Any]:
    """Convert a space to JSON values, for files without pickle.

    Examples
    --------
    >>> space_from_json(space_to_json(spaces.MultiBinary(3)))
    MultiBinary(3)
    """
    if isinstance(space, spaces.Box):
        low, high = ((bound.flat[0] if (bound == bound.flat[0]).all() else bound).tolist()
                     for bound in (space.low, space.high))  # fmt: skip
        as_text = [np.asarray(bound).astype(str).tolist() for bound in (low, high)]  # JSON has no infinity
        return {"kind": "Box", "low": as_text[0], "high": as_text[1], "shape": list(space.shape),
                "dtype": str(space.dtype)}  # fmt: skip
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": list(space.shape)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "spaces": [[name, space_to_json(each)] for name, each in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(each) for each in space.spaces]}
    raise ValueError(f"observations of the space {space} cannot be saved")


def space_from_json(given: dict[str, Any]) -> Space:
    """Convert the result of `space_to_json` back. Raises ValueError, KeyError or TypeError for anything else."""
    kind = _validate.one_of("kind", given["kind"], ["Box", "Discrete", "MultiBinary", "MultiDiscrete", "Dict", "Tuple"])
    if kind == "Box":
        dtype: Any = np.dtype(_validate.one_of("dtype", given["dtype"], _DTYPES))
        low, high = (np.array(given[name]).astype(np.float64).astype(dtype) for name in ("low", "high"))
        shape = tuple(_validate.integer("shape", size) for size in given["shape"])
        _validate.fits(f"a space of shape {shape}", 2 * dtype.itemsize * int(np.prod(shape, dtype=object)))
        return spaces.Box(low if low.ndim else low[()], high if high.ndim else high[()], shape, dtype)
    if kind == "Discrete":
        return spaces.Discrete(_validate.integer("n", given["n"]), start=given["start"])
    if kind == "MultiBinary":
        shape = tuple(_validate.integer("n", size) for size in given["n"])
        _validate.fits(f"a space of shape {shape}", int(np.prod(shape, dtype=object)))
        return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(given["nvec"], start=given["start"])
    if kind == "Dict":
        return spaces.Dict([(name, space_from_json(each)) for name, each in given["spaces"]])  # in this order
    return spaces.Tuple([space_from_json(each) for each in given["spaces"]])


_DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
