"""The verbs that every learner answers, chosen by its type at compile time (at run time without the JIT)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dqucb._kernels._jit import by_type

_SUMMARIES = {
    "has_room": "(learner, pushes): whether it takes this many transitions without new memory.",
    "act": "(learner, step, state, rng): the action to take.",
    "greedy": "(learner, step, state, first): the action it believes best; on ties the first one from `first` on.",
    "exploration": "(learner): the probability of a uniformly random action instead.",
    "facing": "(learner, model, phase): the learner itself; an oracle's also holds the model and the phase in force.",
    "learn": "(learner, seen, rng): take in a transition; returns (bonus, likelihood).",
    "update": "(learner, seen, p): the same for a likelihood that the caller knows; returns the bonus.",
    "finish_episode": "(learner, rng): whatever waits for the end of an episode.",
}
_chosen: dict[str, dict[type, Callable[..., Any]]] = {verb: {} for verb in _SUMMARIES}


class Seen(NamedTuple):
    """One observed transition."""

    step: int
    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool


def register(learner: type, **verbs: Callable[..., Any]) -> None:
    """Say how `learner` answers each verb."""
    for verb, chosen in _chosen.items():
        chosen[learner] = verbs[verb]


has_room, act, greedy, exploration, facing, learn, update, finish_episode = (
    by_type(_chosen[verb].__getitem__, summary) for verb, summary in _SUMMARIES.items()
)
