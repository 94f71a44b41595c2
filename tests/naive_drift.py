"""The drift tests written the slow, obvious way; nothing here imports the library."""

import math

import numpy as np

PRIOR, LARGEST = 3.0, 24


class NaiveCusum:
    """A cumulative sum with all maxima of its cycles in a list."""

    def __init__(self, asked, block=0, least=0.0, small=False):
        self.least, self.small = least, small  # mean excess; whether increments are small
        self.asked, self.block = asked, block  # cycles and increments of a block may depend on each other
        self.kept = []
        self.level = self.peak = self.start = 0.0
        self.maxima, self.increments = [], []
        self.count = 0
        self.threshold = math.inf

    def tail(self):
        self.kept = self.independent()
        part = 3 if self.block else 10
        k = min(max(3, len(self.kept) // part), LARGEST - 1, len(self.kept))
        ordered = sorted(self.kept, reverse=True) + [0.0] * LARGEST
        u = ordered[k]
        excess = 1.0
        if self.increments and sum(self.increments) < 0.0:
            mean = sum(self.increments) / self.count
            length = self.block or 1
            whole = [self.increments[i : i + length] for i in range(0, len(self.increments) - length + 1, length)]
            variance = sum(sum(x) ** 2 for x in whole) / self.count - mean * mean * length
            excess = min(100.0, max(1.0, variance / (-2.0 * mean)))
        prior = PRIOR if not self.block else 0.5 if self.kept else 6.0
        total, n = prior * excess + sum(x - u for x in ordered[:k]), k + prior
        heavy = 13.0 if not self.block else 3.5 if self.kept else 6.0
        if n > heavy:
            total, n = total * heavy / n, heavy
        total = max(total, self.least * n)
        return u, total, n, (k + 1) / (self.count + 1), ordered

    def independent(self):
        """The maxima, or the largest one of each block that is over."""
        if not self.block:
            return [maximum for maximum, _ in self.maxima]
        largest = {}
        for maximum, at in self.maxima:
            # The increment that ends a block is counted before its cycle is: its maximum belongs to the next one.
            largest[at // self.block] = max(maximum, largest.get(at // self.block, 0.0))
        return [maximum for block, maximum in largest.items() if (block + 1) * self.block <= len(self.increments)]

    def calibrate(self):
        u, total, n, rate, ordered = self.tail()
        if rate > self.asked:
            near = math.exp(-max(u, 0.25) * n / total) if self.small else 0.0
            self.threshold = u + total * ((near + (1.0 - near) * rate / self.asked) ** (1.0 / n) - 1.0)
        else:
            i = int(self.asked * (self.count + 1))
            self.threshold = ordered[i] if i < LARGEST else u

    def restart(self, now):
        if self.peak > 0.0:
            self.maxima.append((self.peak, len(self.increments)))
        self.level = self.peak = 0.0
        self.start = now

    def skip(self):
        """An update that says nothing: it counts in rates alone."""
        self.count += 1

    def add(self, increment, now):
        self.count += 1
        self.increments.append(increment)
        self.level += increment
        if self.level <= 0.0:
            self.restart(now + 1)
            return False
        lowest = (sorted(self.independent(), reverse=True) + [0.0] * LARGEST)[LARGEST - 1]
        if self.level <= self.peak:
            return False
        if self.level > lowest >= self.peak:
            self.calibrate()
        self.peak = self.level
        return self.level > lowest and self.level > self.threshold


class NaiveRegression:
    """Least squares with a ridge that remembers about `memory` rows, by its normal equations."""

    def __init__(self, n, targets, memory):
        self.information, self.moments, self.memory = np.eye(n), np.zeros((n, targets)), memory
        self.solve()

    def solve(self):
        self.P = np.linalg.inv(self.information)
        self.W = (self.P @ self.moments).T

    def learn(self, row, values, count):
        """One row; a weight is a factor of the row and its values."""
        self.information += np.outer(row, row)
        self.moments += np.outer(row, values)
        self.information *= 1.0 - 1.0 / self.memory
        self.moments *= 1.0 - 1.0 / self.memory
        if count % 4 == 0:
            i = count // 4 % len(row)
            self.information[i, i] += 4.0 * len(row) / self.memory
        self.solve()


class NaiveResiduals:
    """The two tests on continuous transitions, with matrices as one would write them."""

    def __init__(self, products, waves, phases, burn_in, rate, smallest, memory, allowance, ridge, lag, model_memory):
        self.products, self.waves, self.phases = products, waves, phases
        self.burn_in, self.smallest, self.keep = burn_in, smallest, 1.0 - 1.0 / memory
        self.allowance, self.ridge, self.lag = allowance, ridge, lag
        self.sums = [NaiveCusum(rate / 2.0, burn_in // 10), NaiveCusum(rate / 2.0, burn_in // 10)]
        self.first, self.seen, self.tested, self.learned, self.newest = [], 0, 0, 0, []
        self.model_memory = model_memory

    def update(self, state, action, following, now):
        inputs = np.concatenate([np.atleast_1d(state), np.atleast_1d(action)])
        targets = np.atleast_1d(following) - np.atleast_1d(state)
        self.seen += 1
        if self.seen <= max(self.burn_in // 8, 20):
            self.first.append(np.concatenate([inputs, targets]))
            if self.seen == max(self.burn_in // 8, 20):
                self.begin(len(inputs))
            return 0
        return self.step(inputs, targets, now, self.seen > self.burn_in // 2)

    def begin(self, D):
        first = np.array(self.first)
        center, spread = np.array([usual(column) for column in first.T]).T
        self.center, self.spread, self.unit, self.usual_distance = center[:D], spread[:D], spread[D:], 4.0
        F, G, d = 1 + D + len(self.products) + len(self.waves), 3 + 2 * D, first.shape[1] - D
        self.model, self.scale = NaiveRegression(F, d, self.model_memory), NaiveRegression(G, d, self.model_memory)
        self.A, self.C, self.B = np.zeros((D + 1, D + 1)), np.zeros((d, D + 1)), np.zeros((d, D + 1))
        self.joint = self.root = np.eye(d)
        for row in first:
            self.step(row[:D], row[D:], 0.0, False)

    def features(self, inputs):
        x = np.clip(self.standardised(inputs), -30.0, 30.0)
        products = x[self.products[:, 0]] * x[self.products[:, 1]]
        return x, np.concatenate([[1.0], x, products, math.sqrt(2.0) * np.cos(self.waves @ x + self.phases)])

    def standardised(self, inputs):
        return (inputs - self.center) / self.spread

    def scale_features(self, x, h):
        novelty, sized = math.log(h / (1.0 + h)), np.arcsinh(x)
        return np.concatenate([[1.0, novelty, novelty**2 / 10.0], sized, sized**2])

    def scale2(self, expected, h):
        return np.maximum(np.exp(np.minimum(expected, 10.0) + 1.2703628), self.smallest**2) * (1.0 + h)

    def step(self, inputs, targets, now, testing):
        x, phi = self.features(inputs)
        recent = np.concatenate([[1.0], np.clip(x, -4.0, 4.0)])
        h = phi @ self.model.P @ phi
        psi = self.scale_features(x, h)
        e = np.clip(targets / self.unit, -1e6, 1e6) - self.model.W @ phi
        expected = self.scale.W @ psi
        scale2 = self.scale2(expected, h)
        z2 = e * e / scale2 / 4.0
        ratios = sum(((1.0 + z2) / (1.0 + z2 / k**2)) ** 2.5 / k for k in (2.0, 5.0)) / 2.0
        z = np.clip(e / np.sqrt(scale2), -4.0, 4.0)
        u = np.clip(np.linalg.solve(self.root, z) / (1.0 + h**2), -2.0, 2.0)
        m = self.B @ recent
        alarm = 0
        if testing:
            if self.sums[0].count == 0:
                self.sums[0].start = self.sums[1].start = now
            armed_at = now + 1 - self.seen + self.burn_in
            if h > 10.0:
                surprise = False
                self.sums[0].skip()
            else:
                surprise = self.sums[0].add(math.log(ratios.mean()), now)
            structure = self.sums[1].add(min(2.0, float(np.sum(u * m - m * m / 2.0)) - self.allowance * len(e)), now)
            valid = [
                given and each.start >= armed_at for given, each in zip((surprise, structure), self.sums, strict=True)
            ]
            alarm = 1 if valid[0] else 2 if valid[1] else 0
        if self.tested > 100:
            error = np.clip(np.log(e * e + self.smallest**2 + 1e-24) - expected, -4.0, 4.0)
            self.scale.learn(psi, expected + error, self.tested)
            self.correlate(z)
        self.A = self.keep * self.A + np.outer(recent, recent)
        self.C = self.keep * self.C + np.outer(u, recent)
        self.tested += 1
        if self.tested % 10 == 0:
            self.B = np.linalg.solve(self.A + self.ridge * np.eye(len(recent)), self.C.T).T
        self.newest.append((inputs, targets))
        while len(self.newest) > min(self.lag, self.tested // 3):
            self.learn(*self.newest.pop(0))
        return alarm

    def correlate(self, z):
        """A root of the covariance of z; a coordinate whose variance is below one counts as if it were one."""
        self.joint = self.joint + (np.outer(z, z) - self.joint) / min(self.tested - 80, self.model_memory)
        if self.tested % 20 == 0:
            variance = np.diag(self.joint)
            correlation = self.joint / np.sqrt(np.outer(variance + 1e-6, variance + 1e-6))
            np.fill_diagonal(correlation, 1.03)
            self.root = np.sqrt(np.maximum(variance, 1.0))[:, None] * np.linalg.cholesky(correlation)

    def learn(self, inputs, targets):
        x, phi = self.features(inputs)
        far = np.abs(self.standardised(inputs)).max()
        weight = min(1.0, 2.0 * self.usual_distance / far)
        self.usual_distance = max(4.0, self.usual_distance * (1.05 if far > self.usual_distance else 0.999))
        phi = weight * phi
        h = phi @ self.model.P @ phi
        scale2 = self.scale2(self.scale.W @ self.scale_features(x, h), h)
        largest = np.maximum(6.0 * np.sqrt(scale2), 4.0 * np.sqrt(1.0 + h))
        predicted = self.model.W @ phi
        e = weight * np.clip(targets / self.unit, -1e6, 1e6) - predicted
        self.model.learn(phi, predicted + np.clip(e, -largest, largest), self.learned)
        self.learned += 1


def usual(column):
    """Mean and standard deviation without wild values."""
    ordered = sorted(column)
    cut = max(1, len(ordered) // 40)
    low, high = ordered[cut], ordered[-1 - cut]
    if low == high:
        moved = [abs(value - low) for value in ordered if value != low]
        if len(moved) < 3:
            return low, 1.0
        low, high = low - np.median(moved), high + np.median(moved)
    kept = [value for value in ordered if low - 3.0 * (high - low) <= value <= high + 3.0 * (high - low)]
    spread = np.std(kept)
    return np.mean(kept), spread if spread > 1e-9 * (1.0 + np.abs(kept).max()) else 1.0
