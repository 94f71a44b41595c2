"""A slow and obvious twin of PlanningDQUCB in problems with a discount. Imports nothing from the library.

Plans by prioritised sweeping: plain lists of states for each priority, and sets of states from which one was reached.
"""

import math

from naive_planning_dqucb import POOLED, SETTLED, NaivePlanningDQUCB, value

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

    def act(self, step, state):
        return self.policy[0][state]  # without episodes there is no look beside the plan

    def meet(self, state):
        if state not in self.found:
            self.found.append(state)

    def learn(self, step, state, action, reward, next_state, terminated):
        self.meet(state)
        if not terminated:
            self.meet(next_state)
            sources = self.sources.setdefault(next_state, [])
            if state not in sources:
                sources.insert(0, state)
        alarms, adopted, self.due = len(self.alarms), self.adopted, False
        p = super().learn(step, state, action, reward, next_state, terminated)
        self.now += 1
        self.count_tries()
        everything = len(self.alarms) > alarms or self.adopted > adopted
        if everything:
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
        best = (-math.inf, 0, self.bound, 0.0)
        spread = max(0.0, self.pooled[0] / self.pooled[1]) if self.pooled[1] else 0.0
        for action in range(self.A):
            pair = self.pair("all", state, action)
            n, mean, variance, part = len(pair.seen), self.bound, 0.0, (0.0, 0.0)
            if n:
                unseen = self.unseen(n)
                mean, variance, own = value(
                    pair, self.values, self.variances, self.discount, self.bound, spread, unseen
                )
                if n > 1:
                    visits = min(n - 1, POOLED)
                    part = (visits * own / (n - 1), visits)
            before = self.parts.get((state, action), (0.0, 0.0))
            self.pooled = [old + (new - gone) for old, new, gone in zip(self.pooled, part, before, strict=True)]
            self.parts[state, action] = part
            pair.due_at = self.next_due(n)
            q = min(self.bound, mean + math.sqrt(variance))
            self.Q[0][state][action] = q
            if q > best[0]:
                best = (q, action, mean, variance)
        _, self.policy[0][state], self.values[state], self.variances[state] = best
