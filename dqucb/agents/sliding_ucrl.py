"""SWUCRL2-CW and BORL (Cheung, Simchi-Levi and Zhu 2020)."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners.ucbvi.sliding_ucrl import SlidingUcrl, q_table
from dqucb._parameters import Within
from dqucb._validate import flag, integer, positive, real
from dqucb.agents import checkpoint
from dqucb.agents.planned import all_visits, check_plan, new_plan
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes

FOREVER = 2**62  # steps of a block that never ends


@dataclass(kw_only=True, eq=False, repr=False)
class _SlidingUCRL(TabularAgent):
    """UCRL2 over a sliding window, with one or several pairs (window, widening) to choose from."""

    _most_arms: ClassVar[int] = 1

    bonus_scale: Annotated[float, Within(positive)] = 1.0
    delta: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.05
    stage_dependent: Annotated[bool, Within(flag)] = False

    def _arms(self, sizes: Sizes) -> tuple[int, list[tuple[int, float]]]:
        """(steps of a block, the pairs (W, eta))."""
        raise NotImplementedError

    def _new_learner(self, sizes: Sizes) -> SlidingUcrl:
        (block, arms), steps = self._arms(sizes), _steps(sizes)
        one_row = sizes._replace(horizon=1, bounds=np.append(sizes.bounds, 0.0))
        plan = new_plan(self, one_row if sizes.horizon is None else sizes, bool(self.stage_dependent))
        lengths, widenings = np.ones(self._most_arms, np.int64), np.zeros(self._most_arms)
        lengths[: len(arms)], widenings[: len(arms)] = zip(*arms, strict=True)
        return SlidingUcrl(
            plan=plan,
            visits=all_visits(plan),
            ring=np.zeros((0, 3), np.int64),
            ring_rewards=np.zeros(0),
            fresh=np.zeros(plan.rewards.shape, np.int64),
            starts=np.zeros(sizes.n_states, np.int64),
            clock=np.array([0, -1, -1, 1]),
            lengths=lengths,
            widenings=widenings,
            scores=np.zeros(self._most_arms),
            chances=np.full(self._most_arms, 1.0 / len(arms)),
            earned=np.zeros(1),
            arms=len(arms),
            longest=int(lengths.max()),
            block=block,
            blocks=math.ceil(steps / block),
            low=sizes.low,
            high=sizes.highest_reward,
            log_term=math.log(plan.rewards.size * steps / self.delta),
            scale=float(self.bonus_scale),
            endless=sizes.horizon is None,
        )

    def _grown(self, learner: Any, pushes: int) -> SlidingUcrl:
        capacity = len(learner.ring)
        needed = min(learner.longest, int(learner.clock[0]) + 2 * pushes)
        if needed <= capacity:
            return learner
        more = min(learner.longest, max(2 * capacity, needed)) - capacity
        ring, rewards = np.pad(learner.ring, [(0, more), (0, 0)]), np.pad(learner.ring_rewards, (0, more))
        return learner._replace(ring=ring, ring_rewards=rewards)

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        check_plan(learner.plan)
        (rows, n_actions), n_states = learner.fresh.shape, learner.plan.policy.shape[1]
        checkpoint.check_range("fresh", learner.fresh, 0)
        checkpoint.check_range("starts", learner.starts, 0)
        checkpoint.check_range("clock", learner.clock, [0, -1, -1, 0], [FOREVER, FOREVER, learner.arms - 1, 1])
        if len(learner.ring):
            checkpoint.check_range("ring", learner.ring, 0, [rows - 1, n_actions - 1, n_states])
        if len(learner.ring) != len(learner.ring_rewards) or len(learner.ring) < min(learner.longest, learner.clock[0]):
            raise ValueError(f"ring must hold the last steps, got {len(learner.ring)} of {learner.clock[0]}")
        if not (learner.chances > 0.0).all():
            raise ValueError("chances must be positive")

    @property
    def q_(self) -> NDArray[np.float64]:
        """The optimistic action values of the last plan, (H, S, A); (S, A) up to a constant without a horizon."""
        learner = self._started().learner
        q = np.zeros((*learner.plan.policy.shape, learner.plan.rewards.shape[1]))
        q_table(learner, q)
        return q[0] if learner.endless else q

    @property
    def visits_(self) -> NDArray[np.int64]:
        """How often each pair was taken: (H, S, A), or (S, A) with `stage_dependent=False`."""
        visits = self._started().learner.visits
        return (visits if self.stage_dependent and not self._started().learner.endless else visits[0]).copy()


@AGENTS.register("sw-ucrl2-cw")
@dataclass(kw_only=True, eq=False, repr=False)
class SWUCRL2CW(_SlidingUCRL):
    """SWUCRL2-CW: UCRL2 over a sliding window, with widened confidence sets (Cheung, Simchi-Levi and Zhu 2020).

    Rewards are within 2 sqrt(2 ln(S A T / delta) / n) of their means and transition probabilities within sqrt(S) times
    that plus the widening, n being the visits of a pair in the last `window` steps; T counts steps. On a problem with a
    discount this is the published algorithm, which maximises the average reward and does not use the discount. With a
    horizon, backward induction over the steps of an episode replaces extended value iteration.

    Parameters
    ----------
    window : int or None
        W in steps; None is 3 S^(2/3) sqrt(A T / (variation + 1)), the order of the bound.
    widening : float or None
        eta; None is sqrt((variation + 1) W / T).
    variation : float
        Total variation of rewards and transitions over the run, for the defaults of `window` and `widening`.
    bonus_scale : float
        Factor on both radii; 1 as published, which is cautious: a pair needs about 30 S visits before its transitions
        are distinguished from anything else.
    delta : float
        Failure probability in the radii.
    stage_dependent : bool
        False has one model for all steps, True one for each.

    Notes
    -----
    The text of the paper was not at hand. The loop is after a public summary; the constants of the radii, the defaults
    of `window` and `widening`, and the grid and constants of BORL were not compared with the paper.

    Examples
    --------
    >>> from dqucb import SWUCRL2CW
    >>> from dqucb.problems import combination_lock
    >>> agent = SWUCRL2CW(bonus_scale=0.05, window=2_000, widening=0.0)
    >>> run = agent.train(combination_lock(change_at=(1_000,)), episodes=2_000)
    >>> bool(run.returns[-500:].mean() > 2 * run.returns[:50].mean())
    True
    """

    window: Annotated[int | None, Within(integer)] = None
    widening: Annotated[float | None, Within(real, 0.0)] = None
    variation: Annotated[float, Within(real, 0.0)] = 1.0

    def _arms(self, sizes: Sizes) -> tuple[int, list[tuple[int, float]]]:
        steps = _steps(sizes)
        window = self.window or max(1, int(_unit_window(sizes) / math.sqrt(self.variation + 1.0)))
        window = min(window, steps)
        widening = self.widening
        if widening is None:
            widening = math.sqrt((self.variation + 1.0) * window / steps)
        return FOREVER, [(window, float(widening))]


@AGENTS.register("borl")
@dataclass(kw_only=True, eq=False, repr=False)
class BORL(_SlidingUCRL):
    """BORL: SWUCRL2-CW whose window and widening are chosen by a bandit (Cheung, Simchi-Levi and Zhu 2020).

    The run has blocks of B = 3 S^(2/3) sqrt(A T) steps. Each block starts SWUCRL2-CW anew with W = B^(i / ln B) and
    eta = (2 sqrt(T))^(-j / ln(2 sqrt(T))) for integers i and j, which EXP3.P chooses by the rewards of earlier blocks.
    There are more pairs (W, eta) than blocks before some millions of steps; until then the choice is nearly uniform.

    Parameters
    ----------
    bonus_scale, delta, stage_dependent
        As in `SWUCRL2CW`.

    Examples
    --------
    >>> from dqucb import BORL
    >>> from dqucb.problems import river_swim
    >>> agent = BORL(bonus_scale=0.05)
    >>> run = agent.train(river_swim(change_at=(), horizon=10), episodes=300)
    >>> len(agent.chances_), float(agent.chances_.sum().round(9))
    (35, 1.0)
    """

    _most_arms: ClassVar[int] = 1_024  # a run of 2^62 steps has fewer

    def _arms(self, sizes: Sizes) -> tuple[int, list[tuple[int, float]]]:
        steps = _steps(sizes)
        block = min(steps, max(2, int(_unit_window(sizes))))
        smallest = 1.0 / (2.0 * math.sqrt(steps))
        windows, widenings = max(1, int(math.log(block))), max(1, int(-math.log(smallest)))
        grid = [int(block ** (i / windows) + 1e-9) for i in range(windows + 1)]
        return block, [(window, smallest ** (j / widenings)) for window in grid for j in range(widenings + 1)]

    @property
    def chances_(self) -> NDArray[np.float64]:
        """The probability of each pair (window, widening) in the current block."""
        learner = self._started().learner
        return learner.chances[: learner.arms].copy()


def _steps(sizes: Sizes) -> int:
    """T, the steps of the run."""
    return sizes.length * (sizes.horizon or 1)


def _unit_window(sizes: Sizes) -> float:
    """3 S^(2/3) sqrt(A T)."""
    return 3.0 * sizes.n_states ** (2 / 3) * math.sqrt(sizes.n_actions * _steps(sizes))
