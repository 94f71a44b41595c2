"""The model of the current dynamics after a change: what is corrected, what is left alone, and when it is trusted."""

import numpy as np
import pytest

from dqucb.deep.correction import LARGEST, RATIOS, correction, log_marginal_likelihood, mean_products
from dqucb.deep.dynamics import CurrentDynamics, explains, features
from dqucb.envs import CartPoleVector


def synthetic(n, seed, *, linear=0.0, quadratic=0.0, noise=0.0):
    """(s, a) and two outputs; the first one changes by a part linear and a part quadratic in (s, a), or by noise."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)])
    first = x[:, 0] * x[:, 1] - 2.0 + linear * (x[:, 2] - 0.5 * x[:, 0]) + quadratic * x[:, 0] * x[:, 2]
    y = np.column_stack([first, x[:, 2] + x[:, 0]]) + 1e-3 * rng.normal(size=(n, 2))
    return x, y + noise * rng.normal(size=(n, 2))


def cartpole(n, seed, **change):
    """Transitions of carts that are balanced, with random actions in between."""
    carts = CartPoleVector([seed], change_at=0, **{"noise": 0.0, **change})
    rng = np.random.default_rng(seed)
    x, y, state = [], [], carts.reset(0)
    for _ in range(n):
        action = int(rng.integers(2)) if rng.random() < 0.2 else int(3 * state[2] + state[3] > 0)
        moved, reward, terminated, truncated = carts.step(np.array([action]), np.array([0]))
        x.append([*state, action])
        y.append([*(moved[0].astype(float) - state), reward[0]])
        state = carts.reset(0) if terminated[0] or truncated[0] else moved[0]
    return np.array(x, float), np.array(y, float)


def current(before, since):
    model = CurrentDynamics(before[0].shape[1], before[1].shape[1])
    model.begin(*before)
    return model, model.refresh(*since)


def error(weights, inputs, outputs):
    """Mean square of each output that varies."""
    varies = outputs.var(0) > 1e-12
    return np.square(outputs - features(inputs) @ weights).mean(0)[varies]


class TestCorrection:
    rng = np.random.default_rng(0)
    x = features(rng.normal(size=(40, 2)))
    deviations = x[:, :3] @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(40, 2))
    products = mean_products(features(rng.normal(size=(500, 2))))

    def test_the_marginal_likelihood_is_that_of_the_covariance(self):
        """p(e | g) with s^2 integrated out is |C|^-1/2 (e' C^-1 e)^-n/2, C = I + g x M^-1 x'."""
        lower = np.linalg.cholesky(self.products)
        u, d, _ = np.linalg.svd(np.linalg.solve(lower, self.x.T).T, full_matrices=False)
        ratios = RATIOS[:, None] * d**2
        total = np.square(self.deviations).sum(0)
        found = log_marginal_likelihood(ratios, u.T @ self.deviations, total, 40)
        for g, row in zip(RATIOS, found, strict=True):
            covariance = np.eye(40) + g * self.x @ np.linalg.solve(self.products, self.x.T)
            quadratic = np.einsum("ij,ij->j", self.deviations, np.linalg.solve(covariance, self.deviations))
            wanted = -0.5 * np.linalg.slogdet(covariance)[1] - 20 * np.log(quadratic)
            np.testing.assert_allclose(row, wanted, rtol=1e-5)

    def test_left_out_rows_are_those_of_regressions_without_them(self):
        noise, sizes = np.full(2, 1e-4), (3, 6)
        found = correction(self.x, self.deviations, self.products, noise, sizes)
        assert not found.weights[3:].any()  # the linear candidate
        m = self.products[:3, :3]
        for j in range(2):
            fits = {}  # the ratio that was chosen is the one that gives these weights
            for g in RATIOS:
                x = self.x[:, :3]
                fits[g] = np.linalg.solve(x.T @ x + m / g, x.T @ self.deviations[:, j])
            g = min(fits, key=lambda g: np.abs(fits[g] - found.weights[:3, j]).max())
            np.testing.assert_allclose(fits[g], found.weights[:3, j], rtol=1e-6)
            for i in (0, 7, 39):
                x, e = np.delete(self.x[:, :3], i, 0), np.delete(self.deviations[:, j], i)
                alone = np.linalg.solve(x.T @ x + m / g, x.T @ e)
                assert found.left_out[i, j] == pytest.approx(self.deviations[i, j] - self.x[i, :3] @ alone, rel=1e-5)

    def test_with_fewer_than_two_rows_a_feature_nothing_is_corrected(self):
        noise = np.full(2, 1e-4)
        for n, changed in ((5, False), (6, True)):
            found = correction(self.x[:n], self.deviations[:n], self.products, noise, (3, 6))
            assert found.weights.any() == changed
            if not changed:
                np.testing.assert_array_equal(found.left_out, self.deviations[:n])

    def test_features_of_any_scale_and_without_variance_can_be_used(self):
        inputs = self.rng.normal(size=(60, 3)) * [1e5, 1e-5, 0.0]
        x = features(inputs)
        e = inputs[:, :1] / 1e5 + 1e5 * inputs[:, 1:2] + 1e-3 * self.rng.normal(size=(60, 1))
        found = correction(x, e, mean_products(x), np.array([1e-6]), (4, 10))
        assert np.square(e - x @ found.weights).mean() < 1e-4


def test_a_correction_that_would_be_far_larger_elsewhere_is_not_made():
    """The old model is wrong a little in a smooth way, and all rows since lie in a small part of the states."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (2_000, 2))
    x, wave = features(inputs), lambda s: 0.05 * np.sin(6 * s[:, :1])
    near = np.column_stack([np.linspace(0.2, 0.4, 40), np.linspace(0.5, 0.6, 40)])
    near += 0.01 * rng.normal(size=near.shape)
    found = correction(features(near), wave(near), mean_products(x), np.array([1e-8]), (3, 6))
    w = found.weights[:, 0]
    assert w @ mean_products(x) @ w <= LARGEST * (np.square(wave(near)).mean() + 1e-8) * (1 + 1e-9)
    assert np.abs(x @ w).max() < 1.0


@pytest.mark.parametrize(
    ("change", "n"),
    [({"linear": 1.0}, 8), ({"linear": -0.3}, 12), ({"quadratic": 1.0}, 25), ({"linear": 0.5, "quadratic": -2.0}, 25)],
)
def test_a_change_of_a_quadratic_system_is_predicted_from_few_transitions(change, n):
    before, later = synthetic(500, 0), synthetic(500, 1, **change)
    ratios = []
    for seed in range(2, 8):
        model, trusted = current(before, synthetic(n, seed, **change))
        assert trusted
        old, new = error(model.weights, *later), error(model.corrected, *later)
        ratios.append(new[0] / old[0])
        assert new[1] < 1.5 * old[1]  # an output that did not change
    assert np.median(ratios) < 0.01


@pytest.mark.parametrize("change", [{"force": -1.0}, {"force": 0.5}, {"length": 2.0}, {"gravity": 1.5}])
def test_a_change_of_a_cart_is_predicted_from_few_transitions(change):
    before, later = cartpole(3_000, 0), cartpole(1_000, 1, **change)
    for seed in range(2, 6):
        model, trusted = current(before, cartpole(40, seed, **change))
        assert trusted
        assert error(model.corrected, *later).max() < 0.1 * error(model.weights, *later).max()


def test_noise_is_not_corrected_and_is_drawn():
    before = cartpole(3_000, 0)
    for seed in range(1, 6):
        for n in (12, 42, 500):
            model, _ = current(before, cartpole(n, seed, noise=0.15))
            np.testing.assert_array_equal(model.corrected[:, :4], model.weights[:, :4])  # the reward is always 1
    drawn = model.draw(np.random.default_rng(0), np.tile([0.0, 0.1, 0.0, 0.1, 1.0], (4_000, 1)))
    np.testing.assert_allclose(drawn.std(0), [0, 0.15, 0, 0.15, 0], atol=0.02)


def test_what_is_drawn_follows_the_change():
    model, _ = current(cartpole(3_000, 0), cartpole(60, 1, force=-1.0))
    inputs, outputs = cartpole(500, 2, force=-1.0)
    drawn = model.draw(np.random.default_rng(0), inputs)
    np.testing.assert_allclose(drawn, outputs, atol=0.05)


def test_a_model_is_trusted_only_if_it_predicts_every_output_that_varies():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(30, 3)) * [1.0, 2.0, 0.0]
    assert explains(0.6 * (y - y.mean(0)), y)
    assert not explains(0.8 * (y - y.mean(0)), y)
    assert not explains(np.column_stack([y[:, 0], 0.1 * y[:, 1:]]) * 1.2, y)
    before = synthetic(500, 0)
    x, _ = synthetic(40, 1)
    assert not current(before, (x, 3.0 * rng.normal(size=(40, 2))))[1]  # an output of which nothing is known any more


def test_a_model_goes_on_from_its_state_with_the_same_bits():
    since = cartpole(50, 1, length=1.6)
    model, _ = current(cartpole(500, 0), since)
    again = CurrentDynamics(5, 5)
    again.restore({name: array.copy() for name, array in model.state().items()})
    again.refresh(*since)
    np.testing.assert_array_equal(again.corrected, model.corrected)
    np.testing.assert_array_equal(again.deviations, model.deviations)
    old = {name: array for name, array in model.state().items() if name in ("weights", "explained")}
    again.restore(old)  # as version 0.2.0 saved it
    assert again.explained[0] == 0.0
