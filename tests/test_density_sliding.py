"""SlidingKDE: parity with scikit-learn and with the naive twin, memory, bad input."""

import naive_density as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KernelDensity

from dqucb._kernels.profiles import KERNELS
from dqucb.density.sliding import SlidingKDE

COMPACT = ("linear", "cosine", "epanechnikov", "tophat")
RELATIVE = 1e-9


def assert_scores_equal(comp, ref):
    np.testing.assert_array_equal(np.isneginf(comp), np.isneginf(ref))
    finite = np.isfinite(ref)
    # Where a log density passes through zero, a relative error has no meaning: the 1 in the tolerance.
    np.testing.assert_array_less(
        np.abs(np.asarray(comp)[finite] - np.asarray(ref)[finite]),
        RELATIVE * np.maximum(1.0, np.abs(np.asarray(ref)[finite])),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    kernel=st.sampled_from(KERNELS),
    dimension=st.integers(1, 20),
    window=st.integers(1, 40),
    bandwidth=st.floats(0.01, 10.0),
    spread=st.sampled_from([0.01, 1.0, 100.0]),
    chunks=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sequence_of_pushes_scores_like_the_last_points(kernel, dimension, window, bandwidth, spread, chunks, seed):
    rng = np.random.default_rng(seed)
    comp, ref = SlidingKDE(window, kernel, bandwidth), naive.SlidingDensity(window, kernel, bandwidth)
    for size in [1, *chunks]:
        X = rng.normal(0, spread, (size, dimension))
        if size % 2:
            for x in X:
                comp.push(list(x) if rng.random() < 0.5 else x)
        else:
            comp.push_many(X)
        for x in X:
            ref.push(x)
        assert len(comp) == len(ref.points)
        np.testing.assert_array_equal(comp.points, np.array(ref.points))
    # Queries near the points, so that compact kernels have something to see.
    near = comp.points[rng.integers(len(comp), size=3)]
    queries = near + rng.uniform(-1, 1, near.shape) * bandwidth / np.sqrt(dimension)
    scores = comp.score_samples(queries)
    assert_scores_equal(scores, [ref.score(x) for x in queries])
    assert [comp.score(x) for x in queries] == scores.tolist()


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_drift_after_100_000_pushes(kernel):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100_000, 3))
    near, far = rng.normal(size=(200, 3)), 30 * rng.normal(size=(50, 3))
    kde = SlidingKDE(window=1000, kernel=kernel, bandwidth=0.8)
    for x in X:
        kde.push(x)
    # scikit-learn's tree stops too early far away (5 % off on the log density) and leaves a mass of 1e-15
    # where there is none; with one leaf for all points it sums them plainly.
    plain = KernelDensity(kernel=kernel, bandwidth=0.8, leaf_size=1000).fit(X[-1000:])
    for queries in (near, far):
        ref, comp = plain.score_samples(queries), kde.score_samples(queries)
        finite = np.isfinite(ref)
        np.testing.assert_array_equal(np.isfinite(comp), finite)
        np.testing.assert_allclose(comp[finite], ref[finite], rtol=RELATIVE, atol=0)
    comp = kde.score_samples(near)
    finite = np.isfinite(comp)
    assert finite.sum() >= 150
    ref = KernelDensity(kernel=kernel, bandwidth=0.8).fit(X[-1000:]).score_samples(near)
    np.testing.assert_allclose(comp[finite], ref[finite], rtol=RELATIVE, atol=0)


