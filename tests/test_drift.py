"""Detectors of drift: what they find, what they refuse, and their naive twins."""

import copy

import numpy as np
import pytest
from drift_cases import alarms, both, finite_stream, moving_stream
from naive_drift import NaivePairs, NaiveResiduals

import dqucb
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector
from dqucb.drift.continuous import ALLOWANCE, LAG, MODEL_MEMORY, RIDGE, features


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


@both
def test_no_alarm_in_the_burn_in_and_a_new_one_after_each_alarm(make, stream):
    detector = make(burn_in=1_500)
    found = alarms(detector, stream(0, 1_500, 700))
    assert found == []
    assert detector.update(*stream(0, 1)[0]).warming_up is False
    detector = make()
    transitions = stream(0, 3_400, 3_000)
    assert alarms(detector, transitions)
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
            assert detector.test == "structure"
            assert detector.coordinates[1] > 0.5
            return
        state = following
    pytest.fail("no alarm")


def test_a_change_of_many_rare_pairs_is_found():
    rng = np.random.default_rng(2)
    before, after = rng.integers(0, 500, (2, 500, 2))
    detector = FiniteDriftDetector(500, 2)
    state = 0
    for t in range(12_000):
        action = int(rng.integers(2))
        moved = rng.random() < 0.3 and t >= 10_000
        following = int(rng.integers(500)) if rng.random() < 0.1 else int((after if moved else before)[state, action])
        if detector.update(state, action, following).drift_detected:
            assert 10_000 <= t < 10_400
            return
        state = following if rng.random() < 0.9 else int(rng.integers(500))
    pytest.fail("no alarm")


