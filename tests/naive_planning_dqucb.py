"""A slow and obvious twin of PlanningDQUCB. Imports nothing from the library.

A pair keeps labels [next state, reward] in order of first sight, and the place of the label of every outcome it saw;
windows are plain slices of that list.
"""

import math

CONFIDENCE, OPTIMISM, PRIOR, POOLED, SETTLED = 1.0, 0.25, 3.0, 8, 1e-6
SHORT, FIRST_MERGE = 32, 16


def log_ratio(older, newer):
    """The largest log-likelihood of each sample alone over that of both together."""
    n0, n1 = len(older), len(newer)
    total = 0.0
    for outcome in dict.fromkeys(older + newer):
        c0, c1 = older.count(outcome), newer.count(outcome)
        if c0:
            total += c0 * math.log(c0 * (n0 + n1) / (n0 * (c0 + c1)))
        if c1:
            total += c1 * math.log(c1 * (n0 + n1) / (n1 * (c0 + c1)))
    return total


def is_power_of_two(n):
    return n > 0 and 2 ** round(math.log2(n)) == n


class Pair:
    """All outcomes since the last change, and where the two windows begin."""

    def __init__(self, width):
        self.width, self.labels = width, []
        self.seen, self.recent, self.latest, self.planned = [], 0, 0, 0

    def push(self, next_state, reward):
        """The likelihood of the outcome before, and whether it got a new label."""
        place = self.place(next_state, reward)
        is_new = place == len(self.labels)
        if is_new:
            self.labels.append([next_state, reward])
        before = self.seen.count(place)
        p = before / len(self.seen) if self.seen else 1.0
        mean = self.labels[place][1]
        if mean != reward:
            self.labels[place][1] = mean + (reward - mean) / (before + 1)
        self.seen.append(place)
        return p, is_new

    def place(self, next_state, reward):
        if [next_state, reward] in self.labels:
            return self.labels.index([next_state, reward])
        if len(self.labels) < self.width:
            return len(self.labels)
        alike = [place for place, label in enumerate(self.labels) if label[0] == next_state]
        return alike[-1] if alike else self.width - 1

    def times(self, label):
        return self.seen.count(self.labels.index(label)) if label in self.labels else 0

    def has_changed(self, level):
        n, k = len(self.seen), len(self.labels)
        limit = level + 0.5 * (k - 1) * math.log(n)
        short, long = n - self.latest, n - self.recent
        if (
            is_power_of_two(short)
            and self.latest > 0
            and log_ratio(self.seen[: self.latest], self.seen[self.latest :]) > limit
        ):
            return True
        return (
            is_power_of_two(long)
            and self.recent > 0
            and long > short
            and log_ratio(self.seen[: self.recent], self.seen[self.recent :]) > limit
        )

    def merge(self):
        n = len(self.seen)
        if n - self.latest >= SHORT:
            self.latest = n
            if n - self.recent > FIRST_MERGE and 4 * (n - self.recent) > self.recent:
                self.recent = n


