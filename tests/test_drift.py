"""Detectors of drift: what they find, what they refuse, and their naive twins."""

import copy

import numpy as np
import pytest
from drift_cases import alarms, both, moving_stream
from naive_drift import NaiveResiduals

import dqucb
from dqucb._kernels.drift_residuals import usual_range
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector
from dqucb.drift.continuous import LAG, MODEL_MEMORY, features


@both
def test_a_change_is_found_soon_and_dated(make, stream):
    for seed in range(3):
        detector = make()
        found = alarms(detector, stream(seed, 3_500, 3_000))
        assert len(found) == 1
        assert 3_000 <= found[0] < 3_300
        assert abs(detector.changed_at - 3_000) < 250
        assert detector.significance_at_alarm < 1e-6
        assert not detector.drift_detected  # the alarm belongs to one update


@both
def test_a_still_stream_gives_no_alarm(make, stream):
    for seed in range(3):
        detector = make()
        assert alarms(detector, stream(seed, 6_000)) == []
        assert detector.changed_at is None
        assert 0.0 <= detector.statistic < 1.0
        assert detector.n_updates == 6_000


@both
def test_more_false_alarms_are_accepted_when_asked_for(make, stream):
    assert len(alarms(make(false_alarms=0.02), stream(1, 6_000))) >= 2


def test_no_alarm_in_the_burn_in_and_a_new_one_after_each_alarm():
    detector = ContinuousDriftDetector(burn_in=1_500)
    found = alarms(detector, moving_stream(0, 1_500, 700))
    assert found == []
    assert detector.update(*moving_stream(0, 1)[0]).warming_up is False
    detector = ContinuousDriftDetector(burn_in=600)
    assert alarms(detector, moving_stream(0, 3_400, 3_000))
    assert detector.warming_up


def test_another_policy_is_no_change():
    rng = np.random.default_rng(0)
    finite, continuous = FiniteDriftDetector(3, 2), ContinuousDriftDetector(burn_in=600)
    state, place = 0, np.zeros(1)
    for t in range(5_000):
        action = int(rng.random() < (0.9 if t < 2_500 else 0.1))
        following = int(rng.random() < (0.3 if action else 0.8)) + state % 2
        assert not finite.update(state, action, following).drift_detected
        state = following
        force = rng.normal() + (0.0 if t < 2_500 else 1.5)
        moved = 0.9 * place + 0.2 * force - 0.02 * place**2 + 0.05 * rng.normal()
        assert not continuous.update(place, force, moved).drift_detected
        place = moved


def test_the_changed_coordinate_is_named():
    rng = np.random.default_rng(1)
    detector = ContinuousDriftDetector(burn_in=600)
    for t in range(3_000):
        state = rng.normal(size=3)
        following = 0.9 * state + 0.05 * rng.normal(size=3)
        following[1] += 0.4 * state[0] * (t >= 2_000)
        if detector.update(state, 0.0, following).drift_detected:
            assert t >= 2_000
            assert detector.coordinates.argmax() == 1
            assert detector.coordinates[1] > 0.8
            return
    pytest.fail("no alarm")


@pytest.mark.parametrize("seed", range(4))
def test_a_change_is_seen_through_noise_that_coordinates_have_in_common(seed):
    """Each coordinate by itself hides the change: it is a third of the noise, most of which all three share."""
    rng = np.random.default_rng(seed)
    detector, state = ContinuousDriftDetector(), np.zeros(3)
    for t in range(5_400):
        force = rng.normal()
        following = 0.8 * state + 0.2 * force + rng.normal() + 0.1 * rng.normal(size=3)
        following[1] += 0.3 * force * (t >= 5_000)
        if detector.update(state, force, following).drift_detected:
            assert t >= 5_000
            assert detector.coordinates[1] > 0.5
            return
        state = following
    pytest.fail("no alarm")


