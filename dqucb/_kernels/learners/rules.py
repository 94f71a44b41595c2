"""The functions of every learner, dispatched on its type at compile time (at run time without the JIT)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dqucb._kernels._jit import by_type

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


def register(learner: type, **functions: Callable[..., Any]) -> None:
    """Register the functions of a learner."""
    for name, chosen in _chosen.items():
        chosen[learner] = functions[name]


has_room, act, greedy, exploration, with_model, learn, update, finish_episode = (
    by_type(_chosen[name].__getitem__, summary) for name, summary in _SUMMARIES.items()
)
