"""What `ShiftCallback(on_alarm="adapt")` does to an off-policy model of Stable-Baselines3 when its environment changed.

1. The size of the change is √(1 - exp(-I)), where I is the evidence per transition since the change: the logarithm of
   one over the false-alarm rate that the alarm reached, divided by the number of transitions that it took. If I is the
   Kullback-Leibler divergence, this is the bound of Bretagnolle and Huber on the total variation between the old and
   the new transitions: close to 1 for a change that is plain after a few transitions, and to 0 for one that takes long.
2. Exploration goes back towards its initial value by the size of the change: epsilon of DQN, the entropy coefficient of
   SAC. The momentum of the optimisers shrinks by the same fraction.
3. The replay buffer keeps only the transitions after the change.
4. The parameters of that moment are saved. If the detector recognises an earlier environment later on (`looks_like`),
   those that were saved when that environment ended are put back.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Reaction(NamedTuple):
    """What was done at an alarm, in numbers; `str` says it in words."""

    step: int
    kept: int  # transitions of the replay buffer
    of: int
    size: float  # of the change

    def __str__(self) -> str:
        return (
            f"step {self.step:,}: the environment changed; kept {self.kept:,} of {self.of:,} transitions; exploration "
            f"and optimisers were reset by {self.size:.0%}"
        )


class Adaptation:
    """Adapts one model; keeps the parameters that it had at each alarm.

    Parameters
    ----------
    model : OffPolicyAlgorithm
        DQN, or an actor-critic such as SAC, TD3 or DDPG.
    """

    def __init__(self, model: Any) -> None:
        buffer = getattr(model, "replay_buffer", None)
        if buffer is None:
            raise ValueError(
                f'on_alarm="adapt" needs a model with a replay buffer (DQN, SAC, TD3, DDPG), got '
                f"{type(model).__name__}: use on_drift="
            )
        if getattr(buffer, "optimize_memory_usage", False):
            raise ValueError('on_alarm="adapt" needs a replay buffer with optimize_memory_usage=False')
        self.model = model
        self.saved: list[Any] = []  # the parameters at each alarm, so of each environment that ended
        self.reactions: list[Reaction] = []

    def react(self, updates_since: int, significance: float) -> Reaction:
        """Adapt to a change.

        Parameters
        ----------
        updates_since : int
            Transitions since the change, over all copies of the environment.
        significance : float
            The false-alarm rate that the evidence for the change has.
        """
        model, buffer = self.model, self.model.replay_buffer
        filled = buffer.buffer_size if buffer.full else buffer.pos
        kept = min(filled, max(1, updates_since // buffer.n_envs))
        order = (buffer.pos - filled + np.arange(filled)) % buffer.buffer_size  # from the oldest on
        size = change_size(updates_since, significance)
        self.saved.append(copy.deepcopy(model.get_parameters()))
        self._explore(size)
        self._damp(size)
        _trim(buffer, order[filled - kept :])
        self.reactions.append(Reaction(model.num_timesteps, kept, filled, size))
        return self.reactions[-1]

    def restore(self, environment: int) -> str:
        """Put back the policy that was saved when this environment ended, numbered from 0; what was done, in words."""
        self.model.set_parameters(self.saved[environment])
        return f"step {self.model.num_timesteps:,}: environment {environment} is back, and so is the policy it had"

    def _explore(self, size: float) -> None:
        model = self.model
        if hasattr(model, "exploration_schedule"):
            start = size * model.exploration_initial_eps
            model.exploration_schedule = _Restarted(
                model.exploration_schedule, start, model._current_progress_remaining, model.exploration_fraction
            )
        if getattr(model, "ent_coef_optimizer", None) is not None:
            initial = model.ent_coef.partition("_")[2] if isinstance(model.ent_coef, str) else ""  # "auto", "auto_0.1"
            model.log_ent_coef.data.mul_(1.0 - size).add_(size * np.log(float(initial or 1.0)))

    def _damp(self, size: float) -> None:
        """Shrink the momentum of every optimiser."""
        for owner in (self.model.policy, getattr(self.model, "actor", None), getattr(self.model, "critic", None)):
            optimiser = getattr(owner, "optimizer", None)
            for state in () if optimiser is None else optimiser.state.values():
                if "exp_avg" in state:
                    state["exp_avg"].mul_(1.0 - size)


def change_size(updates: int, significance: float) -> float:
    """√(1 - exp(-I)) with I = ln(1 / significance) / updates.

    Parameters
    ----------
    updates : int
        Transitions since the change.
    significance : float
        False-alarm rate of the evidence, in (0, 1].

    Examples
    --------
    >>> round(change_size(5, 1e-6), 2), round(change_size(500, 1e-6), 2)
    (0.97, 0.17)
    """
    evidence = -np.log(max(significance, 1e-300)) / max(updates, 1)
    return float(np.sqrt(-np.expm1(-evidence)))


class _Restarted:
    """A schedule of exploration that starts once more, and never explores less than the one before it."""

    def __init__(self, before: Any, start: float, progress: float, fraction: float) -> None:
        self.before, self.start, self.progress, self.fraction = before, start, progress, fraction

    def __call__(self, remaining: float) -> float:
        done = (self.progress - remaining) / max(self.fraction, 1e-12)
        return float(max(self.before(remaining), self.start * (1.0 - done)))


def _trim(buffer: Any, places: NDArray[np.int64]) -> None:
    """Keep these entries of a replay buffer, in this order."""
    for content in vars(buffer).values():
        for array in content.values() if isinstance(content, dict) else [content]:
            if isinstance(array, np.ndarray) and len(array.shape) > 1 and len(array) == buffer.buffer_size:
                array[: len(places)] = array[places]
    buffer.pos = len(places) % buffer.buffer_size
    buffer.full = len(places) == buffer.buffer_size
