"""`FiniteDriftDetector`: have the dynamics of a finite decision process changed?"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate as check
from dqucb._kernels import betting, drift_finite
from dqucb._kernels.drift_finite import COUNT, KEY, OUTCOME_BITS, OUTCOME_MASK, RECENT, RING_SIZE, SEEN
from dqucb.drift._finite_tests import MOST_WORLDS, FiniteTests
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
        Whether an outcome is (next state, reward) rather than the next state alone. Up to 64 different rewards are told
        apart exactly; if there are more, rewards are rounded to eight classes for each power of two.

    Notes
    -----
    All outcomes are counted. Memory is 96 bytes for each pair, at most 128 for each outcome that was ever seen (a next
    state of a pair, with its class of rewards) and 128 KiB; it does not grow with the stream otherwise. Up to eight
    earlier environments take 32 bytes for each of their outcomes.

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
    alarm at 4049, changed at 3998
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
            Needed only by a detector that watches the reward, which takes them one by one.

        Returns
        -------
        int
            How many were used: all, or those up to the alarm.
        """
        s = _ids("states", states, self.n_states)
        a = _ids("actions", actions, self.n_actions)
        following = _ids("next_states", next_states, self.n_states)
        if not s.size == a.size == following.size:
            raise ValueError(
                f"states, actions and next_states must be equally long, got {s.size}, {a.size}, {following.size}"
            )
        if self.watch_reward:
            r = check.vector("rewards", [] if rewards is None else rewards, s.size)
            for i in range(s.size):
                if self.update(int(s[i]), int(a[i]), int(following[i]), float(r[i])).drift_detected:
                    return i + 1
            return int(s.size)
        if s.size == 0:
            return 0
        if self.drift_detected:
            self._tests, self.drift_detected = self._tests.restarted(self.false_alarms), False
        used, alarm = self._tests.update_keys((s * self.n_actions + a) << OUTCOME_BITS | following)
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
        if shape != [] or arrays["pairs"].shape != (pairs, betting.PAIR_SIZE):
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
        check_numbers("pairs", visited[:, betting.ODDS :], betting.FLOOR, betting.MOST_ODDS)
        check_numbers("pairs", pairs[:, [betting.WINDOW, betting.EPOCH]], 0.0, MOST_VISITS)
        check_numbers("pool", arrays["pool"], 0.0, 1e200)
        check_numbers("pool", arrays["pool"][betting.POOL_GAIN :][:1], 1.0, 1e200)
        check_numbers("clock", clock, 0, np.array([2**62, lengths["outcomes"], n_pairs - 1]))
        _check_outcomes(outcomes, n_pairs, largest)
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
        check_numbers("numbers", arrays["numbers"], np.array([0, 0, -1, *[0] * lengths["world_sizes"]]), 2**62)
        check_numbers("world_sizes", arrays["world_sizes"], 0, lengths["world_outcomes"])
        if lengths["world_sizes"] > MOST_WORLDS or arrays["world_sizes"].sum() != lengths["world_outcomes"]:
            raise ValueError(f"world_sizes must add up to {lengths['world_outcomes']}, got {arrays['world_sizes']}")
        for part in np.split(arrays["world_outcomes"], np.cumsum(arrays["world_sizes"])[:-1]):
            _check_outcomes(part, n_pairs, largest)


def _check_outcomes(outcomes: NDArray[np.int64], n_pairs: int, largest: int) -> None:
    """Raise a ValueError unless they are in order, of pairs and outcomes that exist, and counted."""
    check_numbers("outcomes", outcomes[:, KEY] >> OUTCOME_BITS, 0, n_pairs - 1)
    check_numbers("outcomes", outcomes[:, KEY] & OUTCOME_MASK, 0, largest)
    check_numbers("outcomes", outcomes[:, COUNT], 1, MOST_VISITS)
    check_numbers("outcomes", outcomes[:, RECENT], 0, outcomes[:, COUNT])
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