def test_the_reward_is_watched_on_request():
    rng = np.random.default_rng(0)
    deaf, finite = FiniteDriftDetector(2, 1), FiniteDriftDetector(2, 1, watch_reward=True)
    continuous = ContinuousDriftDetector(burn_in=600, watch_reward=True)
    found = [0, 0, 0]
    for t in range(3_000):
        x, state = rng.normal(), int(rng.integers(2))
        lucky = float(rng.random() < (0.2 if t < 2_500 else 0.8))
        found[0] += deaf.update(0, 0, state, lucky).drift_detected
        found[1] += finite.update(0, 0, state, lucky).drift_detected
        found[2] += continuous.update(x, 0.0, 0.5 * x + 0.1 * rng.normal(), x + (t >= 2_500)).drift_detected
    assert found == [0, 1, 1]
    with pytest.raises(ValueError, match=r"reward must be a .*number, got None"):
        finite.update(0, 0, 1)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        (([0.0, np.nan], [0.0], [0.0, 0.0]), "state must be finite, got nan at index 1"),
        (([0.0, 0.0], [np.inf], [0.0, 0.0]), "action must be finite"),
        (([0.0, 1e301], [0.0], [0.0, 0.0]), r"state must be in \[-1e\+300, 1e\+300\], got 1e\+301"),
        (([0.0, 0.0], [0.0], [0.0, -np.inf]), "next_state must be finite"),
        (([0.0], [0.0], [0.0, 0.0]), "state must have 2 numbers, got 1"),
        (([0.0, 0.0], [0.0, 1.0], [0.0, 0.0]), "action must have 1 numbers, got 2"),
        (([0.0, 0.0], [0.0], [0.0, 0.0, 0.0]), "next_state must have 2 numbers, got 3"),
        ((["a", "b"], [0.0], [0.0, 0.0]), "state must be"),
    ],
)
@pytest.mark.parametrize("updates", [10, 700])
def test_wrong_continuous_transitions_leave_the_detector_as_it_was(transition, message, updates):
    detector = ContinuousDriftDetector(burn_in=600)
    alarms(detector, moving_stream(0, updates))
    before = detector.state
    with pytest.raises(ValueError, match=message):
        detector.update(*transition)
    _same(before, detector.state)


def test_a_wrong_first_transition_fixes_nothing():
    detector = ContinuousDriftDetector(burn_in=600)
    with pytest.raises(ValueError, match="state must be finite"):
        detector.update([np.nan], 0.0, [0.0])
    with pytest.raises(ValueError, match="next_state must have 2 numbers"):
        detector.update([0.0, 1.0], 0.0, [0.0])
    assert detector.update([0.0], 0.0, [0.0]).n_updates == 1
    with pytest.raises(ValueError, match=r"action must be an integer in \[0, 1\], got 2"):
        ContinuousDriftDetector(n_actions=2).update([0.0], 2, [0.0])


def _same(before, after):
    assert before["settings"] == after["settings"]
    for name, array in before["arrays"].items():
        np.testing.assert_array_equal(after["arrays"][name], array)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"false_alarms": 0.0}, "false_alarms must be > 0 and <= 0.1, got 0.0"),
        ({"watch_reward": 1}, "watch_reward must be True or False, got 1"),
    ],
)
@both
def test_parameters_are_checked(make, stream, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_burn_in_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="burn_in must be an integer >= "):
        ContinuousDriftDetector(burn_in=3)


def test_numbers_of_any_kind_are_read_alike():
    transitions = moving_stream(4, 900)
    first, second = ContinuousDriftDetector(burn_in=600), ContinuousDriftDetector(burn_in=600)
    for state, action, following in transitions:
        first.update(state, action, following)
        second.update(state.tolist(), float(action[0]), tuple(following))
    _same(first.state, second.state)


@both
def test_reset_and_clone_begin_anew(make, stream):
    detector = make()
    alarms(detector, stream(0, 3_400, 3_000))
    twin = detector.clone()
    detector.reset()
    assert detector.n_updates == twin.n_updates == 0
    assert detector.changed_at is None
    assert alarms(detector, stream(0, 900)) == alarms(twin, stream(0, 900))
    _same(detector.state, twin.state)


@both
def test_copies_are_whole_and_independent(make, stream):
    detector = make()
    alarms(detector, stream(0, 900))
    twin = copy.deepcopy(detector)
    _same(detector.state, twin.state)
    before = detector.state
    alarms(twin, stream(1, 100))
    _same(before, detector.state)


def test_memory_does_not_grow():
    detector = ContinuousDriftDetector(burn_in=600)
    sizes = []
    for _ in range(3):
        alarms(detector, moving_stream(7, 1_200))
        sizes.append(sum(array.nbytes for array in detector.state["arrays"].values()))
    assert sizes[0] == sizes[1] == sizes[2]


def _salt(detector):
    return int(detector._tests.segments.state()["segments_salt"][0]) % 2**64


