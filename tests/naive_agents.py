"""Obvious, slow twins of the agents and of the loops that train them. Imports nothing from the library.

Written from the formulas, with dense arrays and Python loops. A world is a list of phases; P and R of a phase are
(H, S, A, S), with H = 1 where transitions do not depend on the step.
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass
from functools import cache

import naive_planning
import numpy as np
from naive import profile
from naive_density import log_normalization


@dataclass
class World:
    P: list
    R: list
    initial: list  # per phase: a state, or a distribution
    terminal: np.ndarray
    change_at: tuple = ()
    horizon: int | None = None
    discount: float | None = None
    return_bound: float = math.inf

    @property
    def shape(self):
        return self.P[0].shape[1:3]

    @property
    def bounds(self):
        """v_h: no return from step h is larger."""
        largest = max(R[(P > 0) & ~self.terminal[:, None, None]].max() for P, R in zip(self.P, self.R, strict=True))
        largest = max(1.0, largest)
        if self.horizon is None:
            return [min(largest / (1 - self.discount), self.return_bound)]
        return [min((self.horizon - h) * largest, self.return_bound) for h in range(self.horizon + 1)]

    @property
    def lowest_reward(self):
        return min(R[(P > 0) & ~self.terminal[:, None, None]].min() for P, R in zip(self.P, self.R, strict=True))

    def phase_at(self, index):
        return sum(index >= change for change in self.change_at)

    def start(self, phase, rng):
        initial = self.initial[phase]
        return initial if np.ndim(initial) == 0 else naive_planning.draw(initial, rng.random())

    def probability(self, phase, h, s, a, y):
        P = self.P[phase]
        return P[h if len(P) > 1 else 0, s, a, y]

    def step(self, phase, h, s, a, rng):
        """Inversion over the successors in order of falling probability."""
        P, R = self.P[phase], self.R[phase]
        row = P[h if len(P) > 1 else 0, s, a]
        order = sorted(np.flatnonzero(row), key=lambda y: (-row[y], y))
        y = int(order[naive_planning.draw(row[order], rng.random())])
        return R[h if len(R) > 1 else 0, s, a, y], y, bool(self.terminal[y])


# ---- likelihoods ------------------------------------------------------------------------------------------


class Certain:
    floor = 0.0

    def observe(self, world, phase, h, s, a, y, rng, row=None):
        return 1.0


class Windowed:
    """The last n tuples of each window, each of them summed over."""

    def __init__(self, window=100, kernel="gaussian", bandwidth=1.0, scope="pair", likelihood="normalized",
                 floor=0.3, noise=0.0, features=None):  # fmt: skip
        self.kernel, self.bandwidth, self.scope, self.likelihood = kernel, bandwidth, scope, likelihood
        self.floor, self.noise, self.features = floor, noise, features
        self.held = defaultdict(lambda: deque(maxlen=window))

    def place(self, state):
        return [state] if self.features is None else list(self.features[state])

    def observe(self, world, phase, h, s, a, y, rng, row=None):
        row = h if row is None else row  # steps that learn together share one
        held = self.held[{"pair": (row, s, a), "step": row, "shared": 0}[self.scope]]
        if self.likelihood == "oracle":
            p = self.true_ratio(world, phase, h, s, a, y, [then for then, *pair in held if pair == [s, a]])
            held.append((phase, s, a))
        else:
            p = self.estimate(s, a, y, held)
            held.append((y, s, a))
        if self.noise > 0:
            p = min(1.0, max(self.floor, max(self.floor, p) + self.noise * rng.standard_normal()))
        return p

    def true_ratio(self, world, phase, h, s, a, y, phases):
        if not phases:
            return 1.0
        then = sum(world.probability(i, h, s, a, y) for i in phases) / len(phases)
        return min(1.0, then / world.probability(phase, h, s, a, y))

    @cache  # noqa: B019  (a quadrature each)
    def density_ratio(self, small, large):
        return math.exp(
            log_normalization(self.kernel, self.bandwidth, large)
            - log_normalization(self.kernel, self.bandwidth, small)
        )

    def estimate(self, s, a, y, held):
        joint = marginal = 0.0
        here, next_here = np.array([*self.place(s), a], float), np.array(self.place(y), float)
        for other_y, other_s, other_a in held:
            near = np.sum((here - [*self.place(other_s), other_a]) ** 2)
            far = near + np.sum((next_here - self.place(other_y)) ** 2)
            marginal += float(profile(self.kernel, math.sqrt(near), self.bandwidth))
            joint += float(profile(self.kernel, math.sqrt(far), self.bandwidth))
        if marginal == 0.0:
            return 1.0
        ratio = joint / marginal
        if self.likelihood == "density":
            ratio *= self.density_ratio(len(here), len(here) + len(next_here))
        return ratio


# ---- agents with a horizon --------------------------------------------------------------------------------


def bonus_of(form, c, t, v, H, iota):
    return {
        "theory": c * math.sqrt(H**3 * iota / t),
        "simplified": min(c / math.sqrt(t) + v / t, v),
        "root": min(c / math.sqrt(t), v),
    }[form]


def first_best(row, start=0):
    """The first largest value met from `start` on, round the row."""
    places = [*range(start, len(row)), *range(start)]
    return max(places, key=lambda a: row[a])


def log_term(world, length, delta):
    S, A = world.shape
    return math.log(S * A * length * world.horizon / delta)


def chosen(row, epsilon, rng):
    """Greedy; an epsilon agent draws whether to explore, then the random action, from which ties are broken too."""
    if epsilon == 0:
        return first_best(row)
    explores, anything = rng.random() < epsilon, int(rng.random() * len(row))
    return anything if explores else first_best(row, anything)


class EpisodicQ:
    """QUCB, DQUCB, Q-learning and random actions."""

    def __init__(self, world, length, *, bonus="root", c=0.0, delta=0.05, rate_horizon=None, rate=None, epsilon=0.0,
                 optimistic=True, density=None):  # fmt: skip
        H, (S, A) = world.horizon, world.shape
        self.world, self.v, self.H = world, world.bounds, H
        self.Q = np.array([np.full((S, A), v * optimistic) for v in self.v[:H]])
        self.V = np.array([np.full(S, v * optimistic) for v in self.v])
        self.visits = np.zeros((H, S, A), int)
        self.form, self.c, self.iota = bonus, c, log_term(world, length, delta)
        self.rate_horizon, self.rate, self.epsilon = rate_horizon or H, rate, epsilon
        self.density = density or Certain()

    def act(self, h, s, rng):
        return chosen(self.Q[h, s], self.epsilon, rng)

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        p = self.density.observe(self.world, phase, h, s, a, y, rng)
        self.visits[h, s, a] += 1
        t = int(self.visits[h, s, a])
        alpha = self.rate or (self.rate_horizon + 1) / (self.rate_horizon + t)
        target = r + bonus_of(self.form, self.c, t, self.v[h], self.H, self.iota) / max(p, self.density.floor)
        if not terminated:
            target += self.V[h + 1, y]
        self.Q[h, s, a] = (1 - alpha) * self.Q[h, s, a] + alpha * target
        self.V[h, s] = min(self.v[h], max(self.Q[h, s]))
        return p

    def end_episode(self):
        pass


class UCBVI:
    def __init__(self, world, length, *, bonus="root", c=0.2, delta=0.05, planning="full", cap_q=True):
        H, (S, A) = world.horizon, world.shape
        self.H, self.v, self.planning, self.cap_q = H, world.bounds, planning, cap_q
        self.form, self.c, self.iota = bonus, c, log_term(world, length, delta)
        self.visits, self.counts = np.zeros((H, S, A), int), np.zeros((H, S, A, S))  # without ends of episodes
        self.rewards = np.zeros((H, S, A))
        self.V = np.array([np.full(S, v) for v in self.v], float)
        self.over = np.zeros((H + 1, S), bool)  # seen to end an episode, and nothing else

    def q(self, h, s):
        values = []
        for a in range(self.visits.shape[2]):
            t = int(self.visits[h, s, a])
            if t == 0:
                values.append(self.v[h] + self.V[h + 1].mean())
            else:
                b = bonus_of(self.form, self.c, t, self.v[h], self.H, self.iota)
                values.append(self.rewards[h, s, a] / t + b + self.counts[h, s, a] @ self.V[h + 1] / t)
        return [min(self.v[h], value) for value in values] if self.cap_q else values

    @property
    def Q(self):  # noqa: N802  (a table elsewhere)
        return np.array([[self.q(h, s) for s in range(self.V.shape[1])] for h in range(self.H)])

    def act(self, h, s, rng):
        return first_best(self.q(h, s))

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        self.visits[h, s, a] += 1
        self.rewards[h, s, a] += r
        self.counts[h, s, a, y] += not terminated
        if self.over[h, s]:
            self.over[h, s], self.V[h, s] = False, self.v[h]
        if h + 1 < self.H and not self.visits[h + 1, y].any():
            self.over[h + 1, y], self.V[h + 1, y] = terminated, 0.0 if terminated else self.v[h + 1]
        if self.planning == "real_time":
            self.V[h, s] = min(self.V[h, s], self.v[h], max(self.q(h, s)))
        return 1.0

    def end_episode(self):
        if self.planning == "full":
            for h in reversed(range(self.H)):
                for s in range(self.V.shape[1]):
                    self.V[h, s] = 0.0 if self.over[h, s] else min(self.v[h], max(self.q(h, s)))


class UCBMQ:
    def __init__(self, world, length, *, bonus="root", c=0.2, delta=0.05):
        H, (S, A) = world.horizon, world.shape
        self.H, self.v = H, world.bounds
        self.form, self.c, self.iota = bonus, c, log_term(world, length, delta)
        self.visits, self.mean = np.zeros((H, S, A), int), np.zeros((H, S, A))
        self.Q = np.array([np.full((S, A), v) for v in self.v[:H]], float)
        self.V = np.array([np.full(S, v) for v in self.v], float)
        self.low = min(0.0, world.lowest_reward)
        self.W = np.array([np.full((S, A, S), v) for v in self.v[1:]], float)

    def act(self, h, s, rng):
        return first_best(self.Q[h, s])

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        self.visits[h, s, a] += 1
        n = int(self.visits[h, s, a])
        alpha, g = 1 / n, self.H / (self.H + n) * ((n - 1) / n)
        after, old = (0.0, 0.0) if terminated else (self.V[h + 1, y], self.W[h, s, a, y])
        self.mean[h, s, a] = (1 - alpha) * self.mean[h, s, a] + alpha * (r + after) + g * (after - old)
        self.Q[h, s, a] = self.mean[h, s, a] + bonus_of(self.form, self.c, n, self.v[h], self.H, self.iota)
        self.V[h, s] = max(self.low * (self.H - h), min(max(self.Q[h, s]), self.V[h, s]))
        self.W[h, s, a] = (alpha + g) * self.V[h + 1] + (1 - alpha - g) * self.W[h, s, a]
        return 1.0

    def end_episode(self):
        pass


def train(agent, world, episodes, seed):
    """(returns, cumulative regret, likelihood, lengths), one number per episode."""
    rng = np.random.default_rng(seed)
    best = [
        naive_planning.backward_induction(P, R, world.terminal, world.horizon)[0][0]
        for P, R in zip(world.P, world.R, strict=True)
    ]
    returns, gaps, likelihoods, lengths = [], [], [], []
    for episode in range(episodes):
        phase = world.phase_at(episode)
        first = s = world.start(phase, rng)
        total, seen = 0.0, []
        for h in range(world.horizon):
            a = agent.act(h, s, rng)
            r, y, terminated = world.step(phase, h, s, a, rng)
            seen.append(agent.learn(phase, h, s, a, r, y, terminated, rng))
            total += r
            s = y
            if terminated:
                break
        agent.end_episode()
        returns.append(total)
        gaps.append(best[phase][first] - total)
        likelihoods.append(np.mean(seen))
        lengths.append(len(seen))
    return np.array(returns), np.cumsum(gaps), np.array(likelihoods), np.array(lengths)


# ---- agents without a horizon -----------------------------------------------------------------------------


class DiscountedQ:
    def __init__(self, world, length, *, c=0.0, rate_horizon=None, rate=None, epsilon=0.0, optimistic=True,
                 monotone=True, act_on="qhat", density=None):  # fmt: skip
        self.world, self.gamma, self.T = world, world.discount, length
        self.H = math.log(2 / (1 - self.gamma)) / math.log(1 / self.gamma)
        self.Q = np.full(world.shape, world.bounds[0] * optimistic)
        self.Qhat = self.Q.copy()
        self.visits = np.zeros(world.shape, int)
        self.c, self.rate_horizon, self.rate, self.epsilon = c, rate_horizon or self.H, rate, epsilon
        self.monotone, self.act_on = monotone, act_on
        self.density = density or Certain()

    def act(self, s, rng):
        return chosen((self.Qhat if self.act_on == "qhat" else self.Q)[s], self.epsilon, rng)

    def learn(self, phase, s, a, r, y, terminated, rng):
        p = self.density.observe(self.world, phase, 0, s, a, y, rng)
        self.visits[s, a] += 1
        k = int(self.visits[s, a])
        alpha = self.rate or (self.rate_horizon + 1) / (self.rate_horizon + k)
        S, A = self.world.shape
        iota = math.log(S * A * self.T * (k + 1) * (k + 2))
        target = r + self.c / ((1 - self.gamma) * max(p, self.density.floor)) * math.sqrt(self.H * iota / k)
        if not terminated:
            target += self.gamma * max(self.Qhat[y])
        self.Q[s, a] = (1 - alpha) * self.Q[s, a] + alpha * target
        self.Qhat[s, a] = min(self.Qhat[s, a], self.Q[s, a]) if self.monotone else self.Q[s, a]
        return p


def train_discounted(agent, world, steps, seed):
    """(rewards, cumulative one-step regret, likelihood), one number per step."""
    rng = np.random.default_rng(seed)
    solved = [
        naive_planning.policy_iteration(P, R, world.terminal, world.discount)
        for P, R in zip(world.P, world.R, strict=True)
    ]
    rewards, gaps, likelihoods = [], [], []
    s = None
    for step in range(steps):
        phase = world.phase_at(step)
        if s is None:
            s = world.start(phase, rng)
        a = agent.act(s, rng)
        r, y, terminated = world.step(phase, 0, s, a, rng)
        likelihoods.append(agent.learn(phase, s, a, r, y, terminated, rng))
        rewards.append(r)
        values, q_values = solved[phase]
        gaps.append(values[s] - q_values[s, a])
        s = None if terminated else y
    return np.array(rewards), np.cumsum(gaps), np.array(likelihoods)
