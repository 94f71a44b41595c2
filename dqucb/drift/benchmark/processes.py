"""Continuous families that are not linear and Gaussian: tails, sensors, counts, hidden state, chaos, placebos."""

from collections.abc import Callable

import numpy as np

from dqucb.drift.benchmark.simulation import Generator, Linear, Process, Vector, change_linear, draw_linear, family
from dqucb.drift.benchmark.streams import register


def _small(rng: Generator) -> tuple[Linear, int]:
    system = draw_linear(rng, int(rng.integers(1, 4)))
    return system, system.B.shape[1]


def _open_loop(m: int) -> Callable[[Vector, Generator], Vector]:
    return lambda x, rng: rng.standard_normal(m)


def _with_tails(system: Linear, freedom: float) -> Callable[[Vector, Vector, Generator], Vector]:
    root = np.linalg.cholesky(system.Q)

    def step(x: Vector, u: Vector, rng: Generator) -> Vector:
        e = root @ rng.standard_normal(system.c.size)
        return np.asarray(system.A @ x + system.B @ u + system.c + e / np.sqrt(rng.chisquare(freedom) / freedom))

    return step


def heavy_tails(rng: Generator) -> Process:
    """Student's t noise; the mean moves."""
    old, m = _small(rng)
    freedom = rng.uniform(2.2, 6.0)
    new = change_linear(rng, old, "mean")
    return Process(_with_tails(old, freedom), _with_tails(new, freedom), np.zeros(old.c.size), _open_loop(m))


def tails_grow(rng: Generator) -> Process:
    """Gaussian noise becomes Student's t of the same scale."""
    old, m = _small(rng)
    return Process(old.step(), _with_tails(old, rng.uniform(1.5, 2.5)), np.zeros(old.c.size), _open_loop(m))


def own_noise(rng: Generator) -> Process:
    """The noise depends on the state; one coordinate's mean moves."""
    old, m = _small(rng)
    new = change_linear(rng, old, "mean")
    root, strength, n = np.linalg.cholesky(old.Q), rng.uniform(0.2, 1.0), old.c.size

    def step_of(system: Linear) -> Callable[[Vector, Vector, Generator], Vector]:
        def step(x: Vector, u: Vector, rng: Generator) -> Vector:
            scale = np.sqrt(1.0 + strength * np.minimum(x * x, 100.0))
            return np.asarray(system.A @ x + system.B @ u + system.c + scale * (root @ rng.standard_normal(n)))

        return step

    return Process(step_of(old), step_of(new), np.zeros(n), _open_loop(m))


def sensor_bias(rng: Generator) -> Process:
    """One coordinate is shown with an offset."""
    system, m = _small(rng)
    shift = np.zeros(system.c.size)
    shift[rng.integers(shift.size)] = rng.choice([-1.0, 1.0]) * rng.uniform(1.0, 4.0)
    shift = shift * np.sqrt(np.diag(system.Q))
    step = system.step()
    return Process(step, step, np.zeros(shift.size), _open_loop(m), observe=lambda x, after: x + shift if after else x)


def sensor_stuck(rng: Generator) -> Process:
    """One coordinate keeps one value."""
    system, m = _small(rng)
    i, step = int(rng.integers(system.c.size)), system.step()

    def observe(x: Vector, after: bool) -> Vector:
        if not after:
            return x
        shown = x.copy()
        shown[i] = 0.0
        return shown

    return Process(step, step, np.zeros(system.c.size), _open_loop(m), observe=observe)


def actuator_delay(rng: Generator) -> Process:
    """The action of the update before works."""
    system, m = _small(rng)
    n, root = system.c.size, np.linalg.cholesky(system.Q)

    def step_of(late: bool) -> Callable[[Vector, Vector, Generator], Vector]:
        def step(x: Vector, u: Vector, rng: Generator) -> Vector:
            works = x[n:] if late else u
            moved = system.A @ x[:n] + system.B @ works + system.c + root @ rng.standard_normal(n)
            return np.concatenate([moved, u])

        return step

    return Process(step_of(False), step_of(True), np.zeros(n + m), _open_loop(m), observe=lambda x, after: x[:n])


def counts(rng: Generator) -> Process:
    """x' ~ Poisson(a + b x + g u): the level changes."""
    n = int(rng.integers(1, 4))
    b, gain = rng.uniform(0.0, 0.8, n), rng.uniform(0.0, 0.3)
    a = np.exp(rng.uniform(0.0, 3.5, n)) * (1.0 - b)
    new = a.copy()
    i = int(rng.integers(n))
    new[i] *= rng.uniform(1.2, 2.0) if rng.random() < 0.5 else rng.uniform(0.5, 0.8)

    def mean(level: Vector, x: Vector, u: Vector) -> Vector:
        return np.maximum(level * (1.0 + gain * np.clip(u[0], -2.0, 2.0)) + b * x, 1e-3)

    def information(x: Vector, u: Vector) -> float:
        p, q = mean(new, x, u), mean(a, x, u)
        return float((p * np.log(p / q) - p + q).sum())

    def step_of(level: Vector) -> Callable[[Vector, Vector, Generator], Vector]:
        return lambda x, u, rng: rng.poisson(mean(level, x, u)).astype(np.float64)

    return Process(step_of(a), step_of(new), a.round(), information=information)


