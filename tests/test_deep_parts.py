"""Parts of the deep agents against obvious slow twins: networks, Adam, replay, hashing, bonuses, calibration."""

import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from dqucb.deep import (
    CountBonus,
    DensityBonus,
    DiscreteHead,
    NoBonus,
    Replay,
    SimHashCounts,
    StackedMLP,
    calibration,
    fitted_scale,
)
from dqucb.deep.bonus import scott_bandwidth
from dqucb.deep.double_q import DoubleQ
from dqucb.deep.replay import Batch
from dqucb.deep.scaling import RunningScale
from dqucb.deep.trainer import Schedule
from dqucb.density import TransitionKDE


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


class PlainNetwork:
    """One network in double precision: layers by the formula, derivatives by differences, Adam as published."""

    def __init__(self, stack, i):
        self.layers = [(weights[i].astype(float), biases[i].astype(float)) for weights, biases in stack.layers]
        self.parameters = [array for layer in self.layers for array in layer]
        self.means, self.squares = ([np.zeros_like(array) for array in self.parameters] for _ in range(2))
        self.count = 0

    def __call__(self, x):
        *hidden, (weights, biases) = self.layers
        for inner_weights, inner_biases in hidden:
            x = np.maximum(0.0, x @ inner_weights + inner_biases)
        return x @ weights + biases

    def gradient(self, loss):
        gradient = [np.zeros_like(array) for array in self.parameters]
        for array, part in zip(self.parameters, gradient, strict=True):
            for place in np.ndindex(array.shape):
                kept, around = array[place], []
                for moved in (kept + 1e-6, kept - 1e-6):
                    array[place] = moved
                    around.append(loss(self))
                array[place], part[place] = kept, (around[0] - around[1]) / 2e-6
        return gradient

    def step(self, gradient, rate, max_grad_norm):
        norm = sum((part**2).sum() for part in gradient) ** 0.5
        self.count += 1
        for i, part in enumerate(gradient):
            part = part * min(1.0, max_grad_norm / norm)
            self.means[i] = 0.9 * self.means[i] + 0.1 * part
            self.squares[i] = 0.999 * self.squares[i] + 0.001 * part**2
            mean, square = self.means[i] / (1 - 0.9**self.count), self.squares[i] / (1 - 0.999**self.count)
            self.parameters[i] -= rate * mean / (np.sqrt(square) + 1e-8)


@pytest.mark.parametrize("sizes", [(3, 2), (3, 5, 2), (3, 5, 4, 2)])
def test_a_stack_computes_and_learns_as_separate_networks(sizes):
    stack = StackedMLP(sizes, generators(0, 1, 2), learning_rate=0.01, max_grad_norm=0.5)
    singles = [PlainNetwork(stack, i) for i in range(3)]
    rng = np.random.default_rng(9)
    for _ in range(20):
        x = rng.standard_normal((3, 8, 3)).astype(np.float32)
        y = rng.standard_normal((3, 8, 2)) * [[[1.0]], [[30.0]], [[0.1]]]  # the second's gradient is cut
        outputs, tape = stack.forward(x)
        stack.step(tape, ((outputs - y) / 8).astype(np.float32))
        for i, net in enumerate(singles):
            np.testing.assert_allclose(outputs[i], net(x[i]), rtol=2e-3, atol=2e-4)
            net.step(net.gradient(lambda it, x=x[i], y=y[i]: ((it(x) - y) ** 2).sum() / 16), 0.01, 0.5)
    for i, net in enumerate(singles):
        np.testing.assert_allclose(stack(x)[i], net(x[i]), rtol=2e-3, atol=2e-4)


def test_a_seed_in_a_stack_has_the_bits_of_the_seed_alone():
    x = np.random.default_rng(3).standard_normal((1, 32, 4)).astype(np.float32)
    results = []
    for seeds in ([7], [3, 7], [1, 2, 7, 4, 5]):
        stack = StackedMLP((4, 64, 64, 2), generators(*seeds), learning_rate=0.01, max_grad_norm=1.0)
        i = seeds.index(7)
        rows = np.repeat(x, len(seeds), 0)
        for _ in range(10):
            outputs, tape = stack.forward(rows)
            stack.step(tape, outputs / 32)
        results.append(stack.weights[i].tobytes())
    assert results[0] == results[1] == results[2]


def test_one_seed_of_a_stack_learns_in_the_memory_of_the_stack():
    stack = StackedMLP((4, 8, 2), generators(0, 1))
    before, one = stack.weights.copy(), stack.only(1)
    outputs, tape = one.forward(np.ones((1, 3, 4), np.float32))
    one.step(tape, outputs)
    np.testing.assert_array_equal(stack.weights[0], before[0])
    assert (stack.weights[1] != before[1]).any()
    assert (one.updates, stack.updates) == (1, 0)