def slipping(seed, steps, change_at=None):
    """Uniform pairs of 16 states and 4 actions; every move slips with 0.2, and with 0.26 after the change."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(16, size=steps), rng.integers(4, size=steps)
    slip = np.where(np.arange(steps) < (steps if change_at is None else change_at), 0.2, 0.26)
    return states, actions, (states + actions + (rng.random(steps) < slip) * rng.integers(1, 3, steps)) % 16


@pytest.mark.parametrize("seed", range(4))
def test_a_small_change_of_all_pairs_is_found(seed):
    detector = FiniteDriftDetector(16, 4)
    assert 8_000 <= detector.update_many(*slipping(seed, 16_000, 8_000)) < 11_000
    assert detector.drift_detected
    assert detector.test == "pooled"


def slippery_stream(seed, steps, change_at):
    """Moves by a coin on a ring of 8 states; after the change one in ten goes where none went before."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(8, size=steps), rng.integers(2, size=steps)
    slips = (np.arange(steps) >= change_at) & (rng.random(steps) < 0.1)
    following = (states + actions + np.where(slips, rng.integers(2, 8, steps), rng.integers(2, size=steps))) % 8
    return list(zip(states.tolist(), actions.tolist(), following.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_outcomes_never_seen_before_are_an_alarm_after_a_few(seed):
    transitions = slippery_stream(seed, 6_000, 5_000)
    detector = FiniteDriftDetector(8, 2)
    (found, *_) = alarms(detector, transitions)
    new = [t for t, (s, a, following) in enumerate(transitions) if (following - s - a) % 8 > 1]
    assert new.index(found) <= 3
    assert detector.test == "novelty"
    assert detector.changed_at in new


def test_new_pairs_and_rare_outcomes_are_no_novelty():
    """A policy that goes on to new pairs; laws with long tails, of which something new is always left."""
    rng = np.random.default_rng(0)
    pairs, rare = FiniteDriftDetector(300, 1), FiniteDriftDetector(40, 1)
    places = (np.arange(40_000) // 200 + rng.integers(20, size=40_000)) % 300
    moved = (places + (rng.random(40_000) < 0.1) * rng.integers(1, 3, 40_000)) % 300
    assert pairs.update_many(places, np.zeros_like(places), moved) == 40_000
    weights = np.arange(1.0, 13.0) ** -4
    states = rng.integers(40, size=20_000)
    jumps = rng.choice(12, 20_000, p=weights / weights.sum())
    assert rare.update_many(states, np.zeros_like(states), (states + jumps) % 40) == 20_000


def many_pairs(seed, steps):
    """3,000 pairs with three outcomes each, of which few are met twice while a stream is young."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1_000, size=(1_000, 3, 3))
    states, actions = rng.integers(1_000, size=steps), rng.integers(3, size=steps)
    return states, actions, rows[states, actions, (rng.random(steps) < 0.4).astype(int) + (rng.random(steps) < 0.2)]


def long_tails(seed, steps):
    """20 pairs with 200 outcomes each, more than are counted apart."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, 201.0) ** -1.5
    states = rng.integers(20, size=steps)
    return states, np.zeros_like(states), (states + rng.choice(200, steps, p=weights / weights.sum())) % 200


@pytest.mark.parametrize(
    ("sizes", "stream", "rate", "steps"),
    [
        ((16, 4), slipping, 1e-3, 100_000),
        ((16, 4), slipping, 1e-4, 500_000),
        ((16, 4), slipping, 1e-5, 4_000_000),
        ((1_000, 3), many_pairs, 1e-3, 2_000_000),
        ((200, 1), long_tails, 1e-4, 600_000),
    ],
)
def test_false_alarms_of_the_finite_detector_are_as_frequent_as_asked_for(sizes, stream, rate, steps):
    """A factor of two, and three standard errors for chance; streams begin anew, since young ones are the hardest."""
    found = armed = 0
    for seed in range(steps // 20_000):
        columns = stream(10_000 + seed, 20_000)
        detector, done = FiniteDriftDetector(*sizes, false_alarms=rate), 0
        while done < 20_000:
            used = detector.update_many(*(column[done:] for column in columns))
            found += detector.drift_detected
            armed += max(0, used - 1_000)
            done += used
    asked = rate * armed
    assert asked / 2.0 - 3.0 * np.sqrt(asked / 2.0) < found < 2.0 * asked + 3.0 * np.sqrt(2.0 * asked)


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


def test_many_updates_at_once_equal_single_ones():
    transitions = finite_stream(3, 4_000, 3_000)
    single, many = FiniteDriftDetector(4, 2), FiniteDriftDetector(4, 2)
    found = alarms(single, transitions)
    columns = [np.array(column) for column in zip(*transitions, strict=True)]
    done, together = 0, []
    while done < 4_000:
        done += many.update_many(*(column[done : done + 700] for column in columns))
        if many.drift_detected:
            together.append(done - 1)
    assert together == found != []
    assert many.n_updates == single.n_updates
    for name, array in single.state["arrays"].items():
        np.testing.assert_array_equal(many.state["arrays"][name], array)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ((4, 0, 0), r"state must be an integer in \[0, 3\], got 4"),
        ((-1, 0, 0), r"state must be an integer in \[0, 3\], got -1"),
        ((0, 2, 0), r"action must be an integer in \[0, 1\], got 2"),
        ((0, 0, 2**70), r"next_state must be an integer in \[0, 3\]"),
        ((0.5, 0, 0), r"state must be an integer in \[0, 3\], got 0.5"),
        ((np.nan, 0, 0), "state must be an integer"),
        (("a", 0, 0), "state must be an integer"),
    ],
)
def test_wrong_finite_transitions_leave_the_detector_as_it_was(transition, message):
    detector = FiniteDriftDetector(4, 2)
    alarms(detector, finite_stream(0, 300))
    before = detector.state
    with pytest.raises(ValueError, match=message):
        detector.update(*transition)
    _same(before, detector.state)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        (([0.0, np.nan], [0.0], [0.0, 0.0]), "state must be finite, got nan at index 1"),
        (([0.0, 0.0], [np.inf], [0.0, 0.0]), "action must be finite"),
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
        ({"burn_in": 3}, "burn_in must be an integer >= "),
        ({"watch_reward": 1}, "watch_reward must be True or False, got 1"),
    ],
)
@both
def test_parameters_are_checked(make, stream, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


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


@both
def test_memory_does_not_grow(make, stream):
    detector = make()
    sizes = []
    for _ in range(3):
        alarms(detector, stream(7, 1_200))
        sizes.append(sum(array.nbytes for array in detector.state["arrays"].values()))
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize(("rate", "stream"), [(1e-6, finite_stream), (1e-2, finite_stream), (1e-6, slippery_stream)])
def test_finite_tests_agree_with_their_naive_twin(rate, stream):
    transitions = stream(11, 2_500, 2_000)
    detector, naive = FiniteDriftDetector(8, 2, false_alarms=rate, burn_in=300), NaivePairs(300, rate)
    for t, transition in enumerate(transitions):
        ref = naive.update(*transition, t)
        comp = detector.update(*transition)
        assert comp.drift_detected == bool(ref), t
        if ref:
            assert comp.test == FiniteDriftDetector.tests[ref - 1]
            break
        if t % 100 == 0:
            levels = detector._tests.levels
            np.testing.assert_allclose(levels[1][0], naive.pooled.level, rtol=1e-9, atol=1e-9)
            assert levels[1][3] == naive.since
            assert levels[1][5] == len(naive.pooled.maxima)
            assert levels[0][4:] == (naive.pool.count, len(naive.pool.maxima))
            np.testing.assert_allclose(levels[2][0], naive.novelty.level, rtol=1e-9, atol=1e-9)
    else:
        pytest.fail("no alarm in either")


@pytest.mark.parametrize(("rate", "model_memory"), [(1e-6, MODEL_MEMORY), (1e-2, MODEL_MEMORY), (1e-6, 400)])
def test_continuous_tests_agree_with_their_naive_twin(rate, model_memory, monkeypatch):
    monkeypatch.setattr("dqucb.drift.continuous.MODEL_MEMORY", model_memory)
    transitions = moving_stream(12, 2_500, 2_000)
    for t in range(1_000, 2_000, 50):  # to places that are not known, and back
        state, force, following = transitions[t]
        transitions[t] = (state + 9.0, force, following + 9.0)
    detector = ContinuousDriftDetector(false_alarms=rate, burn_in=400)
    naive = NaiveResiduals(*features(3), 400, rate, 0.03, 300, ALLOWANCE, RIDGE, LAG, model_memory)
    for t, transition in enumerate(transitions):
        ref = naive.update(*transition, t)
        comp = detector.update(*transition)
        assert comp.drift_detected == bool(ref), t
        if ref:
            assert comp.test == ("surprise", "structure")[ref - 1]
            break
        if t % 100 == 0 and t > 400:
            for level, sums in zip(detector._tests.levels, naive.sums, strict=True):
                np.testing.assert_allclose(level[0], sums.level, rtol=1e-5, atol=1e-6)
                assert level[4:] == (sums.count, len(sums.independent()))
    else:
        pytest.fail("no alarm in either")


@pytest.mark.parametrize("seed", range(4))
def test_what_begins_in_the_burn_in_is_no_alarm(seed):
    """A sum that ran on while the detector armed itself was met with a threshold that knew nothing of it."""
    detector = ContinuousDriftDetector(burn_in=2_000)
    assert alarms(detector, moving_stream(seed, 2_600, 1_850)) == []
    assert detector.statistic < 1.0


def test_what_the_model_forgets_stays_bounded():
    """Where nothing new comes, forgetting alone would let the matrices grow by a factor of e in each memory."""
    detector = ContinuousDriftDetector(burn_in=100)
    for _ in range(60_000):
        detector.update([1.0], 0.0, [1.5])
    arrays = detector.state["arrays"]
    assert max(np.abs(arrays["P"]).max(), np.abs(arrays["Q"]).max()) < 2.0


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
        pass


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