def hidden_noise(rng: Generator) -> Process:
    """The noise is an autoregression that the stream does not show; the mean moves."""
    system, m = _small(rng)
    new = change_linear(rng, system, "mean")
    n, root = system.c.size, np.linalg.cholesky(system.Q)
    rho, share = rng.uniform(0.5, 0.99), rng.uniform(0.3, 1.0)

    def step_of(mean: Vector) -> Callable[[Vector, Vector, Generator], Vector]:
        def step(x: Vector, u: Vector, rng: Generator) -> Vector:
            slow = rho * x[n:] + np.sqrt(1.0 - rho * rho) * rng.standard_normal(n)
            e = np.sqrt(share) * slow + np.sqrt(1.0 - share) * rng.standard_normal(n)
            return np.concatenate([system.A @ x[:n] + system.B @ u + mean + root @ e, slow])

        return step

    return Process(step_of(system.c), step_of(new.c), np.zeros(2 * n), _open_loop(m), observe=lambda x, after: x[:n])


def random_walk(rng: Generator) -> Process:
    """x' = x + g u + e: the walk gets a drift."""
    n = int(rng.integers(1, 4))
    gain = rng.uniform(0.0, 1.0, n)
    drift = np.zeros(n)
    drift[rng.integers(n)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 1.3)

    def step_of(mean: Vector) -> Callable[[Vector, Vector, Generator], Vector]:
        return lambda x, u, rng: x + gain * u[0] + mean + rng.standard_normal(n)

    size = 0.5 * float(drift @ drift)
    return Process(step_of(0.0 * drift), step_of(drift), np.zeros(n), information=lambda x, u: size)


def chaotic_map(rng: Generator) -> Process:
    """The logistic map or Henon's, with little or no noise; a parameter changes."""
    noise = 0.0 if rng.random() < 0.3 else 10.0 ** rng.uniform(-4.0, -1.5)
    gain = rng.uniform(0.0, 0.02)
    if rng.random() < 0.5:
        r = rng.uniform(3.6, 3.9)
        new = r + rng.choice([-1.0, 1.0]) * rng.uniform(0.02, 0.1)

        def logistic(parameter: float) -> Callable[[Vector, Vector, Generator], Vector]:
            def step(x: Vector, u: Vector, rng: Generator) -> Vector:
                moved = parameter * x * (1.0 - x) + gain * u + noise * rng.standard_normal(1)
                return np.clip(moved, 0.01, 0.99)

            return step

        return Process(logistic(r), logistic(new), np.array([0.4]))
    a = rng.uniform(1.2, 1.4)

    def henon(parameter: float) -> Callable[[Vector, Vector, Generator], Vector]:
        def step(x: Vector, u: Vector, rng: Generator) -> Vector:
            first = 1.0 - parameter * x[0] ** 2 + x[1] + gain * u[0] + noise * rng.standard_normal()
            return np.clip(np.array([first, 0.3 * x[0]]), -1.5, 1.5)

        return step

    return Process(henon(a), henon(a - rng.uniform(0.02, 0.15)), np.array([0.1, 0.1]))


def bent(rng: Generator) -> Process:
    """x' = x + h tanh(A x + B u) - damping + noise: a smooth nonlinear system whose field changes."""
    n, m = int(rng.integers(2, 5)), 1
    A, B = rng.standard_normal((n, n)), rng.standard_normal((n, m))
    other = A + rng.uniform(0.3, 1.0) * rng.standard_normal((n, n))
    noise = 10.0 ** rng.uniform(-3.0, -0.5)

    def step_of(matrix: Vector) -> Callable[[Vector, Vector, Generator], Vector]:
        def step(x: Vector, u: Vector, rng: Generator) -> Vector:
            return np.asarray(0.8 * x + 0.4 * np.tanh(matrix @ x + B @ u) + noise * rng.standard_normal(n))

        return step

    return Process(step_of(A), step_of(other), np.zeros(n), _open_loop(m))


def _moving_policy(process_of: Callable[[Generator], Process]) -> Callable[[Generator], Process]:
    """The same worlds where the policy alone changes: another mean, feedback and amount of exploration."""

    def placebo(rng: Generator) -> Process:
        process = process_of(rng)
        size = process.policy(process.observe(process.start, False), np.random.default_rng(0)).size
        mean, share = rng.normal(0.0, 0.7, size), rng.uniform(0.2, 1.2)
        weights = 0.2 * rng.standard_normal((size, process.observe(process.start, False).size))

        def policy(x: Vector, rng: Generator) -> Vector:
            return np.asarray(mean + np.clip(weights @ x, -1.0, 1.0) + share * rng.standard_normal(size))

        step = process.before
        return Process(
            step,
            step,
            process.start,
            process.policy,
            policy,
            observe=lambda x, after: process.observe(x, False),
        )

    return placebo


def _small_linear(rng: Generator) -> Process:
    system, m = _small(rng)
    step = system.step()
    return Process(step, step, np.zeros(system.c.size), _open_loop(m))


for _name, _world, _is_hidden in (
    ("heavy tails", heavy_tails, False),
    ("tails grow", tails_grow, False),
    ("state-dependent noise", own_noise, False),
    ("sensor bias", sensor_bias, False),
    ("sensor stuck", sensor_stuck, False),
    ("actuator delay", actuator_delay, False),
    ("counts", counts, False),
    ("hidden noise", hidden_noise, True),
    ("random walk", random_walk, False),
    ("chaotic map", chaotic_map, False),
    ("nonlinear", bent, False),
):
    register(_name, family(_world), "continuous", hidden=_is_hidden)
for _name, _world in (("linear", _small_linear), ("nonlinear", bent), ("counts", counts), ("noise", own_noise)):
    register(f"policy placebo, {_name}", family(_moving_policy(_world)), "continuous", placebo=True)
