"""Slow twins of the agents whose steps learn together, all of them or those pairs whose steps are alike.

`form` is False (shared) or "auto". Everything that is counted per (step, state, action) elsewhere is counted under
`key`, which has row 0 for a shared pair and row h + 1 for step h of a split one.
"""

import math
from collections import defaultdict

import naive_rivals
import numpy as np
from naive_agents import EpisodicQ, bonus_of, first_best, log_term

MEMORIES, LEAST = (1024, 64), 0.01


class Outcomes:
    """[next state, reward, times] in order of first sight; next states with many rewards have their mean."""

    def __init__(self, extra=4):
        self.rows, self.extra = [], extra

    def place(self, y, r):
        exact = [i for i, row in enumerate(self.rows) if row[:2] == [y, r]]
        alike = [i for i, row in enumerate(self.rows) if row[0] == y]
        repeats = len(self.rows) - len({row[0] for row in self.rows})
        if exact:
            return exact[0]
        return alike[-1] if alike and repeats >= self.extra else len(self.rows)

    def add(self, place, y, r):
        if place == len(self.rows):
            self.rows.append([y, r, 0])
        row = self.rows[place]
        row[2] += 1
        row[1] += (r - row[1]) / row[2]

    @property
    def visits(self):
        return sum(times for *_, times in self.rows)


class StepTest:
    def __init__(self, world, length):
        self.threshold = math.log(max(2, length * world.horizon))
        self.outcomes, self.history = defaultdict(Outcomes), defaultdict(list)  # of (step, place)
        self.weights, self.evidence = defaultdict(lambda: [1 / 3] * 3), defaultdict(float)
        self.split = set()

    def observe(self, h, s, a, y, r):
        pair, known = (s, a), self.outcomes[s, a]
        place, past, k = known.place(y, r), self.history[s, a], len(known.rows)
        if pair not in self.split:
            n = len(past)
            alone = (past.count((h, place)) + 1) / (sum(step == h for step, _ in past) + k + 1)
            predictions = []
            for memory in (math.inf, *MEMORIES):
                ages = [(1 - 1 / memory) ** (n - 1 - i) for i in range(n)]
                mine = sum(age for age, (_, other) in zip(ages, past, strict=True) if other == place)
                predictions.append((mine + 1) / (sum(ages) + k + 1))
            together = sum(w * p for w, p in zip(self.weights[pair], predictions, strict=True))
            weights = [max(LEAST, w * p / together) for w, p in zip(self.weights[pair], predictions, strict=True)]
            self.weights[pair] = [w / sum(weights) for w in weights]
            self.evidence[pair] = max(0.0, self.evidence[pair] + math.log(alone / together))
            if self.evidence[pair] > self.threshold + (k - 1) / 2 * math.log(n + 1):
                self.split.add(pair)
        known.add(place, y, r)
        past.append((h, place))


class Together:
    """How a Q learner becomes one whose steps learn together."""

    def __init__(self, world, length, *, form=False, bonus="root", **settings):
        super().__init__(world, length, bonus=bonus, **settings)
        self.bonus_form, self.test = bonus, StepTest(world, length) if form == "auto" else None
        self.by_step, self.counted = np.zeros_like(self.visits), defaultdict(int)

    def look(self, h, s, a, r, y, terminated):
        """(key, steps to update) of a transition, which is counted."""
        if self.test is not None:
            self.test.observe(h, s, a, "end" if terminated else y, r)
        split = self.test is not None and (s, a) in self.test.split
        key = (h + 1, s, a) if split else (0, s, a)
        self.by_step[h, s, a] += 1
        self.counted[key] = int(self.by_step[h, s, a] if split else self.by_step[:, s, a].sum())
        self.visits = self.by_step.sum(axis=0) if self.test is None else self.by_step
        return key, ([h] if split else range(self.H))

    def move(self, steps, s, a, targets, alpha):
        for i, target in zip(steps, targets, strict=True):
            self.Q[i, s, a] = (1 - alpha) * self.Q[i, s, a] + alpha * target
        self.cap(steps, s)

    def cap(self, steps, s):
        for i in steps:
            self.V[i, s] = min(self.v[i], max(self.Q[i, s]))

    def after(self, i, y, terminated):
        return 0.0 if terminated else self.V[i + 1, y]

    def bonus(self, i, t):
        return bonus_of(self.bonus_form, self.c, t, self.v[i], self.H, self.iota)


class Plain(Together, EpisodicQ):
    """QUCB, DQUCB and Q-learning."""

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key, steps = self.look(h, s, a, r, y, terminated)
        p = self.density.observe(self.world, phase, h, s, a, y, rng, row=key[0])
        t = self.counted[key]
        alpha = self.rate or (self.rate_horizon + 1) / (self.rate_horizon + t)
        self.move(
            steps,
            s,
            a,
            [r + self.bonus(i, t) / max(p, self.density.floor) + self.after(i, y, terminated) for i in steps],
            alpha,
        )
        return p


