"""What the differential campaign compares with: drawn problems, and their exact values by plain NumPy."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dqucb.problems import ShiftingMDP, TabularMDP

STEP = 64  # probabilities and rewards are multiples of 1 / STEP, so that sums and products of them are exact


@dataclass(frozen=True)
class Drawn:
    """A problem as dense arrays: P (steps, S, A, S) and R (steps, S, A, S) of each phase."""

    P: tuple[np.ndarray, ...]
    R: tuple[np.ndarray, ...]
    terminal: np.ndarray
    initial: Any
    horizon: int | None
    discount: float | None
    change_at: tuple[int, ...]
    length: int

    @property
    def n_states(self) -> int:
        return int(self.P[0].shape[1])

    @property
    def n_actions(self) -> int:
        return int(self.P[0].shape[2])

    @property
    def unit(self) -> str:
        return "steps" if self.horizon is None else "episodes"

    @property
    def largest_reward(self) -> float:
        """The largest reward that can be met."""
        alive = ~self.terminal[:, None, None]
        return max(float(R[(P > 0) & alive].max()) for P, R in zip(self.P, self.R, strict=True))

    @property
    def distinct(self) -> bool:
        """Whether no pair has two next states of one probability, which are drawn in the order of their numbers."""
        rows = np.concatenate([P.reshape(-1, self.n_states) for P in self.P])
        return all(len(set(row[row > 0])) == (row > 0).sum() for row in rows)

    def phase_at(self, index: int) -> int:
        """The phase in force."""
        return sum(index >= change for change in self.change_at)

    def problem(self) -> Any:
        """The problem as the library has it."""
        ends: dict[str, Any] = {"horizon": self.horizon, "discount": self.discount}
        phases = [
            TabularMDP(
                P if len(P) > 1 else P[0], R if len(R) > 1 else R[0],
                terminal=np.flatnonzero(self.terminal), initial=self.initial, **ends,
            )
            for P, R in zip(self.P, self.R, strict=True)
        ]  # fmt: skip
        return phases[0] if len(phases) == 1 else ShiftingMDP(phases, self.change_at)

    # ---- other forms of the same problem ------------------------------------------------------------------

    def times(self, factor: float) -> "Drawn":
        """All rewards times a number."""
        return replace(self, R=tuple(factor * R for R in self.R))

    def plus(self, constant: float) -> "Drawn":
        """A constant added to all rewards."""
        return replace(self, R=tuple(R + constant for R in self.R))

    def renumbered(self, order: np.ndarray) -> "Drawn":
        """State order[i] becomes state i."""
        fixed = np.ndim(self.initial) == 0
        initial = int(np.flatnonzero(order == self.initial)[0]) if fixed else self.initial[order]
        P, R = (tuple(x[:, order][..., order] for x in arrays) for arrays in (self.P, self.R))
        return replace(self, P=P, R=R, terminal=self.terminal[order], initial=initial)

    def permuted(self, order: np.ndarray) -> "Drawn":
        """Action order[i] becomes action i."""
        P, R = (tuple(x[:, :, order] for x in arrays) for arrays in (self.P, self.R))
        return replace(self, P=P, R=R)

    def with_idle_state(self) -> "Drawn":
        """One more state, which nothing leads to; it stays where it is and pays nothing."""
        n = self.n_states
        more = ((0, 0), (0, 1), (0, 0), (0, 1))
        P, R = ([np.pad(x, more) for x in arrays] for arrays in (self.P, self.R))
        for each in P:
            each[:, n, :, n] = 1.0
        initial = self.initial if np.ndim(self.initial) == 0 else np.append(self.initial, 0.0)
        return replace(self, P=tuple(P), R=tuple(R), terminal=np.append(self.terminal, False), initial=initial)

    def __str__(self) -> str:
        end = f"horizon {self.horizon}" if self.horizon is not None else f"discount {self.discount}"
        start = "fixed" if np.ndim(self.initial) == 0 else "random"
        return (
            f"{self.n_states} states, {self.n_actions} actions, {end}, {len(self.P)} phases, {len(self.P[0])} steps of "
            f"P, {int(self.terminal.sum())} terminal, {start} start, rewards "
            f"{min(R.min() for R in self.R):g} to {max(R.max() for R in self.R):g}, {self.length} {self.unit}"
        )


def draw_problem(rng: np.random.Generator) -> Drawn:
    """A problem nobody chose."""
    S, A = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    horizon, discount = (int(rng.integers(1, 7)), None) if rng.random() < 0.75 else (None, _discount(rng))
    steps = horizon if horizon is not None and rng.random() < 0.3 else 1
    phases = int(rng.choice([1, 1, 2, 3]))
    length = int(rng.integers(15, 50)) * (4 if horizon is None else 1)
    change_at = tuple(sorted(rng.choice(np.arange(1, length), phases - 1, replace=False).tolist()))
    terminal = np.zeros(S, bool)
    if rng.random() < 0.5:
        terminal[1:] = rng.random(S - 1) < 0.4
    initial: Any = 0
    if rng.random() < 0.3:
        weights = rng.integers(0, 5, S) * ~terminal
        weights[0] += 1
        initial = weights / weights.sum()
    low, high = rewards_between(rng)
    P = tuple(_transitions(rng, steps, S, A) for _ in range(phases))
    R = tuple(np.round(rng.uniform(low, high, (steps, S, A, S)) * STEP) / STEP for _ in range(phases))
    if rng.random() < 0.5:  # rewards of pairs, as most problems have
        R = tuple(np.repeat(each[..., :1], S, axis=3) for each in R)
    return Drawn(P, R, terminal, initial, horizon, discount, change_at, length)


def rewards_between(rng: np.random.Generator) -> tuple[float, float]:
    """The range of rewards: within [0, 1], negative, mixed, or large."""
    return ((0.0, 1.0), (-1.0, 0.0), (-3.0, 2.0), (0.0, 40.0), (-200.0, 500.0))[int(rng.integers(5))]


def _discount(rng: np.random.Generator) -> float:
    return float(rng.choice([0.0, 0.5, 0.9, 0.97]))


def _transitions(rng: np.random.Generator, steps: int, S: int, A: int) -> np.ndarray:
    """Sure, sparse or dense ones, in multiples of 1 / STEP."""
    P = np.zeros((steps, S, A, S))
    sure = rng.random() < 0.3
    for row in P.reshape(-1, S):
        successors = rng.choice(S, 1 if sure else int(rng.integers(1, S + 1)), replace=False)
        cuts = np.sort(rng.choice(np.arange(1, STEP), len(successors) - 1, replace=False))
        row[successors] = np.diff([0, *cuts, STEP]) / STEP
    return P


# ---- exact values -----------------------------------------------------------------------------------------


def optimum(drawn: Drawn, phase: int) -> tuple[np.ndarray, np.ndarray]:
    """V* (H + 1, S) and Q* (H, S, A), or (S,) and (S, A) with a discount, by policy iteration."""
    if drawn.horizon is not None:
        return _backward(drawn, phase, lambda h, q: q.max(axis=1))
    actions = np.zeros(drawn.n_states, int)
    while True:
        values = policy_value(drawn, phase, np.eye(drawn.n_actions)[actions])
        q_values = _backup(drawn, phase, 0, float(drawn.discount or 0.0), values)
        rounding = 1e-10 * (1 + np.abs(values).max())
        better = q_values.max(axis=1) > q_values[np.arange(drawn.n_states), actions] + rounding
        if not better.any():
            return values, q_values
        actions = np.where(better, q_values.argmax(axis=1), actions)


def policy_value(drawn: Drawn, phase: int, policy: np.ndarray) -> np.ndarray:
    """V of a policy (H, S, A) or (S, A) of probabilities: (H + 1, S) or (S,)."""
    if drawn.horizon is not None:
        return _backward(drawn, phase, lambda h, q: (policy[h] * q).sum(axis=1))[0]
    P, R, alive = drawn.P[phase][0], drawn.R[phase][0], ~drawn.terminal
    kernel = P * (policy * alive[:, None])[:, :, None]
    rewards = (kernel * R).sum(axis=(1, 2))
    return np.linalg.solve(np.eye(drawn.n_states) - float(drawn.discount or 0.0) * kernel.sum(axis=1) * alive, rewards)


def exploring_policy(q_values: np.ndarray, epsilon: float) -> np.ndarray:
    """Probabilities of actions: uniform ones with `epsilon`, else the best, on ties the first from a random one on."""
    policy = np.full(q_values.shape, epsilon / q_values.shape[-1])
    for row, q_row in zip(policy.reshape(-1, policy.shape[-1]), q_values.reshape(-1, policy.shape[-1]), strict=True):
        for first in range(len(row)):
            order = np.roll(np.arange(len(row)), -first)
            row[order[np.argmax(q_row[order])]] += (1.0 - epsilon) / len(row)
    return policy


def episode_values(drawn: Drawn, phase: int) -> tuple[float, float]:
    """The best and the worst expected return of an episode, from the start; with a discount, of all that follows."""
    worst_form = replace(drawn, R=tuple(-R for R in drawn.R))
    start = np.eye(drawn.n_states)[drawn.initial] if np.ndim(drawn.initial) == 0 else drawn.initial
    best, worst = (optimum(form, phase)[0] for form in (drawn, worst_form))
    return float(np.atleast_2d(best)[0] @ start), -float(np.atleast_2d(worst)[0] @ start)


def _backup(drawn: Drawn, phase: int, h: int, discount: float, values: np.ndarray) -> np.ndarray:
    P, R = drawn.P[phase], drawn.R[phase]
    step = h if len(P) > 1 else 0
    q_values = (P[step] * (R[step] + discount * np.where(drawn.terminal, 0.0, values))).sum(axis=2)
    return np.where(drawn.terminal[:, None], 0.0, q_values)


def _backward(drawn: Drawn, phase: int, choose: Any) -> tuple[np.ndarray, np.ndarray]:
    H = int(drawn.horizon or 0)
    values = np.zeros((H + 1, drawn.n_states))
    q_values = np.zeros((H, drawn.n_states, drawn.n_actions))
    for h in reversed(range(H)):
        q_values[h] = _backup(drawn, phase, h, 1.0, values[h + 1])
        values[h] = choose(h, q_values[h])
    return values, q_values
