"""Slow twins of the rivals that plan, of selective restarts and of Dyna-Q+: lists and dictionaries, one per pair."""

import math
from collections import defaultdict

import numpy as np
from naive_agents import bonus_of, chosen, first_best, log_term


class Planner:
    """UCBVI in a list [next state, reward, times] for each pair; next state None is the end."""

    def __init__(self, world, length, *, stage_dependent=False, bonus="root", c=0.2, delta=0.05, extra=4):
        self.H, (self.S, self.A) = world.horizon, world.shape
        self.v, self.by_step, self.extra = world.bounds, stage_dependent, extra
        self.form, self.c, self.iota = bonus, c, log_term(world, length, delta)
        self.visits = np.zeros((self.H if stage_dependent else 1, self.S, self.A), int)
        self.alarms, self.now = [], 0
        self.policy = np.zeros((self.H, self.S), int)
        self.forget()
        self.plan()

    def forget(self):
        self.outcomes, self.planned, self.due = defaultdict(list), {}, True

    def key(self, h, s, a):
        return (h if self.by_step else 0, s, a)

    def n(self, key):
        return sum(times for *_, times in self.outcomes[key])

    def count(self, key, y, r):
        """The place of the outcome in the pair's list."""
        known = self.outcomes[key]
        same_state = [i for i, (z, _, _) in enumerate(known) if z == y]
        same = [i for i in same_state if known[i][1] == r]
        if same:
            place = same[0]
        elif same_state and len(known) - len({z for z, *_ in known}) >= self.extra:
            place = same_state[-1]
        else:
            place = len(known)
            known.append([y, r, 0])
        known[place][2] += 1
        known[place][1] += (r - known[place][1]) / known[place][2]
        before = sum(times for *_, times in self.planned.get(key, []))
        self.due = self.due or self.n(key) >= before + max(1, 0.1 * before)
        return place

    def q(self, h, s, a):
        key = self.key(h, s, a)
        known = self.planned.get(key)
        if not known:
            return self.v[h]
        n = sum(times for *_, times in known)
        mean = sum(times * (r + (0 if y is None else self.V[h + 1, y])) for y, r, times in known) / n
        return min(self.v[h], mean + bonus_of(self.form, self.c, n, self.v[h], self.H, self.iota))

    def plan(self):
        self.planned = {key: [list(outcome) for outcome in known] for key, known in self.outcomes.items()}
        self.due = False
        self.V = np.zeros((self.H + 1, self.S))
        for h in reversed(range(self.H)):
            for s in range(self.S):
                values = [self.q(h, s, a) for a in range(self.A)]
                self.policy[h, s], self.V[h, s] = first_best(values), max(values)

    @property
    def Q(self):  # noqa: N802  (a table elsewhere)
        return np.array([[[self.q(h, s, a) for a in range(self.A)] for s in range(self.S)] for h in range(self.H)])

    def act(self, h, s, rng):
        self.rng = rng
        return self.policy[h, s]

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key = self.key(h, s, a)
        self.visits[key] += 1
        self.look(key, self.count(key, None if terminated else y, r))
        return 1.0

    def look(self, key, place):
        pass

    def sure(self):
        return False

    def end_episode(self):
        if self.sure():
            self.alarms.append(self.now)
            self.forget()
        self.now += 1
        if self.due:
            self.plan()


class Told(Planner):
    def __init__(self, world, length, *, restart_at, **common):
        super().__init__(world, length, **common)
        self.restart_at = restart_at

    def sure(self):
        return self.now + 1 in self.restart_at


class Forecasting(Planner):
    """Every predictor keeps the list of places that it has seen."""

    def __init__(self, world, length, *, false_alarms, most=12, **common):
        super().__init__(world, length, **common)
        self.most, self.prior = most, math.log(false_alarms / self.visits.size)

    def forget(self):
        super().forget()
        self.first, self.others, self.is_sure = defaultdict(lambda: (0.0, [])), defaultdict(list), False

    def look(self, key, place):
        def better(weight, seen):
            p = (seen.count(place) + 1) / (len(seen) + len(self.outcomes[key]) + 1)
            return weight + math.log(p), [*seen, place]

        self.first[key] = better(*self.first[key])
        weight, seen = self.first[key]
        others = self.others[key] = [better(*one) for one in self.others[key]]
        self.is_sure = self.is_sure or any(one[0] > weight for one in others)
        new = (weight + self.prior - math.log(len(seen) * (len(seen) + 1)), [])
        if len(others) < self.most:
            others.append(new)
        else:
            others[min(range(self.most), key=lambda i: others[i][0])] = new

    def sure(self):
        return self.is_sure


