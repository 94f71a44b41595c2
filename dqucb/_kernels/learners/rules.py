"""The verbs that every learner answers, chosen by its type at compile time (at run time without the JIT).

has_room(learner, pushes)                  can it take this many transitions without new memory?
act(learner, step, state, rng)             the action to take
greedy(learner, step, state, first)        the action it believes best; on ties the first one from `first` on
exploration(learner)                       the probability of a uniformly random action instead
learn(learner, seen, rng)                  take in a transition; returns (bonus, likelihood)
update(learner, seen, p)                   the same for a likelihood that the caller knows; returns the bonus
finish_episode(learner, rng)               whatever waits for the end of an episode
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from dqucb._kernels._jit import OPTIONS
from dqucb._kernels.model import Model

_VERBS = ("has_room", "act", "greedy", "exploration", "learn", "update", "finish_episode")
_chosen: dict[str, dict[type, Callable[..., Any]]] = {verb: {} for verb in _VERBS}


class Seen(NamedTuple):
    """One observed transition, with the model and phase it came from (which only oracles look at)."""

    model: Model
    phase: int
    step: int
    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool


def register(learner: type, **verbs: Callable[..., Any]) -> None:
    """Say how `learner` answers each verb."""
    for verb in _VERBS:
        _chosen[verb][learner] = verbs[verb]


def has_room(learner, pushes):
    """Whether the learner's pools take `pushes` more transitions for certain."""
    return _chosen["has_room"][type(learner)](learner, pushes)


@overload(has_room, jit_options=OPTIONS)
def _has_room(learner, pushes):
    rule = _chosen["has_room"][learner.instance_class]
    return lambda learner, pushes: rule(learner, pushes)


def act(learner, step, state, rng):
    """The action that the learner takes."""
    return _chosen["act"][type(learner)](learner, step, state, rng)


@overload(act, jit_options=OPTIONS)
def _act(learner, step, state, rng):
    rule = _chosen["act"][learner.instance_class]
    return lambda learner, step, state, rng: rule(learner, step, state, rng)


def greedy(learner, step, state, first):
    """The action that the learner believes best, on ties the first one met from `first` on round the actions."""
    return _chosen["greedy"][type(learner)](learner, step, state, first)


@overload(greedy, jit_options=OPTIONS)
def _greedy(learner, step, state, first):
    rule = _chosen["greedy"][learner.instance_class]
    return lambda learner, step, state, first: rule(learner, step, state, first)


def exploration(learner):
    """The probability that the learner acts uniformly at random instead of greedily."""
    return _chosen["exploration"][type(learner)](learner)


@overload(exploration, jit_options=OPTIONS)
def _exploration(learner):
    rule = _chosen["exploration"][learner.instance_class]
    return lambda learner: rule(learner)


def learn(learner, seen, rng):
    """Take in one transition. Changes the learner; returns (bonus, likelihood)."""
    return _chosen["learn"][type(learner)](learner, seen, rng)


@overload(learn, jit_options=OPTIONS)
def _learn(learner, seen, rng):
    rule = _chosen["learn"][learner.instance_class]
    return lambda learner, seen, rng: rule(learner, seen, rng)


def update(learner, seen, p):
    """Take in one transition of known likelihood. Changes the learner; returns the bonus."""
    return _chosen["update"][type(learner)](learner, seen, p)


@overload(update, jit_options=OPTIONS)
def _update(learner, seen, p):
    rule = _chosen["update"][learner.instance_class]
    return lambda learner, seen, p: rule(learner, seen, p)


def finish_episode(learner, rng):
    """What the learner does between episodes. Changes the learner."""
    return _chosen["finish_episode"][type(learner)](learner, rng)


@overload(finish_episode, jit_options=OPTIONS)
def _finish_episode(learner, rng):
    rule = _chosen["finish_episode"][learner.instance_class]
    return lambda learner, rng: rule(learner, rng)
