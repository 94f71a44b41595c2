"""The conditional likelihood over real vectors: exact (TransitionKDE) and by Fourier features."""

import copy
import pickle

import naive_density as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KernelDensity

from dqucb._kernels.profiles import KERNELS
from dqucb.density.continuous import TransitionKDE
from dqucb.density.fourier import FourierTransitionDensity

CLASSES = [TransitionKDE, FourierTransitionDensity]


def stream(rng, n, state_dim=2, noise=0.3):
    """n transitions (s, a, s'): s' = s + a / 2 + noise."""
    states = rng.normal(size=(n, state_dim))
    actions = rng.integers(0, 2, size=(n, 1)).astype(float)
    return list(zip(states, actions, states + actions / 2 + rng.normal(0, noise, states.shape), strict=True))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    kernel=st.sampled_from(KERNELS),
    likelihood=st.sampled_from(["normalized", "density"]),
    state_dim=st.integers(1, 8),
    action_dim=st.integers(1, 4),
    window=st.integers(1, 30),
    bandwidth=st.floats(0.01, 10.0),
    pushes=st.integers(0, 80),
    floor=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 2**32 - 1),
)
def test_likelihood_is_the_naive_ratio(
    kernel, likelihood, state_dim, action_dim, window, bandwidth, pushes, floor, seed
):
    rng = np.random.default_rng(seed)
    density = TransitionKDE(
        state_dim,
        action_dim,
        window=window,
        kernel=kernel,
        bandwidth=bandwidth,
        likelihood=likelihood,
        likelihood_floor=floor,
    )
    transitions = []
    for _ in range(pushes):
        transition = tuple(rng.normal(size=size) for size in (state_dim, action_dim, state_dim))
        density.push(*transition)
        transitions = [*transitions, transition][-window:]
    dimension = 2 * state_dim + action_dim
    for _ in range(4):
        centre = transitions[rng.integers(len(transitions))] if transitions else (0, 0, 0)
        sizes = (state_dim, action_dim, state_dim)
        # Near a transition of the window, or anywhere.
        width = rng.choice([bandwidth / np.sqrt(dimension), 3.0])
        query = tuple(c + rng.uniform(-1, 1, size) * width for c, size in zip(centre, sizes, strict=True))
        comp = density.likelihood(*query)
        ref = naive.transition_likelihood(transitions, query, kernel, bandwidth, likelihood, floor)
        assert comp == pytest.approx(ref, rel=1e-9, abs=1e-300)
        assert likelihood == "density" or floor <= comp <= 1.0


@pytest.mark.parametrize(
    ("kernel", "state_dim", "action_dim"),
    # scikit-learn's cosine constant is right in odd dimensions only: s + a and 2 s + a must both be odd.
    [(k, s, a) for k in KERNELS for s, a in ((1, 2), (2, 1), (3, 2)) if k != "cosine" or (s, a) == (2, 1)],
)
def test_density_is_the_ratio_of_two_sklearn_estimators(kernel, state_dim, action_dim):
    rng = np.random.default_rng(0)
    density = TransitionKDE(state_dim, action_dim, window=200, kernel=kernel, bandwidth=1.5, likelihood="density")
    rows = rng.normal(size=(500, 2 * state_dim + action_dim))  # (s, a, s')
    pair = state_dim + action_dim
    for row in rows:
        density.push(row[:state_dim], row[state_dim:pair], row[pair:])
    last, queries = rows[-200:], rng.normal(0, 0.5, size=(30, rows.shape[1]))
    # One leaf for all points: scikit-learn's tree leaves a mass of 1e-15 where a compact kernel has none.
    sklearn_kde = KernelDensity(kernel=kernel, bandwidth=1.5, leaf_size=200)
    joint = sklearn_kde.fit(last).score_samples(queries)
    marginal = sklearn_kde.fit(last[:, :pair]).score_samples(queries[:, :pair])
    comp = [density.likelihood(q[:state_dim], q[state_dim:pair], q[pair:]) for q in queries]
    np.testing.assert_allclose(comp, np.exp(joint - marginal), rtol=1e-9, atol=0)
    assert np.count_nonzero(comp) > 20


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_the_ratio_is_right_far_from_every_point(kernel):
    """Both sums underflow a float there; their ratio does not."""
    density = TransitionKDE(1, 1, kernel=kernel, bandwidth=0.1)
    density.push(0.0, 0.0, 1.0)
    density.push(1.0, 0.0, 5.0)
    window = [(np.zeros(1), np.zeros(1), np.array([1.0])), (np.ones(1), np.zeros(1), np.array([5.0]))]
    for after in (5.0, 1.0, 9.0, 40.0):
        query = [np.array([value]) for value in (400.0, 0.0, after)]
        ref = naive.transition_likelihood(window, query, kernel, 0.1)
        assert 0.0 <= ref < 1.0 or after == 5.0
        # The exponents are near 1e7, where a last bit is 2e-9.
        assert density.likelihood(*query) == pytest.approx(ref, rel=1e-7)


