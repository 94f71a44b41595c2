"""A slow and obvious twin of PlanningDQUCB in problems with a discount. Imports nothing from the library.

Plans by prioritised sweeping: plain lists of states for each priority, and sets of states from which one was reached.
"""

import math

from naive_planning_dqucb import (
    CONFIDENCE,
    POOLED,
    SETTLED,
    NaivePlanningDQUCB,
    better,
    learned_worth,
    look,
    ordered_sum,
    share_of_several,
    value,
)

BACKUPS, SAVED, LEVELS, EDGES_A_BACKUP = 128, 2**14, 20, 16


class NaiveDiscountedPlanning(NaivePlanningDQUCB):
    """Steps are alike; `sweeps` over all states met end a plan that does not settle."""

    def __init__(self, n_states, n_actions, bound, width, false_alarms, discount, sweeps):
        super().__init__(n_states, n_actions, [bound, 0.0], width, "shared", false_alarms)
        self.bound, self.discount, self.sweeps = bound, discount, sweeps
        self.values, self.variances = [bound] * n_states + [0.0], [0.0] * (n_states + 1)
        self.found, self.sources = [], {}  # states in order of first sight; those from which a state was reached
        self.parts, self.pooled = {}, [0.0, 0.0]
        self.queues = [[] for _ in range(LEVELS)]
        self.credit, self.spent, self.next, self.left = SAVED, 0, 0, 0
        self.unfinished = False
        self.looked_last, self.top, self.arrivals, self.unmet = {}, bound, [0, 0], 0.5
        self.worths, self.worth = {}, [0.0, 0.0, 0.0]

    def act(self, step, state):
        return (self.looked_at if self.is_look_due(state) else self.policy)[0][state]

    def is_look_due(self, state):
        is_time = (self.now - self.looked_last.get(state, -math.inf)) * (1.0 - self.discount) >= 1.0
        return is_time and self.looked_at[0][state] != self.policy[0][state]

    def number_of(self, next_state):
        """States have numbers in order of first sight; the end keeps its own."""
        return self.found.index(next_state) if next_state < self.S else next_state

    def meet(self, state):
        if state not in self.found:
            self.found.append(state)

    def learn(self, step, state, action, reward, next_state, terminated):
        if self.is_look_due(state):
            self.looked_last[state] = self.now
        self.meet(state)
        is_unmet = not terminated and next_state not in self.found
        if not terminated:
            self.meet(next_state)
            sources = self.sources.setdefault(next_state, [])
            if state not in sources:
                sources.insert(0, state)
        alarms, adopted, self.due = len(self.alarms), self.adopted, False
        new = self.new
        p = super().learn(step, state, action, reward, next_state, terminated)
        self.now += 1
        self.count_tries()
        if self.new > new:
            self.arrivals = [self.arrivals[0] + 1, self.arrivals[1] + is_unmet]
        all_found = len(self.found) == self.S
        self.unmet = 0.0 if all_found else (1 + self.arrivals[1]) / (2 + self.arrivals[0])
        everything = len(self.alarms) > alarms or self.adopted > adopted
        if everything:
            self.top = self.bound
            for one in self.found:
                self.follow(one)
        elif self.due:
            self.wait(state, 0)
        if self.due:
            self.spent, self.left, self.unfinished = 0, len(self.found), True
        if self.unfinished:
            self.unfinished = not self.go_on()
        return p

    def wait(self, state, level):
        for higher in self.queues[: level + 1]:
            if state in higher:
                return
        for lower in self.queues[level + 1 :]:
            if state in lower:
                lower.remove(state)
        self.queues[level].append(state)

    def go_on(self):
        """Whether the plan is finished."""
        self.credit = min(self.credit + BACKUPS, SAVED)
        while self.credit > 0:
            waiting = [queue for queue in self.queues if queue]
            if waiting:
                state = waiting[0].pop(0)
            elif self.left == 0:
                self.top = max(self.values[one] for one in self.found)
                return True
            else:
                self.left -= 1
                number = self.next if self.next < len(self.found) else 0
                state, self.next = self.found[number], number + 1
            self.spent += 1
            self.credit -= 1 + self.follow(state)
            if self.spent >= self.sweeps * len(self.found):
                return True
        return False

    def follow(self, state):
        before = self.values[state], self.variances[state]
        self.back_up_state(state)
        moved = abs(self.values[state] - before[0]) / self.bound
        moved = max(moved, abs(self.variances[state] - before[1]) / self.bound**2)
        if moved <= SETTLED:
            return 0
        level = min(max(-math.frexp(moved)[1], 0), LEVELS - 1)
        sources = self.sources.get(state, [])
        for source in sources:
            self.wait(source, level)
        return len(sources) // EDGES_A_BACKUP

    def back_up_state(self, state):
        best, before_backup = (-math.inf, 0, self.bound, 0.0), list(self.values)
        spread = max(0.0, self.pooled[0] / self.pooled[1]) if self.pooled[1] else 0.0
        worth = learned_worth(self.worth[0], max(0.0, self.worth[2]), self.bound)
        means, owns, pairs = [], [], [self.pair("all", state, action) for action in range(self.A)]
        for action, pair in enumerate(pairs):
            n, mean, variance, part, new, own = len(pair.seen), self.bound, 0.0, (0.0, 0.0), [], 0.0
            if n:
                mean, variance, squares = value(
                    pair, self.values, self.variances, self.discount, self.bound, spread, self.unseen(n), worth,
                    self.unmet,
                )  # fmt: skip
                if n > 1:
                    visits = min(n - 1, POOLED)
                    part = (visits * squares / (n - 1), visits)
                new = better(pair, self.values, self.discount, mean)
                later = 0.0
                for place, (y, _) in enumerate(pair.labels):
                    later += pair.seen.count(place) * (1.0 / n) * self.variances[y]
                own = max(0.0, variance - self.discount * self.discount * later)
            self.pooled = moved(self.pooled, self.parts, (state, action), part)
            learned = len(new), ordered_sum(new), ordered_sum(b * b for b in new)
            self.worth = moved(self.worth, self.worths, (state, action), learned)
            pair.due_at = self.next_due(n)
            q = min(self.bound, mean + CONFIDENCE * math.sqrt(variance))
            self.Q[0][state][action] = q
            means.append(mean)
            owns.append(own)
            if q > best[0]:
                best = (q, action, mean, variance)
        _, self.policy[0][state], self.values[state], self.variances[state] = best
        cap = min(self.bound, (1.0 - self.discount) * self.bound + self.discount * self.top)
        prior = share_of_several(list(self.pairs.values()))
        self.looked_at[0][state] = look(
            pairs, best[1], self.Q[0][state], means, owns, before_backup, self.discount, cap, prior, self.worth
        )


def moved(sums, parts, key, part):
    """Sums over pairs when the part of one has changed."""
    before = parts.get(key, (0.0,) * len(part))
    parts[key] = part
    return [old + (new - gone) for old, new, gone in zip(sums, part, before, strict=True)]
