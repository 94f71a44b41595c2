"""State machines over the public calls of densities, windows and detectors; agents have a module of their own."""

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dqucb import SlidingKDE
from dqucb.density import DENSITIES, make_density
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector

small = st.integers(0, 3)
rewards = st.sampled_from([0.0, 1.0, -1.0, 0.25, 1e6, -1e100])
FOLDER = Path(tempfile.mkdtemp(prefix="dqucb-sequences-"))


class Counted(RuleBasedStateMachine):
    """Counts the calls of all sequences."""

    calls: ClassVar[int] = 0

    def count(self) -> None:
        """One call more."""
        type(self).calls += 1


class DensityCalls(Counted):
    """A density over finite or continuous transitions."""

    density: Any = None

    @initialize(name=st.sampled_from(list(DENSITIES)), window=st.integers(1, 9))
    def start(self, name: str, window: int) -> None:
        self.finite = DENSITIES.facts(name)["states"] == "finite"
        sizes: dict[str, Any] = {"n_states": 4, "n_actions": 3} if self.finite else {"state_dim": 2, "action_dim": 1}
        self.make = lambda: make_density({"name": name, "window": window}, **sizes)
        self.density = self.make()

    def _transition(self, state: int, action: int, reached: int) -> tuple[Any, Any, Any]:
        if self.finite:
            return state, action % 3, reached
        return np.array([state, 0.5]), np.array([action / 2]), np.array([reached / 3, -1.0])

    @rule(state=small, action=small, reached=small, times=st.integers(1, 20))
    def push(self, state: int, action: int, reached: int, times: int) -> None:
        self.count()
        for number in range(times):
            self.density.push(*self._transition((state + number) % 4, action, reached))

    @rule(state=small, action=small, reached=small)
    def ask(self, state: int, action: int, reached: int) -> None:
        self.count()
        p = self.density.likelihood(*self._transition(state, action, reached))
        assert np.isfinite(p)
        assert p >= 0.0

    @rule(wrong=st.sampled_from([-1, 4, 2**40, 0.5, "1", None, [[1.0]]]))
    def wrong_push(self, wrong: Any) -> None:
        self.count()
        _, action, reached = self._transition(1, 1, 1)
        try:
            self.density.push(wrong, action, reached)
        except ValueError:
            return
        raise AssertionError(f"push({wrong!r}) was taken")

    @rule(how=st.sampled_from(["state", "copy", "deepcopy", "pickle", "reset"]))
    def come_back(self, how: str) -> None:
        self.count()
        if how == "reset":
            self.density.reset()
        elif how == "state":
            saved, self.density = self.density.state(), self.make()
            self.density.restore(saved)
        elif how == "pickle":
            self.density = pickle.loads(pickle.dumps(self.density))
        else:
            self.density = getattr(copy, how)(self.density)


class WindowCalls(Counted):
    """A `SlidingKDE`."""

    kde: Any = None

    @initialize(window=st.integers(1, 9), kernel=st.sampled_from(["gaussian", "linear", "tophat", "epanechnikov"]),
                columns=st.integers(1, 3))  # fmt: skip
    def start(self, window: int, kernel: str, columns: int) -> None:
        self.columns = columns
        try:
            self.kde = SlidingKDE(window, kernel=kernel)
        except ValueError:  # a kernel that is not there
            self.kde = SlidingKDE(window)

    @rule(value=st.floats(-1e6, 1e6), times=st.integers(1, 20))
    def push(self, value: float, times: int) -> None:
        self.count()
        for number in range(times):
            self.kde.push(np.full(self.columns, value + number))

    @rule(value=st.floats(-1e6, 1e6), rows=st.integers(0, 5))
    def ask(self, value: float, rows: int) -> None:
        self.count()
        try:
            self.kde.score(np.full(self.columns, value))
            self.kde.score_samples(np.full((rows, self.columns), value))
        except ValueError:
            assert len(self.kde) == 0 or rows == 0

    @rule(wrong=st.sampled_from([np.zeros(4), np.zeros((2, 2)), "x", np.array([np.nan]), None]))
    def wrong_push(self, wrong: Any) -> None:
        self.count()
        self.kde.push(np.zeros(self.columns))
        try:
            self.kde.push(wrong)
        except ValueError:
            return
        raise AssertionError(f"push({wrong!r}) was taken")

    @rule(how=st.sampled_from(["file", "copy", "deepcopy", "pickle"]))
    def come_back(self, how: str) -> None:
        self.count()
        if how == "file":
            self.kde.save(FOLDER / "kde")
            self.kde = SlidingKDE.load(FOLDER / "kde")
        elif how == "pickle":
            self.kde = pickle.loads(pickle.dumps(self.kde))
        else:
            self.kde = getattr(copy, how)(self.kde)


class DetectorCalls(Counted):
    """Both drift detectors."""

    detector: Any = None

    @initialize(finite=st.booleans(), watch_reward=st.booleans())
    def start(self, finite: bool, watch_reward: bool) -> None:
        self.finite = finite
        if finite:
            self.detector = FiniteDriftDetector(n_states=4, n_actions=3, watch_reward=watch_reward, false_alarms=0.01)
        else:
            self.detector = ContinuousDriftDetector(burn_in=100, watch_reward=watch_reward, false_alarms=0.01)

    @rule(state=small, action=small, reached=small, reward=rewards, times=st.integers(1, 60))
    def update(self, state: int, action: int, reached: int, reward: float, times: int) -> None:
        self.count()
        for number in range(times):
            if self.finite:
                self.detector.update(state, action % 3, (reached + number) % 4, reward)
            else:
                self.detector.update([state, number % 5], [action], [reached, number % 3], min(1e6, max(-1e6, reward)))
        assert np.isfinite(self.detector.statistic)
        assert 0.0 <= self.detector.significance <= 1.0

    @rule(wrong=st.sampled_from([-1, 2**40, 1.5, "a", None, [float("nan")], [[1.0]]]))
    def wrong_update(self, wrong: Any) -> None:
        self.count()
        try:
            self.detector.update(wrong, wrong, wrong, 0.0)
        except ValueError:
            return
        assert not self.finite
        assert not isinstance(wrong, str | list)
        self.detector.reset()  # it has learned states of one number

    @rule(how=st.sampled_from(["file", "copy", "deepcopy", "pickle", "reset"]))
    def come_back(self, how: str) -> None:
        self.count()
        if how == "reset":
            self.detector.reset()
        elif how == "file":
            self.detector = type(self.detector).load(self.detector.save(FOLDER / "detector"))
        elif how == "pickle":
            self.detector = pickle.loads(pickle.dumps(self.detector))
        else:
            self.detector = getattr(copy, how)(self.detector)


MACHINES = {"windows": WindowCalls, "densities": DensityCalls, "detectors": DetectorCalls}