@pytest.mark.parametrize(("rate", "model_memory"), [(1e-6, MODEL_MEMORY), (1e-2, MODEL_MEMORY), (1e-6, 400)])
def test_continuous_tests_agree_with_their_naive_twin(rate, model_memory, monkeypatch):
    monkeypatch.setattr("dqucb.drift.continuous.MODEL_MEMORY", model_memory)
    transitions = moving_stream(12, 2_500, 2_000)
    for t in range(1_000, 2_000, 50):  # to places that are not known, and back
        state, force, following = transitions[t]
        transitions[t] = (state + 9.0, force, following + 9.0)
    for t in (20, 300, 1_100):  # wild values
        state, force, following = transitions[t]
        transitions[t] = (state + 1e3 * (t == 300), force, following + np.array([0.0, 1e4]))
    detector = ContinuousDriftDetector(false_alarms=rate, burn_in=400)
    naive = NaiveResiduals(*features(3), 400, rate, 0.03, LAG, model_memory)
    for t, transition in enumerate(transitions):
        comp = detector.update(*transition)
        ref = naive.update(*transition, t, _salt(detector))
        assert comp.drift_detected == bool(ref), t
        if ref:
            break
        if t % 100 == 0 and t > 400:
            level, expected = detector._tests.level, naive.segments.sums
            np.testing.assert_allclose(level[0], expected.level, rtol=1e-5, atol=1e-6)
            assert level[4:] == (expected.count, len(expected.independent()))
    else:
        pytest.fail("no alarm in either")


def linear_stream(seed, steps, change_at, kind, d=3):
    """A linear system with correlated noise, which changes in one way."""
    rng = np.random.default_rng(seed)
    A, root, out, state = 0.7 * np.eye(d), np.eye(d) + np.tril(np.full((d, d), 0.4), -1), [], np.zeros(d)
    A[0, -1] += 0.2
    for t in range(steps):
        changed, action = t >= change_at, rng.normal(size=1)
        noise = root @ rng.normal(size=d)
        if changed and kind in ("noise up", "noise down"):
            noise[1 % d] *= 2.0 if kind == "noise up" else 0.4
        elif changed and kind == "correlation":
            noise[1] = 1.08 * rng.normal()
        following = A @ state + 0.5 * action + noise + (changed and kind == "mean") + 10.0 * rng.normal() * (t == 700)
        if changed and kind == "coefficient":
            following[0] += 0.7 * state[1 % d]
        out.append((state, action, following))
        state = following
    return out


@pytest.mark.parametrize("d", [1, 3])
def test_segments_agree_with_their_naive_twin(d):
    transitions = linear_stream(1, 2_400, 2_000, "noise up", d)
    detector = ContinuousDriftDetector(burn_in=1_500)
    naive = NaiveResiduals(*features(d + 1), 1_500, 1e-6, 0.03, LAG, MODEL_MEMORY)
    largest = 0.0
    for t, transition in enumerate(transitions):
        comp = detector.update(*transition)
        ref = naive.update(*transition, t, _salt(detector))
        assert comp.drift_detected == bool(ref), t
        if ref:
            break
        if t % (10 if t > 2_000 else 100) == 0 and t > 1_500:
            found = detector._tests.segments.segments()
            expected = [(begun, naive.segments.mixed.get(first, -1e4), 8 << i)
                        for i, level in enumerate(naive.segments.levels) for first, begun in level]  # fmt: skip
            np.testing.assert_allclose(found, np.array(expected).reshape(-1, 3), rtol=1e-5, atol=1e-5)
            largest = max(largest, *found[:, 1])
    assert largest > 5.0


@pytest.mark.parametrize("kind", ["noise up", "noise down", "correlation", "mean", "coefficient"])
def test_changes_of_linear_systems_are_found_dated_and_named(kind):
    """None of the first three was found at all before; the changed coordinate or pair is named."""
    for seed in range(3):
        detector = ContinuousDriftDetector()
        found = alarms(detector, linear_stream(seed, 4_600, 4_000, kind))
        assert len(found) == 1
        assert 4_000 <= found[0] < 4_590
        assert detector.changed_between[0] <= 4_000 <= detector.changed_between[1] + 32
        assert detector.suspects[0].where in ((0,) if kind == "coefficient" else (1,) if "noise" in kind else (0, 1, 2))
        assert detector.suspects[0].probability > 0.34


