"""Continuous families: processes with real states, drawn from a seed, and their changes.

A `Process` has one function for the next state before the change and one for after it. The state may have coordinates
that a stream does not show. The size of a change is drawn too; where the divergence is known, draws outside
`INFORMATION` are drawn again, so that changes are neither invisible nor trivial.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb.drift.benchmark.streams import Draws, Stream, register

Vector = NDArray[np.float64]
Generator = np.random.Generator
Step = Callable[[Vector, Vector, Generator], Vector]
INFORMATION = (0.05, 0.8)  # nats per update
TRIES = 500
PILOT = 300  # updates that measure the information of a draw


def _noise_policy(state: Vector, rng: Generator) -> Vector:
    return rng.standard_normal(1)


def _identity(state: Vector, changed: bool) -> Vector:
    return state


@dataclass
class Process:
    """A process and its changed form; `information(state, action)` is the divergence given a place."""

    before: Step
    after: Step
    start: Vector
    policy: Callable[[Vector, Generator], Vector] = _noise_policy
    policy_after: Callable[[Vector, Generator], Vector] | None = None
    information: Callable[[Vector, Vector], float] | None = None
    observe: Callable[[Vector, bool], Vector] = _identity
    ramp: int = 0  # updates over which `after` replaces `before`


def simulate(process: Process, noise: Generator, actions: Generator, change_at: int | None, steps: int) -> Stream:
    """A stream of a process; noise and actions have generators of their own.

    Parameters
    ----------
    process : Process
        What is simulated.
    noise, actions : numpy.random.Generator
        For the process and for the policy.
    change_at : int or None
        The first transition of the changed process.
    steps : int
        Length of the stream.
    """
    state, changed = process.start, False
    shown = process.observe(state, changed)
    rows: list[tuple[Vector, Vector, Vector]] = []
    total, counted = 0.0, 0
    for t in range(steps):
        changed = change_at is not None and t >= change_at
        policy = process.policy_after if changed and process.policy_after is not None else process.policy
        action = policy(shown, actions)
        if changed and change_at is not None and process.ramp > 0 and t - change_at < process.ramp:
            share = (t - change_at) / process.ramp
            step = process.after if noise.random() < share else process.before
        else:
            step = process.after if changed else process.before
        if changed and process.information is not None:
            total, counted = total + process.information(state, action), counted + 1
        state = step(state, action, noise)
        next_state = process.observe(state, changed)
        rows.append((shown, action, next_state))
        shown = next_state
    s, a, n = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    known = counted > 0 and process.ramp == 0
    return Stream(s, a, n, np.zeros(steps), change_at, total / counted if known else None)


def family(process_of: Callable[[Generator], Process]) -> Any:
    """A maker of streams from a function that draws a process; the information of a draw lies in `INFORMATION`."""

    def make(rng_of: Draws, change_at: int | None, steps: int) -> Stream:
        rng = rng_of("world")
        for _ in range(TRIES):
            process = process_of(rng)
            if process.information is None or process.ramp > 0:
                break
            pilot = simulate(process, np.random.default_rng(0), np.random.default_rng(1), 0, PILOT).information or 0.0
            if INFORMATION[0] <= pilot <= INFORMATION[1]:
                break
        else:
            raise RuntimeError(f"no draw of {TRIES} had a change of {INFORMATION} nats per update")
        return simulate(process, rng_of("noise"), rng_of("actions"), change_at, steps).rescaled(rng_of("units"))

    return make


# Linear systems: x' = A x + B u + c + e, e ~ N(0, Q).


@dataclass
class Linear:
    """The parameters of a linear system."""

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    c: Vector
    Q: NDArray[np.float64]

    def step(self) -> Step:
        root = np.linalg.cholesky(self.Q)
        return lambda x, u, rng: self.A @ x + self.B @ u + self.c + root @ rng.standard_normal(self.c.size)


def draw_stable(rng: Generator, n: int) -> NDArray[np.float64]:
    """A random matrix with a spectral radius in [0.3, 0.98].

    Parameters
    ----------
    rng : numpy.random.Generator
        Where it is drawn from.
    n : int
        Its size.
    """
    A = rng.standard_normal((n, n)) / np.sqrt(n)
    return np.asarray(A * rng.uniform(0.3, 0.98) / np.abs(np.linalg.eigvals(A)).max())


def draw_linear(rng: Generator, n: int) -> Linear:
    """A stable linear system with correlated noise.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where it is drawn from.
    n : int
        Dimensions of the state.
    """
    m = int(rng.integers(1, 3))
    root = np.diag(np.exp(rng.uniform(-1.0, 1.0, n))) @ (np.eye(n) + 0.3 * np.tril(rng.standard_normal((n, n)), -1))
    return Linear(draw_stable(rng, n), rng.standard_normal((n, m)), rng.standard_normal(n), root @ root.T)


def change_linear(rng: Generator, old: Linear, kind: str) -> Linear:
    """The system after a change of one kind, of a random size.

    Parameters
    ----------
    rng : numpy.random.Generator
        For the size of the change.
    old : Linear
        Before it.
    kind : str
        One of `KINDS` or "correlation".
    """
    A, B, c, Q = old.A.copy(), old.B.copy(), old.c.copy(), old.Q.copy()
    n = c.size
    i, j = int(rng.integers(n)), int(rng.integers(n))
    sign = rng.choice([-1.0, 1.0])
    if kind == "mean":
        c[i] += sign * rng.uniform(0.3, 2.0) * np.sqrt(Q[i, i])
    elif kind == "coefficient":
        A[i, j] += sign * rng.uniform(0.2, 1.0)
    elif kind == "all coefficients":
        A = A + np.exp(rng.uniform(-4.0, -0.5)) * rng.standard_normal((n, n)) / np.sqrt(n)
    elif kind == "gain":
        B = B * rng.uniform(0.0, 0.7)
    elif kind in ("noise up", "noise down"):
        factor = np.ones(n)
        factor[i] = rng.uniform(1.3, 2.5) if kind == "noise up" else rng.uniform(0.2, 0.7)
        Q = factor[:, None] * Q * factor
    elif kind == "correlation":
        j = (i + 1) % n
        Q[i, j] = Q[j, i] = rng.uniform(-0.9, 0.9) * np.sqrt(Q[i, i] * Q[j, j])
    if np.abs(np.linalg.eigvals(A)).max() > 0.99 or np.linalg.eigvalsh(Q).min() <= 1e-3 * np.diag(Q).min():
        return change_linear(rng, old, kind)
    return Linear(A, B, c, Q)


def divergence(old: Linear, new: Linear) -> Callable[[Vector, Vector], float]:
    """KL(new || old) of the next state given (x, u), both Gaussian.

    Parameters
    ----------
    old, new : Linear
        Before and after the change.
    """
    P = np.linalg.inv(old.Q)
    ratio = P @ new.Q
    fixed = 0.5 * (np.trace(ratio) - old.c.size - np.linalg.slogdet(ratio)[1])
    A, B, c = new.A - old.A, new.B - old.B, new.c - old.c

    def information(x: Vector, u: Vector) -> float:
        shift = A @ x + B @ u + c
        return float(fixed + 0.5 * shift @ P @ shift)

    return information


def _stable_gain(rng: Generator, system: Linear) -> NDArray[np.float64]:
    """A feedback gain of a policy, small enough that the system stays stable."""
    m, n = system.B.shape[1], system.c.size
    for _ in range(TRIES):
        gain = 0.3 * rng.standard_normal((m, n))
        if np.abs(np.linalg.eigvals(system.A + system.B @ gain)).max() < 0.99:
            return gain
    return np.zeros((m, n))


def linear_process(smallest: int, largest: int, kind: str, ramp: bool = False) -> Callable[[Generator], Process]:
    """Draws a linear system of some size and a change of one kind.

    Parameters
    ----------
    smallest, largest : int
        Dimensions.
    kind : str
        As in `change_linear`.
    ramp : bool
        Whether the change takes 200 to 1,000 updates.
    """

    def process_of(rng: Generator) -> Process:
        old = draw_linear(rng, int(rng.integers(smallest, largest + 1)))
        new = change_linear(rng, old, kind)
        m = old.B.shape[1]
        gain = _stable_gain(rng, old) if rng.random() < 0.5 else np.zeros((m, old.c.size))
        share = rng.uniform(0.3, 1.0)

        def policy(x: Vector, rng: Generator) -> Vector:
            return np.asarray(gain @ x + share * rng.standard_normal(m))

        if np.abs(np.linalg.eigvals(new.A + new.B @ gain)).max() > 0.99:
            return process_of(rng)
        slow = int(rng.integers(200, 1_000)) if ramp else 0
        return Process(old.step(), new.step(), np.zeros(old.c.size), policy, None, divergence(old, new), ramp=slow)

    return process_of


KINDS = ("mean", "coefficient", "all coefficients", "gain", "noise up", "noise down")
for _kind in (*KINDS, "correlation"):
    _least = 2 if _kind == "correlation" else 1
    register(f"linear 1-3, {_kind}", family(linear_process(_least, 3, _kind)), "continuous")
    register(f"linear 10, {_kind}", family(linear_process(10, 10, _kind)), "continuous")
register("linear ramp", family(linear_process(1, 3, "mean", ramp=True)), "continuous")
