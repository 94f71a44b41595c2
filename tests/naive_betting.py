"""A slow and obvious twin of the bets on outcomes given their bag. Imports nothing from the library."""

import math

FLAT, SHARP, NOVEL = (0.03, 0.12, 0.5), (0.15, 0.7), (0.02, 0.3)
LEARNED = ((1.0, 0.5, 0.9), (16.0, 8.0, 0.3))  # K0, K1, b
PART, PART_PRIOR = 0.2, (2.0, 1.0, 0.6)
FLOOR, PATIENCE, GAIN = 0.05, 0.37, 10.0


class Bag:
    """The outcomes of a pair since the last change, and those in its window."""

    def __init__(self, seen=(), wins_on_second=True):
        self.seen, self.window, self.wins_on_second = list(seen), [], wins_on_second
        self.products, self.sums, self.odds = [1.0, 1.0], [0.0, 0.0], [FLOOR, FLOOR]

    def is_second(self, y):
        """Whether y is the second outcome that the pair shows, on which PlanningDQUCB does not win."""
        return not self.wins_on_second and len(set(self.seen)) == 2 and self.seen.count(y) == 1

    def fixed_factors(self, y):
        """Those of bets that learn nothing; y is in the bag."""
        counts = {outcome: self.seen.count(outcome) for outcome in set(self.seen)}
        c, n, k = counts[y], len(self.seen), len(counts)
        ones = list(counts.values()).count(1)
        novel = 1.0 if ones == 0 else (n / ones if c == 1 else 0.0)
        flat, sharp = n / (k * c), c * n / sum(count**2 for count in counts.values())
        if self.is_second(y):
            flat = novel = 1.0
        alternatives = [(FLAT, flat), (SHARP, sharp), (NOVEL, novel)]
        return [1 - eta + eta * factor for etas, factor in alternatives for eta in etas]

    def learned_factors(self, y):
        return [self.learned_factor(y, self.window, *prior) for prior in LEARNED]

    def learned_factor(self, y, window, k0, k1, b):
        """(bet on the shares of the window, drawn towards those of the bag and to equal ones) / share in the bag."""
        n, k = len(self.seen), len(set(self.seen))
        share = self.seen.count(y) / n
        prior = k0 + k1 * k
        expected = share if self.is_second(y) else (1 - b) * share + b / k
        predicted = (window.count(y) + prior * expected) / (len(window) + prior)
        return predicted / share


class Bets:
    """Sums over all starts of a change, for all pairs together."""

    def __init__(self):
        self.sums, self.gain, self.visits = [0.0] * 10, 1.0, 0

    def bet(self, bag, y, injection, threshold, more=()):
        """Put y into its bag and bet on it; returns the alarms, "pair" and "pooled". `more`: factors of more bets."""
        bag.seen.append(y)
        learned = bag.learned_factors(y)
        changed = [odds * factor for odds, factor in zip(bag.odds, learned, strict=True)]
        some = (1.0 + sum(changed)) / (1.0 + sum(bag.odds))
        bag.odds = [min(max(odds, FLOOR), 1e9) for odds in changed]
        factors = [*bag.fixed_factors(y), *learned, some, *more]
        share = injection / len(factors)
        before = sum(self.sums) + injection
        self.sums = [(total + share) * factor for total, factor in zip(self.sums, factors, strict=True)]
        bag.sums = [(total + injection / 2) * factor for total, factor in zip(bag.sums, learned, strict=True)]
        bag.products = [product * factor for product, factor in zip(bag.products, learned, strict=True)]
        gain = self.gain * sum(self.sums) / before
        self.gain = max(1.0, gain)
        self.visits = self.visits + 1 if sum(self.sums) > math.sqrt(threshold) else 0
        alarms = set()
        if sum(bag.sums) > threshold and sum(bag.products) / 2 > GAIN:
            alarms.add("pair")
        if sum(self.sums) > threshold and self.gain > GAIN:
            alarms.add("pooled")
        if not alarms and (sum(bag.products) / 2 < PATIENCE or len(bag.window) > 64 + 0.5 * len(bag.seen)):
            bag.window, bag.products = [], [1.0, 1.0]
        else:
            bag.window.append(y)
        return alarms


def injection_of_run(t):
    return 2.1 / ((t + 8) * math.log(t + 8) ** 2)


class NaiveDetector:
    """All pairs of a finite process; `update` returns the alarms, after which a new one must be made."""

    def __init__(self, rate):
        self.rate, self.bags, self.bets, self.history = rate, {}, Bets(), []
        self.bets.sums.append(0.0)
        self.windows, self.ratios, self.product, self.length = {}, {}, 1.0, 0  # of "part": since its common start

    def update(self, state, action, outcome):
        bag = self.bags.setdefault((state, action), Bag())
        part = self.part_factor((state, action), bag, outcome)
        self.history.append((state, action, outcome))
        return self.bets.bet(bag, outcome, 1.0, 2.0 / self.rate, [part])

    def part_factor(self, pair, bag, outcome):
        """(1 - pi + pi B v) / (1 - pi + pi B), and the common window with this outcome."""
        window, before = self.windows.setdefault(pair, []), self.ratios.get(pair, 1.0)
        bag.seen.append(outcome)
        after = min(before * bag.learned_factor(outcome, window, *PART_PRIOR), 1e9)
        bag.seen.pop()
        window.append(outcome)
        self.ratios[pair] = after
        factor = (1 - PART + PART * after) / (1 - PART + PART * before)
        self.product, self.length = self.product * factor, self.length + 1
        if self.product < PATIENCE or self.length > 64 + 0.5 * len(self.history):
            self.windows, self.ratios, self.product, self.length = {}, {}, 1.0, 0
        return factor

    def largest_pair_sum(self):
        return max(sum(bag.sums) for bag in self.bags.values())

    def log_posterior(self, shares=(0.01, 0.1, 0.5, 0.99)):
        """ln of the mean product of bets since each start, from the first update to the last."""
        scores = []
        for start in range(len(self.history)):
            logs = [0.0] * 7
            bags = {}
            for t, (state, action, outcome) in enumerate(self.history):
                bag = bags.setdefault((state, action), Bag())
                bag.seen.append(outcome)
                if t >= start:
                    logs = [x + math.log(f) for x, f in zip(logs, bag.fixed_factors(outcome), strict=True)]
            ratios = {}
            for state, action, outcome in reversed(self.history[start:]):  # learned bets are taken back
                bag = bags[state, action]
                own = ratios.setdefault((state, action), [0.0, 0.0])
                factors = bag.learned_factors(outcome)
                ratios[state, action] = [x + math.log(f) for x, f in zip(own, factors, strict=True)]
                bag.window.append(outcome)
                bag.seen.remove(outcome)
            means = [sum(math.exp(x) for x in own) / 2 for own in ratios.values()]
            logs += [sum(math.log(1 - share + share * mean) for mean in means) for share in shares]
            scores.append(math.log(sum(math.exp(x) for x in logs) / len(logs)))
        return scores
