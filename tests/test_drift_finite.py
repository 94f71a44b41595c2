"""The finite drift detector: what it finds, when, where, at which rate of false alarms; and its naive twin."""

import itertools
import math

import numpy as np
import pytest
from drift_cases import alarms, finite_stream
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_betting import FLAT, NOVEL, SHARP, Bag, NaiveDetector

from dqucb.drift import FiniteDriftDetector


def slipping(seed, steps, change_at=None):
    """Uniform pairs of 16 states and 4 actions; every move slips with 0.2, and with 0.26 after the change."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(16, size=steps), rng.integers(4, size=steps)
    slip = np.where(np.arange(steps) < (steps if change_at is None else change_at), 0.2, 0.26)
    return states, actions, (states + actions + (rng.random(steps) < slip) * rng.integers(1, 3, steps)) % 16


def dense(seed, steps, states=50, actions=4):
    """Rows drawn from a flat Dirichlet distribution, of which most outcomes are rare."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), size=states * actions).cumsum(axis=1)
    rows = rng.integers(states * actions, size=steps)
    following = (rng.random(steps)[:, None] > P[rows]).sum(axis=1).clip(max=states - 1)
    return rows // actions, rows % actions, following


def many_pairs(seed, steps):
    """3,000 pairs with three outcomes each, of which few are met twice while a stream is young."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1_000, size=(1_000, 3, 3))
    states, actions = rng.integers(1_000, size=steps), rng.integers(3, size=steps)
    return states, actions, rows[states, actions, (rng.random(steps) < 0.4).astype(int) + (rng.random(steps) < 0.2)]


def long_tails(seed, steps):
    """20 pairs with 200 outcomes each."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, 201.0) ** -1.5
    states = rng.integers(20, size=steps)
    return states, np.zeros_like(states), (states + rng.choice(200, steps, p=weights / weights.sum())) % 200


@pytest.mark.parametrize("seed", range(4))
def test_a_small_change_of_all_pairs_is_found_dated_and_blamed_on_all(seed):
    detector = FiniteDriftDetector(16, 4)
    assert 8_000 <= detector.update_many(*slipping(seed, 16_000, 8_000)) < 11_000
    assert detector.drift_detected
    assert detector.test == "pooled"
    first, last = detector.changed_between
    assert first <= detector.changed_at <= last
    assert first - 600 <= 8_000 <= last + 600
    assert detector.significance <= 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_the_pair_that_changed_is_named(seed):
    rng = np.random.default_rng(seed)
    detector = FiniteDriftDetector(10, 2)
    P = rng.dirichlet(np.ones(4), size=(10, 2))
    for t in range(20_000):
        state, action = int(rng.integers(10)), int(rng.integers(2))
        p = P[state, action] if (state, action) != (3, 1) or t < 12_000 else np.roll(P[3, 1], 1)
        if detector.update(state, action, int(rng.choice(4, p=p))).drift_detected:
            assert t >= 12_000
            assert detector.suspects[0].where == (3, 1)
            assert detector.suspects[0].probability > 0.99
            assert sum(suspect.probability > 0.9 for suspect in detector.suspects) == 1
            return
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


def visits_for_a_new_outcome(updates, visits, rate):
    """Those that the bet "flat" with eta = 1/2 needs alone: the sum of starts is `updates` / 11 when it begins."""
    total, needed = updates / 11, 0
    while total < 2.0 / rate:
        needed += 1
        total *= 0.5 + 0.5 * (visits + needed) / (2 * needed)
    return needed


@pytest.mark.parametrize("pairs", [4, 40, 200])
@pytest.mark.parametrize("visits", [100, 300, 1_000])
def test_a_new_outcome_of_a_noiseless_pair_is_found_after_as_many_visits_as_the_formula_says(pairs, visits):
    detector = FiniteDriftDetector(pairs, 1)
    rows = np.tile(np.arange(pairs), visits)
    assert detector.update_many(rows, np.zeros_like(rows), (rows + 1) % pairs) == rows.size
    most = visits_for_a_new_outcome(rows.size, visits, 1e-6)
    assert (pairs, visits, most) not in {(40, 300, 3), (200, 300, 3)}
    found = [detector.update(0, 0, 2).drift_detected for _ in range(most)].index(True) + 1
    assert most - 1 <= found <= most
    assert detector.changed_between[0] <= rows.size <= detector.changed_between[1]