class Probing(Planner):
    """Every pair keeps the places of its older and newer outcomes."""

    def __init__(self, world, length, *, probe_rate, false_alarms, **common):
        self.restarts, self.episodes, self.probes = 0, 0, False
        super().__init__(world, length, **common)
        self.rate, self.level = probe_rate, math.log(self.visits.size / false_alarms)

    def forget(self):
        super().forget()
        self.older, self.newer, self.is_sure = defaultdict(list), defaultdict(list), False

    def act(self, h, s, rng):
        if not self.probes:
            return self.policy[h, s]
        return min(range(self.A), key=lambda a: self.n(self.key(h, s, a)))

    def look(self, key, place):
        older, newer = self.older[key], self.newer[key]
        newer.append(place)
        if math.log2(len(newer)).is_integer() and older:
            n, k = len(older) + len(newer), len(self.outcomes[key])
            ratio = 0.0
            for sample in (older, newer):
                for i in sample:
                    ratio += math.log(sample.count(i) / len(sample) / ((older + newer).count(i) / n))
            self.is_sure = self.is_sure or ratio > self.level + (k - 1) / 2 * math.log(n)
        if len(newer) > max(16, len(older) / 4):
            older += newer
            newer.clear()

    def sure(self):
        self.episodes += 1
        if self.is_sure:
            self.restarts, self.episodes = self.restarts + 1, 0
        rate = min(1, self.rate * math.sqrt(self.restarts + 1))
        self.probes = math.floor(rate * (self.episodes + 1)) > math.floor(rate * self.episodes)
        return self.is_sure


class Sampling(Planner):
    """PSRL. The reward and transitions of a model are drawn before it is planned in."""

    def __init__(self, world, length, *, c=1.0, prior=1.0, forgetting=1.0, **common):
        super().__init__(world, length, c=c, **common)
        self.prior, self.forgetting = prior, forgetting

    def draw(self, key):
        known = self.outcomes[key]
        mass = [self.rng.standard_gamma(times / self.c**2) for *_, times in known]
        unseen = self.rng.standard_gamma(self.prior / self.c**2)
        total = sum(mass) + unseen
        surprise = self.rng.random() * self.v[self.H - 1]
        return [(y, r, m / total) for (y, r, _), m in zip(known, mass, strict=True)], unseen / total, surprise

    def q(self, h, s, a):
        if not hasattr(self, "rng"):
            return self.v[h]
        drawn, unseen, surprise = self.drawn[self.key(h, s, a)]
        seen = sum(share * (r + (0 if y is None else self.V[h + 1, y])) for y, r, share in drawn)
        return min(self.v[h], seen + unseen * (surprise + self.V[h + 1, self.elsewhere]))

    def end_episode(self):
        for known in self.outcomes.values():
            for outcome in known:
                outcome[2] *= self.forgetting
        self.drawn = {key: self.draw(key) for key in np.ndindex(self.visits.shape)}
        self.elsewhere = int(self.rng.random() * self.S)
        self.plan()


class Master(Planner):
    """An instance is a planner of its own; those of the present block are kept by order."""

    def __init__(self, world, length, *, test_scale, **common):
        self.new = lambda: Planner(world, length, **common)
        super().__init__(world, length, **common)
        self.scale, self.returns, self.promises, self.order = test_scale, [], [], 0
        self.orders = math.ceil(math.log2(length + 1))
        self.instances, self.earned = {0: (0, self.new())}, 0.0
        self.lowest = min(0.0, world.lowest_reward) * self.H

    def rho(self, t):
        return math.sqrt(self.visits.size / t)

    @property
    def acting(self):
        return self.instances[min(self.instances)][1]

    @property
    def Q(self):  # noqa: N802
        return self.acting.Q

    def act(self, h, s, rng):
        self.rng = rng
        return self.acting.policy[h, s]

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        if h == 0:
            self.promises.append((self.acting.V[0, s] - self.lowest) / (self.v[0] - self.lowest))
        self.earned += r / (self.v[0] - self.lowest)
        self.visits[self.key(h, s, a)] += 1
        return self.acting.learn(phase, h, s, a, r, y, terminated, rng)

    def fails(self):
        done = len(self.returns)
        for m, (begun, _) in self.instances.items():
            mean = np.mean(self.returns[begun:])
            if done % 2**m == 0 and mean > min(self.promises) + 9 * self.scale * self.rho(2**m):
                return True
        return np.mean(self.promises) - np.mean(self.returns) >= 3 * self.scale * self.rho(done)

    def end_episode(self):
        self.acting.end_episode()
        self.returns.append(self.earned - self.lowest / (self.v[0] - self.lowest))
        self.earned = 0.0
        if (failed := self.fails()) or len(self.returns) == 2**self.order:
            if failed:
                self.alarms.append(self.now)
            self.order = 0 if failed else min(self.order + 1, self.orders - 1)
            self.returns, self.promises, self.instances = [], [], {}
        self.now += 1
        for m in reversed(range(self.order + 1)):
            if len(self.returns) % 2**m == 0:
                self.instances.pop(m, None)
                if self.rng.random() < self.rho(2**self.order) / self.rho(2**m):
                    self.instances[m] = (len(self.returns), self.new())


