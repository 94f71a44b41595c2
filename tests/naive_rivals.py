"""Slow twins of the rivals and of the self-tuning agent, one readable line per equation."""

import math
from collections import defaultdict, deque

import numpy as np
from naive_agents import EpisodicQ, bonus_of


class Watchful(EpisodicQ):
    """QUCB whose count of a pair is another one; what differs is how it is counted."""

    def count(self, h, s, a, outcome):
        raise NotImplementedError

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        self.visits[h, s, a] += 1
        p, t = self.count(h, s, a, (y, r))
        alpha = (self.rate_horizon + 1) / (self.rate_horizon + t)
        target = r + bonus_of(self.form, self.c, t, self.v[h], self.H, self.iota)
        if not terminated:
            target += self.V[h + 1, y]
        self.Q[h, s, a] = (1 - alpha) * self.Q[h, s, a] + alpha * target
        self.V[h, s] = min(self.v[h], max(self.Q[h, s]))
        return p

    def forget(self):
        for h in range(self.H):
            self.Q[h], self.V[h] = self.v[h], self.v[h]


class SlidingWindow(Watchful):
    def __init__(self, world, length, *, window, **common):
        super().__init__(world, length, **common)
        self.episodes = deque([[]], maxlen=window)

    def count(self, h, s, a, outcome):
        self.episodes[-1].append((h, s, a))
        return 1.0, sum(pairs.count((h, s, a)) for pairs in self.episodes)

    def end_episode(self):
        self.episodes.append([])


class Discounted(Watchful):
    def __init__(self, world, length, *, memory, **common):
        super().__init__(world, length, **common)
        self.memory, self.now, self.past = memory, 0, defaultdict(list)

    def count(self, h, s, a, outcome):
        self.past[h, s, a].append(self.now)
        return 1.0, sum(self.memory ** (self.now - then) for then in self.past[h, s, a])

    def end_episode(self):
        self.now += 1


class Restarted(Watchful):
    def __init__(self, world, length, *, restart_at, **common):
        super().__init__(world, length, **common)
        self.restart_at, self.done, self.counts = restart_at, 0, defaultdict(int)

    def count(self, h, s, a, outcome):
        self.counts[h, s, a] += 1
        return 1.0, self.counts[h, s, a]

    def end_episode(self):
        self.done += 1
        if self.done in self.restart_at:
            self.forget()
            self.counts.clear()


class DetectReset(Watchful):
    def __init__(self, world, length, *, detector, threshold, reset="pair", **common):
        super().__init__(world, length, **common)
        self.detector, self.threshold, self.reset = detector, threshold, reset
        self.places = int(np.any([P > 0 for P in world.P], axis=0).sum(axis=-1).max()) + 2  # outcomes remembered
        self.outcomes, self.likelihoods = defaultdict(dict), defaultdict(list)
        self.evidence, self.alarms, self.sure = defaultdict(float), 0, False

    def count(self, h, s, a, outcome):
        pair = h, s, a
        past = self.outcomes[pair]
        different = len(past)
        p = (past.get(outcome, 0) + 1) / (len(self.likelihoods[pair]) + different + 1)
        self.likelihoods[pair].append(p)
        rise = -math.log(p * (different + 1))
        if self.detector == "page-hinkley":
            rise = np.mean(self.likelihoods[pair]) - p - 0.05
        self.evidence[pair] = max(0.0, self.evidence[pair] + rise)
        if self.evidence[pair] > self.threshold:
            self.alarms += 1
            self.sure = True
            if self.reset == "pair":
                for table in (self.outcomes, self.evidence):
                    del table[pair]
                self.likelihoods[pair] = [1.0]  # like any first visit
                self.forget_pair(*pair)
        past = self.outcomes[pair]
        if outcome not in past and len(past) == self.places:
            past.popitem()
        past[outcome] = past.get(outcome, 0) + 1
        return p, len(self.likelihoods[pair])

    def forget_pair(self, h, s, a):
        self.Q[h, s, a] = self.v[h]

    def end_episode(self):
        if self.sure and self.reset == "all":
            self.forget()
            for table in (self.outcomes, self.likelihoods, self.evidence):
                table.clear()
        self.sure = False


class RestartQ(EpisodicQ):
    """Lists of what each stage saw."""

    def __init__(self, world, length, *, restart_at=(), **common):
        super().__init__(world, length, **common)
        self.restart_at, self.done = restart_at, 0
        self.stage, self.seen = defaultdict(lambda: self.rate_horizon), defaultdict(list)

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        pair = h, s, a
        self.visits[pair] += 1
        self.seen[pair].append((r, 0.0 if terminated else self.V[h + 1, y]))
        n = len(self.seen[pair])
        if n == self.stage[pair]:
            b = bonus_of(self.form, self.c, n, self.v[h], self.H, self.iota)
            mean = np.mean(self.seen.pop(pair), axis=0)
            self.Q[pair] = min(self.Q[pair], mean[0] + mean[1] + b)
            self.V[h, s] = max(self.Q[h, s])
            self.stage[pair] = n + n // self.rate_horizon
        return 1.0

    def end_episode(self):
        self.done += 1
        if self.done in self.restart_at:
            self.stage.clear()
            self.seen.clear()
            for h in range(self.H):
                self.Q[h], self.V[h] = self.v[h], self.v[h]


class UCBB(EpisodicQ):
    def __init__(self, world, length, **common):
        super().__init__(world, length, **common)
        self.next_values, self.beta = defaultdict(list), defaultdict(float)

    def width(self, h, t, variance):
        H, (S, A) = self.H, self.world.shape
        if self.form == "theory":
            narrow = math.sqrt(H * (variance + H) * self.iota / t) + math.sqrt(H**7 * S * A) * self.iota / t
            return self.c * min(narrow, 2 * math.sqrt(H**3 * self.iota / t))
        c = self.c * min(1, math.sqrt(variance / self.v[0] ** 2 + 1 / H))
        return 2 * bonus_of(self.form, c, t, self.v[h], H, self.iota)

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        pair = h, s, a
        self.visits[pair] += 1
        t = int(self.visits[pair])
        value = 0.0 if terminated else self.V[h + 1, y]
        self.next_values[pair].append(value)
        alpha = (self.rate_horizon + 1) / (self.rate_horizon + t)
        beta = self.width(h, t, np.var(self.next_values[pair]))
        bonus = (beta - (1 - alpha) * self.beta[pair]) / (2 * alpha)
        self.beta[pair] = beta
        self.Q[pair] = (1 - alpha) * self.Q[pair] + alpha * (r + value + bonus)
        self.V[h, s] = min(self.v[h], max(self.Q[h, s]))
        return 1.0
