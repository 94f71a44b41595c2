"""A slow and obvious twin of PlanningDQUCB. Imports nothing from the library.

A pair keeps labels [next state, reward] in order of first sight, and the place of the label of every outcome it saw.
"""

import math

from naive_betting import Bag, Bets, injection_of_run

CONFIDENCE, OPTIMISM, PRIOR, POOLED, SETTLED = 0.5, 0.25, 3.0, 8, 1e-6
PRIOR_WORTHS, LEAST_KEPT, LEVEL, FURTHER = 0.1, 3, 0.15, 2.0
FIRST_BOLD = 32
N_WORLDS, ADOPT, SETTLING = 4, 4.0, 10
FIRST_WORK, WORK_PER_STEP, PAIR_WORK = 100_000_000, 256, 2


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
    """All outcomes that count, and those since the last change in their bag."""

    def __init__(self, width, number_of):
        self.width, self.number_of, self.labels = width, number_of, []
        self.seen, self.bag, self.due_at = [], Bag(wins_on_second=False), 0

    def place(self, next_state, reward):
        """(the place of the outcome, whether it was another's). Adds a label."""
        if [next_state, reward] in self.labels:
            return self.labels.index([next_state, reward]), False
        if len(self.labels) < self.width:
            self.labels.append([next_state, reward])
            return len(self.labels) - 1, False
        for place in range(self.width):
            if place not in self.seen:
                self.labels[place] = [next_state, reward]
                return place, True
        alike = [place for place, label in enumerate(self.labels) if label[0] == next_state]
        return (alike[-1] if alike else self.number_of(next_state) % self.width), False

    def push(self, place, reward):
        """The likelihood of the outcome before."""
        before = self.seen.count(place)
        p = before / len(self.seen) if self.seen else 1.0
        mean = self.labels[place][1]
        if mean != reward:
            self.labels[place][1] = mean + (reward - mean) / (before + 1)
        self.seen.append(place)
        return p

    def different(self):
        return len(set(self.seen))

    def before_window(self):
        """All outcomes but those in the window, in order of their places."""
        older = list(self.seen)
        for place in self.bag.window:
            older.remove(place)
        return older

    def shrink(self, kept):
        n = len(self.seen)
        counts = [self.seen.count(i) for i in range(len(self.labels))]
        if n > kept:
            counts = [int(c * kept / n + 0.5) for c in counts]
        self.seen = [i for i, c in enumerate(counts) for _ in range(c)]
        self.bag = Bag(wins_on_second=False)

    def join(self, counts):
        """As if outcomes had been seen so often more, none of them lately."""
        more = [i for i, c in enumerate(counts) for _ in range(c)]
        self.seen, self.bag = self.seen + more, Bag(self.bag.seen + more, wins_on_second=False)


class World:
    """Counts of each pair in a world that was left."""

    def __init__(self):
        self.counts, self.novelty, self.left_at, self.refuted = {}, {}, 0, False


