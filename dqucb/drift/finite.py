"""`FiniteDriftDetector`: has the law of a finite decision process changed?"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dqucb import _validate as check
from dqucb._kernels.drift_pairs import LONGEST_CYCLE, NUMBERS, PairTest
from dqucb.drift.base import DETECTORS, FINITE
from dqucb.drift.compiled import Alarm, CompiledDetector, check_numbers

MOST_VISITS = 2**53  # of a pair in a file: a float knows all smaller ones


@DETECTORS.register("finite")
class FiniteDriftDetector(CompiledDetector):
    """Watches transitions between states 0, 1, ..., n_states - 1.

    Three tests run side by side. "pair" is the likelihood ratio of each pair (state, action), "pooled" that of all
    pairs together, whose laws may have become flatter or sharper; each has half of the false alarms, and pairs that are
    too rare to be tested alone leave their part to the second. Thresholds follow the maxima of the statistics on the
    stream itself. "novelty" sees next states that known pairs never had; its threshold comes from theory, which it
    spends a small part of. All look at next states given the pair, so that another policy is no alarm.

    Parameters
    ----------
    n_states, n_actions : int
        Sizes of the spaces.
    false_alarms : float
        Alarms per update that are accepted on a still stream; 1e-6 is one in a million updates.
    burn_in : int
        Updates before the first alarm can come, and again after each alarm.
    watch_reward : bool
        Whether an outcome is (next state, whether the reward is zero) rather than the next state alone.

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
    ...         print(f"alarm at {t}, changed at {detector.changed_at}")
    alarm at 4049, changed at 3998
    """

    states: ClassVar[str] = FINITE
    kind: ClassVar[str] = "finite drift detector"
    tests: ClassVar[tuple[str, ...]] = ("pair", "pooled", "novelty")

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        false_alarms: float = 1e-6,
        burn_in: int = 1_000,
        watch_reward: bool = False,
    ) -> None:
        super().__init__()
        self.n_states = check.integer("n_states", n_states, 1, 2**30)
        self.n_actions = check.integer("n_actions", n_actions, 1, 2**30)
        self.false_alarms = check.real("false_alarms", false_alarms, 0.0, 0.1, open_left=True)
        self.burn_in = check.integer("burn_in", burn_in, 20)
        self.watch_reward = check.flag("watch_reward", watch_reward)
        self._tests = self._sized([])

    def _sized(self, shape: list[int]) -> PairTest:
        p = self.get_params()
        return PairTest(p["n_states"], p["n_actions"], p["watch_reward"], p["burn_in"], p["false_alarms"])

    def _begin(self, state: Any, action: Any, next_state: Any, reward: Any) -> PairTest:
        return self._sized([])

    @classmethod
    def _check_sizes(cls, parameters: dict[str, Any], shape: list[int] | None, arrays: dict[str, Any]) -> None:
        pairs = check.integer("n_states", parameters["n_states"]) * check.integer("n_actions", parameters["n_actions"])
        if shape != [] or arrays["count"].shape[:1] != (pairs,):
            raise ValueError(f"count must have a row for each of {pairs} pairs, got shape {arrays['count'].shape}")

    def _check_values(self, arrays: dict[str, Any]) -> None:
        p = self.get_params()
        count, newer, used, slots = arrays["count"], arrays["newer"], arrays["used"], arrays["count"].shape[1]
        check_numbers("count", count, 0, MOST_VISITS // slots)
        check_numbers("newer", newer, 0, LONGEST_CYCLE)
        check_numbers("used", used, 0, slots)
        check_numbers("outcome", arrays["outcome"], 0, p["n_states"] * (2 if p["watch_reward"] else 1) - 1)
        if (newer > count).any() or (count.astype(bool) & (np.arange(slots) >= used[:, None])).any():
            raise ValueError("newer must not exceed count, nor outcomes be counted in places that are not used")
        for name in NUMBERS:
            check_numbers(name, arrays[name], 0.0, 1e300)
        check_numbers("sums", arrays["sums"][:, [0, 1, 2, 3, 4, 7, 12, 13]], 0.0, 1e300)
        check_numbers("tilt", arrays["tilt"], -1e300, 1e300)
        check_numbers("novelty", arrays["novelty"], 0.0, 1e300)
        check_numbers("novelty", arrays["novelty"][4:], 0.5, 1e300)
        check_numbers("tilt", arrays["tilt"][5:6], p["false_alarms"] / 4.0, 2.0 * p["false_alarms"])
        check_numbers("tilt", arrays["tilt"][6:7], 0.0, 1e300)
        pairs = len(count)
        most = np.array([2**62, 2, pairs - 1, pairs - 1, arrays["counts"][0]])
        check_numbers("counts", arrays["counts"], np.array([0, 0, -1, 0, 0]), most)

    def reset(self) -> None:
        """Forget everything, as if newly made."""
        super().reset()
        self._tests = self._sized([])

    def update_many(self, states: ArrayLike, actions: ArrayLike, next_states: ArrayLike) -> int:
        """Learn from transitions in order, up to the first alarm.

        Parameters
        ----------
        states, actions, next_states : array_like of int
            Equally long vectors; they are checked before the first update.

        Returns
        -------
        int
            How many were used: all, or those up to the alarm.
        """
        p = self.get_params()
        if p["watch_reward"]:
            raise ValueError("update_many takes no rewards, and this detector watches them: call update")
        s = _ids("states", states, p["n_states"])
        a = _ids("actions", actions, p["n_actions"])
        following = _ids("next_states", next_states, p["n_states"])
        if not s.size == a.size == following.size:
            raise ValueError(
                f"states, actions and next_states must be equally long, got {s.size}, {a.size}, {following.size}"
            )
        if s.size == 0:
            return 0
        if self.drift_detected:
            self._tests, self.drift_detected = self._sized([]), False
        rows = np.ascontiguousarray(s * p["n_actions"] + a)
        used, alarm = self._tests.update_rows(rows, following.astype(np.int32), self.n_updates)
        self.n_updates += used
        if alarm:
            self._ring(alarm)
        return int(used)

    @property
    def warming_up(self) -> bool:
        """Whether the burn-in lasts: no alarm can come yet."""
        return self._tests.seen < self._tests.burn_in

    @property
    def _present(self) -> tuple[float, float]:
        levels = self._tests.levels
        ratios = [level / threshold for level, threshold, *_ in levels if level > 0.0 < threshold]
        return float(max(ratios, default=0.0)), float(min(1.0, *(rate for _, _, rate, *_ in levels)))

    def _described(self, alarm: int) -> Alarm:
        level = self._tests.levels[alarm - 1]
        significance = float(min(level[2], self.false_alarms / 2.0))
        return Alarm(self.tests[alarm - 1], int(level[3]), (int(level[3]), self.n_updates - 1), significance, ())

    @property
    def evidence(self) -> NDArray[np.float64]:
        """The log likelihood ratio of each pair since its running cycle began, (n_states, n_actions)."""
        return self._tests.evidence

    @property
    def nbytes(self) -> int:
        """Bytes held for counts; they do not grow with the stream."""
        return int(self._tests.nbytes)


def _ids(name: str, values: ArrayLike, size: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(f"{name} must be a vector of integers, got {array.dtype}{array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < size):
        wrong = int(np.flatnonzero((array < 0) | (array >= size))[0])
        raise ValueError(f"{name} must be in [0, {size - 1}], got {array[wrong]} at index {wrong}")
    return array.astype(np.int64)
