"""`check_detector`: whether a drift detector of yours keeps the contract of `DriftDetector`."""

import copy
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dqucb._validate import demand
from dqucb.drift.base import FINITE, DriftDetector, checked_detector

STEPS, CHANGE_AT = 12_000, 8_000
FACTS = ("n_updates", "drift_detected", "changed_at", "changed_between", "statistic", "significance", "suspects")
Transition = tuple[Any, Any, Any, float]


def check_detector(detector: DriftDetector, transitions: Sequence[Transition] | None = None) -> None:
    """Check that a detector keeps the contract; raises if not.

    Parameters
    ----------
    detector : DriftDetector
        It is cloned, and stays as it is.
    transitions : sequence of (state, action, next_state, reward), optional
        A stream that changes grossly, so that the detector must give an alarm in it. By default 12,000 transitions:
        three states and two actions, or points of a plane and numbers, as the detector's `states` says.

    Raises
    ------
    AssertionError or ValueError
        Says what is wrong.

    Examples
    --------
    >>> from dqucb import FiniteDriftDetector, check_detector
    >>> check_detector(FiniteDriftDetector(3, 2))
    """
    if not isinstance(detector, DriftDetector):
        raise ValueError(f"detector must be a dqucb.drift.DriftDetector, got {detector!r}")
    checked_detector(detector, "clone", "reset")
    stream = changing_stream(detector.states) if transitions is None else list(transitions)
    _check_parameters(detector)
    found, history = _check_stream(detector.clone(), stream)
    demand(found, f"a stream that changes must give an alarm, got none in {len(stream)} updates")
    _check_fresh_starts(detector, stream, history)
    _check_refusals(detector, stream)
    if hasattr(detector, "save"):
        _check_files(detector, stream, history)


def changing_stream(states: str, seed: int = 0) -> list[Transition]:
    """A stream in which next states and rewards all change at `CHANGE_AT`.

    Parameters
    ----------
    states : str
        The kind of states, as in `DriftDetector.states`.
    seed : int
        Everything is drawn from it.
    """
    rng = np.random.default_rng(seed)
    stream: list[Transition] = []
    if states == FINITE:
        state = 0
        for t in range(STEPS):
            action, changed = int(rng.integers(2)), int(t >= CHANGE_AT)
            next_state = (state + action + changed + int(rng.choice(3, p=[0.8, 0.1, 0.1]))) % 3
            stream.append((state, action, next_state, float(next_state == 2) - 3.0 * changed))
            state = next_state
        return stream
    place = np.zeros(2)
    for t in range(STEPS):
        force, changed = rng.normal(), t >= CHANGE_AT
        moved = (-0.5 if changed else 0.8) * place + (2.0 if changed else 0.3) * force + 0.1 * rng.normal(size=2)
        stream.append((place, np.array([force]), moved, float(moved.sum()) - 50.0 * changed))
        place = moved
    return stream


def _facts(detector: DriftDetector) -> tuple[Any, ...]:
    return tuple(getattr(detector, name) for name in FACTS)


def _check_parameters(detector: DriftDetector) -> None:
    twin = detector.clone()
    demand(type(twin) is type(detector), f"clone() must give a {detector.name}, got {twin!r}")
    demand(twin is not detector, "clone() must give another object")
    demand(repr(twin) == repr(detector), f"clone() must print alike, got {twin!r} for {detector!r}")
    for name, value in twin.get_params().items():
        demand(twin.set_params(**{name: value}) is twin, "set_params must return the detector itself")
    try:
        twin.clone(no_such_parameter=1)
    except ValueError:
        return
    raise AssertionError("clone() must refuse a parameter that does not exist")


def _check_stream(detector: DriftDetector, stream: list[Transition]) -> tuple[list[int], list[tuple[Any, ...]]]:
    """(updates of the alarms, what the detector said after each update)."""
    demand(detector.n_updates == 0, f"a clone must have seen nothing, got n_updates={detector.n_updates}")
    demand(not detector.drift_detected, "a clone must not give an alarm")
    found: list[int] = []
    history: list[tuple[Any, ...]] = []
    for t, transition in enumerate(stream):
        demand(detector.update(*transition) is detector, "update must return the detector itself")
        demand(detector.n_updates == t + 1, f"n_updates must be {t + 1}, got {detector.n_updates}")
        demand(isinstance(detector.drift_detected, bool), f"drift_detected must be a bool at update {t}")
        demand(math.isfinite(detector.statistic), f"statistic must be finite, got {detector.statistic} at update {t}")
        demand(0.0 <= detector.significance <= 1.0, f"significance must be in [0, 1], got {detector.significance}")
        if detector.drift_detected:
            demand(not detector.warming_up, "there must be no alarm in the burn-in")
            found.append(t)
            _check_alarm(detector, t)
        history.append(_facts(detector))
    return found, history


def _check_alarm(detector: DriftDetector, t: int) -> None:
    at, between = detector.changed_at, detector.changed_between
    if not isinstance(at, int):
        raise AssertionError(f"changed_at must be an int after an alarm, got {at!r}")
    demand(0 <= at <= t, f"changed_at must be in [0, {t}] after an alarm at update {t}, got {at}")
    if between is not None:
        demand(0 <= between[0] <= at <= between[1] <= t, f"changed_between must hold changed_at={at}, got {between}")
    probabilities = [suspect.probability for suspect in detector.suspects]
    demand(probabilities == sorted(probabilities, reverse=True), "suspects must begin with the most probable one")
    demand(all(0.0 <= p <= 1.0 for p in probabilities), f"probabilities must be in [0, 1], got {probabilities}")


def _check_fresh_starts(detector: DriftDetector, stream: list[Transition], history: list[tuple[Any, ...]]) -> None:
    twin = detector.clone()
    for transition in stream[:50]:
        twin.update(*transition)
    twin.reset()
    demand(_check_stream(twin, stream)[1] == history, "the same stream must give the same results after reset()")


def _check_refusals(detector: DriftDetector, stream: list[Transition]) -> None:
    """What is no transition is refused, and nothing is learned from it."""
    twin, other = detector.clone(), detector.clone()
    wrong = -1 if detector.states == FINITE else np.full(np.shape(np.atleast_1d(stream[0][2])), np.nan)
    refused = False
    for state, action, next_state, reward in stream[:200]:
        try:
            twin.clone().update(state, action, wrong, math.nan)
        except ValueError:
            refused = True
            before = _facts(twin)
            try:
                twin.update(state, action, wrong, math.nan)
            except ValueError:
                demand(_facts(twin) == before, "a transition that is refused must leave the detector as it was")
        twin.update(state, action, next_state, reward)
        other.update(state, action, next_state, reward)
    demand(refused, "a transition that is none (a state of -1, NaN) must raise a ValueError")
    demand(_facts(twin) == _facts(other), "a transition that is refused must leave the detector as it was")


def _check_files(detector: Any, stream: list[Transition], history: list[tuple[Any, ...]]) -> None:
    cut = CHANGE_AT if len(stream) == STEPS else len(stream) // 2
    stopped = detector.clone()
    for transition in stream[:cut]:
        stopped.update(*transition)
    with tempfile.TemporaryDirectory() as folder:
        loaded = type(detector).load(stopped.save(Path(folder) / "detector"))
    for going_on in (loaded, copy.deepcopy(stopped)):
        for t, transition in enumerate(stream[cut:], cut):
            demand(_facts(going_on.update(*transition)) == history[t], f"resuming must be bit-identical (update {t})")