@pytest.mark.parametrize("kernel", ["linear", "cosine", "epanechnikov", "tophat"])
def test_no_mass_at_the_pair_gives_one_and_no_mass_at_the_next_state_gives_the_floor(kernel):
    density = TransitionKDE(1, kernel=kernel, likelihood_floor=0.05)
    assert density.likelihood(0.0, 0.0, 0.0) == 1.0  # empty
    density.push(0.0, 0.0, 0.0)
    assert density.likelihood(9.0, 0.0, 0.0) == 1.0
    assert density.likelihood(0.0, 0.0, 9.0) == 0.05


@pytest.mark.parametrize("cls", CLASSES)
def test_scales_divide_coordinates_and_keep_density_in_the_callers_units(cls):
    rng = np.random.default_rng(1)
    scale, action_scale = np.array([2.0, 0.5]), 4.0
    for likelihood, factor in (("normalized", 1.0), ("density", 1 / scale.prod())):
        plain = cls(2, likelihood=likelihood)
        scaled = cls(2, likelihood=likelihood, state_scale=scale, action_scale=action_scale)
        for before, action, after in stream(rng, 30):
            plain.push(before, action, after)
            scaled.push(before * scale, action * action_scale, after * scale)
        for before, action, after in stream(rng, 10):
            ref = plain.likelihood(before, action, after) * factor
            comp = scaled.likelihood(before * scale, action * action_scale, after * scale)
            assert comp == pytest.approx(ref, rel=1e-9)


def test_density_integrates_to_one_over_the_next_state():
    density = TransitionKDE(1, bandwidth=0.4, likelihood="density", state_scale=2.5)
    for before, action, after in stream(np.random.default_rng(2), 40, state_dim=1):
        density.push(before, action, after)
    grid = np.linspace(-12, 12, 4001)
    total = sum(density.likelihood(0.3, 1.0, x) for x in grid) * (grid[1] - grid[0])
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    ("transition", "message"),
    [
        (([0.0, 0.0], 0, [0.0, np.nan]), "next_state must be finite, got"),
        (([np.inf, 0.0], 0, [0.0, 0.0]), "state must be finite, got"),
        (([0.0, 0.0], np.nan, [0.0, 0.0]), "action must be finite, got"),
        (([0.0, 0.0], 0, [0.0]), "next_state must have 2 numbers, got 1"),
        (([0.0, 0.0, 0.0], 0, [0.0, 0.0]), "state must have 2 numbers, got 3"),
        (([0.0, 0.0], [0, 1], [0.0, 0.0]), "action must have 1 numbers, got 2"),
        (([0.0, 0.0], 0, ["a", "b"]), "next_state must be"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(cls, transition, message):
    density = cls(2, window=3)
    for good in stream(np.random.default_rng(3), 5):
        density.push(*good)
    before = density.state()
    for method in (density.push, density.likelihood):
        with pytest.raises(ValueError, match=message):
            method(*transition)
    assert all(np.array_equal(before[name], array) for name, array in density.state().items())


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"state_dim": 0}, "state_dim must be an integer"),
        ({"window": 0}, "window must be an integer"),
        ({"bandwidth": 0.0}, "bandwidth must be > 0, got 0.0"),
        ({"likelihood": "raw"}, "likelihood must be one of 'normalized', 'density', got 'raw'"),
        ({"likelihood_floor": 1.5}, "likelihood_floor must be >= 0 and <= 1, got 1.5"),
        ({"state_scale": [1.0, 0.0]}, "state_scale must be > 0, got 0.0"),
        ({"action_scale": [1.0, 1.0]}, "action_scale must have 1 numbers, got 2"),
    ],
)
def test_bad_settings_are_named(cls, bad, message):
    with pytest.raises(ValueError, match=message):
        cls(**{"state_dim": 2, **bad})


@pytest.mark.parametrize("features", [0, 7])
def test_features_must_be_even(features):
    with pytest.raises(ValueError, match=f"features must be an .*integer .*, got {features}"):
        FourierTransitionDensity(2, features=features)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("pushed", [0, 4, 7, 17])
