"""Integer transitions: the counted window against its naive twin, scikit-learn, and itself without the JIT."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KernelDensity

from dqucb._kernels.profiles import KERNELS
from dqucb.density import DiscreteTransitionKDE, TransitionCounts, TransitionDensity

SCOPES = ("pair", "step", "shared")
S, A, H = 6, 2, 3

transitions = st.lists(
    st.tuples(st.integers(0, S - 1), st.integers(0, A - 1), st.integers(0, S - 1), st.integers(0, H - 1)),
    min_size=1,
    max_size=80,
)


@settings(max_examples=120)
@given(
    stream=transitions,
    window=st.integers(1, 12),
    kernel=st.sampled_from(KERNELS),
    bandwidth=st.floats(0.01, 10),
    scope=st.sampled_from(SCOPES),
    with_features=st.booleans(),
)
def test_equals_the_naive_twin_on_any_stream(stream, window, kernel, bandwidth, scope, with_features):
    features = np.array([[s // 3, s % 3] for s in range(S)]) if with_features else None
    fast = DiscreteTransitionKDE(
        S, A, horizon=H, window=window, kernel=kernel, bandwidth=bandwidth, scope=scope, state_features=features
    )
    slow = naive.DiscreteTransitions(window, kernel, bandwidth, scope, features)
    for transition in stream:
        joint, marginal = slow.sums(*transition)
        # Kernel values below 1e-30 count as zero in the table: where all are so small, there is nothing to compare.
        if marginal > 1e-25:
            cut = window * 1e-30 / marginal
            assert fast.likelihood(*transition) == pytest.approx(joint / marginal, rel=1e-9, abs=1e-15 + cut)
        slow.push(*transition)
        fast.push(*transition)


@pytest.mark.parametrize("scope", SCOPES)
def test_long_stream_does_not_drift(scope):
    rng = np.random.default_rng(1)
    fast = DiscreteTransitionKDE(S, A, window=40, scope=scope)
    slow = naive.DiscreteTransitions(40, "gaussian", 1.0, scope)
    for transition in rng.integers([S, A, S], size=(20_000, 3)):
        fast.push(*transition)
        slow.push(*transition)
    for transition in [(s, a, n) for n in range(S) for s in range(S) for a in range(A)]:
        assert fast.likelihood(*transition) == pytest.approx(slow.likelihood(*transition), rel=1e-12)


@pytest.mark.parametrize("with_features", [False, True])
@pytest.mark.parametrize("window", [30, 70, 400])
def test_rows_that_are_kept_change_no_bit(window, with_features):
    """Tuples that come, go and return, in numbers below and above what a window retains."""
    rng = np.random.default_rng(window)
    features = np.stack(np.divmod(np.arange(40), 8), axis=1) if with_features else None
    settings = {"window": window, "scope": "step", "horizon": 2, "state_features": features, "bandwidth": 5.0}
    kept, unkept = (DiscreteTransitionKDE(40, 3, **settings) for _ in range(2))
    unkept._windows = unkept._windows._replace(rows=unkept._windows.rows._replace(values=np.zeros(0)))
    slow = naive.DiscreteTransitions(window, "gaussian", 5.0, "step", features)
    for i in range(6_000):
        spread = 4 if i % 3_000 < 1_500 else 40
        state = int(rng.integers(spread) + i // 2_000) % 40
        transition = (state, int(rng.integers(3)), (state + int(rng.integers(3))) % 40, int(rng.integers(2)))
        if i % 7 == 0:
            assert kept.likelihood(*transition) == unkept.likelihood(*transition)
        if i % 501 == 0:
            assert kept.likelihood(*transition) == pytest.approx(slow.likelihood(*transition), rel=1e-12)
            kept.restore(kept.state())
        for density in (kept, unkept, slow):
            density.push(*transition)
    assert kept._windows.rows.used[0] > 0
    assert unkept._windows.rows.used[0] == 0


# scikit-learn's normaliser of the cosine kernel is wrong in even dimensions (the marginal has two);
# tests/test_density_sliding.py checks ours by quadrature.
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel != "cosine"])
@pytest.mark.parametrize("scope", ["shared", "pair"])
def test_density_form_is_the_ratio_of_two_sklearn_densities(kernel, scope):
    rng = np.random.default_rng(2)
    bandwidth = 2.5
    density = DiscreteTransitionKDE(
        S, A, window=50, kernel=kernel, bandwidth=bandwidth, scope=scope, likelihood="density"
    )
    same = scope == "pair"
    points = [(1 if same else int(rng.integers(S)), 0 if same else int(rng.integers(A)), int(rng.integers(S)))
              for _ in range(70)]  # fmt: skip
    for point in points:
        density.push(*point)
    held = np.array(points[-50:], float)
    query = points[-1]
    joint = KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(held)
    marginal = KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(held[:, :2])
    expected = math.exp(joint.score_samples([query])[0] - marginal.score_samples([query[:2]])[0])
    assert density.likelihood(*query) == pytest.approx(expected, rel=1e-9)


def test_counts_are_shares_of_the_window():
    counts = TransitionCounts(S, A, window=4)
    for next_state in (5, 1, 1, 2, 1):  # the 5 has left the window
        counts.push(0, 1, next_state)
    assert counts.likelihood(0, 1, 1) == 0.75
    assert counts.likelihood(0, 1, 2) == 0.25
    assert counts.likelihood(0, 1, 5) == 0.0
    assert counts.likelihood(0, 0, 5) == 1.0  # nothing is known about this pair


def test_likelihood_falls_when_the_world_changes_and_recovers():
    density = DiscreteTransitionKDE(S, A, window=20, bandwidth=0.5)
    for _ in range(30):
        density.push(0, 0, 1)
    before = density.likelihood(0, 0, 1)
    shifted = density.likelihood(0, 0, 4)
    for _ in range(30):
        density.push(0, 0, 4)
    assert before == 1.0
    assert shifted < 1e-6
    assert density.likelihood(0, 0, 4) == 1.0


def test_all_densities_speak_the_protocol():
    assert isinstance(DiscreteTransitionKDE(S, A), TransitionDensity)
    assert isinstance(TransitionCounts(S, A), TransitionDensity)


def test_memory_does_not_grow_with_the_stream():
    density = DiscreteTransitionKDE(S, A, window=30, scope="shared")
    rng = np.random.default_rng(3)
    sizes = []
    for _ in range(3):
        for point in rng.integers([S, A, S], size=(5_000, 3)):
            density.push(*point)
        sizes.append(density.nbytes)
    assert sizes[0] == sizes[1] == sizes[2]


def test_unused_windows_hold_no_memory():
    density = DiscreteTransitionKDE(1_000, 4, horizon=50, window=1_000)
    density.push(0, 0, 1, step=3)
    index = 50 * 1_000 * 4 * 4  # one int32 for every (step, state, action)
    assert density.nbytes < index + density._windows.profile.nbytes + 1_000


@pytest.mark.parametrize("scope", SCOPES)
def test_restore_continues_exactly(scope):
    rng = np.random.default_rng(4)
    stream = [tuple(int(x) for x in point) for point in rng.integers([S, A, S, H], size=(400, 4))]
    whole = DiscreteTransitionKDE(S, A, horizon=H, window=7, scope=scope)
    part = DiscreteTransitionKDE(S, A, horizon=H, window=7, scope=scope)
    for transition in stream[:200]:
        whole.push(*transition)
        part.push(*transition)
    resumed = DiscreteTransitionKDE(S, A, horizon=H, window=7, scope=scope)
    resumed.restore(part.state())
    for transition in stream[200:]:
        assert whole.likelihood(*transition) == resumed.likelihood(*transition)
        whole.push(*transition)
        resumed.push(*transition)


@pytest.mark.parametrize("scope", SCOPES)
def test_restore_refuses_every_damaged_pool(scope):
    density = DiscreteTransitionKDE(S, A, horizon=H, window=5, scope=scope)
    rng = np.random.default_rng(5)
    for point in rng.integers([S, A, S, H], size=(300, 4)):
        density.push(*point)
    good = density.state()
    before = density.likelihood(2, 1, 1, 1)
    refused = 0
    for name in ("slot", "ring", "held", "chain", "first", "used"):
        for _ in range(40):
            bad = {key: value.copy() for key, value in good.items()}
            flat = bad[name].reshape(-1)
            if not flat.size:
                continue
            where = int(rng.integers(flat.size))
            flat[where] = int(rng.integers(-3, 60)) if flat.dtype != np.uint16 else int(rng.integers(60))
            try:
                density.restore(bad)
            except ValueError:
                refused += 1
                continue
            for point in rng.integers([S, A, S, H], size=(50, 4)):  # what is accepted must be safe to use
                assert 0 <= density.likelihood(*point) <= 1
                density.push(*point)
            density.restore(good)
    assert refused > 60
    assert density.likelihood(2, 1, 1, 1) == before
    with pytest.raises(ValueError, match="ring must be"):
        density.restore({**good, "ring": good["ring"].astype(np.int64)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window must be an integer >= 1, got 0"),
        ({"window": 2.5}, "window must be an integer >= 1, got 2.5"),
        ({"bandwidth": 0}, "bandwidth must be > 0, got 0"),
        ({"bandwidth": -1.0}, "bandwidth must be > 0, got -1.0"),
        ({"bandwidth": math.nan}, "bandwidth must be > 0, got nan"),
        ({"kernel": "gausian"}, "did you mean 'gaussian'"),
        ({"scope": "global"}, "scope must be one of 'pair', 'step', 'shared', got 'global'"),
        ({"likelihood": "raw"}, "likelihood must be one of"),
        ({"likelihood_floor": 1.5}, "likelihood_floor must be >= 0 and <= 1, got 1.5"),
        ({"state_features": np.zeros((2, 2))}, r"state_features must have shape \(6, axes\)"),
        ({"state_features": np.full((S, 1), 0.5)}, "state_features must be integers"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DiscreteTransitionKDE(S, A, **arguments)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ((0, 0, S), r"next_state must be an integer in \[0, 5\], got 6"),
        ((0, 0, -1), "next_state must be"),
        ((99, 0, 0), "state must be"),
        ((0, 2, 0), "action must be"),
        ((0, 0, 0.5), "next_state must be"),
        ((0, 0, 0, 3), "step must be"),
        ((0, 0, math.nan), "next_state must be"),
    ],
)
def test_bad_transitions_leave_the_window_as_it_was(transition, message):
    density = DiscreteTransitionKDE(S, A, horizon=H, window=5)
    density.push(0, 0, 3)
    before = density.state()
    for method in (density.push, density.likelihood):
        with pytest.raises(ValueError, match=message):
            method(*transition)
    after = density.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_table_that_would_not_fit_is_refused():
    with pytest.raises(ValueError, match="bandwidth must be small enough"):
        DiscreteTransitionKDE(100_000, 2, bandwidth=10_000.0, scope="shared")


def test_same_bits_without_jit(same_bits_without_jit):
    same_bits_without_jit(
        """
import numpy as np
from dqucb.density import DiscreteTransitionKDE
rng = np.random.default_rng(0)
for scope in ("pair", "step", "shared"):
    density = DiscreteTransitionKDE(8, 3, horizon=2, window=9, scope=scope, bandwidth=1.3)
    total = 0.0
    for s, a, n, h in rng.integers([8, 3, 8, 2], size=(400, 4)):
        total += density.likelihood(s, a, n, h)
        density.push(s, a, n, h)
    print(scope, total.hex(), density.state()["held"].tobytes().hex()[:200])
density = DiscreteTransitionKDE(12, 2, window=80, scope="shared")
total = 0.0
for s, a, n in rng.integers([4, 2, 12], size=(300, 3)):  # 96 tuples: windows retain some, and have rows
    total += density.likelihood(s, a, n)
    density.push(s, a, n)
print(total.hex(), density.nbytes)
"""
    )