@pytest.mark.parametrize(("kernel", "expected"), [("gaussian", -0.5e16), ("exponential", -1e8)])
def test_far_away_scores_are_finite_and_right(kernel, expected):
    kde = SlidingKDE(kernel=kernel)
    kde.push([0.0])
    assert kde.score([1e8]) == pytest.approx(expected, rel=1e-8)
    assert kde.score([1e200]) == -np.inf  # the squared distance itself overflows


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("far_first", [True, False])
def test_the_nearest_point_counts_wherever_it_lies_in_the_window(kernel, far_first):
    """Points are summed in blocks: one block may be e^1000 times more likely than the one before it."""
    rng = np.random.default_rng(7)
    far, near = 2000 + rng.normal(size=(1500, 2)), rng.normal(size=(700, 2))
    X = np.concatenate([far, near] if far_first else [near, far])
    kde, ref = SlidingKDE(3000, kernel), naive.SlidingDensity(3000, kernel, 1.0)
    kde.push_many(X)
    for x in X:
        ref.push(x)
    for query in ([0.0, 0.0], [2000.0, 2000.0], [1000.0, 1000.0]):
        assert kde.score(query) == pytest.approx(ref.score(query), rel=1e-12)


def test_compact_kernels_are_zero_outside_their_support():
    for kernel in COMPACT:
        kde = SlidingKDE(kernel=kernel, bandwidth=0.5)
        kde.push([0.0, 0.0])
        assert kde.score([0.0, 0.5]) == -np.inf  # distance = bandwidth is outside, as in scikit-learn
        assert np.isfinite(kde.score([0.0, 0.4999]))


@pytest.mark.parametrize("n", [2, 50, 700])
def test_scott_bandwidth_follows_the_window(n):
    X = np.random.default_rng(2).normal(size=(2 * n, 4)) * [1, 2, 3, 4]
    kde = SlidingKDE(window=n, bandwidth="scott")
    kde.push_many(X[:n])
    first = kde.current_bandwidth
    assert first == pytest.approx(n ** (-1 / 8) * X[:n].std(axis=0, ddof=1).mean(), rel=1e-12)
    for x in X[n:]:
        kde.push(x)
    h = n ** (-1 / 8) * X[n:].std(axis=0, ddof=1).mean()
    ref = KernelDensity(bandwidth=h).fit(X[n:]).score_samples(X[:5])
    np.testing.assert_allclose(kde.score_samples(X[:5]), ref, rtol=RELATIVE)


def test_scott_bandwidth_needs_spread():
    kde = SlidingKDE(bandwidth="scott")
    kde.push([1.0])
    with pytest.raises(ValueError, match="bandwidth 'scott' needs points with a spread above 0, got 1"):
        kde.score([1.0])


def test_memory_does_not_grow_with_the_stream():
    kde = SlidingKDE(window=1000, bandwidth=0.5)
    chunk = np.random.default_rng(3).normal(size=(100_000, 3))
    kde.push_many(chunk)
    held = kde.nbytes
    for _ in range(99):
        kde.push_many(chunk)
    assert kde.nbytes == held == (1000 + 1) * 3 * 8
    np.testing.assert_array_equal(kde.points, chunk[-1000:])


def test_memory_starts_with_what_is_held():
    kde = SlidingKDE(window=1_000_000)
    for x in range(100):
        kde.push([float(x)])
    assert kde.nbytes < 8 * 300


BAD_POINTS = {
    "nan": ([0.0, np.nan], "x must be finite, got nan at index 1"),
    "inf": (np.array([np.inf, 0.0]), "x must be finite, got inf at index 0"),
    "too short": ([0.0], "x must have 2 numbers, got 1"),
    "too long": (np.zeros(3), "x must have 2 numbers, got 3"),
    "matrix": (np.zeros((2, 2)), r"x must be a vector .* got shape \(2, 2\)"),
    "a word": (["a", "b"], "x must be 2 finite numbers, got"),
    "nested": ([[0.0], [1.0, 2.0]], "x must be 2 finite numbers, got"),
    "none": (None, "x must"),
    "huge integer": ([10**400, 0], "x must be 2 finite numbers, got"),
    "complex": (np.array([1j, 0.0]), "x must be a vector of finite numbers, got"),
    "text": ("ab", "x must be a vector of finite numbers, got 'ab'"),
    "strided nan": (np.array([0.0, 1.0, np.nan, 1.0])[::2], "x must be finite, got nan at index 1"),
}