class Selective:
    """RestartQ-UCB with the list of returns since the last alarm, or with a schedule and `raised` action values."""

    def __init__(self, world, length, *, stage_dependent, threshold=math.inf, bonus="root", c=0.2, delta=0.05,
                 selective=True, restart_at=(), raised=math.inf):  # fmt: skip
        self.selective, self.restart_at, self.raised = selective, restart_at, raised
        self.H, (S, A) = world.horizon, world.shape
        self.v, self.by_step, self.threshold = world.bounds, stage_dependent, threshold
        self.form, self.c, self.iota = bonus, c, log_term(world, length, delta)
        self.Q = np.array([np.full((S, A), v) for v in self.v[: self.H]])
        self.V = np.array([np.full(S, v) for v in self.v])
        self.visits = np.zeros((self.H if stage_dependent else 1, S, A), int)
        self.stage, self.seen, self.latest = defaultdict(lambda: self.H), defaultdict(list), {}
        self.returns, self.evidence, self.since, self.now, self.earned, self.alarms = [], 0.0, 0, 0, 0.0, []

    def act(self, h, s, rng):
        return first_best(self.Q[h, s])

    def steps(self, key):
        return [key[0]] if self.by_step else range(self.H)

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        key = (h if self.by_step else 0, s, a)
        self.visits[key] += 1
        self.latest[key] = self.now
        self.earned += r
        after = [0.0 if terminated else self.V[g + 1, y] for g in self.steps(key)]
        self.seen[key].append([r, *after])
        n = len(self.seen[key])
        if n == self.stage[key]:
            r, *after = np.mean(self.seen.pop(key), axis=0)
            for g, value in zip(self.steps(key), after, strict=True):
                b = bonus_of(self.form, self.c, n, self.v[g], self.H, self.iota)
                self.Q[g, s, a] = min(self.Q[g, s, a], r + value + b)
                self.V[g, s] = max(self.Q[g, s])
            self.stage[key] = n + n // self.H
        return 1.0

    def end_episode(self):
        if len(self.returns) >= 30:
            deviation = max(np.std(self.returns), 0.01 * self.v[0])
            fall = (np.mean(self.returns) - self.earned) / deviation
            self.evidence = max(0.0, self.evidence + min(fall, 5) - 0.25)
        self.returns.append(self.earned)
        if self.evidence == 0.0:
            self.since = self.now + 1
        elif self.evidence > self.threshold:
            self.alarms.append(self.now)
            self.restart([key for key, last in self.latest.items() if last >= self.since or not self.selective])
            self.returns, self.evidence, self.since = [], 0.0, self.now + 1
        self.earned = 0.0
        self.now += 1
        if self.now in self.restart_at:
            self.restart(np.ndindex(self.visits.shape))

    def restart(self, keys):
        for key in keys:
            self.stage.pop(key, None)
            self.seen.pop(key, None)
            for g in self.steps(key):
                self.Q[g, key[1], key[2]] = min(self.v[g], self.Q[g, key[1], key[2]] + self.raised)
                self.V[g, key[1]] = max(self.Q[g, key[1]])


class Dyna:
    """Dyna-Q+ with a dictionary of last outcomes."""

    def __init__(self, world, length, *, stage_dependent, kappa, alpha, epsilon, replays, optimistic=False):
        self.H, (S, A) = world.horizon, world.shape
        self.v, self.by_step = world.bounds, stage_dependent
        self.Q = np.array([np.full((S, A), v * optimistic) for v in self.v[: self.H]])
        self.V = np.array([np.full(S, v * optimistic) for v in self.v])
        self.visits = np.zeros((self.H if stage_dependent else 1, S, A), int)
        self.kappa, self.alpha, self.epsilon, self.replays = kappa, alpha, epsilon, replays
        self.last, self.met, self.time = {}, [], 0

    def act(self, h, s, rng):
        return first_or_random(self.Q[h, s], self.epsilon, rng)

    def update(self, row, s, a, r, y, terminated):
        for h in [row] if self.by_step else range(self.H):
            target = r + (0.0 if terminated else self.V[h + 1, y])
            self.Q[h, s, a] = (1 - self.alpha) * self.Q[h, s, a] + self.alpha * target
        for h in [row] if self.by_step else range(self.H):
            self.V[h, s] = min(self.v[h], max(self.Q[h, s]))

    def learn(self, phase, h, s, a, r, y, terminated, rng):
        row = h if self.by_step else 0
        self.visits[row, s, a] += 1
        if (row, s) not in self.met:
            self.met.append((row, s))
        self.update(row, s, a, r, y, terminated)
        self.time += 1
        self.last[row, s, a] = (r, y, terminated, self.time)
        for _ in range(self.replays):
            row, s = self.met[int(rng.random() * len(self.met))]
            a = int(rng.random() * self.Q.shape[2])
            r, y, terminated, then = self.last.get((row, s, a), (0.0, s, False, 0))
            self.update(row, s, a, r + self.kappa * math.sqrt(self.time - then), y, terminated)
        return 1.0

    def end_episode(self):
        pass


def first_or_random(row, epsilon, rng):
    """As `chosen`, but an agent whose epsilon is 0 draws too."""
    if epsilon > 0:
        return chosen(row, epsilon, rng)
    rng.random()
    return first_best(row, int(rng.random() * len(row)))
