"""Slow twins of the rivals and of the self-tuning agent, one readable line per equation."""

import math
from collections import defaultdict, deque

import numpy as np
from naive_agents import EpisodicQ, bonus_of, first_best


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


class SelfTuning:
    """Self-tuning DQUCB with a list of outcomes per pair and one table per learner."""

    def __init__(self, world, length, *, scales, memory=256, floor=0.6, forgetting=0.99, exploration=0.3,
                 threshold=20.0, recall=64, others=4):  # fmt: skip
        H, (S, A) = world.horizon, world.shape
        self.H, self.S, self.A, self.v = H, S, A, world.bounds
        self.given, self.scales, self.memory = scales, [scale / math.sqrt(H) for scale in scales], memory
        self.floor, self.forgetting, self.exploration = floor, forgetting, exploration
        self.threshold, self.recall, self.others = threshold, recall, min(others, S)
        possible = sum(world.P) > 0  # in any phase
        self.width = min(2 * S, int(possible.sum(axis=-1).max()) + 2)
        self.q = [np.array([np.full((S, A), v) for v in self.v[:H]], float) for _ in scales]
        self.values = [np.array([np.full(S, v) for v in self.v], float) for _ in scales]
        self.visits, self.t = np.zeros((H, S, A), int), np.zeros((H, S, A), int)
        self.known = defaultdict(list)  # of (outcome, times)
        self.mean, self.unsure = defaultdict(float), {}
        self.path, self.episodes, self.arm, self.alarms = [], 0, 0, 0
        self.earned = self.surprise = self.variance = self.evidence = 0.0
        self.history = []  # of (arm, return) since the bandit was last cleared

    @property
    def Q(self):  # noqa: N802  (a table elsewhere)
        return self.q[self.arm]

    def act(self, h, s, rng):
        return first_best(self.Q[h, s])

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        here = (h, s, a)
        known, mean = self.known[here], self.mean[here]
        n = sum(times for _, times in known)
        outcome = (y, n > 0 and abs(r - mean) > 0.25 * self.v[self.H - 1])
        p = 1.0
        if n > 0:
            shares = [times / n for _, times in known]
            likelihood = dict(known).get(outcome, 0) / n
            expected = sum(x * x for x in shares)
            if n >= 10:
                pairs = sum(times * (times - 1) for _, times in known) / (n * (n - 1))
                self.surprise += pairs - likelihood
                self.variance += max(0.0, sum(x**3 for x in shares) - expected**2) + pairs / n
            p = max(self.floor, min(1.0, likelihood / expected))
        if outcome in dict(known):
            place = [key for key, _ in known].index(outcome)
            known[place] = (outcome, known[place][1] + 1)
        else:
            if len(known) == self.width:
                n -= known.pop()[1]
            known.append((outcome, 1))
        self.mean[here] = mean + (r - mean) / (n + 1)
        if n + 1 >= self.memory:
            self.halve(here)
        self.visits[here] += 1
        self.t[here] += 1
        self.unsure[here] = 1 / (p * math.sqrt(self.t[here]))
        if terminated:
            for values in self.values:
                values[h + 1, y] = 0.0
        self.path.append(s)
        self.earned += r
        return p

    def halve(self, here):
        self.known[here] = [(key, times // 2) for key, times in self.known[here] if times > 1]

    def refresh(self, h, s):
        if not any(self.known[h, s, a] for a in range(self.A)):
            return
        for c, q, values in zip(self.scales, self.q, self.values, strict=True):
            for a in range(self.A):
                known = self.known[h, s, a]
                q[h, s, a] = self.v[h]
                if known:
                    after = sum(times * values[h + 1, y] for (y, _), times in known) / sum(times for _, times in known)
                    q[h, s, a] = min(self.v[h], self.mean[h, s, a] + after + c * self.unsure[h, s, a])
            values[h, s] = max(q[h, s])

    def end_episode(self):
        for h in reversed(range(len(self.path))):
            first = self.others * (self.episodes + h)
            turn = [(first + i) % self.S for i in reversed(range(self.others))]
            for s in [*(s for s in turn if s != self.path[h]), self.path[h]]:
                self.refresh(h, s)
        self.episodes += 1
        self.path = []
        self.history.append((self.arm, self.earned))
        z = self.surprise / math.sqrt(self.variance + 0.05)
        self.evidence = max(0.0, self.evidence + min(z, 5.0) - 1.0)
        self.earned = self.surprise = self.variance = 0.0
        if self.evidence > self.threshold:
            self.alarms += 1
            self.doubt()
        self.arm = self.chosen()

    def doubt(self):
        self.evidence, self.history = 0.0, []
        for here in [here for here, known in self.known.items() if known]:
            while sum(times for _, times in self.known[here]) > self.recall:
                self.halve(here)
            n = self.t[here] = sum(times for _, times in self.known[here])
            self.unsure[here] = 1 / math.sqrt(max(1, n))
            if n == 0:
                for q, values in zip(self.q, self.values, strict=True):
                    q[here] = values[here[:2]] = self.v[here[0]]

    def chosen(self):
        """Every sum over the history, the latest episode with weight 1 and each one before it with less."""
        weights = [self.forgetting**age for age in reversed(range(len(self.history)))]
        earned = [total for _, total in self.history]
        everything = sum(weights)
        mean = sum(w * x for w, x in zip(weights, earned, strict=True)) / max(everything, 1e-9)
        square = sum(w * x * x for w, x in zip(weights, earned, strict=True)) / max(everything, 1e-9)
        spread = max(math.sqrt(max(0.0, square - mean**2)), 1e-6 * self.v[0])
        indices = []
        for arm in range(len(self.scales)):
            mine = [(w, x) for w, (i, x) in zip(weights, self.history, strict=True) if i == arm]
            pulls = sum(w for w, _ in mine)
            if pulls < 1e-3:
                return arm
            width = self.exploration * spread * math.sqrt(math.log(1 + everything) / pulls)
            indices.append(sum(w * x for w, x in mine) / pulls + width)
        return first_best(indices)