class NaivePlanningDQUCB:
    """`form` is "shared", "steps" or "auto"; bounds are v_0 to v_H."""

    def __init__(self, n_states, n_actions, bounds, width, form, false_alarms, probes=0.0):
        self.width = width
        self.probing = Probing(self, n_states, n_actions, probes) if probes else None
        self.S, self.A, self.form = n_states, n_actions, form
        self.H, self.bounds = len(bounds) - 1, list(bounds)
        rows = self.H if form == "steps" else 1
        self.level = math.log(rows * n_states * n_actions / false_alarms)
        self.by_step = False
        self.false_alarms = false_alarms
        self.restart_bets()
        self.alarms, self.now, self.due, self.outdated = [], 0, False, False
        self.last_alarm, self.is_bold = 0, False
        self.first, self.budget, self.tried = 0, FIRST_WORK, {}
        self.spreads, self.worths = [0.0] * self.H, [0.0] * self.H
        self.V = [[bound] * n_states + [0.0] for bound in self.bounds]
        self.U = [[0.0] * (n_states + 1) for _ in self.bounds]
        self.Q = [[[self.bounds[h]] * n_actions for _ in range(n_states)] for h in range(self.H)]
        self.policy = [[0] * n_states for _ in range(self.H)]
        self.looked_at = [[0] * n_states for _ in range(self.H)]
        self.explored_at = [-1] * n_states
        self.met, self.ended, self.new, self.new_to_unmet = set(), set(), 0, 0
        self.all_met = False
        self.pairs, self.novelty = {}, {}
        self.steps = {}  # (step, state, action) -> places seen, in the list of all steps
        self.worlds = [World() for _ in range(0 if form == "steps" else N_WORLDS)]
        self.current = self.before = None
        self.since, self.searching, self.adopted = 0, False, 0

    def pair(self, row, state, action):
        return self.pairs.setdefault((row, state, action), Pair(self.width, self.number_of))

    def number_of(self, next_state):
        return next_state

    def row(self, step):
        if self.form == "shared" or (self.form == "auto" and not self.by_step):
            return "all"
        return step

    def act(self, step, state):
        probe = self.probing.action(state) if self.probing else None
        if probe is not None:
            return probe
        looks = self.explored_at[state] != self.now
        return (self.looked_at if looks else self.policy)[step][state]

    def learn(self, step, state, action, reward, next_state, terminated):
        if self.looked_at[step][state] != self.policy[step][state]:
            self.explored_at[state] = self.now
        there = self.S if terminated else next_state
        row = self.row(step)
        pair = self.pair(row, state, action)
        place, is_another = pair.place(there, reward)
        if is_another:
            for world in self.worlds:
                if (state, action) in world.counts:
                    world.counts[state, action][place] = 0
        adopted, n_alarms = self.adopted, len(self.alarms)
        if self.worlds and row == "all":
            self.search(pair, state, action, place)
        n, different = len(pair.seen), pair.different()
        p = pair.push(place, reward)
        if n and pair.different() > different:
            size = int(math.log2(n))
            self.novelty[size] = self.novelty.get(size, 0.0) + 1.0
            self.new += 1
            self.new_to_unmet += next_state not in self.met and not terminated
        self.met.add(next_state)
        if terminated:
            self.ended.add(next_state)
        found = set()
        if pair.different() == self.width > different:  # the last place was taken
            pair.bag = Bag(wins_on_second=False)
        elif pair.labels[place][0] == there:  # else the list had no room for it
            self.tested += 1
            found = self.bets.bet(pair.bag, place, injection_of_run(self.tested), 2.0 / self.false_alarms)
        if found:
            worth = int(self.bets.visits / math.log(2.0 / self.false_alarms)) if "pooled" in found else 0
            self.forget(worth if worth >= LEAST_KEPT else 0)
        else:
            if self.form == "auto" and not self.by_step:
                self.steps.setdefault((step, state, action), []).append(place)
                if is_power_of_two(n + 1) and self.steps_differ(state, action):
                    self.split()
            if n + 1 >= pair.due_at:
                self.due = True
        if self.adopted > adopted or len(self.alarms) > n_alarms:
            self.due = self.outdated = True
            self.budget = max(self.budget, FIRST_WORK)
        elif n == 0 and self.row(step) == "all":
            self.due = True
            is_large = (self.S * self.A) ** 2 * self.H * (1 + PAIR_WORK) > FIRST_WORK
            self.outdated |= not (is_large and self.take_new_action(state))
        self.budget += WORK_PER_STEP
        if self.probing:
            self.probing.observe(state, action, reward, p, len(self.alarms) > n_alarms)
        if self.outdated and not terminated and step + 1 < self.H:
            planned = self.pair(self.row(step + 1), next_state, self.act(step + 1, next_state))
            if planned.seen and self.budget > 0:
                self.plan(first=step + 1)
            elif planned.seen:
                self.back_up_state(step + 1, next_state)
        return p

    def take_new_action(self, state):
        """Whether the state has an action that was never taken; the policy takes it."""
        new = [a for a in range(self.A) if not self.pair("all", state, a).seen]
        for h in range(self.H if new else 0):
            self.policy[h][state] = self.looked_at[h][state] = new[0]
        return bool(new)

    def restart_bets(self):
        self.bets, self.tested = Bets(), 0

    # ---- worlds -------------------------------------------------------------------------------------------

    def has_settled(self):
        return self.since >= SETTLING * self.S * self.A

    def forget(self, kept):
        self.alarms.append(self.now)
        if self.worlds and not self.by_step:
            self.leave()
        for pair in self.pairs.values():
            pair.shrink(kept)
        self.restart_bets()
        self.steps = {}
        self.novelty = {}
        self.last_alarm = self.now

    def leave(self):
        if self.has_settled():
            for world in self.worlds:
                world.refuted = False
            if self.current is None:
                self.current = min(self.worlds, key=lambda world: world.left_at)
            self.current.novelty = dict(self.novelty)
            self.current.counts = {}
            for (_, state, action), pair in self.pairs.items():
                is_most = 2 * len(pair.bag.window) > len(pair.seen)
                old = pair.seen if is_most else pair.before_window()
                self.current.counts[state, action] = [old.count(i) for i in range(self.width)]
        if self.current is not None:
            self.current.left_at, self.current.refuted = len(self.alarms), True
            self.before = self.current
        self.current, self.since, self.searching = None, 0, True
        self.evidence = {id(world): [0.0, 0.0] for world in self.worlds}

    def likelihood(self, world, pair, state, action, place):
        counts = world.counts.get((state, action), [0] * self.width) if world else [0] * self.width
        c, n = pair.seen.count(place) + counts[place], len(pair.seen) + sum(counts)
        return (c + 1.0) / (n + len(pair.labels) + 1.0)

    def search(self, pair, state, action, place):
        self.since += 1
        if not self.searching:
            return
        if self.has_settled():
            self.searching = False
            return
        p_now = self.likelihood(None, pair, state, action, place)
        p_left = self.likelihood(self.before, pair, state, action, place)
        for world in self.worlds:
            if world.left_at > 0 and not world.refuted:
                p, evidence = self.likelihood(world, pair, state, action, place), self.evidence[id(world)]
                evidence[0] += math.log(p / p_now)
                evidence[1] += math.log(p / p_left)
                if min(evidence) > ADOPT:
                    self.adopt(world)
                    return

    def adopt(self, world):
        for (state, action), counts in world.counts.items():
            self.pair("all", state, action).join(counts)
        for (row, state, action), pair in self.pairs.items():
            if row == "all" and (state, action) not in world.counts:
                pair.join([])
        for size, new in world.novelty.items():
            self.novelty[size] = self.novelty.get(size, 0.0) + new
        self.restart_bets()
        self.current, self.since, self.searching = world, 0, False
        self.adopted += 1

    # ---- steps --------------------------------------------------------------------------------------------

    def counted(self, steps, state, action, place):
        return sum(self.steps.get((step, state, action), []).count(place) for step in steps)

    def steps_differ(self, state, action):
        pair = self.pair("all", state, action)
        if pair.different() < 2:
            return False
        older, newer = pair.before_window(), pair.bag.window
        level = self.level + (log_ratio(older, newer) if older and newer else 0.0)
        return self.parts_differ(pair, state, action, level) or self.single_steps_differ(pair, state, action, level)

    def parts_differ(self, pair, state, action, level):
        for part in range(1, 8):
            cut = part * self.H // 8
            places = range(len(pair.labels))
            early = [self.counted(range(cut), state, action, place) for place in places]
            late = [self.counted(range(cut, self.H), state, action, place) for place in places]
            first = [place for place in places for _ in range(early[place])]
            second = [place for place in places for _ in range(late[place])]
            if not first or not second:
                continue
            limit = level + math.log(7) + 0.5 * (pair.different() - 1) * math.log(len(first) + len(second))
            if log_ratio(first, second) > limit:
                return True
        return False

    def single_steps_differ(self, pair, state, action, level):
        places = range(len(pair.labels))
        both = [self.counted(range(self.H), state, action, place) for place in places]
        g, limit, first = 0.0, level, True
        for step in range(self.H):
            own = self.steps.get((step, state, action), [])
            for place in set(own):
                c = own.count(place)
                g += c * math.log(c * sum(both) / (len(own) * both[place]))
            if own and not first:
                limit += (pair.different() - 1) * math.log(len(own) + 1.0)
            first = first and not own
        return g > limit

    def split(self):
        for (step, state, action), seen in self.steps.items():
            labels = self.pair("all", state, action).labels
            own = self.pair(step, state, action)
            listed = sorted(set(seen))
            own.labels = [list(labels[place]) for place in listed]
            own.join([seen.count(place) for place in listed])
        self.by_step, self.due = True, True

    # ---- plans --------------------------------------------------------------------------------------------

    def finish_episode(self):
        self.now += 1
        since = self.now - self.last_alarm
        is_bold = since in [FIRST_BOLD * 2**i for i in range(20)] and not self.all_met
        self.is_bold = is_bold and self.budget > 0
        if (is_bold or self.due) and self.budget > 0:
            self.plan(first=0)
            self.due = is_bold
        if self.probing:
            self.probing.finish_episode()

    def in_use(self):
        return [pair for (row, _, _), pair in self.pairs.items() if (row == "all") == (self.row(0) == "all")]

    def find_met(self):
        """States met since the last change, by what is counted; those in which episodes end are known for good."""
        self.met = set(self.ended)
        for (row, s, _), pair in self.pairs.items():
            if pair.seen and (row == "all") == (self.row(0) == "all"):
                self.met |= {s} | {pair.labels[place][0] for place in pair.seen}
        self.met.discard(self.S)
        self.all_met = len(self.met) == self.S

    def count_tries(self):
        self.tried = {}
        for pair in self.in_use():
            for visits in range(1, len(pair.seen)):
                size = int(math.log2(visits))
                self.tried[size] = self.tried.get(size, 0) + 1

    def next_due(self, n):
        return n + max(1, (n + 1) // 2)

    def plan(self, first):
        self.outdated = False
        self.find_met()
        self.count_tries()
        for pair in self.in_use():
            pair.due_at = self.next_due(len(pair.seen))
        h, settled = self.H, False
        while h > first and not settled:
            h -= 1
            self.back_up(h)
            settled = self.bounds[h] == self.bounds[0] and self.distance(h, h + 1) <= SETTLED
        entries = sum(len(pair.labels) for (row, _, _), pair in self.pairs.items() if row == self.row(h) and pair.seen)
        self.budget -= (self.H - h) * (entries + PAIR_WORK * self.S * self.A)
        self.first = h
        for earlier in range(h):
            self.policy[earlier], self.Q[earlier] = self.policy[h], self.Q[h]
            self.looked_at[earlier] = self.looked_at[h]
            # As in the library, values before the first planned step stay what they were.

    def distance(self, row, other):
        top = self.bounds[0]
        values = max(abs(a - b) for a, b in zip(self.V[row], self.V[other], strict=True))
        variances = max(abs(a - b) for a, b in zip(self.U[row], self.U[other], strict=True))
        return max(values / top, variances / (top * top))

    def unseen(self, n):
        if self.is_bold:
            return 1.0 / (n + 1.0)
        size = int(math.log2(n))
        return (self.novelty.get(size, 0.0) + 1.0 / (n + 1.0)) / (self.tried.get(size, 0.0) + 1.0)

    def unmet_share(self):
        if self.all_met:
            return 0.0
        return 0.5 if self.is_bold else (1.0 + self.new_to_unmet) / (2.0 + self.new)

    def back_up(self, h):
        v_h = self.bounds[h]
        better = self.new_outcomes(h)
        worth = learned_worth(len(better), ordered_sum(b * b for b in better), v_h)
        spread, unmet = self.spread(h), self.unmet_share()
        self.worths[h], self.spreads[h] = worth, spread
        self.policy[h], self.Q[h] = [0] * self.S, [[0.0] * self.A for _ in range(self.S)]
        means = [[v_h] * self.A for _ in range(self.S)]
        owns = [[0.0] * self.A for _ in range(self.S)]
        for s in range(self.S):
            best = (-math.inf, 0, 0.0, 0.0)
            for a in range(self.A):
                pair = self.pair(self.row(h), s, a)
                n, mean, variance = len(pair.seen), v_h, 0.0
                if n:
                    mean, variance, _ = value(
                        pair, self.V[h + 1], self.U[h + 1], 1.0, v_h, spread, self.unseen(n), worth, unmet
                    )
                    later = 0.0
                    for place, (y, _) in enumerate(pair.labels):
                        later += pair.seen.count(place) * (1.0 / n) * self.U[h + 1][y]
                    means[s][a], owns[s][a] = mean, max(0.0, variance - later)
                q = min(v_h, mean + CONFIDENCE * math.sqrt(variance))
                self.Q[h][s][a] = q
                if q > best[0]:
                    best = (q, a, mean, variance)
            _, self.policy[h][s], self.V[h][s], self.U[h][s] = best
        self.look_again(h, means, owns, better)

    def back_up_state(self, step, s):
        """One state, with the variance and the worth of the last plan."""
        h, best = max(step, self.first), -math.inf
        for a in range(self.A):
            pair, mean, variance = self.pair(self.row(step), s, a), self.bounds[h], 0.0
            if pair.seen:
                mean, variance, _ = value(
                    pair, self.V[h + 1], self.U[h + 1], 1.0, self.bounds[h], self.spreads[h],
                    self.unseen(len(pair.seen)), self.worths[h], self.unmet_share(),
                )  # fmt: skip
            self.Q[h][s][a] = q = min(self.bounds[h], mean + CONFIDENCE * math.sqrt(variance))
            if q > best:
                best, self.V[h][s], self.U[h][s] = q, mean, variance
                self.policy[h][s] = self.looked_at[h][s] = a

    def spread(self, h):
        """The variance of the outcomes of all pairs."""
        total = weight = 0.0
        for s in range(self.S):
            for a in range(self.A):
                pair = self.pair(self.row(h), s, a)
                n = len(pair.seen)
                if n > 1:
                    own = value(pair, self.V[h + 1], self.U[h + 1], 1.0, self.bounds[h], 0.0, 0.0, 0.0, 0.0)[2]
                    visits = min(n - 1, POOLED)
                    total += visits * own / (n - 1)
                    weight += visits
        return total / weight if weight > 0.0 else 0.0

    def new_outcomes(self, h):
        """How much better than the rest of its pair each new outcome was."""
        found = []
        for s in range(self.S):
            for a in range(self.A):
                pair = self.pair(self.row(h), s, a)
                mean = 0.0
                for place, (y, r) in enumerate(pair.labels):
                    mean += pair.seen.count(place) * (1.0 / max(1, len(pair.seen))) * (r + 1.0 * self.V[h + 1][y])
                if pair.seen:
                    found += better(pair, self.V[h + 1], 1.0, mean)
        return found

    def look_again(self, h, means, owns, better):
        """The pair of each state that most deserves another look."""
        cap = min(self.bounds[h], self.bounds[self.H - 1] + max(self.V[h + 1][: self.S]))
        pairs = [[self.pair(self.row(h), s, a) for a in range(self.A)] for s in range(self.S)]
        prior = share_of_several([pair for row in pairs for pair in row])
        new = len(better), ordered_sum(better), ordered_sum(b * b for b in better)
        self.looked_at[h] = [
            look(pairs[s], self.policy[h][s], self.Q[h][s], means[s], owns[s], self.V[h + 1], 1.0, cap, prior, new)
            for s in range(self.S)
        ]


def ordered_sum(values):
    """The sum in the order of the values: `sum` may compensate rounding."""
    total = 0.0
    for value in values:
        total += value
    return total


def better(pair, values, gamma, mean):
    """How much better than the rest of the pair each of its new outcomes was; 0 for one that was not."""
    found = []
    for place, (y, r) in list(enumerate(pair.labels))[1:]:
        p, above = pair.seen.count(place) * (1.0 / len(pair.seen)), r + gamma * values[y] - mean
        if p > 0.0:
            found.append(above / (1.0 - p) if p < 1.0 and above > 0.0 else 0.0)
    return found


def learned_worth(number, squares, bound):
    """G."""
    prior = PRIOR_WORTHS * (OPTIMISM * bound) ** 2
    return math.sqrt((prior + OPTIMISM * OPTIMISM * squares) / (PRIOR_WORTHS + number))


def share_of_several(pairs):
    """pi of the looks."""
    twice = [pair for pair in pairs if len(pair.seen) >= 2]
    return (1.0 + sum(pair.different() >= 2 for pair in twice)) / (2.0 + len(twice))


def look(pairs, planned, Q, means, owns, values, gamma, cap, prior, new):
    """The action of a state to look at, or the planned one."""
    if not pairs[planned].seen:
        return planned
    number, total, squares = new
    is_learned, rarely = total > 0.0 and squares > 0.0, 1.0 / (1.0 + number)
    often, typical = (total * total / squares * rarely, squares / total) if is_learned else (0.0, 0.0)
    visits, best, chosen = sum(len(pair.seen) for pair in pairs), 1.0, planned
    for a, pair in enumerate(pairs):
        gap = Q[planned] - means[a]
        if a == planned or not pair.seen or gap <= 0.0:
            continue
        n, more = len(pair.seen), cap - means[a]
        outcomes = [pair.labels[place] for place in set(pair.seen)]
        top = max(r + gamma * values[y] for y, r in outcomes)
        own = owns[a] + max(0.0, top - means[a]) * gap / (3.0 * n)
        ratio = n * (math.exp(2.0 * LEVEL * math.log(visits / n) / n) - 1.0) * own / (gap * gap)
        if pair.different() < 2:
            noisy = prior / (prior + (1.0 - prior) * (n + 1.0))
            for share, worth in ((often, min(more, typical)), (rarely, more)):
                if worth > gap:
                    gain = worth * math.exp((n + 2.0) * math.log1p(-gap / worth)) / (n + 2.0)
                    ratio = max(ratio, FURTHER * visits * noisy / n * share * gain / gap)
        if ratio > best:
            best, chosen = ratio, a
    return chosen


class Probing:
    """Episodes that visit what was not visited for long. A place is (state, action), or (state, None) for the state."""

    def __init__(self, agent, n_states, n_actions, share):
        self.agent, self.S, self.A, self.share = agent, n_states, n_actions, share
        self.last_visit, self.policy = {}, {}
        self.credit = self.usual = self.total = 0.0
        self.mode = self.last_mode = self.pair = None
        self.stale_before = self.episodes = self.followed = self.missed = 0

    def is_stale(self, *place):
        if self.mode == "follow":
            return place == self.pair
        return place in self.last_visit and self.last_visit[place] < self.stale_before

    def action(self, state):
        if self.mode is None:
            return None
        if self.mode != "states":
            for action in range(self.A):
                if self.is_stale(state, action):
                    return action
        return self.policy[state]

    def observe(self, state, action, reward, p, is_alarm):
        was_stale = self.mode is not None and self.is_stale(state, None if self.mode == "states" else action)
        self.last_visit[state, action] = self.last_visit[state, None] = self.episodes
        self.total += reward
        if is_alarm:
            self.mode = None
        elif self.mode == "follow" and was_stale:
            seen = self.agent.pair("all", state, action).seen
            self.missed = 0 if seen[:-1].count(seen[-1]) <= self.followed else self.missed + 1
            self.followed += 1
            if self.missed >= 3 or self.followed >= 64:
                self.mode = self.last_mode
                self.aim()
        elif self.mode in ("states", "pairs") and p == 0.0:
            self.mode, self.last_mode, self.pair = "follow", self.mode, (state, action)
            self.followed, self.missed = 1, 0
            self.aim()
        elif was_stale:
            self.aim()

    def finish_episode(self):
        self.episodes += 1
        if self.mode is None:
            self.usual += (self.total - self.usual) / min(self.episodes, 100)
        else:
            self.credit -= max(0.0, self.usual - self.total)
        self.total = 0.0
        self.credit = min(self.credit + self.share * abs(self.usual), abs(self.usual))
        if self.mode == "follow":
            self.missed += 1
            if self.missed < 3 and self.aim():
                return
        self.mode = None
        if abs(self.usual) > 0.0 and self.credit >= abs(self.usual):
            self.mode = self.last_mode = "pairs" if self.last_mode == "states" else "states"
            visits = [last for (_, a), last in self.last_visit.items() if (a is None) == (self.mode == "states")]
            oldest = min([*visits, self.episodes])
            self.stale_before = min(
                self.episodes - (self.episodes - oldest) // 2, self.episodes - int(1.0 / self.share)
            )
            if not self.aim():
                self.mode = None

    def aim(self):
        if self.agent.row(0) != "all":
            return False
        values, change, sweeps = [0.0] * (self.S + 1), 1.0, 0
        while change > 1e-3 and sweeps < 2 * self.S:
            change, sweeps = 0.0, sweeps + 1
            for s in range(self.S):
                top, self.policy[s] = 0.0, None
                for a in range(self.A):
                    pair = self.agent.pair("all", s, a)
                    value = 0.0
                    for place, (y, _) in enumerate(pair.labels):
                        if y != s:
                            value += pair.seen.count(place) * values[y]
                    value = (1.0 - 1.0 / max(2, self.S)) * (value / max(len(pair.seen), 1))
                    if self.mode != "states" and self.is_stale(s, a):
                        value = 1.0
                    if value > top:
                        top, self.policy[s] = value, a
                if self.mode == "states" and self.is_stale(s, None):
                    top = 1.0
                change, values[s] = max(change, abs(top - values[s])), top
        return 1.0 in values


def value(pair, values, variances, gamma, bound, spread, unseen, worth=math.inf, unmet=0.0):
    """The mean of a pair, its variance, and the squares of its outcomes' distances from the mean."""
    n, mean, squares, variance = len(pair.seen), 0.0, 0.0, 0.0
    for place, (y, r) in enumerate(pair.labels):
        p = pair.seen.count(place) * (1.0 / n)
        x = r + gamma * values[y]
        mean += p * x
        squares += p * x * x
        variance += p * variances[y]
    own = n * max(0.0, squares - mean * mean)
    noise = (PRIOR * spread + own) / (PRIOR + n - 1.0) * (1.0 / n)
    variance = gamma * gamma * variance + noise
    mean = min(mean, bound)
    missing = unseen * (min(OPTIMISM * (bound - mean), worth) + unmet * (bound - mean))
    return mean, variance + missing * missing, own
