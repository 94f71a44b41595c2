"""Saved drift detectors: they go on with the same bits, and hostile files are refused or harmless."""

import resource

import numpy as np
import pytest
from drift_cases import alarms, both

from dqucb import SavedFileError, _storage
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector


@both
@pytest.mark.parametrize("cut", [50, 900, 3_100])
def test_a_saved_detector_goes_on_with_the_same_bits(make, stream, cut, tmp_path):
    transitions = stream(5, 3_600, 3_000)
    whole, parted = make(), make()
    expected = alarms(whole, transitions)
    before = alarms(parted, transitions[:cut])
    parted.save(tmp_path / "detector")
    loaded = type(parted).load(tmp_path / "detector")
    after = [cut + t for t in alarms(loaded, transitions[cut:])]
    assert before + after == expected
    for name, array in whole.state["arrays"].items():
        np.testing.assert_array_equal(loaded.state["arrays"][name], array)
    assert loaded.state["settings"] == whole.state["settings"]
    assert loaded.statistic == whole.statistic


@both
def test_a_file_that_is_no_detector_is_refused(make, stream, tmp_path):
    path = tmp_path / "detector"
    with pytest.raises(SavedFileError):
        type(make()).load(path)
    make().save(path)
    other = ContinuousDriftDetector if type(make()) is FiniteDriftDetector else FiniteDriftDetector
    with pytest.raises(SavedFileError):
        other.load(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SavedFileError):
        type(make()).load(path)


def test_state_with_arrays_of_other_sizes_is_refused():
    detector = FiniteDriftDetector(4, 2)
    state = detector.state
    state["arrays"]["pairs"] = state["arrays"]["pairs"][:-1]
    with pytest.raises(ValueError, match="pairs must"):
        FiniteDriftDetector.from_state(state)


def run_for(detector, updates=400):
    rng = np.random.default_rng(5)
    for _ in range(updates):
        if isinstance(detector, FiniteDriftDetector):
            detector.update(int(rng.integers(4)), int(rng.integers(2)), int(rng.integers(4)))
        else:
            detector.update(rng.standard_normal(2), rng.standard_normal(1), rng.standard_normal(2))


def used_detectors():
    made = [FiniteDriftDetector(4, 2), ContinuousDriftDetector(burn_in=100)]
    for detector in made:
        run_for(detector)
    return made


@pytest.mark.parametrize("which", [0, 1], ids=["finite", "continuous"])
def test_any_array_of_a_hostile_file_is_refused_or_harmless(which, tmp_path):
    """Every array with every absurd value at every kind of place: an error of ours, or a detector that runs."""
    detector = used_detectors()[which]
    rng = np.random.default_rng(0)
    absurd = {"i": [-1, 2**31 - 1, -(2**31), 15, 2**62], "f": [np.nan, np.inf, -np.inf, -1.0, 1e308, 0.0]}
    refused = 0
    for name, good in detector.state["arrays"].items():
        for value in absurd[good.dtype.kind]:
            if good.dtype.kind == "i" and not np.iinfo(good.dtype).min <= value <= np.iinfo(good.dtype).max:
                continue
            for place in rng.integers(good.size, size=6) if good.size else ():
                state = detector.state
                state["arrays"][name] = good.copy()
                state["arrays"][name].ravel()[place] = value
                path = tmp_path / "file"
                _storage.save(path, detector.kind, state["settings"], **state["arrays"])
                try:
                    loaded = type(detector).load(path)
                except SavedFileError:
                    refused += 1
                else:
                    run_for(loaded, 30)
    assert refused > 100


def set_visits(arrays, visits):
    """As if the first outcome of the first pair had been seen so often."""
    arrays["outcomes"][0, 1] = visits
    arrays["pairs"][0, [0, 2]] = visits, float(visits) ** 2


@pytest.mark.parametrize("visits", [2**28, 2**31 - 5, 2**32 - 5, 2**40])
def test_a_pair_may_be_visited_for_years(visits, tmp_path):
    """Counts have 64 bits, and those of a window are at most half of them."""
    detector = FiniteDriftDetector(1, 1)
    ones = np.zeros(1_000, np.int64)
    detector.update_many(ones, ones, ones)
    state = detector.state
    set_visits(state["arrays"], visits)
    _storage.save(tmp_path / "file", detector.kind, state["settings"], **state["arrays"])
    detector = FiniteDriftDetector.load(tmp_path / "file")
    assert detector.update_many(ones, ones, ones) == len(ones)
    loaded = FiniteDriftDetector.load(detector.save(tmp_path / "again"))
    for each in (detector, loaded):
        assert each.state["arrays"]["outcomes"][0, 1] == visits + len(ones)
        assert np.isfinite(each.statistic)
        assert not each.update(0, 0, 0).drift_detected
    assert detector.statistic == loaded.statistic


@pytest.mark.parametrize("changes", [
    {"n_states": 2**30}, {"n_actions": 2**30}, {"burn_in": 10**12}, {"memory": 2**70}, {"n_states": "4"},
    {"watch_reward": 3},
])  # fmt: skip
@pytest.mark.parametrize("which", [0, 1], ids=["finite", "continuous"])
def test_sizes_in_a_file_take_no_memory_that_the_file_has_not(which, changes, tmp_path):
    detector = used_detectors()[which]
    for shape in (None, [], [10**6, 10**6], [-1, 2], "shape", [2, 1]):
        state = detector.state
        state["settings"]["parameters"] = {**state["settings"]["parameters"], **changes}
        state["settings"]["shape"] = shape
        _storage.save(tmp_path / "file", detector.kind, state["settings"], **state["arrays"])
        began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            type(detector).load(tmp_path / "file")
        except SavedFileError:
            pass
        else:  # a parameter that changes no size
            assert "burn_in" in changes or "memory" in changes
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began < 100_000  # kilobytes


@pytest.mark.parametrize(
    "name",
    ["n_updates", "drift_detected", "changed_at", "changed_between", "significance_at_alarm", "test", "suspects"],
)
def test_settings_of_a_hostile_file_are_checked(name):
    for detector in used_detectors():
        state = detector.state
        state["settings"][name] = {"any": "thing"}
        with pytest.raises(ValueError, match=name):
            type(detector).from_state(state)