def test_waiting_is_no_evidence():
    """Without noise all bets are 1 and the sum of starts alone exceeds 2 / rate after so many updates."""
    detector = FiniteDriftDetector(5, 1, false_alarms=1e-3)
    rows = np.arange(100_000) % 5
    assert detector.update_many(rows, np.zeros_like(rows), (rows + 1) % 5) == rows.size
    assert detector.statistic < 1e-6
    assert max(detector._tests.sums) > 2_000


def test_a_changed_pair_of_a_noiseless_grid_is_found():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = rng.integers(200, size=60_000)
        following = (rows + 1) % 50
        following[(rows == 17) & (np.arange(60_000) >= 40_000)] = 9
        detector = FiniteDriftDetector(50, 4)
        used = detector.update_many(rows // 4, rows % 4, following)
        assert 40_000 < used < 42_000
        assert detector.suspects[0].where == (4, 1)


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


@pytest.mark.parametrize(
    ("sizes", "stream", "rate", "steps"),
    [
        ((16, 4), slipping, 1e-3, 200_000),
        ((16, 4), slipping, 1e-5, 4_000_000),
        ((50, 4), dense, 1e-4, 1_000_000),
        ((1_000, 3), many_pairs, 1e-3, 1_000_000),
        ((200, 1), long_tails, 1e-4, 600_000),
    ],
)
def test_false_alarms_are_no_more_frequent_than_asked_for(sizes, stream, rate, steps):
    """At most one and a half times the rate, and three standard errors for chance; half of the streams begin anew."""
    found = 0
    for seed in range(steps // 40_000):
        columns = stream(10_000 + seed, 40_000)
        detector, done = FiniteDriftDetector(*sizes, false_alarms=rate), 0
        while done < 40_000:
            done += detector.update_many(*(column[done:] for column in columns))
            found += detector.drift_detected
    asked = 1.5 * rate * steps
    assert found < asked + 3.0 * np.sqrt(asked)


def rewarded(seed, steps, change_at, after):
    """Uniform moves between five states; state 4 pays 1, and `after(rng)` from the change on."""
    rng = np.random.default_rng(seed)
    states = rng.integers(5, size=steps)
    following = (states + rng.integers(1, 3, size=steps)) % 5
    pay = [1.0 if t < change_at else after(rng) for t in range(steps)]
    rewards = np.where(following == 4, pay, 0.0)
    return states, np.zeros_like(states), following, rewards


@pytest.mark.parametrize(
    ("after", "most"),
    [(lambda rng: 0.0, 40), (lambda rng: float(rng.random() < 0.5), 80), (lambda rng: 0.95, 40)],
    ids=["vanishes", "becomes a coin", "is a little less"],
)
def test_a_reward_that_changes_is_found(after, most):
    for seed in range(5):
        columns = rewarded(seed, 3_000, 2_000, after)
        assert FiniteDriftDetector(5, 1).update_many(*columns[:3]) == 3_000
        detector = FiniteDriftDetector(5, 1, watch_reward=True)
        assert 2_000 <= detector.update_many(*columns) < 2_000 + most


def test_rewards_that_never_repeat_are_put_into_classes():
    rng = np.random.default_rng(0)
    detector = FiniteDriftDetector(2, 1, watch_reward=True)
    sizes, found = [], []
    for t in range(60_000):
        if detector.update(0, 0, int(rng.integers(2)), rng.normal(3.0 * (t >= 50_000))).drift_detected:
            found.append(t)
        if t in (20_000, 49_000):
            sizes.append(detector.nbytes)
    assert sizes[1] <= 2 * sizes[0] < 2**21
    assert 50_000 <= found[0] < 50_100
    assert len(found) == 1


def test_a_world_that_returns_is_recognised():
    rng = np.random.default_rng(1)
    worlds = rng.dirichlet(np.full(4, 0.5), size=(3, 6, 2)).cumsum(axis=-1)
    order, length = [0, 1, 0, 2, 1, 0, 2], 3_000
    detector = FiniteDriftDetector(6, 2)
    said = []
    for world in order:
        for _ in range(length):
            state, action = int(rng.integers(6)), int(rng.integers(2))
            outcome = int((rng.random() > worlds[world, state, action, :3]).sum())
            detector.update(state, action, outcome)
        said.append(detector.looks_like)
    assert said == [None, None, 0, None, 1, 0, 2]


def test_a_change_back_is_not_taken_for_the_world_just_left():
    detector = FiniteDriftDetector(4, 2)
    alarms(detector, finite_stream(0, 4_000, 3_000))
    assert detector.looks_like is None


def test_the_interval_holds_the_change_on_nine_of_ten_alarms():
    rng = np.random.default_rng(77)
    held = found = 0
    for _ in range(150):
        states, actions = int(rng.integers(3, 12)), int(rng.integers(1, 4))
        P = rng.dirichlet(np.ones(states), size=states * actions)
        other = rng.dirichlet(np.ones(states), size=states * actions)
        share = rng.uniform(0.2, 1.0)
        changed = rng.random(states * actions) < rng.choice([0.2, 1.0])
        after = np.where(changed[:, None], (1.0 - share) * P + share * other, P)
        change_at = int(rng.integers(200, 1_000)) * states * actions
        rows = rng.integers(states * actions, size=change_at + 20_000)
        tables = np.where(np.arange(rows.size)[:, None] < change_at, P.cumsum(1)[rows], after.cumsum(1)[rows])
        following = (rng.random(rows.size)[:, None] > tables).sum(axis=1).clip(max=states - 1)
        detector = FiniteDriftDetector(states, actions)
        used = detector.update_many(rows // actions, rows % actions, following)
        if detector.drift_detected and used > change_at:
            first, last = detector.changed_between
            held += first <= change_at <= last
            found += 1
    assert found > 100
    assert held >= 0.9 * found - 2.0 * np.sqrt(0.09 * found)


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


@pytest.mark.parametrize("values", [2, 60, 100])
def test_many_rewards_at_once_equal_single_ones(values):
    """With 100 values the 65th puts rewards into classes, in the middle of what is given at once."""
    rng = np.random.default_rng(values)
    s, a, following = rng.integers(0, 3, (3, 1_500))
    rewards = rng.integers(0, values, 1_500) / 7.0
    rewards[1_200:] = 0.0
    single, many = (FiniteDriftDetector(3, 3, watch_reward=True, false_alarms=1e-3) for _ in range(2))
    found = alarms(single, list(zip(s.tolist(), a.tolist(), following.tolist(), rewards.tolist(), strict=True)))
    done, together = 0, []
    while done < 1_500:
        done += many.update_many(*(column[done : done + 400] for column in (s, a, following, rewards)))
        if many.drift_detected:
            together.append(done - 1)
    assert together == found != []
    for name, array in single.state["arrays"].items():
        np.testing.assert_array_equal(many.state["arrays"][name], array)


def test_integers_of_any_size_and_type_are_taken_or_refused_alike():
    plain, other = FiniteDriftDetector(3, 2), FiniteDriftDetector(3, 2)
    for t in range(200):
        plain.update(t % 3, t % 2, 1)
        other.update(np.int32(t % 3), np.uint8(t % 2), True)
    np.testing.assert_array_equal(plain.state["arrays"]["outcomes"], other.state["arrays"]["outcomes"])
    for wrong in (2**70, -(2**70), 3, -1):
        with pytest.raises(ValueError, match=r"next_state must be an integer in \[0, 2\]"):
            plain.update(0, 0, wrong)
    assert plain.n_updates == 200


def test_memory_grows_with_outcomes_alone():
    detector = FiniteDriftDetector(16, 4, false_alarms=1e-12)
    sizes = []
    for part in range(4):
        detector.update_many(*slipping(part, 200_000))
        sizes.append(detector.nbytes)
    assert sizes[0] == sizes[-1] < 2**18


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
def test_wrong_transitions_leave_the_detector_as_it_was(transition, message):
    detector = FiniteDriftDetector(4, 2)
    alarms(detector, finite_stream(0, 300))
    before = detector.state
    with pytest.raises(ValueError, match=message):
        detector.update(*transition)
    for name, array in before["arrays"].items():
        np.testing.assert_array_equal(detector.state["arrays"][name], array)
    assert before["settings"] == detector.state["settings"]


# ---- what the formulas promise, and the twin ------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_products_of_fixed_bets_have_mean_1_over_all_orders_of_a_bag(outcomes):
    """The proof by backward induction, checked by counting: from any start, over all orders, whatever is in the bag."""
    orders = list(itertools.permutations(outcomes))
    for start in range(len(outcomes)):
        totals = np.zeros(len(FLAT) + len(SHARP) + len(NOVEL))
        for order in orders:
            bag, product = Bag(), np.ones_like(totals)
            for t, outcome in enumerate(order):
                bag.seen.append(outcome)
                if t >= start:
                    product *= bag.fixed_factors(outcome)
            totals += product
        np.testing.assert_allclose(totals / len(orders), 1.0, rtol=1e-9)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40), st.floats(0.0, 0.9), st.floats(0.1, 20.0))
@settings(max_examples=60, deadline=None)
def test_a_learned_bet_towards_the_bag_has_mean_1_at_most_given_bag_and_window(outcomes, share, prior):
    """With b = 0: given the bag and the window, y is uniform on what is left of the bag."""
    m = int(share * (len(outcomes) - 1))
    window, rest = outcomes[:m], outcomes[m:]
    n = len(outcomes)
    mean = 0.0
    for y in set(rest):
        factor = (window.count(y) * n / outcomes.count(y) + prior) / (m + prior)
        mean += rest.count(y) / len(rest) * factor
    assert mean <= 1.0 + 1e-12


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.5]),
       st.sampled_from([1e-6, 1e-3, 0.05]))  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_the_detector_is_its_naive_twin(seed, states, actions, noise, rate):
    rng = np.random.default_rng(seed)
    detector, twin = FiniteDriftDetector(states, actions, false_alarms=rate), NaiveDetector(rate)
    for t in range(250):
        state, action = int(rng.integers(states)), int(rng.integers(actions))
        outcome = int(rng.integers(states)) if rng.random() < noise else (state + action + (t > 150)) % states
        ref = twin.update(state, action, outcome)
        comp = detector.update(state, action, outcome)
        assert comp.drift_detected == bool(ref), t
        pair, pooled = detector._tests.sums
        assert math.isclose(pooled, sum(twin.bets.sums), rel_tol=1e-9)
        assert pair <= twin.largest_pair_sum() * (1.0 + 1e-9)
        if ref:
            assert comp.test == ("pooled" if "pooled" in ref else "pair")
            twin = NaiveDetector(rate)


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(20, 60))
@settings(max_examples=15, deadline=None)
def test_a_change_is_dated_as_the_naive_twin_does(seed, states, steps):
    rng = np.random.default_rng(seed)
    detector, twin = FiniteDriftDetector(states, 2), NaiveDetector(1e-6)
    for t in range(steps):
        state, action = int(rng.integers(states)), int(rng.integers(2))
        outcome = int(rng.integers(states)) if t < steps // 2 else 0
        twin.update(state, action, outcome)
        detector.update(state, action, outcome)
    scores = detector._tests._taken_back(steps)[0]
    np.testing.assert_allclose(scores, twin.log_posterior(), rtol=1e-7, atol=1e-9)