def filled(capacity, transitions):
    """Two seeds; rewards count up from 0 and from 100, and an episode ends at every multiple of four."""
    replay = Replay(2, capacity, 1, 1)
    for t in range(transitions):
        x = np.array([t, 100 + t])
        replay.add(x[:, None], x[:, None], x, x[:, None] + 1, x % 8 == 0, x % 4 == 0, x[:, None], x)
    return replay


def test_replay_keeps_the_last_transitions_and_samples_each_seed_by_its_own_generator():
    replay = filled(5, 7)
    batch = replay.sample(generators(0, 1), 400)
    assert set(batch.rewards[0].ravel()) == {2, 3, 4, 5, 6}
    assert set(batch.rewards[1].ravel()) == {102, 103, 104, 105, 106}
    np.testing.assert_array_equal(batch.observations, batch.rewards)
    np.testing.assert_array_equal(batch.next_observations, batch.rewards + 1)
    np.testing.assert_array_equal(batch.choices, batch.cells[:, :, 0])
    assert batch.alive.all()
    alone = Replay(1, 5, 1, 1)
    alone.restore({name: array[1:] for name, array in replay.state().items()}, replay.next)
    np.testing.assert_array_equal(alone.sample(generators(1), 400).rewards[0], batch.rewards[1])


@pytest.mark.parametrize(("capacity", "transitions"), [(50, 23), (10, 23), (9, 9)])
def test_chains_stop_at_the_end_of_an_episode_and_of_what_is_stored(capacity, transitions):
    batch = filled(capacity, transitions).sample(generators(0, 1), 300, 3)
    for i, offset in enumerate((0, 100)):
        for j in range(300):
            chain = [int(batch.observations[i, j, 0])]
            while len(chain) < 3 and chain[-1] % 4 != 0 and chain[-1] + 1 < offset + transitions:
                chain.append(chain[-1] + 1)
            assert batch.rewards[i, j][batch.alive[i, j]].tolist() == chain
            assert batch.next_observations[i, j, 0] == chain[-1] + 1
            assert batch.terminated[i, j] == (chain[-1] % 8 == 0)


@pytest.mark.parametrize("bonus", [0.0, 1.0])
@pytest.mark.parametrize(("theirs", "counted"), [(2.5, 2.5), (5.0, 3.0)])
def test_an_update_moves_q_towards_the_double_q_target_of_the_chain(bonus, theirs, counted):
    """A network without hidden layers: the direction of Adam's first step is the sign of the error."""
    settings = {"discount": 0.5, "huber_delta": 1.0, "tau": 0.25, "target_every": 1, "act_on": "online"}
    truth = (1 + bonus) + 0.5 * (2 + bonus) + 0.25 * counted  # the third transition is after the end
    for start in (truth - 0.05, truth + 0.05):
        network = StackedMLP((1, 2), generators(0), learning_rate=1e-3, max_grad_norm=10.0)
        learner = DoubleQ(network, RunningScale(1, 1, 0), DiscreteHead(2), value_bound=3.0, **settings)
        learner.online.weights[:] = [0.0, 0.0, start, 9.0]  # weights of both actions, then biases
        learner.target.weights[:] = [0.0, 0.0, 7.0, theirs]
        column = np.zeros((1, 1, 1), np.float32)
        chain = np.array([[[1.0, 2.0, 50.0]]], np.float32)
        batch = Batch(column, np.zeros((1, 1, 1), int), column, np.zeros((1, 1), np.float32), chain,
                      np.array([[[True, True, False]]]), np.zeros((1, 1, 3, 1), int), chain)  # fmt: skip
        learner.update(batch, np.full((1, 1, 3), bonus))
        assert float(learner.loss[0]) == pytest.approx(0.5 * 0.05**2, rel=1e-3)
        moved = float(learner.online.weights[0, 2]) - start
        assert moved == pytest.approx(1e-3 if start < truth else -1e-3, rel=1e-3)
        assert float(learner.target.weights[0, 2]) == pytest.approx(7 + 0.25 * (start + moved - 7))


def test_the_running_scale_is_mean_and_spread_until_it_freezes():
    rows = np.random.default_rng(0).normal(3.0, 2.0, (30, 2, 3))
    scale = RunningScale(2, 3, 20)
    for row in rows:
        scale.update(row)
    np.testing.assert_allclose(scale.mean, rows[:20].mean(0))
    np.testing.assert_allclose(scale.deviation, rows[:20].std(0))
    np.testing.assert_allclose(scale(rows[0]), (rows[0] - rows[:20].mean(0)) / rows[:20].std(0))
    np.testing.assert_array_equal(RunningScale(1, 2, 9).deviation, 1.0)