def test_many_inputs_are_tested_too():
    """Of more than 32 numbers only the first are regressors, and pairs of coordinates are left out."""
    detector, rng = ContinuousDriftDetector(burn_in=1_000, false_alarms=1e-4), np.random.default_rng(0)
    for t in range(2_300):
        moved = rng.normal(size=40) * np.where(np.arange(40) == 35, 1.0 + 2.0 * (t >= 2_000), 1.0)
        if detector.update(np.zeros(40), rng.normal(size=3), moved).drift_detected:
            assert t >= 2_000
            assert detector.suspects[0].where == 35
            break
    else:
        pytest.fail("no alarm")
    assert ContinuousDriftDetector.from_state(detector.state).n_updates == detector.n_updates


@pytest.mark.parametrize("seed", range(4))
def test_what_begins_in_the_burn_in_is_no_alarm(seed):
    """A sum that ran on while the detector armed itself was met with a threshold that knew nothing of it."""
    detector = ContinuousDriftDetector(burn_in=2_000)
    assert alarms(detector, moving_stream(seed, 2_600, 1_850)) == []
    assert detector.statistic < 1.0


@pytest.mark.parametrize("size", [1e4, 1e300])
@pytest.mark.parametrize("times", [(100,), (40, 200, 1_000), (3_400,), (3_300, 3_600, 3_900)])
def test_wild_values_neither_blind_nor_ring(size, times):
    """A value of 1e4 in the burn-in hid every later change; a later one gave an alarm once the model had learned it."""
    transitions = moving_stream(2, 5_300, 5_000)
    for t in times:
        wild = transitions[t][2] * [1.0, 0.0] + [0.0, size * (-1) ** t]
        transitions[t] = (*transitions[t][:2], wild)
        transitions[t + 1] = (wild, *transitions[t + 1][1:])
    found = alarms(ContinuousDriftDetector(burn_in=2_000), transitions)
    assert len(found) == 1
    assert 5_000 <= found[0] < 5_250


@pytest.mark.parametrize(
    ("column", "center", "spread"),
    [
        (np.r_[np.tile([-1.0, 1.0], 50), 1e300], 0.0, 1.0),
        (np.r_[np.zeros(50), 1e300], 0.0, 1.0),
        (np.r_[np.zeros(196), np.full(4, 5.0)], 0.1, 0.7),
        (1e300 * np.tile([0.0, 0.5], 50), 0.25e300, 0.25e300),
    ],
)
def test_units_do_not_depend_on_wild_values(column, center, spread):
    found = usual_range(column)
    assert found[0] == pytest.approx(center)
    assert found[1] == pytest.approx(spread, rel=1e-2)


def test_what_the_model_forgets_stays_bounded():
    """Where nothing new comes, forgetting alone would let the matrices grow by a factor of e in each memory."""
    detector = ContinuousDriftDetector(burn_in=100)
    for _ in range(60_000):
        detector.update([1.0], 0.0, [1.5])
    arrays = detector.state["arrays"]
    assert max(np.abs(arrays["P"]).max(), np.abs(arrays["segments_Q"]).max()) < 2.0


@pytest.mark.parametrize(
    "detector",
    [
        FiniteDriftDetector(3, 2),
        FiniteDriftDetector(3, 2, watch_reward=True),
        ContinuousDriftDetector(),
        ContinuousDriftDetector(watch_reward=True),
    ],
)
def test_detectors_keep_the_contract(detector):
    dqucb.check_detector(detector)


class Forgetful(dqucb.FiniteDriftDetector):
    """Counts an update that it refuses."""

    def update(self, state, action, next_state, reward=None):
        self.n_updates += next_state < 0
        return super().update(state, action, next_state, reward)


class Deaf(dqucb.FiniteDriftDetector):
    """Never gives an alarm."""

    def _ring(self, number):
        self._tests = self._sized([])


def test_a_detector_that_breaks_the_contract_is_found_out():
    with pytest.raises(AssertionError, match="must leave the detector as it was"):
        dqucb.check_detector(Forgetful(3, 2))
    with pytest.raises(AssertionError, match="must give an alarm"):
        dqucb.check_detector(Deaf(3, 2))
    with pytest.raises(ValueError, match=r"must be a dqucb\.drift\.DriftDetector, got 3"):
        dqucb.check_detector(3)
    with pytest.raises(TypeError, match="abstract"):
        dqucb.drift.DriftDetector()


def test_detectors_are_found_by_name():
    assert {"continuous", "finite", "river"} <= set(dqucb.DETECTORS)
    assert dqucb.DETECTORS.find("finite") is FiniteDriftDetector
    with pytest.raises(ValueError, match="did you mean finite"):
        dqucb.DETECTORS.find("fnite")
