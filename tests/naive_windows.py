"""Slow twins of SWUCRL2-CW and BORL: a list of all steps of a block, dictionaries of counts, sets of models by hand."""

import math

import numpy as np
from naive_agents import first_best


class SlidingUCRL:
    """UCRL2 over the last W steps. Without a horizon `act` and `learn` take no step."""

    def __init__(self, world, length, *, arms, block=math.inf, c=1.0, delta=0.05, stage_dependent=False):
        self.endless = world.horizon is None
        self.H, (self.S, self.A) = world.horizon or 1, world.shape
        self.by_step, self.arms, self.block, self.c = stage_dependent, arms, block, c
        self.rows, T = self.H if stage_dependent else 1, length * self.H
        self.low, self.v = min(0.0, world.lowest_reward), world.bounds
        self.high = self.v[0] * (1 - world.discount) if self.endless else self.v[self.H - 1]
        self.log = math.log(self.rows * self.S * self.A * T / delta)
        self.visits = np.zeros((self.rows, self.S, self.A), int)
        self.scores, self.chances = np.zeros(len(arms)), np.full(len(arms), 1 / len(arms))
        self.blocks, self.arm = max(1, math.ceil(T / block)), None
        self.past, self.planned_at, self.starts, self.begins = [], None, [], True
        self.policy, self.V = np.zeros((self.H, self.S), int), np.array([np.full(self.S, v) for v in self.v])
        self.counted = {}

    def new_block(self, rng):
        K = len(self.arms)
        ratio = math.log(K) / self.blocks
        gamma, alpha, beta = min(1, 1.05 * math.sqrt(K * ratio)), 0.95 * math.sqrt(ratio / K), math.sqrt(ratio / K)
        if self.arm is not None:
            gain = sum((r - self.low) / (self.high - self.low) for *_, r in self.past) / self.block
            self.scores += beta / self.chances
            self.scores[self.arm] += gain / self.chances[self.arm]
        self.arm = 0
        if K > 1:
            weights = np.exp(alpha * (self.scores - self.scores.max()))
            self.chances = (1 - gamma) * weights / weights.sum() + gamma / K
            self.arm = min(K - 1, int(np.searchsorted(np.cumsum(self.chances), rng.random(), side="right")))
        self.past, self.planned_at, self.starts = [], None, []

    def pair(self, h, s, a):
        return (h if self.by_step else 0, s, a)

    def best_case(self, key, after):
        """The best model of the L1 ball: mass moves from the worst states to the best; `after` ends with the end."""
        seen = self.counted.get(key, [])
        if not seen:
            return self.high + max(after[: self.S])
        n = len(seen)
        radius = self.c * 2 * math.sqrt(2 * self.log / n)
        p = np.zeros(self.S + 1)
        for y, _ in seen:
            p[y] += 1 / n
        reward = min(self.high, np.mean([r for _, r in seen]) + radius * (self.high - self.low))
        order = sorted(range(self.S + 1), key=lambda y: after[y])
        top = max(after[: self.S])
        moved = (radius * math.sqrt(self.S) + self.arms[self.arm][1]) / 2
        worse = [y for y in order if after[y] < top]
        if moved >= sum(p[worse]):
            return reward + (top + sum(p[y] * max(0.0, after[y] - top) for y in order))
        p[int(np.argmax(after[: self.S]))] += moved
        for y in worse:
            taken = min(moved, p[y])
            p[y], moved = p[y] - taken, moved - taken
        return reward + p @ after

    def q_row(self, h, s, after):
        end = np.mean(after[self.begun]) if self.endless and self.begun else 0.0  # the next episode begins
        return [self.best_case(self.pair(h, s, a), np.append(after, end)) for a in range(self.A)]

    def plan(self):
        self.counted, self.planned_at, self.begun = {}, len(self.past), list(self.starts)
        for key, y, r in self.past[-self.arms[self.arm][0] :]:
            self.counted.setdefault(key, []).append((y, r))
        if self.endless:
            self.V = np.zeros((2, self.S))
            while True:
                self.V[1] = self.V[0] - self.V[0].min()
                rows = [self.q_row(0, s, self.V[1]) for s in range(self.S)]
                self.V[0] = [max(row) for row in rows]
                self.policy[0] = [first_best(row) for row in rows]
                change = self.V[0] - self.V[1]
                if change.max() - change.min() < (self.high - self.low) / math.sqrt(len(self.past) + 1):
                    return
        for h in reversed(range(self.H)):
            rows = [self.q_row(h, s, self.V[h + 1]) for s in range(self.S)]
            self.V[h] = [min(self.v[h], max(row)) for row in rows]
            self.policy[h] = [first_best(row) for row in rows]

    @property
    def Q(self):  # noqa: N802
        return np.array([[self.q_row(h, s, self.V[h + 1]) for s in range(self.S)] for h in range(self.H)])

    @property
    def Qhat(self):  # noqa: N802
        return self.Q[0]

    def act(self, *place):
        h, s, rng = place if len(place) == 3 else (0, *place)
        if self.arm is None or len(self.past) == self.block:
            self.new_block(rng)
        now, key = len(self.past), self.pair(h, s, self.policy[h, s])
        due = self.planned_at is None
        if not due:
            since = sum(other == key for other, *_ in self.past[self.planned_at :])
            due = since >= max(1, len(self.counted.get(key, [])))
            due = due or (now % self.arms[self.arm][0] == 0 and now > self.planned_at)
        if due:
            self.plan()
        return self.policy[h, s]

    def learn(self, phase, *seen):
        h, s, a, r, y, terminated, _ = seen if len(seen) == 7 else (0, *seen)
        key = self.pair(h, s, a)
        self.visits[key] += 1
        self.starts += [s] * self.begins
        self.begins = terminated
        self.past.append((key, self.S if terminated else y, r))
        return 1.0

    def end_episode(self):
        pass
