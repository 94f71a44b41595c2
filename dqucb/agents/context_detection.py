"""RL-CD: reinforcement learning with context detection (da Silva, Basso, Bazzan and Engel 2006)."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels.learners import alarms
from dqucb._kernels.learners.ucbvi.context_models import ContextModels
from dqucb._parameters import Within
from dqucb._validate import flag, integer, real
from dqucb.agents import checkpoint
from dqucb.agents.confidence import horizon_of
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.running.compiled import Sizes


@AGENTS.register("rlcd")
@dataclass(kw_only=True, eq=False, repr=False)
class RLCD(TabularAgent):
    """RL-CD: a set of partial models, of which the one that predicts best is learned and planned in.

    Every model has a quality, an exponentially weighted mean of how well it predicts transitions and rewards. If that
    of all models is below `min_quality`, a new model is created. A context that returns finds its model again.

    Simplifications: backward induction after each episode, and when the active model changes, in place of prioritised
    sweeping; at most `max_models` models, of which the worst one is replaced. The text of the paper was not at hand;
    the equations are those of one public implementation, with its confidence N / M and rewards in units of their
    range, and the defaults are ours.

    Parameters
    ----------
    memory : int
        M, the visits of a pair up to which estimates are means; also what gives a prediction full weight.
    adjustment : float
        rho, the weight of the last transition in the quality of a model.
    reward_weight : float
        Omega, the weight of rewards in the quality, 1 - Omega that of transitions.
    min_quality : float
        The quality below which a model is not used.
    max_models : int
        Models kept; the paper has no limit.
    epsilon : float
        Probability of a uniformly random action.
    stage_dependent : bool
        False has models for all steps, True for each step.

    Notes
    -----
    A change is found if the mean prediction over the agent's path fails, hence not where it affects a few pairs only.

    Examples
    --------
    >>> from dqucb import RLCD
    >>> from dqucb.problems import river_swim
    >>> agent = RLCD()
    >>> run = agent.train(river_swim(change_at=(500, 1_000)), episodes=1_500)
    >>> bool((run.alarms < 500).any()), bool((run.alarms >= 500).any()), agent.n_models_ > 1
    (False, True, True)
    """

    memory: Annotated[int, Within(integer)] = 100
    adjustment: Annotated[float, Within(real, 0.0, 1.0, open_left=True)] = 0.1
    reward_weight: Annotated[float, Within(real, 0.0, 1.0)] = 0.0
    min_quality: Annotated[float, Within(real, -1.0, 1.0)] = -0.01
    max_models: Annotated[int, Within(integer)] = 10
    epsilon: Annotated[float, Within(real, 0.0, 1.0)] = 0.1
    stage_dependent: Annotated[bool, Within(flag)] = False

    def _new_learner(self, sizes: Sizes) -> ContextModels:
        H, S, A = horizon_of(self, sizes), sizes.n_states, sizes.n_actions
        rows = H if self.stage_dependent else 1
        pairs = (int(self.max_models), rows * S, A)
        lists = (*pairs, sizes.max_successors if self.stage_dependent else sizes.max_shared_successors)
        return ContextModels(
            next_states=np.zeros(lists, np.int32),
            shares=np.zeros(lists),
            known=np.zeros(pairs, np.int32),
            rewards=np.zeros(pairs),
            times=np.zeros(pairs, np.int64),
            quality=np.zeros(pairs[0]),
            clock=np.array([0, 1, 0]),
            Q=np.zeros((H, S, A)),
            V=np.zeros((H + 1, S + 2)),
            visits=np.zeros((rows, S, A), np.int64),
            alarms=alarms.new_log(),
            memory=int(self.memory),
            rate=float(self.adjustment),
            reward_weight=float(self.reward_weight),
            least=float(self.min_quality),
            low=sizes.low,
            high=sizes.highest_reward,
            epsilon=float(self.epsilon),
            stride=S if self.stage_dependent else 0,
        )

    def _check_tables(self, learner: Any) -> None:
        super()._check_tables(learner)
        models, width = len(learner.quality), learner.shares.shape[3]
        checkpoint.check_range("known", learner.known, 0, width)
        checkpoint.check_range("next_states", learner.next_states, 0, learner.Q.shape[1])
        checkpoint.check_range("times", learner.times, 0, learner.memory)
        checkpoint.check_range("clock", learner.clock, [0, 1, 0], [models - 1, models, 1])

    @property
    def n_models_(self) -> int:
        """How many models there are."""
        return int(self._started().learner.clock[1])

    @property
    def visits_(self) -> NDArray[np.int64]:
        """How often each pair was taken: (H, S, A), or (S, A) with `stage_dependent=False`."""
        visits = self._started().learner.visits
        return (visits if self.stage_dependent else visits[0]).copy()
