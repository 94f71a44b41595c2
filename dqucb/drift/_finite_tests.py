"""The compiled tests of `FiniteDriftDetector` with what surrounds them: ids, rewards, dates, earlier environments."""

import math
from functools import partial
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import betting, drift_dating, drift_finite
from dqucb._kernels.drift_finite import (
    BEST,
    COUNT,
    FULL,
    KEY,
    OUTCOME_BITS,
    RING_SIZE,
    SEEN,
    new_vectors,
    outcomes_of,
    update_ids,
    view,
    with_outcomes,
)

MOST_REWARDS = 64  # values that are distinguished exactly; with more of them, eight classes for each power of two
MOST_REMEMBERED = 8  # earlier environments that are remembered
SETTLED = 10  # visits per pair, on average, of an environment that is worth remembering
SURE = 0.95  # posterior probability of an earlier environment that is named
COVERED = 0.98  # of the posterior of the change point: such intervals hold the change on nine of ten alarms


class RememberedModel(NamedTuple):
    """An earlier environment."""

    number: int
    outcomes: NDArray[np.int64]  # (n, 2): keys in order, counts


class Dating(NamedTuple):
    """When and where the process changed; updates count from the last restart."""

    changed_at: int
    first: int
    last: int
    rows: NDArray[np.int64]  # pairs seen since, the most probable first
    probabilities: NDArray[np.float64]
    outcomes: NDArray[np.int64]  # (n, 2) before the change