def test_simhash_counts_are_those_of_a_dictionary():
    rng = np.random.default_rng(0)
    hashing = SimHashCounts(generators(4, 5), 3, bits=8, table_bits=20)
    twin = [{}, {}]
    for _ in range(300):
        states, choices = rng.standard_normal((2, 3)), rng.integers(2, size=(2, 1))
        cells = hashing.cells(states, choices)
        hashing.add(cells)
        for i in range(2):
            key = (*(states[i] @ hashing.planes[i] > 0), choices[i, 0])
            twin[i][key] = twin[i].get(key, 0) + 1
            assert hashing.of(cells)[i, 0] == twin[i][key]
    assert all(sorted(hashing.counts[i][hashing.counts[i] > 0]) == sorted(twin[i].values()) for i in range(2))
    assert not np.array_equal(hashing.planes[0], hashing.planes[1])
    assert SimHashCounts(generators(0), 3, bits=64, table_bits=4).counts.nbytes == 16 * 4


def density_bonus(**changes):
    settings = {"scale": 0.5, "bits": 16, "table_bits": 12, "window": 10, "kernel": "gaussian", "bandwidth": None,
                "floor": 0.2, "on": "next_state", "freeze_after": 100}  # fmt: skip
    return DensityBonus(generators(1, 2), 3, 1, 1, **{**settings, **changes})


def test_the_three_bonuses_differ_by_count_and_likelihood_alone():
    none, count, density = NoBonus(2, 1), CountBonus(generators(1, 2), 3, 1, scale=0.5, bits=16, table_bits=12), (
        density_bonus())  # fmt: skip
    windows = [TransitionKDE(3, 1, window=10, bandwidth=scott_bandwidth(10, 7)) for _ in range(2)]
    rng, rows = np.random.default_rng(3), np.arange(2)
    for t in range(40):
        s, s2, a = rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), rng.integers(2, size=(2, 1))
        if t % 3 == 0:
            s, s2, a = np.ones((2, 3)), np.ones((2, 3)), np.zeros((2, 1), int)
        wanted = [w.likelihood(s[i], 2.0 * a[i], s2[i]) for i, w in enumerate(windows)]
        for i, w in enumerate(windows):
            w.push(s[i], 2.0 * a[i], s2[i])
        cells, p = density.observe(rows, s, s2, a, 2.0 * a)
        np.testing.assert_array_equal(p, wanted)
        cells_of_count, ones = count.observe(rows, s, s2, a, 2.0 * a)
        np.testing.assert_array_equal(cells, cells_of_count)
        np.testing.assert_array_equal(ones, 1.0)
        plain = count.at(cells[:, None], ones[:, None])
        np.testing.assert_allclose(density.at(cells[:, None], p[:, None]), plain / np.maximum(p, 0.2)[:, None])
        if t % 3 == 0:
            np.testing.assert_allclose(plain, 0.5 / np.sqrt(1 + t // 3))
    assert not none.at(cells[:, None], p[:, None]).any()


def test_a_density_on_changes_sees_a_jump_that_the_other_blurs():
    falls = {}
    for on in ("next_state", "change"):
        bonus, rng, rows = density_bonus(on=on, window=50), np.random.default_rng(0), np.arange(2)
        likelihood, s = [], rng.standard_normal((2, 3))
        for t in range(400):
            s2 = 0.98 * s + 0.02 * rng.standard_normal((2, 3)) + (0.3 if t % 40 == 39 and t > 200 else 0.0)
            likelihood.append(bonus.observe(rows, s, s2, np.zeros((2, 1), int), np.zeros((2, 1)))[1].mean())
            s = s2
        falls[on] = likelihood[239] / np.mean(likelihood[201:239])
    assert falls["change"] < 0.05 < 0.5 < falls["next_state"]


def test_exploration_falls_linearly_after_the_random_start():
    plan = Schedule(32, 100, 1, 1, 0.1, 50)
    assert [plan.epsilon_at(t) for t in (0, 99, 100, 125, 145, 1000)] == [1.0, 1.0, 1.0, 0.5, 0.1, 0.1]
    assert Schedule(32, 100, 1, 1, 0.0, 0).epsilon_at(100) == 0.0


def test_calibration_is_perfect_for_gaussian_errors_of_the_stated_spread_and_not_otherwise():
    rng = np.random.default_rng(0)
    q, bonus = rng.normal(50, 10, 40_000), rng.uniform(0.5, 2.0, 40_000)
    returns = q + bonus * rng.standard_normal(40_000)
    right = calibration(q, bonus, returns)
    assert right.ece < 0.01
    narrow = calibration(q, bonus / 3, returns)
    assert narrow.ece > 0.2
    assert narrow.bias == pytest.approx(-narrow.ece)  # over-confident at every level
    assert calibration(q, bonus * 3, returns).bias > 0.2
    assert fitted_scale(q, bonus / 3, returns) == pytest.approx(3.0, rel=0.03)
    assert calibration(q, bonus / 3, returns, scale=3.0).ece < 0.01
    with pytest.raises(ValueError, match="at least one visit"):
        calibration(q[:0], bonus[:0], returns[:0])
