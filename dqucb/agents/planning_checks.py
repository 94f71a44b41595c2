"""Are the tables of PlanningDQUCB that came from a file such as its kernels write?"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting
from dqucb._kernels.learners.planning.backup_queue import check_queue
from dqucb._kernels.learners.planning.change_test import ChangeTest
from dqucb._kernels.learners.planning.discounted_plan import CREDIT, NEXT, OLDER, SAVED, SOURCE, DiscountedPlan
from dqucb._kernels.learners.planning.discounted_plan import NEVER as NEVER_EXPLORED
from dqucb._kernels.learners.planning.optimistic_plan import Plan
from dqucb._kernels.learners.planning.outcomes import AUTO, RECENT, Outcomes
from dqucb._kernels.learners.planning.planning_discounted import DiscountedPlanner
from dqucb._kernels.learners.planning.probing import (
    EPISODES,
    FOLLOW,
    LAST_MODE,
    MODE,
    NEVER,
    NO_ACTION,
    NO_PROBE,
    PAIR,
    Probing,
)
from dqucb._kernels.learners.planning.worlds import NONE, Worlds
from dqucb.agents import checkpoint


def check_test(test: ChangeTest) -> None:
    """Raise a ValueError for evidence that no kernel can have gathered."""
    checkpoint.check_range("pool", test.pool, 0, 1e200)
    checkpoint.check_range("the gain of the pool", test.pool[betting.POOL_GAIN : betting.POOL_VISITS], 1, 1e200)
    checkpoint.check_range("tested", test.tested, 0)


def check_plan(plan: Plan) -> None:
    """Raise a ValueError for a plan that no kernel can have made."""
    for name in ("due_at", "unseen", "novelty", "tried", "arrivals", "spreads", "worths", "made"):
        checkpoint.check_range(name, getattr(plan, name), 0)
    for name in ("policy", "looked_at"):
        checkpoint.check_range(name, getattr(plan, name), 0, plan.Q.shape[2] - 1)
    checkpoint.check_range("explored_at", plan.explored_at, -1)
    checkpoint.check_range("first", plan.first, 0, len(plan.policy) - 1)
    checkpoint.check_range("new outcomes that led to states never met", plan.arrivals[1], 0, plan.arrivals[0])
    checkpoint.check_range("n_met", plan.n_met, 0, len(plan.met))


def check_probing(probing: Probing | None) -> None:
    """Raise a ValueError for probes that no kernel can have begun."""
    if probing is None:
        return
    n_states, places = probing.last_visit.shape
    status = probing.status
    checkpoint.check_range("last_visit", probing.last_visit, NEVER, status[EPISODES])
    checkpoint.check_range("the policy of probes", probing.policy, NO_ACTION, places - 2)
    checkpoint.check_range("the modes of probes", status[[MODE, LAST_MODE]], NO_PROBE, FOLLOW)
    checkpoint.check_range("the pair of a probe", status[PAIR], 0, n_states * places - 1)
    checkpoint.check_range("episodes and visits of probes", status[EPISODES:], 0)


def check_numbers(learner: DiscountedPlanner) -> None:
    """Raise a ValueError unless the states met have the numbers from 0 on."""
    n_met = checkpoint.check_used("states", learner.n_met, learner.visits.shape[1])
    numbers = learner.number[learner.number != NONE]
    if not np.array_equal(np.sort(numbers), np.arange(n_met)):
        raise ValueError(f"number must hold each of 0 to {n_met - 1} once, and {NONE} elsewhere")


def check_discounted_plan(plan: DiscountedPlan, n_met: int) -> None:
    """Raise a ValueError for a plan of `n_met` states that no kernel can have made."""
    for name in ("due_at", "novelty", "tried", "weights", "variances", "made", "pairs", "worths", "arrivals"):
        checkpoint.check_range(name, getattr(plan, name), 0)
    for name in ("policy", "looked_at"):
        checkpoint.check_range(name, getattr(plan, name), 0, plan.Q.shape[1] - 1)
    checkpoint.check_range("explored_at", plan.explored_at, NEVER_EXPLORED)
    checkpoint.check_range("credit", plan.work[CREDIT], -np.inf, SAVED)
    checkpoint.check_range("work", plan.work[CREDIT + 1 :], 0)
    checkpoint.check_range("the next state of a round", plan.work[NEXT:], 0, n_met)
    n_edges = checkpoint.check_used("edges", plan.n_edges, len(plan.edges))
    edges = plan.edges[:n_edges]
    checkpoint.check_range("newest", plan.newest, NONE, n_edges - 1)
    checkpoint.check_range("sources of edges", edges[:, SOURCE], 0, max(n_met - 1, 0))
    checkpoint.check_range("older edges", edges[:, OLDER], NONE, np.arange(n_edges) - 1)
    check_queue(plan.queue, n_met)


def check_outcomes(outcomes: Outcomes) -> None:
    """Raise a ValueError for lists that no kernel can have written."""
    rows, n_states, _, width = outcomes.counts.shape
    checkpoint.check_range("known", outcomes.known, 0, width)
    checkpoint.check_range("next_states", outcomes.next_states, 0, n_states)
    if outcomes.form != AUTO and outcomes.by_step[0]:
        raise ValueError(f"by_step must be False in tables of {rows} rows")
    for name in ("counts", "kept", "recent"):
        checkpoint.check_range(name, getattr(outcomes, name), 0)
    since = outcomes.counts - outcomes.kept
    if (outcomes.recent > since).any():
        raise ValueError("kept and recent must be parts of counts")
    modelled = slice(0, 1) if outcomes.form == AUTO and not outcomes.by_step[0] else slice(None)
    beyond = np.arange(width) >= outcomes.known[modelled, ..., None]
    tables: list[NDArray[Any]] = [outcomes.counts, outcomes.recent, outcomes.counts > 0]
    for place, table in enumerate(tables):
        is_sum = np.array_equal(table[modelled].sum(axis=-1), outcomes.sizes[modelled, ..., place])
        if (table[modelled][beyond] != 0).any() or not is_sum:
            raise ValueError("counts must be zero beyond the list of a pair, and sizes their sums")
    check_bets(outcomes.bets[modelled], since[modelled], outcomes.sizes[modelled])


def check_bets(bets: NDArray[np.float64], counts: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    """Raise a ValueError for bags that are not those of the counts, or evidence that no kernel can have gathered."""
    c = counts.astype(np.float64)
    bags = np.stack([c.sum(-1), (c > 0).sum(-1), (c * c).sum(-1), (c == 1).sum(-1), sizes[..., RECENT]], axis=-1)
    if not np.allclose(bets[..., : betting.WINDOW + 1], bags, rtol=1e-9):
        raise ValueError("bets must have the sums of the counts of their pair")
    checkpoint.check_range("bets", bets, 0, 1e200)
    known = bets[c.sum(-1) > 0]
    checkpoint.check_range("products of bets", known[:, betting.PRODUCTS : betting.SUMS], 1e-9, 1e200)
    checkpoint.check_range("odds of bets", known[:, betting.ODDS :], betting.FLOOR, betting.MOST_ODDS)


def check_worlds(worlds: Worlds) -> None:
    """Raise a ValueError for worlds that no kernel can have put away."""
    for name in ("counts", "novelty", "left_at", "since"):
        checkpoint.check_range(name, getattr(worlds, name), 0)
    for name in ("current", "before"):
        checkpoint.check_range(name, getattr(worlds, name), NONE, len(worlds.counts) - 1)
