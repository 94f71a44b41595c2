"""The functions of every learner, dispatched on its type at compile time (at run time without the JIT).

A learner registers the functions of its own. The defaults act greedily on its tables `q`, which have a fixed size, and
use no likelihood.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import tables

_SUMMARIES = {
    "has_room": "(learner, pushes): whether it has memory for this many transitions.",
    "act": "(learner, step, state, rng): the action to take.",
    "greedy": "(learner, step, state, first): the greedy action; on ties the first one from `first` on.",
    "exploration": "(learner): the probability of a uniformly random action.",
    "with_model": "(learner, model, phase): the learner; that of an oracle agent with the model and the phase.",
    "learn": "(learner, transition, rng): learn from a transition; returns (bonus, likelihood).",
    "update": "(learner, transition, p): learn from a transition with a given likelihood; returns the bonus.",
    "finish_episode": "(learner, rng): end an episode.",
}
_chosen: dict[str, dict[type, Callable[..., Any]]] = {name: {} for name in _SUMMARIES}


class Transition(NamedTuple):
    """One observed transition."""

    step: int
    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool


def register(learner: type, *, learn: Callable[..., Any], **own: Callable[..., Any]) -> None:
    """Register the functions of a learner; those that it does not give are the defaults."""
    functions = _DEFAULTS | own | {"learn": learn}
    if unknown := functions.keys() - _SUMMARIES:
        raise TypeError(f"functions of a learner are {', '.join(_SUMMARIES)}, got {', '.join(sorted(unknown))}")
    for name, chosen in _chosen.items():
        chosen[learner] = functions[name]


has_room, act, greedy, exploration, with_model, learn, update, finish_episode = (
    by_type(_chosen[name].__getitem__, summary) for name, summary in _SUMMARIES.items()
)


@kernel
def _has_room(learner, pushes):
    return True


@kernel
def _act(learner, step, state, rng):
    return tables.act(learner.q, step, state)


@kernel
def _greedy(learner, step, state, first):
    return tables.greedy(learner.q, step, state, first)


@kernel
def _exploration(learner):
    return 0.0


@kernel
def _with_model(learner, model, phase):
    return learner


@kernel
def _update(learner, transition, p):
    return 0.0


@kernel
def _finish_episode(learner, rng):
    pass


_DEFAULTS = {
    "has_room": _has_room,
    "act": _act,
    "greedy": _greedy,
    "exploration": _exploration,
    "with_model": _with_model,
    "update": _update,
    "finish_episode": _finish_episode,
}


@kernel
def explore(epsilon, n_actions, rng):
    """(whether to act at random, a uniformly random action, from which ties are broken too)."""
    explores = rng.random() < epsilon
    return explores, int(rng.random() * n_actions)
