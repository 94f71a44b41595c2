"""`FiniteDriftDetector`: have the dynamics of a finite decision process changed?"""

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate as check
from dqucb._kernels import betting, drift_finite
from dqucb._kernels.drift_finite import COUNT, KEY, OUTCOME_BITS, OUTCOME_MASK, PART_RECENT, RECENT, RING_SIZE, SEEN
from dqucb.drift._finite_tests import MOST_REMEMBERED, FiniteTests
from dqucb.drift.base import DETECTORS, FINITE, Suspect
from dqucb.drift.compiled import Alarm, CompiledDetector, check_numbers, check_shapes

MOST_VISITS = 2**53  # of a pair in a file: a float represents all smaller integers
MOST_PAIRS = 2**30
MOST_STATES_WITH_REWARDS = 2**16
MOST_SUSPECTS = 20


@DETECTORS.register("finite")
class FiniteDriftDetector(CompiledDetector):
    """Watches transitions between states 0, 1, ..., n_states - 1.

    Each outcome is weighed against all outcomes of its pair (state, action): bets that a pair has become flatter or
    sharper, that it has new outcomes, or that its last outcomes predict the next one. "pooled" sums the evidence of all
    pairs, "pair" that of each; both look at outcomes given the pair, so that another policy is no alarm. There is no
    burn-in. :doc:`The page on betting </concepts/betting>` has the formulas and says what is proven.

    Parameters
    ----------
    n_states, n_actions : int
        Sizes of the spaces.
    false_alarms : float
        Alarms per update that are accepted on an unchanged stream; 1e-6 is one in a million updates.
    watch_reward : bool
        Whether an outcome is (next state, reward) rather than the next state alone. Up to 64 different rewards are
        distinguished exactly; if there are more, rewards are rounded to eight classes for each power of two.

    Notes
    -----
    All outcomes are counted. Memory is 120 bytes for each pair, at most 192 for each outcome that was ever seen (a next
    state of a pair, with its class of rewards) and 128 KiB; it does not grow with the stream otherwise. Up to eight
    earlier environments take 16 bytes for each of their outcomes.

    Examples
    --------
    A coin that lands on state 1 half of the time, and then nine times in ten:

    >>> import numpy as np
    >>> from dqucb.drift import FiniteDriftDetector
    >>> rng = np.random.default_rng(0)
    >>> detector = FiniteDriftDetector(n_states=2, n_actions=1)
    >>> for t in range(6_000):
    ...     outcome = int(rng.random() < (0.5 if t < 4_000 else 0.9))
    ...     if detector.update(0, 0, outcome).drift_detected:
    ...         print(f"alarm at {t}, changed at {detector.changed_at}, between {detector.changed_between}")
    alarm at 4052, changed at 3998, between (3980, 4006)
    """

    states: ClassVar[str] = FINITE
    kind: ClassVar[str] = "finite drift detector"
    tests: ClassVar[tuple[str, ...]] = ("pair", "pooled")

    def __init__(
        self, n_states: int, n_actions: int, *, false_alarms: float = 1e-6, watch_reward: bool = False
    ) -> None:
        super().__init__()
        self.watch_reward = check.flag("watch_reward", watch_reward)
        self.n_states = check.integer("n_states", n_states, 1, MOST_STATES_WITH_REWARDS if watch_reward else MOST_PAIRS)
        self.n_actions = check.integer("n_actions", n_actions, 1, MOST_PAIRS // self.n_states)
        self.false_alarms = check.real("false_alarms", false_alarms, 0.0, 0.1, open_left=True)
        self._tests = self._sized([])

    def _sized(self, shape: list[int]) -> FiniteTests:
        return FiniteTests(self.n_states, self.n_actions, self.watch_reward, self.false_alarms)

    def _begin(self, state: Any, action: Any, next_state: Any, reward: Any) -> FiniteTests:
        return self._tests.restarted(self.false_alarms)

    def update(self, state: Any, action: Any, next_state: Any, reward: float | None = None) -> Self:
        """Learn from one transition, as described in `DriftDetector.update`."""
        # Three integers are what nearly always comes. The kernel compares them with the sizes and answers below 0, with
        # nothing changed, if it cannot take them.
        if type(state) is type(action) is type(next_state) is int and not (self.drift_detected or self.watch_reward):
            try:
                alarm = self._tests.step(state, action, next_state, 0)
            except OverflowError:  # more than 64 bits
                alarm = -1
            if alarm >= 0:
                self.n_updates += 1
                if alarm:
                    self._ring(alarm)
                return self
        return super().update(state, action, next_state, reward)

    def reset(self) -> None:
        """Forget everything, as if newly constructed."""
        super().reset()
        self._tests = self._sized([])

    def update_many(
        self, states: ArrayLike, actions: ArrayLike, next_states: ArrayLike, rewards: ArrayLike | None = None
    ) -> int:
        """Learn from transitions in order, up to the first alarm.

        Parameters
        ----------
        states, actions, next_states : array_like of int
            Equally long vectors; they are checked before the first update.
        rewards : array_like, optional
            Needed only by a detector that watches the reward.

        Returns
        -------
        int
            How many were used: all, or those up to the alarm.
        """
        s = _ids("states", states, self.n_states)
        a = _ids("actions", actions, self.n_actions)
        next_ids = _ids("next_states", next_states, self.n_states)
        if not s.size == a.size == next_ids.size:
            raise ValueError(
                f"states, actions and next_states must be equally long, got {s.size}, {a.size}, {next_ids.size}"
            )
        if s.size == 0:
            return 0
        outcomes = next_ids
        if self.watch_reward:
            r = check.vector("rewards", [] if rewards is None else rewards, s.size)
            classes = self._tests.reward_classes(r.tolist())
            if classes is None:
                for i in range(s.size):
                    if self.update(int(s[i]), int(a[i]), int(next_ids[i]), float(r[i])).drift_detected:
                        return i + 1
                return int(s.size)
            outcomes = next_ids + self.n_states * classes
        if self.drift_detected:
            self._tests, self.drift_detected = self._tests.restarted(self.false_alarms), False
        used, alarm = self._tests.update_keys((s * self.n_actions + a) << OUTCOME_BITS | outcomes)
        self.n_updates += used
        if alarm:
            self._ring(alarm)
        return used

    @property
    def _present(self) -> tuple[float, float]:
        """An alarm needs a sum above the threshold and a gain above `betting.GAIN`: the smaller ratio counts."""
        tests = self._tests
        ratios = [
            min(
                math.log(max(1.0, total)) / math.log(tests.threshold), math.log(max(1.0, gain)) / math.log(betting.GAIN)
            )
            for total, gain in zip(tests.sums, tests.gains, strict=True)
        ]
        return max(0.0, *ratios), min(1.0, 2.0 / max(*tests.sums, 2.0))

    def _described(self, alarm: int) -> Alarm:
        dating, start = self._tests.date(), self.n_updates - self._tests.seen
        suspects = tuple(
            Suspect(divmod(int(row), self.n_actions), float(probability))
            for row, probability in zip(dating.rows[:MOST_SUSPECTS], dating.probabilities[:MOST_SUSPECTS], strict=True)
        )
        return Alarm(
            test=self.tests[0 if alarm == betting.PAIR_ALARM else 1],
            changed_at=start + dating.changed_at,
            changed_between=(start + dating.first, start + dating.last),
            significance=min(self.false_alarms, self._present[1]),
            suspects=suspects,
        )

    @property
    def looks_like(self) -> int | None:  # type: ignore[override]
        """The earlier environment that the transitions since the last alarm look like, or None.

        Environments that lasted at least ten visits per pair are numbered from 0, in the order in which they were first
        left; the last eight are remembered.
        """
        if self.drift_detected:
            return None
        number: int | None = self._tests.recognised(drift_finite.outcomes_of(self._tests.test))
        return number

    @property
    def evidence(self) -> NDArray[np.float64]:
        """The logarithm of the sum of each pair, (n_states, n_actions)."""
        sums = self._tests.test.pairs[:, betting.SUMS : betting.ODDS].sum(axis=1)
        return np.log(np.maximum(1.0, sums)).reshape(self.n_states, self.n_actions)

    @property
    def nbytes(self) -> int:
        """Bytes held; they grow only with the number of different outcomes."""
        return int(self._tests.nbytes)

    @classmethod
    def _check_sizes(cls, parameters: dict[str, Any], shape: list[int] | None, arrays: dict[str, Any]) -> None:
        pairs = check.integer("n_states", parameters["n_states"]) * check.integer("n_actions", parameters["n_actions"])
        if shape != [] or arrays["pairs"].shape != (pairs, betting.PAIR_SIZE_WITH_PART):
            raise ValueError(f"pairs must have a row for each of {pairs} pairs, got shape {arrays['pairs'].shape}")

    def _check_arrays(self, tests: FiniteTests, arrays: dict[str, Any]) -> None:
        expected = tests.state()
        check_shapes({name: expected[name] for name in ("pairs", "pool", "clock")}, arrays)
        lengths = {name: len(np.atleast_1d(arrays[name])) for name in expected}
        check_shapes({n: np.zeros((lengths[n], *a.shape[1:]), a.dtype) for n, a in expected.items()}, arrays)
        pairs, outcomes, clock = arrays["pairs"], arrays["outcomes"], arrays["clock"]
        n_pairs, largest = len(pairs), self.n_states * max(1, lengths["rewards"]) - 1
        check_numbers("pairs", pairs, 0.0, 1e200)
        visited = pairs[pairs[:, betting.VISITS] > 0]
        check_numbers("pairs", visited[:, betting.PRODUCTS : betting.SUMS], 1e-9, 1e200)
        check_numbers("pairs", visited[:, betting.ODDS : betting.PAIR_SIZE], betting.FLOOR, betting.MOST_ODDS)
        counted = [betting.WINDOW, betting.EPOCH, betting.PART_WINDOW, betting.PART_EPOCH]
        check_numbers("pairs", pairs[:, counted], 0.0, MOST_VISITS)
        pool = arrays["pool"]
        check_numbers("pool", pool, 0.0, 1e200)
        check_numbers("pool", pool[[betting.POOL_GAIN, betting.COMMON_EPOCH]], 1.0, 1e200)
        check_numbers("pool", pool[betting.COMMON_PRODUCT], betting.PATIENCE, betting.MOST_ODDS)
        check_numbers("pool", pool[[betting.COMMON_WINDOW, betting.COMMON_EPOCH]], 0.0, MOST_VISITS)
        check_numbers("clock", clock, 0, np.array([2**62, lengths["outcomes"], n_pairs - 1]))
        _check_outcomes(outcomes, n_pairs, largest)
        check_numbers("outcomes", outcomes[:, [RECENT, PART_RECENT]], 0, outcomes[:, [COUNT]])
        bags = [np.bincount(outcomes[:, KEY] >> OUTCOME_BITS, given, minlength=n_pairs) for given in _bag(outcomes)]
        if not np.allclose(pairs[:, :4], np.stack(bags, axis=1), rtol=1e-12):
            raise ValueError("pairs must have the sums of their outcomes")
        size = min(int(clock[SEEN]), RING_SIZE)
        last, counts = np.unique(arrays["last"], return_counts=True)
        place = np.searchsorted(outcomes[:, KEY], last).clip(max=max(0, lengths["outcomes"] - 1))
        if lengths["last"] != size or (size and (outcomes[place, KEY] != last).any()):
            raise ValueError(f"last must be {size} outcomes that were counted, got {lengths['last']}")
        if clock[1] != lengths["outcomes"] or (size and (counts > outcomes[place, COUNT]).any()):
            raise ValueError("outcomes must be counted at least as often as they are among the last updates")
        check_numbers("numbers", arrays["numbers"], np.array([0, 0, -1, *[0] * lengths["model_sizes"]]), 2**62)
        check_numbers("model_sizes", arrays["model_sizes"], 0, lengths["model_outcomes"])
        if lengths["model_sizes"] > MOST_REMEMBERED or arrays["model_sizes"].sum() != lengths["model_outcomes"]:
            raise ValueError(f"model_sizes must add up to {lengths['model_outcomes']}, got {arrays['model_sizes']}")
        for part in np.split(arrays["model_outcomes"], np.cumsum(arrays["model_sizes"])[:-1]):
            _check_outcomes(part, n_pairs, largest)


def _check_outcomes(outcomes: NDArray[np.int64], n_pairs: int, largest: int) -> None:
    """Raise a ValueError unless they are in order, of pairs and outcomes that exist, and counted."""
    check_numbers("outcomes", outcomes[:, KEY] >> OUTCOME_BITS, 0, n_pairs - 1)
    check_numbers("outcomes", outcomes[:, KEY] & OUTCOME_MASK, 0, largest)
    check_numbers("outcomes", outcomes[:, COUNT], 1, MOST_VISITS)
    if (np.diff(outcomes[:, KEY]) <= 0).any():
        raise ValueError("outcomes must be in order of their keys")


def _bag(outcomes: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """What each outcome adds to the bag of its pair: visits, different ones, squares, those seen once."""
    c = outcomes[:, COUNT].astype(np.float64)
    return [c, np.ones_like(c), c * c, (c == 1.0).astype(np.float64)]


def _ids(name: str, values: ArrayLike, size: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(f"{name} must be a vector of integers, got {array.dtype}{array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < size):
        wrong = int(np.flatnonzero((array < 0) | (array >= size))[0])
        raise ValueError(f"{name} must be in [0, {size - 1}], got {array[wrong]} at index {wrong}")
    return array.astype(np.int64)
