"""`ContinuousDriftDetector`: have the dynamics of a continuous stream changed?"""

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb._kernels.drift_residuals import ResidualTest
from dqucb.drift.base import DETECTORS, Suspect
from dqucb.drift.compiled import LIMIT, Alarm, CompiledDetector, check_numbers, check_shapes

MOST_FEATURES = 200
MOST_INPUTS = 1_000  # numbers of state and action; memory and time of an update grow with their square
MOST_PRODUCTS = 80
LIKELY = 4.0  # nats below the best segment: the change may have begun with these, too
LAG = 1_000  # newest transitions that the model has not learned yet
MODEL_MEMORY = 20_000  # transitions that the model remembers
LEARNING_BURN_IN = 20_000  # for streams of an agent that learns from nothing
FEATURE_SEED = 7


@DETECTORS.register("continuous")
class ContinuousDriftDetector(CompiledDetector):
    """Watches transitions between real vectors.

    A model of s' - s given (s, a) is fitted to the transitions since the last alarm, as bent as the stream is. Recent
    segments of several lengths are compared with the long run, in units of what is usual at that place: means,
    regressions on (s, a), single coefficients, noise that grows or falls, dependence on the update before, and
    correlations. All is conditional on (s, a): another policy is no alarm.

    Parameters
    ----------
    false_alarms : float
        Alarms per update that are accepted on a still stream.
    burn_in : int
        Updates before the first alarm can come, and again after each alarm. The first eighth fixes the units, the last
        half the thresholds; transitions within a tenth may depend on each other. It should hold several of the rarest
        events that are usual, such as the falls of a walker: 2,000 updates were too few for Hopper, which falls every
        600 steps, and false alarms more frequent than stated. Where an agent learns from nothing it should also hold
        the time in which it learns fast: `LEARNING_BURN_IN`, 20,000, is what agents of ours take.
    n_actions : int, optional
        Number of actions if they are integers 0, 1, ...; None for actions that are numbers or vectors.
    watch_reward : bool
        Whether the reward is predicted and tested like a coordinate of the next state.
    smallest : float
        Residuals below this share of the usual movement count as zero. It keeps errors of the model in
        (almost) deterministic worlds from being read as a change; on these, false alarms are rarer than asked for.

    Notes
    -----
    The model learns a transition when 1,000 newer ones have been tested (while the stream is young, a third of it). If
    it learned a new law at once, the tests would see too little of it. What is older than some 20,000 transitions is
    forgotten, so that the model follows an agent to new places.

    Memory and time of an update do not depend on the length of the stream; they grow with the square of the numbers of
    state and action. With more than 32 of these, changes of regressions are looked for in the first 32 alone, and with
    more than 32 coordinates correlations are not looked at.

    Examples
    --------
    A mass on a spring whose stiffness grows:

    >>> import numpy as np
    >>> from dqucb.drift import ContinuousDriftDetector
    >>> rng = np.random.default_rng(0)
    >>> detector = ContinuousDriftDetector()
    >>> state = np.zeros(2)
    >>> for t in range(6_000):
    ...     force = rng.normal()
    ...     stiffness = 1.0 if t < 4_000 else 2.0
    ...     speed = 0.95 * state[1] + 0.1 * (force - stiffness * state[0]) + 0.01 * rng.normal()
    ...     following = np.array([state[0] + 0.1 * speed, speed])
    ...     if detector.update(state, force, following).drift_detected:
    ...         print(f"alarm at {t}, changed at {detector.changed_at}, coordinates {detector.coordinates.round(1)}")
    ...     state = following
    alarm at 4109, changed at 4031, coordinates [0. 1.]
    """

    kind: ClassVar[str] = "continuous drift detector"
    tests: ClassVar[tuple[str, ...]] = ("segments",)

    def __init__(
        self,
        *,
        false_alarms: float = 1e-6,
        burn_in: int = 3_000,
        n_actions: int | None = None,
        watch_reward: bool = False,
        smallest: float = 0.03,
    ) -> None:
        super().__init__()
        self.false_alarms = check.real("false_alarms", false_alarms, 0.0, 0.1, open_left=True)
        self.burn_in = check.integer("burn_in", burn_in, 100)
        self.n_actions = None if n_actions is None else check.integer("n_actions", n_actions, 1, MOST_INPUTS)
        self.watch_reward = check.flag("watch_reward", watch_reward)
        self.smallest = check.real("smallest", smallest, 0.0, 1.0)

    def _begin(self, state: Any, action: Any, next_state: Any, reward: Any) -> ResidualTest:
        if self._tests is not None:  # after an alarm the spaces are the same
            return self._sized(self._shape())
        n_state = check.finite_array("state", np.atleast_1d(np.asarray(state)), 1).size
        if n_state == 0:
            raise ValueError("state must have at least one number, got none")
        if self.n_actions is not None:
            return self._sized([n_state, self.n_actions])
        n_action = check.finite_array("action", np.atleast_1d(np.asarray(action)), 1).size
        if n_action == 0:
            raise ValueError("action must have at least one number, got none; pass 0.0 where there are no actions")
        return self._sized([n_state, n_action])

    def _shape(self) -> list[int]:
        tests = self._tests
        return [tests.n_state, tests.inputs - tests.n_state]

    def _sized(self, shape: list[int]) -> ResidualTest:
        n_state, n_action = shape
        if n_state + n_action > MOST_INPUTS:
            raise ValueError(
                f"state and action must have at most {MOST_INPUTS} numbers together, got {n_state} and {n_action}: "
                "project them on fewer"
            )
        products, waves, phases = features(n_state + n_action)
        return ResidualTest(
            n_state, n_action, self.n_actions or 0, self.watch_reward, products, waves, phases, self.burn_in,
            self.false_alarms, self.smallest, LAG, MODEL_MEMORY,
        )  # fmt: skip

    @classmethod
    def _check_sizes(cls, parameters: dict[str, Any], shape: list[int] | None, arrays: dict[str, Any]) -> None:
        if shape is None:
            return
        inputs, first = sum(shape), arrays["first"].shape
        targets = shape[0] + check.flag("watch_reward", parameters["watch_reward"])
        if len(shape) != 2 or min(shape) < 1 or arrays["center"].shape != (inputs,) or len(first) != 2:
            raise ValueError(f"shape must be that of the arrays, got {shape} for {arrays['center'].shape} inputs")
        if parameters["n_actions"] not in (None, shape[1]):
            raise ValueError(f"n_actions must be {shape[1]} as in the shape, got {parameters['n_actions']!r}")
        # The scaling rows are an eighth of the burn-in, and at least 20.
        if first[1] != inputs + targets or first[0] < check.integer("burn_in", parameters["burn_in"], 100) // 8:
            raise ValueError(f"first must hold an eighth of burn_in={parameters['burn_in']} rows, got shape {first}")
        if arrays["P"].size < inputs * inputs:
            raise ValueError(f"P must have a row for each of at least {inputs} features, got {arrays['P'].shape}")

    def _check_arrays(self, tests: ResidualTest, arrays: dict[str, Any]) -> None:
        check_shapes(tests.state(), arrays)
        for name, array in arrays.items():
            if name not in ("counts", "segments_sums", "segments_counts", "segments_held", "segments_salt"):
                check_numbers(name, array, -1e300, 1e300)
        for name in ("spread", "unit"):
            check_numbers(name, arrays[name], 1e-300, 1e300)
        check_numbers("usual_distance", arrays["usual_distance"], 1.0, 1e300)
        check_numbers("counts", arrays["counts"], 0, 2**62)
        seen, tested, learned, _ = arrays["counts"].tolist()
        waiting = len(arrays["newest"]) - 1
        if not (tested - waiting <= learned <= tested <= seen and (tested > 0) == (seen >= len(arrays["first"]))):
            raise ValueError(f"counts must be updates, tested and learned ones, got {seen}, {tested}, {learned}")
        _check_segments(arrays)

    @property
    def warming_up(self) -> bool:
        """Whether the burn-in lasts: no alarm can come yet."""
        return self._tests is None or self._tests.seen < self._tests.burn_in

    @property
    def _present(self) -> tuple[float, float]:
        level, threshold, rate, *_ = self._tests.level
        return float(level / threshold), float(min(1.0, rate))

    def _described(self, alarm: int) -> Alarm:
        shares = self.coordinates
        suspects = tuple(Suspect(int(i), float(shares[i])) for i in np.argsort(-shares, kind="stable"))
        changed_at, between = self._dates()
        return Alarm("segments", changed_at, between, float(min(self._tests.level[2], self.false_alarms)), suspects)

    def _dates(self) -> tuple[int, tuple[int, int]]:
        """When the change began and between which updates, from the segments that say about as much as the best one."""
        rows = self._tests.segments.segments()
        best = rows[np.argmax(rows[:, 1])]
        likely = rows[rows[:, 1] > best[1] - LIKELY]
        first, last = (likely[:, 0] - 2.0 * likely[:, 2]).min(), (likely[:, 0] + likely[:, 2]).max()
        between = self._in_range(first), self._in_range(last)
        return self._in_range(best[0] + rows[:, 2].min() / 2.0), between  # segments begin every so many updates

    def _in_range(self, time: float) -> int:
        return int(min(max(time, 0.0), self.n_updates - 1.0))

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Probability of each coordinate of the next state (and of the reward, last) to have changed, if one did."""
        if self._tests is None:
            raise ValueError("coordinates need at least one update")
        logs = self._tests.segments.coordinates()
        shares = np.exp(logs - logs.max())
        return np.asarray(shares / shares.sum())


def _check_segments(arrays: dict[str, Any]) -> None:
    """Raise a ValueError for values that no test of segments writes."""
    check_numbers("segments_sums", arrays["segments_sums"], 0.0, 1e300)
    waiting = len(arrays["segments_waiting"]) - 1
    check_numbers("segments_counts", arrays["segments_counts"], 0, np.array([2**62, 2**62, 2**62, waiting]))
    check_numbers("segments_held", arrays["segments_held"], 0, arrays["segments_mixed"].shape[1])
    check_numbers("segments_starts", arrays["segments_starts"], 0.0, LIMIT)
    check_numbers("the diagonal of segments_K", np.diag(arrays["segments_K"]), 1e-6, 1e300)
    check_numbers("the diagonal of segments_joint", np.diag(arrays["segments_joint"]), 0.0, 1e300)
    check_numbers("segments_own", arrays["segments_own"], 1e-6, 1e6)
    for name in ("tempering", "of_all"):
        check_numbers(f"segments_{name}", arrays[f"segments_{name}"], 1.0, 1e6)
    check_numbers("segments_mix", arrays["segments_mix"], 0.0, 1.0)
    for name in ("histogram", "below", "blocks", "n_blocks", "joint_squares"):
        check_numbers(f"segments_{name}", arrays[f"segments_{name}"], 0.0, 1e300)


@lru_cache(maxsize=8)
def features(inputs: int) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Products (pairs of inputs), frequencies and phases of random Fourier features (Rahimi and Recht 2007).

    All products if there are few, else squares. The frequencies are those of a Gaussian kernel of width sqrt(inputs).
    """
    every = [(i, j) for i in range(inputs) for j in range(i, inputs)]
    chosen = every if len(every) <= MOST_PRODUCTS else [(i, i) for i in range(inputs)]
    waves = max(0, min(MOST_FEATURES, 100 + 5 * inputs) - 1 - inputs - len(chosen))
    rng = np.random.default_rng(FEATURE_SEED)
    frequencies = rng.standard_normal((waves, inputs)) / np.sqrt(inputs)
    return np.array(chosen, np.int32).reshape(-1, 2), frequencies, rng.uniform(0.0, 2.0 * np.pi, waves)
