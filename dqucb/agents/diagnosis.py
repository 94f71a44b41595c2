"""`Diagnosis`: what PlanningDQUCB says of a run, so that a user sees where it may be wrong."""

import math
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners.planning.optimistic_plan import Plan
from dqucb._kernels.learners.planning.outcomes import ALL, PER_STEP, Outcomes
from dqucb._kernels.learners.planning.planning_discounted import DiscountedPlanner

EXAMPLES = 3  # states that are named


@dataclass(frozen=True)
class Diagnosis:
    """Where PlanningDQUCB acts on few visits, and what it did in the run.

    Counts of visits are those since the last change that it knows of. A place is a state, or a state at a step of the
    episode where steps are modelled apart; only visited places count.

    Parameters
    ----------
    visited : float
        Visited places.
    rarely_tried : float
        Share of them, with two actions or more, in which the second-best action was tried less than ln N times in N
        visits. An agent that is never stuck tries each action at least in proportion to ln N where outcomes are noisy;
        in an environment without noise one visit is enough.
    looks_due : float
        Share of them in which the agent's own rule asks for another look at an action that was given up.
    never_tried : float
        Pairs of visited places and an action that was never tried.
    alarms, last_alarm : float
        Alarms, and the episode or step of the last one; -1 without any.
    plans : float
        Whole plans made; in a problem with a discount, plans that were finished.
    unaffordable : float
        How often the planning budget did not allow a whole plan, so that one state was backed up instead; in a problem
        with a discount, the steps after which a plan was not finished.
    steps_differ : float
        1 if steps of an episode are modelled apart, else 0.
    examples : tuple
        (step or -1, state, its visits, second-best action, its visits) of the most visited rarely tried places.

    Examples
    --------
    >>> from dqucb import PlanningDQUCB, frozen_lake
    >>> agent = PlanningDQUCB()
    >>> run = agent.train(frozen_lake(change_at=(), slip=(0.5,), horizon=50), episodes=500, seed=1)
    >>> found = agent.diagnose()
    >>> found.alarms, found.steps_differ, found.unaffordable
    (0.0, 0.0, 0.0)
    """

    visited: float
    rarely_tried: float
    looks_due: float
    never_tried: float
    alarms: float
    last_alarm: float
    plans: float
    unaffordable: float
    steps_differ: float
    examples: tuple[tuple[int, int, int, int, int], ...] = ()

    def __str__(self) -> str:
        lines = [f"{name:<16} {text}" for name, text in self.lines().items()]
        for step, state, visits, action, tried in self.examples:
            where = f"state {state}" if step < 0 else f"step {step}, state {state}"
            lines.append(f"{'':<16} {where}: {visits:,} visits, its second-best action {action} tried {tried:,} times")
        return "\n".join(lines)

    def lines(self) -> dict[str, str]:
        """The numbers in words, by name."""
        last = "" if self.last_alarm < 0 else f", the last one at {self.last_alarm:,.0f}"
        apart = "" if self.steps_differ in (0.0, 1.0) else f" in {self.steps_differ:.0%} of runs"
        return {
            "visited": f"{self.visited:,.0f} states" + (", by step" if self.steps_differ else ""),
            "rarely tried": f"in {self.rarely_tried:.0%} the second-best action has fewer than ln N of N visits",
            "looks due": f"in {self.looks_due:.0%} the agent wants another look at an action given up",
            "never tried": f"{self.never_tried:,.0f} actions of visited states",
            "alarms": f"{self.alarms:,.4g}{last}",
            "plans": f"{self.plans:,.0f}; the budget did not allow one {self.unaffordable:,.0f} times",
            "steps": f"modelled apart{apart}" if self.steps_differ else "modelled alike",
        }

    def numbers(self) -> NDArray[np.float64]:
        """All but the examples, in the order of `NUMBERS`; `run.extras["diagnosis"]` holds them."""
        return np.array(astuple(self)[:-1], np.float64)


NUMBERS = tuple(field.name for field in fields(Diagnosis))[:-1]


def diagnose(learner: Any) -> Diagnosis:
    """The diagnosis of the tables of PlanningDQUCB."""
    plan, outcomes, log = learner.plan, learner.outcomes, learner.alarms
    discounted = isinstance(learner, DiscountedPlanner)
    tried, Q, planned, looked_at, names = _discounted(learner) if discounted else _episodic(plan, outcomes)
    visits = tried.sum(axis=1)
    rows = np.arange(len(tried))
    others = Q.copy()
    others[rows, planned] = -math.inf
    second = others.argmax(axis=1)
    seconds = tried[rows, second]
    is_rare = (seconds < np.log(np.maximum(visits, 1))) & (Q.shape[1] > 1)
    used = int(log.used[0])
    worst = np.flatnonzero(is_rare)
    worst = worst[np.argsort(-visits[worst], kind="stable")][:EXAMPLES]
    return Diagnosis(
        visited=float(len(rows)),
        rarely_tried=_share(is_rare),
        looks_due=_share(looked_at != planned),
        never_tried=float((tried == 0).sum()),
        alarms=float(used),
        last_alarm=float(log.times[used - 1]) if used else -1.0,
        plans=float(plan.made[0]),
        unaffordable=float(plan.made[1]),
        steps_differ=float(not discounted and _by_step(outcomes)),
        examples=tuple((*names[i], int(visits[i]), int(second[i]), int(seconds[i])) for i in worst),
    )


def _share(where: NDArray[np.bool_]) -> float:
    return float(where.mean()) if len(where) else 0.0


def _by_step(outcomes: Outcomes) -> bool:
    return bool(outcomes.form == PER_STEP or outcomes.by_step[0])


def _episodic(plan: Plan, outcomes: Outcomes) -> tuple[NDArray[Any], ...]:
    """(visits of each pair, Q, policy, looks, (step, state)) of visited places; one step for all if they are alike."""
    by_step, first = _by_step(outcomes), int(plan.first[0])
    H = len(plan.policy)
    steps = np.arange(H) if by_step else np.zeros(1, np.int64)
    planned_at = np.maximum(steps, first)  # earlier steps have the same plan
    tried = (outcomes.sizes[-H:] if by_step else outcomes.sizes[:1])[..., ALL]
    step, state = np.nonzero(tried.sum(axis=2))
    h = planned_at[step]
    names = np.stack([steps[step] if by_step else np.full(len(state), -1), state], axis=1)
    return tried[step, state], plan.Q[h, state], plan.policy[h, state], plan.looked_at[h, state], names


def _discounted(learner: DiscountedPlanner) -> tuple[NDArray[Any], ...]:
    """The same for a problem with a discount."""
    plan, tried = learner.plan, learner.outcomes.sizes[0, ..., ALL]
    number = np.flatnonzero(tried.sum(axis=1))
    state_of = np.argsort(np.where(learner.number < 0, len(learner.number), learner.number), kind="stable")
    names = np.stack([np.full(len(number), -1), state_of[number]], axis=1)
    return tried[number], plan.Q[number], plan.policy[number], plan.looked_at[number], names