class FiniteTests:
    """Tests of all pairs; an alarm is a sum above 2 / rate.

    Parameters
    ----------
    n_states, n_actions : int
        Sizes of the spaces.
    watch_reward : bool
        Whether rewards are part of the outcomes.
    rate : float
        False alarms per update.
    """

    def __init__(self, n_states: int, n_actions: int, watch_reward: bool, rate: float) -> None:
        self.n_states, self.n_actions, self.watch_reward = n_states, n_actions, watch_reward
        self.threshold = 2.0 / rate
        self.rewards: dict[float, int] = {}
        self.exact = True
        self.remembered: list[RememberedModel] = []
        self.left: int | None = None  # the environment just left
        self.next_number = 0
        self.dating: Dating | None = None
        self._use(*new_vectors(n_states, n_actions, self.threshold))

    def _use(self, floats: NDArray[np.float64], integers: NDArray[np.int64]) -> None:
        self._floats, self._integers = floats, integers
        self.test = view(floats, integers)
        # One transition without a look at the arguments: three integers and the class of the reward.
        self.step = partial(update_ids, floats, integers)

    def _enlarge(self) -> None:
        """Make room for more outcomes."""
        self._use(self._floats, with_outcomes(self._integers, outcomes_of(self.test)))

    @property
    def seen(self) -> int:
        """Updates since the last restart."""
        return int(self.test.clock[SEEN])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._floats.nbytes + self._integers.nbytes + sum(model.outcomes.nbytes for model in self.remembered)

    def update(self, state: Any, action: Any, next_state: Any, reward: Any, now: int) -> int:
        """One transition; an error leaves the tests as they were.

        Parameters
        ----------
        state, action, next_state : int
            Checked here.
        reward : float or None
            Needed only if rewards are watched.
        now : int
            Not used.
        """
        state, action = _id("state", state, self.n_states), _id("action", action, self.n_actions)
        next_state = _id("next_state", next_state, self.n_states)
        number = self._reward_class(reward) if self.watch_reward else 0
        result: int = self.step(state, action, next_state, number)
        if result == FULL:
            self._enlarge()
            result = self.step(state, action, next_state, number)
        return result

    def update_keys(self, keys: NDArray[np.int64]) -> tuple[int, int]:
        """Outcomes in order, up to the first alarm: (how many were used, the alarm or 0)."""
        used, result = drift_finite.update_keys(self._floats, self._integers, keys, 0)
        while result == FULL:
            self._enlarge()
            used, result = drift_finite.update_keys(self._floats, self._integers, keys, used)
        return int(used), int(result)

    def _reward_class(self, reward: Any) -> int:
        """The number of a reward; with the 65th value all that was counted by exact values is forgotten."""
        try:
            value = float(reward)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"reward must be a finite number, got {reward!r}: this detector watches the reward")
        value = value + 0.0 if self.exact else rounded(value)  # -0.0 is 0.0
        number = self.rewards.get(value)
        if number is None:
            if self.exact and len(self.rewards) == MOST_REWARDS:
                self.exact = False
                self.rewards, self.remembered, self.left = {}, [], None
                self._use(*new_vectors(self.n_states, self.n_actions, self.threshold))
                value = rounded(value)
            number = self.rewards[value] = len(self.rewards)
        return number

    def reward_classes(self, rewards: list[float]) -> NDArray[np.int64] | None:
        """The numbers of finite rewards; None if one of them is the 65th value, which has to be met in its turn."""
        values = [value + 0.0 if self.exact else rounded(value) for value in rewards]
        new = [value for value in dict.fromkeys(values) if value not in self.rewards]
        if self.exact and len(self.rewards) + len(new) > MOST_REWARDS:
            return None
        for value in new:
            self.rewards[value] = len(self.rewards)
        return np.array([self.rewards[value] for value in values], np.int64)

    def restarted(self, rate: float) -> "FiniteTests":
        """New tests after an alarm, which remember the environment that was left if it had settled."""
        new = FiniteTests(self.n_states, self.n_actions, self.watch_reward, rate)
        new.rewards, new.exact = self.rewards, self.exact
        new.remembered, new.next_number = list(self.remembered), self.next_number
        before = np.zeros((0, 2), np.int64) if self.dating is None else self.dating.outcomes
        if before[:, COUNT].sum() >= SETTLED * max(1, len(np.unique(before[:, KEY] >> OUTCOME_BITS))):
            number = self.recognised(before)
            for model in self.remembered:
                if model.number == number:
                    before = _merged(model.outcomes, before)
            if number is None:
                number, new.next_number = self.next_number, self.next_number + 1
            new.remembered = [model for model in new.remembered if model.number != number]
            new.remembered = [*new.remembered, RememberedModel(number, before)][-MOST_REMEMBERED:]
            new.left = number
        return new

    def recognised(self, outcomes: NDArray[np.int64]) -> int | None:
        """The earlier environment that explains outcomes, or None.

        A new one has a prior probability of 1/2 and the earlier ones share the rest. The one just left takes part, and
        is no answer: where little has changed it explains most of what is seen.
        """
        if not self.remembered:
            return None
        pairs = self.n_states * self.n_actions
        logs = [drift_dating.evidence_of(outcomes, model.outcomes, *np.zeros((3, pairs))) for model in self.remembered]
        odds = np.array([*logs, math.log(len(logs))])
        posterior = np.exp(odds - odds.max())
        best = int(posterior.argmax())
        if best == len(logs) or posterior[best] < SURE * posterior.sum() or self.remembered[best].number == self.left:
            return None
        return self.remembered[best].number

    @property
    def sums(self) -> tuple[float, float]:
        """(the largest of the visited pairs, that of all together)."""
        test = self.test
        return float(drift_finite.pair_sum(test.pairs[test.clock[BEST]])), float(test.pool[betting.POOL_SUM])

    @property
    def gains(self) -> tuple[float, float]:
        """By which bets have multiplied these sums."""
        test = self.test
        own = test.pairs[test.clock[BEST], betting.PRODUCTS : betting.SUMS]
        return float(own.mean()), float(test.pool[betting.POOL_GAIN])

    def date(self) -> Dating:
        """When and where it changed, by the last updates."""
        size = min(self.seen, RING_SIZE)
        scores = self._taken_back(size)[0]
        weights = np.exp(scores - scores.max())
        # The most probable start, the latest one of those that are as good: without noise all earlier ones are.
        mode = int(np.flatnonzero(weights > 0.95)[-1])
        ordered = np.sort(weights)[::-1]
        least = ordered[np.searchsorted(np.cumsum(ordered), COVERED * ordered.sum()).clip(max=size - 1)]
        probable = np.flatnonzero(weights >= least * (1.0 - 1e-9))
        first, last = min(mode, int(probable[0])), max(mode, int(probable[-1]))
        oldest = self.seen - size
        scores, after, taken, ratios, logs = self._taken_back(size - mode)
        rows = np.flatnonzero(taken)
        probabilities = _changed_pairs(ratios[rows], logs[drift_dating.N_FIXED :])
        order = np.argsort(-probabilities, kind="stable")
        slots = self.test.slots.copy()
        slots[:, COUNT] -= after
        left = slots[slots[:, COUNT] > 0, : COUNT + 1]  # windows belong to the tests, not to the environment
        # A change before the oldest update that is kept is as probable as one at it.
        first = 0 if oldest > 0 and first < size // 64 else oldest + first
        self.dating = Dating(
            changed_at=oldest + mode,
            first=first,
            last=oldest + last,
            rows=rows[order],
            probabilities=probabilities[order],
            outcomes=left[np.argsort(left[:, KEY])],
        )
        return self.dating

    def _taken_back(self, size: int) -> tuple[NDArray[Any], ...]:
        test, n_pairs = self.test, len(self.test.pairs)
        scores, after = np.zeros(size), np.zeros(len(test.slots), np.int64)
        taken, ratios = np.zeros(n_pairs, np.int64), np.zeros((n_pairs, betting.N_LEARNED))
        logs = np.zeros(drift_dating.N_FIXED + len(drift_dating.SHARES))
        drift_dating.take_back(test.slots, test.pairs.copy(), test.ring, self.seen, scores, after, taken, ratios, logs)
        return scores, after, taken, ratios, logs

    def state(self) -> dict[str, NDArray[Any]]:
        """All that `restore` needs, as arrays by name."""
        test, size = self.test, min(self.seen, RING_SIZE)
        left = -1 if self.left is None else self.left
        return {
            "outcomes": outcomes_of(test),
            "pairs": test.pairs.copy(),
            "pool": test.pool.copy(),
            "last": test.ring[np.arange(self.seen - size, self.seen) % RING_SIZE],
            "clock": test.clock[: BEST + 1].copy(),
            "rewards": np.array(list(self.rewards), np.float64),
            "numbers": np.array([self.exact, self.next_number, left, *(model.number for model in self.remembered)]),
            "model_sizes": np.array([len(model.outcomes) for model in self.remembered], np.int64),
            "model_outcomes": np.concatenate(
                [np.zeros((0, 2), np.int64), *(model.outcomes for model in self.remembered)]
            ),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue from checked arrays of `state`."""
        size, seen = len(arrays["last"]), int(arrays["clock"][SEEN])
        self._use(self._floats, with_outcomes(self._integers, arrays["outcomes"]))
        test = self.test
        test.pairs[:], test.pool[:], test.clock[: BEST + 1] = arrays["pairs"], arrays["pool"], arrays["clock"]
        test.ring[np.arange(seen - size, seen) % RING_SIZE] = arrays["last"]
        self.rewards = {value: number for number, value in enumerate(arrays["rewards"].tolist())}
        exact, self.next_number, left, *numbers = arrays["numbers"].tolist()
        self.exact, self.left = bool(exact), None if left < 0 else left
        parts = np.split(arrays["model_outcomes"], np.cumsum(arrays["model_sizes"])[:-1])
        self.remembered = [RememberedModel(number, outcomes) for number, outcomes in zip(numbers, parts, strict=False)]


def rounded(value: float) -> float:
    """A reward to three binary digits after the first: a fixed function, so that outcomes stay exchangeable."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 16.0) / 16.0, exponent)


def _changed_pairs(ratios: NDArray[np.float64], logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of each pair to have changed, averaged over the posterior of the share of pairs that have."""
    weights = np.exp(logs - logs.max())
    largest = ratios.max(axis=1)
    B = largest + np.log(np.exp(ratios - largest[:, None]).mean(axis=1))
    share = np.array(drift_dating.SHARES)
    odds = np.log(share / (1.0 - share)) + B[:, None]
    return np.asarray((1.0 / (1.0 + np.exp(-np.clip(odds, -500.0, 500.0)))) @ weights / weights.sum())


def _merged(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The outcomes of both, with the sums of their counts."""
    keys, inverse = np.unique(np.concatenate([one[:, KEY], other[:, KEY]]), return_inverse=True)
    both = np.zeros((len(keys), 2), np.int64)
    both[:, KEY] = keys
    np.add.at(both[:, COUNT], inverse, np.concatenate([one[:, COUNT], other[:, COUNT]]))
    return both


def _id(name: str, value: Any, size: int) -> int:
    try:
        number = index(value)
    except TypeError:
        number = -1
    if not 0 <= number < size:
        raise ValueError(f"{name} must be an integer in [0, {size - 1}], got {value!r}")
    return number
