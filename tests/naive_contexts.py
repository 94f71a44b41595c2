"""Slow twins of RL-CD and NS-NAC: dense tables and dictionaries."""

from collections import defaultdict

import numpy as np
from naive_agents import first_best


class Context:
    """One model of RL-CD: T^ over all states and the end, from the uniform distribution on."""

    def __init__(self, S, memory):
        self.T = defaultdict(lambda: np.append(np.full(S, 1 / S), 0.0))
        self.R, self.N, self.E, self.M = defaultdict(float), defaultdict(int), 0.0, memory

    def quality(self, key, r, y, omega, span):
        n = self.N[key]
        hit = np.arange(len(self.T[key])) == y
        dT, dR = (hit - self.T[key]) / (n + 1), (r - self.R[key]) / (n + 1)
        e_T = 1 - 2 * (0.5 * (n + 1) ** 2 * (dT**2).sum())
        e_R = 1 - 2 * ((n + 1) ** 2 / span**2 * dR**2)
        return n / self.M * (omega * e_R + (1 - omega) * e_T)

    def update(self, key, r, y):
        n = self.N[key]
        hit = np.arange(len(self.T[key])) == y
        self.T[key] = self.T[key] + (hit - self.T[key]) / (n + 1)
        self.R[key] += (r - self.R[key]) / (n + 1)
        self.N[key] = min(n + 1, self.M)


class RLCD:
    def __init__(self, world, *, memory, rho, omega, least, most, epsilon, stage_dependent):
        self.H, (self.S, self.A) = world.horizon, world.shape
        self.span = world.bounds[self.H - 1] - min(0.0, world.lowest_reward)
        self.rho, self.omega, self.least, self.most, self.epsilon = rho, omega, least, most, epsilon
        self.by_step, self.new = stage_dependent, lambda: Context(self.S, memory)
        self.models, self.active, self.alarms, self.now, self.switched = [self.new()], 0, [], 0, False
        self.visits = np.zeros((self.H if stage_dependent else 1, self.S, self.A), int)
        self.Q = np.zeros((self.H, self.S, self.A))

    def act(self, h, s, rng):
        explores, anything = rng.random() < self.epsilon, int(rng.random() * self.A)
        return anything if explores else first_best(self.Q[h, s], anything)

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key = (h if self.by_step else 0, s, a)
        self.visits[key] += 1
        y = self.S if terminated else y
        for model in self.models:
            model.E = (1 - self.rho) * model.E + self.rho * model.quality(key, r, y, self.omega, self.span)
        qualities = [model.E for model in self.models]
        best = int(np.argmax(qualities))
        if qualities[best] < self.least:
            best = len(self.models) if len(self.models) < self.most else int(np.argmin(qualities))
            self.models[best : best + 1] = [self.new()]
        self.models[best].update(key, r, y)
        if best != self.active:
            self.active, self.switched = best, True
            self.plan()
        return 1.0

    def plan(self):
        model, after = self.models[self.active], np.zeros(self.S + 1)
        for h in reversed(range(self.H)):
            for s in range(self.S):
                for a in range(self.A):
                    key = (h if self.by_step else 0, s, a)
                    self.Q[h, s, a] = model.R[key] + model.T[key] @ after
            after = np.append(self.Q[h].max(axis=1), 0.0)

    def end_episode(self):
        if self.switched:
            self.alarms.append(self.now)
        self.now, self.switched = self.now + 1, False
        self.plan()


class NSNAC:
    """The policy is multiplied by exp(beta Q) at every pair and step."""

    def __init__(self, world, *, alpha, beta, segment, stage_dependent=False):
        self.H, (S, A) = world.horizon or 1, world.shape
        self.by_step, self.alpha, self.beta, self.segment = stage_dependent, alpha, beta, segment
        high = world.bounds[0] * (1 - world.discount) if world.horizon is None else world.bounds[self.H - 1]
        self.low, self.span = min(0.0, world.lowest_reward), high - min(0.0, world.lowest_reward)
        self.limit, self.shape = max(1.0, world.bounds[0] / self.span), (self.H if stage_dependent else 1, S, A)
        self.visits = np.zeros(self.shape, int)
        self.restart()

    def restart(self):
        self.q, self.pi, self.eta = np.zeros(self.shape), np.full(self.shape, 1 / self.shape[2]), 0.0
        self.time, self.last = 0, None

    @property
    def Q(self):  # noqa: N802
        return np.repeat(self.q, self.H // len(self.q), axis=0)

    def act(self, *place):
        h, s, rng = place if len(place) == 3 else (0, *place)
        row = self.pi[h if self.by_step else 0, s]
        return min(len(row) - 1, int(np.searchsorted(np.cumsum(row), rng.random(), side="right")))

    def learn(self, phase, *seen):
        h, s, a, r, *_ = seen if len(seen) == 7 else (0, *seen)
        key = (h if self.by_step else 0, s, a)
        if self.time == self.segment:
            self.restart()
        if self.last is not None:
            here, reward = self.last
            error = reward - self.eta + self.q[key] - self.q[here]
            self.pi = self.pi * np.exp(self.beta * self.q)
            self.pi /= self.pi.sum(axis=2, keepdims=True)
            self.q[here] = np.clip(self.q[here] + self.alpha * error, -self.limit, self.limit)
            self.eta += self.alpha * (reward - self.eta)
            self.time += 1
        self.last = (key, (r - self.low) / self.span)
        self.visits[key] += 1
        return 1.0

    def end_episode(self):
        pass
