"""Streams of transitions and the registry of the families that they are drawn from."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check

LARGEST_SCALE = 6.0  # coordinates are multiplied by 10^u, u uniform in [-6, 6]


@dataclass(frozen=True, eq=False)
class Stream:
    """Transitions in order.

    Attributes
    ----------
    states, actions, next_states : ndarray
        Integers for a finite stream, rows of numbers for a continuous one.
    rewards : ndarray
        One number per transition.
    change_at : int or None
        The first transition of the changed process; None for a stream without a change.
    information : float or None
        Kullback-Leibler divergence per update of the new process from the old one, averaged over the (s, a) visited
        after the change; None where it is not known. No detector with a false-alarm rate r can have a mean delay much
        below log(1/r) / information (Lorden 1971).
    n_states, n_actions : int
        Sizes of a finite stream; 0 for a continuous one.
    """

    states: NDArray[Any]
    actions: NDArray[Any]
    next_states: NDArray[Any]
    rewards: NDArray[np.float64]
    change_at: int | None
    information: float | None = None
    n_states: int = 0
    n_actions: int = 0

    @property
    def finite(self) -> bool:
        """Whether states and actions are integers."""
        return self.n_states > 0

    def limit(self, rate: float) -> float | None:
        """Lorden's bound on the mean delay at a false-alarm rate, in updates."""
        return None if not self.information else float(np.log(1.0 / rate) / self.information)

    def rescaled(self, rng: np.random.Generator) -> "Stream":
        """The same stream with every coordinate in another unit and with another origin."""
        states, actions, next_states = self.states, self.actions, self.next_states
        scale = 10.0 ** rng.uniform(-LARGEST_SCALE, LARGEST_SCALE, states.shape[1])
        origin = scale * rng.normal(0.0, 10.0, states.shape[1])
        of_actions = 10.0 ** rng.uniform(-LARGEST_SCALE, LARGEST_SCALE, actions.shape[1])
        return replace(
            self, states=origin + scale * states, actions=of_actions * actions, next_states=origin + scale * next_states
        )


@dataclass(frozen=True)
class Draws:
    """The generators of a draw, one for each part of it."""

    seed: int
    family: str

    def __call__(self, part: str) -> np.random.Generator:
        """The generator of a part."""
        return np.random.default_rng([self.seed, zlib.crc32(self.family.encode()), zlib.crc32(part.encode())])


Maker = Callable[[Draws, int | None, int], Stream]


@dataclass(frozen=True)
class Family:
    """A distribution over streams.

    Attributes
    ----------
    make : callable
        ``make(rng_of, change_at, steps)`` gives a stream; ``rng_of(part)`` is the generator of a part of the draw, so
        that a stream and its twin without the change agree up to it.
    kind : str
        "finite" or "continuous".
    steps, change_at : int
        Usual length, and where the change comes.
    hidden : bool
        Whether (s, a) is not the whole state of the process, so that residuals depend on each other.
    placebo : bool
        Whether only the policy changes: every alarm is a false one.
    """

    make: Maker
    kind: str
    steps: int
    change_at: int
    hidden: bool = False
    placebo: bool = False


FAMILIES: dict[str, Family] = {}
USUAL = {"finite": (20_000, 10_000), "continuous": (9_000, 5_000)}


def register(name: str, make: Maker, kind: str, *, hidden: bool = False, placebo: bool = False,
             length: tuple[int, int] | None = None) -> None:  # fmt: skip
    """Add a family under a name that is not taken.

    Parameters
    ----------
    name : str
        Of the family.
    make, kind, hidden, placebo
        As in `Family`.
    length : tuple of int, optional
        (steps, change_at), if not those of its kind.
    """
    if name in FAMILIES:
        raise ValueError(f"name must be a new one, got {name!r}")
    steps, change_at = length or USUAL[kind]
    FAMILIES[name] = Family(make, kind, steps, change_at, hidden, placebo)


@lru_cache(maxsize=16)  # several detectors look at the same streams
def draw(name: str, seed: int, *, changes: bool = True, steps: int | None = None,
         change_at: int | None = None) -> Stream:  # fmt: skip
    """The stream of a family that belongs to a seed: the process, the change and the noise are all drawn from it.

    Parameters
    ----------
    name : str
        One of `FAMILIES`.
    seed : int
        The same seed gives the same stream.
    changes : bool
        False: the same stream without its change.
    steps, change_at : int, optional
        Instead of the family's own.
    """
    check.one_of("name", name, tuple(FAMILIES))
    family = FAMILIES[name]

    at = (family.change_at if change_at is None else change_at) if changes else None
    return family.make(Draws(seed, name), at, family.steps if steps is None else steps)