@pytest.mark.parametrize("name", BAD_POINTS)
@pytest.mark.parametrize("method", ["push", "score"])
def test_bad_point_is_named_and_leaves_the_window_alone(name, method):
    value, message = BAD_POINTS[name]
    kde = SlidingKDE(window=3, dimension=2)
    kde.push_many([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    before, slot = kde.ring()
    with pytest.raises(ValueError, match=message):
        getattr(kde, method)(value)
    after, slot_after = kde.ring()
    np.testing.assert_array_equal(before, after)
    assert slot == slot_after


@pytest.mark.parametrize("value", [[np.nan], [], [[1.0]], None, "a", ["1", "2"], [np.inf, 1.0]])
def test_bad_first_point_does_not_fix_the_dimension(value):
    kde = SlidingKDE()
    with pytest.raises(ValueError, match="x must"):
        kde.push(value)
    assert kde.dimension is None
    assert len(kde) == 0
    kde.push([1.0, 2.0, 3.0])
    assert kde.dimension == 3


@pytest.mark.parametrize(
    "X",
    [
        [[0.0, 1.0], [np.nan, 0.0]],
        [[0.0, np.inf]],
        [[1.0], [2.0]],
        [1.0, 2.0],
        np.zeros((0, 3)),
        [["a", "b"]],
    ],
)
def test_push_many_is_all_or_nothing(X):
    kde = SlidingKDE(window=2)
    kde.push_many([[1.0, 2.0]])
    for method in (kde.push_many, kde.score_samples):
        with pytest.raises(ValueError, match="X must"):
            method(X)
    np.testing.assert_array_equal(kde.points, [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"window": 0}, "window must be an integer >= 1, got 0"),
        ({"window": 2.5}, "window must be .* got 2.5"),
        ({"bandwidth": 0.0}, "bandwidth must be > 0, got 0.0"),
        ({"bandwidth": -1.0}, "bandwidth must be > 0, got -1.0"),
        ({"bandwidth": np.nan}, "bandwidth must be > 0, got nan"),
        ({"bandwidth": 1e-200}, "bandwidth must be >= 1e-100"),
        ({"bandwidth": "scot"}, "bandwidth must be one of 'scott', got 'scot'"),
        ({"kernel": "gausian"}, "kernel must be one of .* did you mean 'gaussian'"),
        ({"dimension": 0}, "dimension must be an integer in .*, got 0"),
    ],
)
def test_bad_settings_are_named(settings_, message):
    with pytest.raises(ValueError, match=message):
        SlidingKDE(**settings_)


def test_empty_window_says_so():
    kde = SlidingKDE(dimension=2)
    for ask in (lambda: kde.score([0.0, 0.0]), lambda: kde.score_samples(np.zeros((1, 2)))):
        with pytest.raises(ValueError, match="the window is empty"):
            ask()
    kde.push([0.0, 0.0])
    kde.reset()
    assert len(kde) == 0
    with pytest.raises(ValueError, match="the window is empty"):
        kde.score([0.0, 0.0])


def test_inputs_of_every_kind_read_the_same():
    forms = [(1, 2), [1.0, 2], np.array([1, 2]), np.array([1, 2], np.float32), np.array([1.0, 9.0, 2.0])[::2]]
    kde = SlidingKDE(window=10)
    for form in forms:
        kde.push(form)
    np.testing.assert_array_equal(kde.points, np.tile([1.0, 2.0], (len(forms), 1)))
    one = SlidingKDE()
    for number in (3, 3.0, np.float64(3), [3], np.array(3.0)):
        one.push(number)
    np.testing.assert_array_equal(one.points, np.full((5, 1), 3.0))


def test_points_is_a_copy_and_repr_tells_the_settings():
    kde = SlidingKDE(window=5, kernel="linear", bandwidth=2.0)
    kde.push([1.0])
    kde.points[0, 0] = 9.0
    assert kde.points[0, 0] == 1.0
    assert repr(kde) == "SlidingKDE(window=5, kernel='linear', bandwidth=2.0, dimension=1) holding 1 point"