def test_a_restored_density_continues_with_the_same_bits(cls, pushed):
    rng = np.random.default_rng(4)
    density = cls(2, window=7)
    for transition in stream(rng, pushed):
        density.push(*transition)
    twin = cls(2, window=7)
    twin.push([9.0, 9.0], 9, [9.0, 9.0])
    twin.restore(density.state())
    for other in (twin, copy.deepcopy(density), pickle.loads(pickle.dumps(density))):
        ours = copy.deepcopy(density)
        for transition in stream(np.random.default_rng(5), 20):
            assert ours.likelihood(*transition) == other.likelihood(*transition)
            ours.push(*transition)
            other.push(*transition)
        assert len(other) == len(ours)
    density.reset()
    assert len(density) == 0
    assert density.likelihood([0, 0], 0, [0, 0]) == 1.0


@pytest.mark.parametrize("cls", CLASSES)
def test_a_bad_state_is_refused_and_changes_nothing(cls):
    density = cls(2, window=4)
    for transition in stream(np.random.default_rng(6), 6):
        density.push(*transition)
    good = density.state()
    content = next(name for name in good if name != "next_slot")
    bad_states = [
        {},
        {**good, "next_slot": np.array(4)},
        {**good, "next_slot": np.array(-1)},
        {**good, "next_slot": np.array(1.5)},
        {**good, content: good[content][:3]},
        {**good, content: np.concatenate([good[content]] * 2)},
        {**good, content: good[content][:, 1:]},
        {**good, content: good[content][0]},
        {**good, content: np.full(good[content].shape, np.nan)},
    ]
    for bad in bad_states:
        with pytest.raises(ValueError, match="must"):
            density.restore(bad)
    assert all(np.array_equal(good[name], array) for name, array in density.state().items())


def test_fourier_removal_is_exact():
    """A stream through a small window ends in the sums of a fresh estimator that saw only the last points."""
    rng = np.random.default_rng(7)
    transitions = stream(rng, 5000)
    density = FourierTransitionDensity(2, window=20, features=64)
    for transition in transitions:
        density.push(*transition)
    fresh = FourierTransitionDensity(2, window=20, features=64)
    for transition in transitions[-20:]:
        fresh.push(*transition)
    np.testing.assert_array_equal(density.sums, fresh.sums)
    assert density.sums.any()
    held = density.nbytes
    assert held == 20 * 64 * 4 + 2 * 64 * 8


def fourier_error(features, n, seeds=6, queries=150):
    """Root mean square error of p where the mean marginal is at least 0.2, against the exact estimator."""
    errors = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        exact = TransitionKDE(2, window=n)
        estimate = FourierTransitionDensity(2, window=n, features=features, seed=seed)
        window = stream(rng, n)
        for transition in window:
            exact.push(*transition)
            estimate.push(*transition)
        pairs = np.array([np.concatenate(transition[:2]) for transition in window])
        for query in stream(rng, queries):
            p = estimate.likelihood(*query)
            assert 0.0 <= p <= 1.0
            squares = ((pairs - np.concatenate(query[:2])) ** 2).sum(axis=1)
            if np.exp(-0.5 * squares).mean() >= 0.2:
                errors.append(p - exact.likelihood(*query))
    assert len(errors) > seeds * queries / 2
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize("n", [100, 1000])
def test_fourier_error_falls_like_one_over_the_root_of_features(n):
    small, large = fourier_error(128, n), fourier_error(2048, n)
    assert small <= 2 / np.sqrt(128)
    assert large <= 2 / np.sqrt(2048)
    assert large <= small / 2.5  # 1/sqrt says 4; seeds scatter


def test_fourier_same_seed_same_estimator_and_density_mode_agrees():
    rng = np.random.default_rng(8)
    exact = TransitionKDE(2, likelihood="density")
    first, again, other = (
        FourierTransitionDensity(2, likelihood="density", features=8192, seed=seed) for seed in (1, 1, 2)
    )
    for transition in stream(rng, 100):
        for density in (exact, first, again, other):
            density.push(*transition)
    query = ([0.0, 0.0], 0.0, [0.2, 0.1])
    assert first.likelihood(*query) == again.likelihood(*query) != other.likelihood(*query)
    assert first.likelihood(*query) == pytest.approx(exact.likelihood(*query), rel=0.15)


def test_fourier_refuses_what_overflows():
    density = FourierTransitionDensity(1, bandwidth=1e-10)
    with pytest.raises(ValueError, match="far below 1e308"):
        density.push(1e300, 0.0, 1e300)
    assert len(density) == 0