class NaivePlanningDQUCB:
    """`form` is "shared", "steps" or "auto"; bounds are v_0 to v_H, or one number with a discount."""

    def __init__(self, n_states, n_actions, bounds, width, form, false_alarms, discount=None, sweeps=0):
        self.width = width
        self.S, self.A, self.form, self.discount, self.sweeps = n_states, n_actions, form, discount, sweeps
        self.H = len(bounds) - 1 if discount is None else 1
        self.bounds = list(bounds) if discount is None else [bounds[0]] * 2
        rows = self.H if form == "steps" else 1
        self.level = math.log(rows * n_states * n_actions / false_alarms)
        self.split = set()
        self.alarms, self.now, self.due = [], 0, False
        self.V = [[bound] * n_states + [0.0] for bound in self.bounds]
        self.U = [[0.0] * (n_states + 1) for _ in self.bounds]
        self.Q = [[[self.bounds[h]] * n_actions for _ in range(n_states)] for h in range(self.H)]
        self.policy = [[0] * n_states for _ in range(self.H)]
        self.forget()

    def forget(self):
        self.pairs, self.novelty = {}, {}

    def pair(self, row, state, action):
        return self.pairs.setdefault((row, state, action), Pair(self.width))

    def row(self, step, state, action):
        if self.form == "shared":
            return "all"
        if self.form == "steps":
            return step
        return step if (state, action) in self.split else "all"

    def act(self, step, state):
        return self.policy[step][state]

    def learn(self, step, state, action, reward, next_state, terminated):
        there = self.S if terminated else next_state
        row = self.row(step, state, action)
        pair = self.pair(row, state, action)
        n = len(pair.seen)
        p, is_new = pair.push(there, reward)
        if n:
            tried = self.novelty.setdefault(int(math.log2(n)), [0.0, 0.0])
            tried[0] += is_new
            tried[1] += 1
        if self.form == "auto" and row == "all":
            own = self.pair(step, state, action)
            own.push(there, reward)
            own.merge()
        changed = pair.has_changed(self.level)
        looked_at = self.form == "auto" and row == "all" and not changed and is_power_of_two(n + 1)
        if looked_at and self.steps_differ(state, action):
            self.split = {(s, a) for s in range(self.S) for a in range(self.A)}
            self.due = True
        if changed:
            self.alarms.append(self.now)
            self.forget()
            self.due = True
        else:
            pair.merge()
            if n + 1 > pair.planned and 2 * (n + 1 - pair.planned) >= pair.planned:
                self.due = True
        if self.discount is not None:
            self.now += 1
            if self.due:
                self.plan()
        return p

    def steps_differ(self, state, action):
        together = self.pair("all", state, action)
        seen, recent = together.seen, together.recent
        level = self.level + (log_ratio(seen[:recent], seen[recent:]) if 0 < recent < len(seen) else 0.0)
        return self.parts_differ(state, action, level) or self.single_steps_differ(state, action, level)

    def parts_differ(self, state, action, level):
        together = self.pair("all", state, action)
        n, k = len(together.seen), len(together.labels)
        for part in range(1, 8):
            early = [self.pair(step, state, action) for step in range(part * self.H // 8)]
            first = [sum(own.times(label) for own in early) for label in together.labels]
            both = [together.times(label) for label in together.labels]
            n_first, g = sum(first), 0.0
            if not 0 < n_first < n:
                continue
            for c, of in zip(first, both, strict=True):
                if c > 0:
                    g += c * math.log(c * n / (n_first * of))
                if of - c > 0:
                    g += (of - c) * math.log((of - c) * n / ((n - n_first) * of))
            if g > level + math.log(7) + 0.5 * (k - 1) * math.log(n):
                return True
        return False

    def single_steps_differ(self, state, action, level):
        together = self.pair("all", state, action)
        n, k = len(together.seen), len(together.labels)
        g, limit, first = 0.0, level, True
        for step in range(self.H):
            own = self.pair(step, state, action)
            for place, label in enumerate(own.labels):
                c = own.seen.count(place)
                g += c * math.log(c * n / (len(own.seen) * (together.times(label) or c)))
            if own.seen and not first:
                limit += (k - 1) * math.log(len(own.seen) + 1.0)
            first = first and not own.seen
        return g > limit

    def finish_episode(self):
        if self.discount is None:
            self.now += 1
            if self.due:
                self.plan()

    def plan(self):
        spread = 0.0
        if self.discount is None:
            h, settled = self.H, False
            while h > 0 and not settled:
                h -= 1
                spread = self.back_up(h, h + 1, spread)
                settled = self.bounds[h] == self.bounds[0] and self.distance(h, h + 1) <= SETTLED
            for earlier in range(h):
                self.policy[earlier], self.Q[earlier] = self.policy[h], self.Q[h]
                # As in the library, values before the first planned step stay what they were.
        else:
            for _ in range(self.sweeps):
                self.V[1], self.U[1] = list(self.V[0]), list(self.U[0])
                spread = self.back_up(0, 1, spread)
                if self.distance(0, 1) <= SETTLED:
                    break
        for pair in self.pairs.values():
            pair.planned = len(pair.seen)
        self.due = False

    def distance(self, row, other):
        top = self.bounds[0]
        values = max(abs(a - b) for a, b in zip(self.V[row], self.V[other], strict=True))
        variances = max(abs(a - b) for a, b in zip(self.U[row], self.U[other], strict=True))
        return max(values / top, variances / (top * top))

    def unseen(self, n):
        new, tried = self.novelty.get(int(math.log2(n)), (0.0, 0.0))
        return (new + 1.0 / (n + 1.0)) / (tried + 1.0)

    def back_up(self, h, after, spread):
        v_h, gamma = self.bounds[h], 1.0 if self.discount is None else self.discount
        total = weight = 0.0
        self.policy[h], self.Q[h] = [0] * self.S, [[0.0] * self.A for _ in range(self.S)]
        for s in range(self.S):
            best = (-math.inf, 0, 0.0, 0.0)
            for a in range(self.A):
                pair = self.pair(self.row(h, s, a), s, a)
                n, mean, variance = len(pair.seen), v_h, 0.0
                if n:
                    mean = squares = 0.0
                    for place, (y, r) in enumerate(pair.labels):
                        p = pair.seen.count(place) * (1.0 / n)
                        x = r + gamma * self.V[after][y]
                        mean += p * x
                        squares += p * x * x
                        variance += p * self.U[after][y]
                    own = n * max(0.0, squares - mean * mean)
                    if n > 1:
                        visits = min(n - 1, POOLED)
                        total += visits * own / (n - 1)
                        weight += visits
                    variance = gamma * gamma * variance + (PRIOR * spread + own) / (PRIOR + n - 1.0) * (1.0 / n)
                    mean = min(mean, v_h)
                    missing = OPTIMISM * self.unseen(n) * (v_h - mean)
                    variance += missing * missing
                q = min(v_h, mean + CONFIDENCE * math.sqrt(variance))
                self.Q[h][s][a] = q
                if q > best[0]:
                    best = (q, a, mean, variance)
            _, self.policy[h][s], self.V[h][s], self.U[h][s] = best
        return total / weight if weight > 0.0 else 0.0