class Counting(Together):
    """The rivals that are QUCB with another count."""

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key, self.steps = self.look(h, s, a, r, y, terminated)
        p, t = self.count(*key, (y, r))
        alpha = (self.rate_horizon + 1) / (self.rate_horizon + t)
        targets = [r + self.bonus(i, t) + self.after(i, y, terminated) for i in self.steps]
        self.move(self.steps, s, a, targets, alpha)
        return p

    def forget_pair(self, row, s, a):
        for i in self.steps:
            self.Q[i, s, a] = self.v[i]
        self.cap(self.steps, s)


class SlidingWindow(Counting, naive_rivals.SlidingWindow):
    pass


class Discounted(Counting, naive_rivals.Discounted):
    pass


class Restarted(Counting, naive_rivals.Restarted):
    pass


class DetectReset(Counting, naive_rivals.DetectReset):
    def __init__(self, world, length, **settings):
        super().__init__(world, length, **settings)
        # The list of outcomes has room for those of all steps of a pair, and two more.
        self.places = int(np.any([P > 0 for P in world.P], axis=(0, 1)).sum(axis=-1).max()) + 2


class RestartQ(Together, naive_rivals.RestartQ):
    def __init__(self, world, length, **settings):
        super().__init__(world, length, **settings)
        self.sums = defaultdict(list)

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key, steps = self.look(h, s, a, r, y, terminated)
        for i in () if self.seen[key] else steps:
            self.sums.pop((i, s, a), None)  # of a stage in which the pair was split
        self.seen[key].append(r)
        for i in steps:
            self.sums[i, s, a].append(self.after(i, y, terminated))
        n = len(self.seen[key])
        if n == self.stage[key]:
            rewards = self.seen.pop(key)
            for i in steps:
                found = np.sum(rewards) / n + np.sum(self.sums.pop((i, s, a))) / n + self.bonus(i, n)
                self.Q[i, s, a] = min(self.Q[i, s, a], found)
            self.cap(steps, s)
            self.stage[key] = n + n // self.rate_horizon
        return 1.0

    def end_episode(self):
        if self.done + 1 in self.restart_at:
            self.sums.clear()
        super().end_episode()


class UCBB(Together, naive_rivals.UCBB):
    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key, steps = self.look(h, s, a, r, y, terminated)
        t, targets = self.counted[key], []
        alpha = (self.rate_horizon + 1) / (self.rate_horizon + t)
        for i in steps:
            value = self.after(i, y, terminated)
            self.next_values[i, s, a].append(value)
            beta = self.width(i, t, np.var(self.next_values[i, s, a]))
            targets.append(r + value + (beta - (1 - alpha) * self.beta[i, s, a]) / (2 * alpha))
            self.beta[i, s, a] = beta
        self.move(steps, s, a, targets, alpha)
        return 1.0


class UCBVI:
    """Plans when some pair was seen a tenth more often than at the last plan."""

    def __init__(self, world, length, *, bonus="root", c=0.2, delta=0.05, form=False):
        H, (S, A) = world.horizon, world.shape
        self.H, self.S, self.A, self.v = H, S, A, world.bounds
        self.bonus_form, self.c, self.iota, self.form = bonus, c, log_term(world, length, delta), form
        self.test = StepTest(world, length)  # its outcomes and history are the model
        if form is False:
            self.test.threshold = math.inf
        self.by_step = np.zeros((H, S, A), int)
        self.planned = np.zeros((S, A))
        self.Q = np.array([np.full((S, A), v) for v in self.v[:H]], float)
        self.plans, self.due = 0, True

    @property
    def visits(self):
        return self.by_step if self.form == "auto" else self.by_step.sum(axis=0)

    def act(self, h, s, rng):
        return first_best(self.Q[h, s])

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        self.by_step[h, s, a] += 1
        was = set(self.test.split)
        self.test.observe(h, s, a, "end" if terminated else y, r)
        n, planned = self.by_step[:, s, a].sum(), self.planned[s, a]
        self.due = self.due or n >= planned + max(1, 0.1 * planned) or was != self.test.split
        return 1.0

    def end_episode(self):
        if not self.due:
            return
        self.due, self.plans = False, self.plans + 1
        self.planned = self.by_step.sum(axis=0).astype(float)
        V = {"end": 0.0, **dict.fromkeys(range(self.S), 0.0)}
        for h in reversed(range(self.H)):
            for s in range(self.S):
                for a in range(self.A):
                    self.Q[h, s, a] = min(self.v[h], self.backup(h, s, a, V))
            V = {"end": 0.0, **{s: max(self.Q[h, s]) for s in range(self.S)}}

    def backup(self, h, s, a, V):
        rows, past = self.test.outcomes[s, a].rows, self.test.history[s, a]
        if (s, a) in self.test.split:
            past = [(step, place) for step, place in past if step == h]
        if not past:
            return self.v[h]
        mean = sum(rows[place][1] + V[rows[place][0]] for _, place in past) / len(past)
        return mean + bonus_of(self.bonus_form, self.c, len(past), self.v[h], self.H, self.iota)
