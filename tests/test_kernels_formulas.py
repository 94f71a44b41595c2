"""The scalar equations: values worked out by hand, and the learning-rate identities of the paper's lemma."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqucb._kernels import formulas

HORIZONS = (1, 2, 5, 20, 100)


def weights(t, H):
    """alpha_t^i, i = 0..t, from the library's learning rate and blend: unit impulses through the update."""
    impulses = np.eye(t + 1)
    value = impulses[0]
    for i in range(1, t + 1):
        value = np.array([
            formulas.blend(value[j], impulses[i][j], formulas.learning_rate(i, H)) for j in range(t + 1)
        ])  # fmt: skip
    return value


@pytest.mark.parametrize("H", HORIZONS)
@pytest.mark.parametrize("t", [1, 2, 7, 40])
def test_weights_equal_their_definition(t, H):
    np.testing.assert_allclose(weights(t, H), naive.learning_rate_weights(t, H), atol=1e-15)


@pytest.mark.parametrize("H", HORIZONS)
@pytest.mark.parametrize("t", [1, 2, 10, 60])
def test_learning_rate_lemma_sums_and_bounds_a_and_b(t, H):
    alpha = weights(t, H)
    assert alpha[0] == 0.0
    assert alpha[1:].sum() == pytest.approx(1.0, abs=1e-12)
    i = np.arange(1, t + 1)
    mean_root = (alpha[1:] / np.sqrt(i)).sum()
    assert 1 / math.sqrt(t) - 1e-12 <= mean_root <= 2 / math.sqrt(t) + 1e-12
    assert alpha[1:].max() <= 2 * H / t + 1e-12
    assert (alpha[1:] ** 2).sum() <= 2 * H / t + 1e-12


@pytest.mark.parametrize("H", [1, 3, 10])
@pytest.mark.parametrize("i", [1, 2, 9])
def test_learning_rate_lemma_c_total_weight_of_one_sample(i, H):
    # alpha_t^i falls like t^-(H+1), so the tail of the sum beyond 200,000 terms is below 1e-5 even for H = 1.
    weight = total = formulas.learning_rate(i, H)
    for t in range(i + 1, 200_000):
        weight *= 1 - formulas.learning_rate(t, H)
        total += weight
    assert total == pytest.approx(1 + 1 / H, abs=2e-4)


@pytest.mark.parametrize("H", HORIZONS)
@pytest.mark.parametrize("t", [1, 2, 10, 60])
def test_learning_rate_lemma_d_with_logarithms(t, H):
    alpha = weights(t, H)[1:]
    root = np.array([math.sqrt(formulas.discounted_log(3, 2, 50, i) / i) for i in range(1, t + 1)])
    assert root[-1] - 1e-12 <= (alpha * root).sum() <= 2 * root[-1] + 1e-12


def test_bonus_forms_by_hand():
    assert formulas.theory_bonus(0.5, 4, 2.0, 3.0) == pytest.approx(0.5 * math.sqrt(8 * 3 / 4))
    assert formulas.simplified_bonus(1.0, 4, 10.0) == pytest.approx(0.5 + 2.5)
    assert formulas.simplified_bonus(50.0, 4, 10.0) == 10.0
    assert formulas.root_bonus(1.0, 4, 10.0) == 0.5
    assert formulas.root_bonus(100.0, 4, 10.0) == 10.0
    assert formulas.confidence_log(5, 4, 100, 10, 0.05) == pytest.approx(math.log(20_000 / 0.05))


@pytest.mark.parametrize("code", range(len(formulas.BONUS_FORMS)))
def test_episodic_bonus_dispatches_to_its_form(code):
    by_name = {
        "theory": formulas.theory_bonus(0.3, 7, 10.0, 2.0),
        "simplified": formulas.simplified_bonus(0.3, 7, 9.0),
        "root": formulas.root_bonus(0.3, 7, 9.0),
    }
    assert formulas.episodic_bonus(code, 0.3, 7, 9.0, 10.0, 2.0) == by_name[formulas.BONUS_FORMS[code]]


def test_discounted_quantities_by_hand():
    H = formulas.effective_horizon(0.9)
    assert pytest.approx(math.log(20) / math.log(1 / 0.9)) == H
    iota = formulas.discounted_log(3, 2, 1000, 4)
    assert iota == pytest.approx(math.log(6000 * 5 * 6))
    assert formulas.discounted_bonus(0.1, 4, 0.9, H, iota) == pytest.approx(math.sqrt(H * iota / 4))


def test_likelihood_is_one_where_nothing_is_known_and_floored_elsewhere():
    assert formulas.conditional_likelihood(0.0, 0.0, 1.0, 0.1) == 1.0
    assert formulas.conditional_likelihood(0.0, 5.0, 1.0, 0.1) == 0.1
    assert formulas.conditional_likelihood(2.0, 5.0, 1.0, 0.1) == pytest.approx(0.4)
    assert formulas.conditional_likelihood(2.0, 5.0, 0.4, 0.0) == pytest.approx(0.16)


def test_momentum_rate_of_ucbmq():
    assert formulas.momentum_rate(1, 10.0) == 0.0
    assert formulas.momentum_rate(5, 10.0) == pytest.approx(10 / 15 * 4 / 5)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30))
def test_running_mean_is_the_mean(samples):
    mean = 0.0
    for t, sample in enumerate(samples, 1):
        mean = formulas.running_mean(mean, sample, t)
    assert mean == pytest.approx(np.mean(samples), abs=1e-9)


def test_capped_values():
    assert formulas.capped_value(5.0, 2.0) == 2.0
    assert formulas.capped_value(1.5, 2.0) == 1.5
    assert formulas.shift_aware(0.2, 0.1) == pytest.approx(2.0)
