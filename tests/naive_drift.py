"""The drift tests written the slow, obvious way; nothing here imports the library."""

import math
import statistics

import numpy as np

LARGEST = 24


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
    """The full model of continuous transitions, with matrices as one would write them."""

    def __init__(self, products, waves, phases, burn_in, rate, smallest, lag, model_memory):
        self.rate = rate
        self.products, self.waves, self.phases = products, waves, phases
        self.burn_in, self.smallest, self.lag = burn_in, smallest, lag
        self.first, self.seen, self.tested, self.learned, self.newest = [], 0, 0, 0, []
        self.model_memory = model_memory

    def update(self, state, action, following, now, salt):
        """`salt`: bits of the first input of the detector, where its added numbers begin."""
        self.salt = salt
        inputs = np.concatenate([np.atleast_1d(state), np.atleast_1d(action)])
        targets = np.atleast_1d(following) - np.atleast_1d(state)
        self.seen += 1
        if self.seen <= max(self.burn_in // 8, 20):
            self.first.append(np.concatenate([inputs, targets]))
            if self.seen == max(self.burn_in // 8, 20):
                self.begin(len(inputs))
            return False
        return self.step(inputs, targets, now, self.seen > self.burn_in // 2)

    def begin(self, D):
        first = np.array(self.first)
        center, spread = np.array([usual(column) for column in first.T]).T
        self.center, self.spread, self.unit, self.usual_distance = center[:D], spread[:D], spread[D:], 4.0
        F, d = 1 + D + len(self.products) + len(self.waves), first.shape[1] - D
        self.model = NaiveRegression(F, d, self.model_memory)
        self.segments = NaiveSegments(D, d, F, self.burn_in, self.rate, self.smallest, self.model_memory, self.salt)
        for row in first:
            self.step(row[:D], row[D:], 0.0, False)

    def features(self, inputs):
        x = np.clip(self.standardised(inputs), -30.0, 30.0)
        products = x[self.products[:, 0]] * x[self.products[:, 1]]
        return x, np.concatenate([[1.0], x, products, math.sqrt(2.0) * np.cos(self.waves @ x + self.phases)])

    def standardised(self, inputs):
        return (inputs - self.center) / self.spread

    def step(self, inputs, targets, now, testing):
        x, phi = self.features(inputs)
        y, h = np.clip(targets / self.unit, -1e6, 1e6), phi @ self.model.P @ phi
        alarm = False
        if testing:
            alarm = self.segments.test(x, y, y - self.model.W @ phi, h, now)
            alarm = alarm and self.segments.sums.start >= now + 1 - self.seen + self.burn_in
        self.tested += 1
        self.newest.append((inputs, targets, h))
        while len(self.newest) > min(self.lag, self.tested // 3):
            self.learn(*self.newest.pop(0))
        return alarm

    def learn(self, inputs, targets, tested_h):
        x, phi = self.features(inputs)
        far = np.abs(self.standardised(inputs)).max()
        weight = min(1.0, 2.0 * self.usual_distance / far)
        y = np.clip(targets / self.unit, -1e6, 1e6)
        full = y - self.model.W @ phi
        self.usual_distance = max(4.0, self.usual_distance * (1.05 if far > self.usual_distance else 0.999))
        phi = weight * phi
        h = phi @ self.model.P @ phi
        predicted = self.model.W @ phi
        self.segments.learn(x, y, full, h / weight**2, tested_h, weight)
        largest = np.maximum(6.0 / self.segments.inverse, 4.0) * math.sqrt(1.0 + h)
        self.model.learn(phi, predicted + np.clip(weight * full, -largest, largest), self.learned)
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


class NaiveRatio:
    """A level that is set; its cycles are the times above zero."""

    def __init__(self, asked, block):
        self.asked, self.block = asked, block  # what lies within a block may depend on each other
        self.level = self.peak = self.start = 0.0
        self.maxima, self.count = [], 0

    def restart(self, now):
        if self.peak > 0.0:
            self.maxima.append((self.peak, self.count))
        self.level = self.peak = 0.0
        self.start = now

    def follow(self, level, now):
        self.count += 1
        if level > 0.0:
            self.level, self.peak = level, max(level, self.peak)
        else:
            self.restart(now + 1)

    def independent(self):
        """The largest maxima of the blocks but the last four, or a third while there are few."""
        n = self.count // self.block
        largest = [0.0] * (n + 1)
        for maximum, at in self.maxima:
            largest[at // self.block] = max(maximum, largest[at // self.block])
        return [maximum for maximum in largest[: n - min(4, n // 3)] if maximum > 0.0]

    def ratio_threshold(self):
        kept = sorted(self.independent(), reverse=True)
        k = min(max(3, len(kept) // 3), len(kept), LARGEST - 1)
        kept += [0.0] * LARGEST
        excesses = sum(x - kept[k] for x in kept[:k])
        total, n = 30.0 + excesses, 30.0 + k
        if excesses > 1.5 * k + 4.0:
            total, n = 4.0 * (4.0 + excesses) / (4.0 + k), 4.0
        rate = (k + 1.0) / (self.count + 1.0)
        return kept[k] + total * ((rate / self.asked) ** (1.0 / n) - 1.0) if rate > self.asked else kept[k]


NORMAL = statistics.NormalDist()
WORD = 2**64 - 1


def normal_of(count):
    """A normal number from a counter (splitmix64)."""
    z = (count + 1) * 0x9E3779B97F4A7C15 & WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return NORMAL.inv_cdf((((z ^ (z >> 31)) >> 11) + 0.5) / 2.0**53)


def log_mean(logs):
    """log of the mean of e^logs."""
    logs = np.ravel(logs)
    return float(np.logaddexp.reduce(logs) - math.log(len(logs))) if len(logs) else -1e4


class NaiveSegments:
    """The test of segments with all scores in lists, and sums over slices of them."""

    def __init__(self, D, d, F, burn_in, rate, smallest, memory, salt):
        self.d, self.F, self.rate, self.smallest, self.memory = d, F, rate, smallest, memory
        self.model, self.scale = NaiveRegression(1 + D, d, memory), NaiveRegression(3 + 2 * D, d, memory)
        self.scale.information *= 20.0
        self.scale.solve()
        self.joint, self.root, self.own, self.partial = np.eye(d), np.eye(d), np.ones(d), np.eye(d)
        self.M = d if d == 1 else 2 * d
        self.kept = np.zeros((self.M + d, 96))
        self.below, self.counted = np.zeros((self.M + d, 97)), 0.0
        self.lagged, self.lag_count = np.zeros(self.M), 0.0
        self.last = self.last_learned = np.zeros(self.M)
        self.products = np.ones((2, d))
        self.mix, self.mixing, self.salt = np.zeros(d), np.zeros((3, d)), salt
        self.learned, self.tested, self.usual = 0, 0, -100.0
        self.rows, self.levels, self.mixed, self.sums = [], [[] for _ in range(8)], {}, NaiveRatio(rate, burn_in // 10)
        self.blocks = [{"rows": [], "fourth": 0.0, "own": 0.0, "n": 0.0, "joint": 0.0} for _ in range(3)]
        self.tempering, self.of_all = None, np.ones(3)

    def whitened(self, z):
        """a and u."""
        u = np.linalg.solve(self.root, z)
        return self.own * np.linalg.solve(self.root.T, u), u

    def take(self, x, y, full, h, count):
        usual, n = math.exp(self.usual), min(self.learned + 1.0, self.memory)
        self.weight = 1.0 / (1.0 + (h / (3.0 * max(self.F / n, usual))) ** 4)
        self.h, self.excess = h, max(0.0, h - usual)
        self.x, self.r = np.r_[1.0, x], np.r_[1.0, np.clip(x, -4.0, 4.0)]
        if self.mix.max() == 0.0:
            h = self.x @ self.model.P @ self.x
            self.excess = max(0.0, h - 3.0 * len(self.x) / n)
        novelty, sized = math.log(h / (1.0 + h)), np.arcsinh(x)
        self.psi = np.r_[1.0, novelty, novelty**2 / 10.0, sized, sized**2]
        of_scale = self.psi @ self.scale.P @ self.psi
        self.excess += max(0.0, of_scale - 3.0 * len(self.psi) / n)
        self.inverse = np.exp(-0.5 * np.minimum(self.scale.W @ self.psi, 10.0))
        self.plain = y - self.model.W @ self.x
        added = np.array([normal_of(count * self.d + j ^ self.salt) for j in range(self.d)])
        self.e = self.plain + self.mix * (full - self.plain) + self.smallest * added
        self.z = np.clip(self.inverse * self.e, -8.0, 8.0)
        a, u = self.whitened(self.z)
        shrink = min(1.0, math.sqrt((self.d + 6.0 * math.sqrt(2.0 * self.d)) / max(u @ u, 1e-12)))
        self.raw = shrink * (a if self.d == 1 else np.r_[a, u])
        scores = np.array([self.scored(c, value) for c, value in enumerate(np.r_[self.raw, self.z])])
        self.w, self.whole = scores[: self.M], scores[self.M :]

    def scored(self, c, value):
        place = np.clip(np.arcsinh(2.0 * value) / 0.125 + 48.0, 0.0, 96.0)
        below = np.interp(place, np.arange(97), self.below[c])
        p = (50.0 * NORMAL.cdf(value) + below) / (50.0 + self.below[c, 96])
        least = 0.5 / (50.0 + self.counted)
        return NORMAL.inv_cdf(min(max(p, least), 1.0 - least))

    def prewhitened(self, last):
        rho = self.lagged / max(self.lag_count, 1.0)
        rho = np.where(abs(rho) * math.sqrt(self.lag_count) < 3.0, 0.0, np.clip(rho, -0.99, 0.99))
        return np.clip((self.w - rho * last) / np.sqrt(1.0 - rho**2), -3.5, 3.5)

    def learn(self, x, y, full, h, tested_h, weight):
        self.take(x, y, full, h, 2 * self.learned)
        if self.learned >= 300:
            self.usual += (math.log(tested_h) - self.usual) / min(self.learned - 300 + 1.0, self.memory)
            self.follow_scores(self.prewhitened(self.last_learned))
            self.follow_distribution()
            self.follow_mixture(full)
        if self.learned >= 150:
            self.follow_scale()
        elif self.learned >= 75:
            self.squares = [*(self.squares if self.learned > 75 else []), np.minimum(self.e**2, 16.0)]
            self.scale.W[:, 0] = np.log(np.mean(self.squares, 0) + 1e-12)
            self.scale.moments = self.scale.information @ self.scale.W.T
        row = weight * self.x
        predicted, leverage = self.model.W @ row, row @ self.model.P @ row
        largest = np.maximum(4.0, 6.0 / self.inverse) * math.sqrt(1.0 + leverage)
        self.model.learn(row, predicted + np.clip(weight * self.plain, -largest, largest), self.learned)
        self.learned += 1

    def follow_scale(self):
        pace = 1.0 / min(self.learned - 150 + 20.0, self.memory)
        z = np.clip(self.z, -4.0, 4.0)
        self.joint = self.joint + pace * (np.outer(z, z) - self.joint)
        error = np.clip(np.log(self.z**2 + 1e-12) + 1.2703628, -4.0, 4.0)
        self.scale.learn(self.psi, self.scale.W @ self.psi + error, self.learned)
        if self.learned % 20 == 0:
            variance = np.diag(self.joint) + 1e-6
            correlation = self.joint / np.sqrt(np.outer(variance, variance))
            np.fill_diagonal(correlation, 1.01)
            self.root = np.linalg.cholesky(correlation)
            inverse = np.linalg.inv(correlation)
            self.own = 1.0 / np.sqrt(np.diag(inverse))
            self.partial = inverse * np.outer(self.own, self.own)

    def follow_distribution(self):
        keep = 1.0 - 1.0 / self.memory
        self.counted = keep * self.counted + 1.0
        self.kept *= keep
        for c, value in enumerate(np.r_[self.raw, self.z]):
            self.kept[c, int(np.clip(np.arcsinh(2.0 * value) / 0.125 + 48.0, 0.0, 95.0))] += 1.0
        if self.learned % 20 == 0:
            self.below = np.c_[np.zeros(len(self.kept)), self.kept.cumsum(1)]
        self.lagged = keep * self.lagged + self.w * self.last_learned
        self.lag_count = keep * self.lag_count + 1.0
        self.last_learned = self.w

    def follow_mixture(self, full):
        """The regression of the linear residual on what the full model adds, shrunk."""
        e = np.clip(self.plain * self.inverse, -8.0, 8.0)
        p = np.clip((self.plain - full) * self.inverse, -8.0, 8.0)
        ep = self.weight * e * p
        keep = 1.0 - 5.0 / min(self.learned, self.memory)
        self.mixing = keep * self.mixing + np.array([ep, self.weight * p * p, ep * ep])
        gain = np.maximum(self.mixing[0], 0.0)
        shrink = np.maximum(0.0, 1.0 - 9.0 * self.mixing[2] / (gain**2 + 1e-300))
        self.mix = np.minimum(1.0, gain / (self.mixing[1] + 1.0) * shrink)

    def follow_scores(self, v):
        """Block sums of the scores; the names of the parts of `tempering` are those of the scores."""
        d, w = self.d, self.weight
        z = self.whole
        own = w * (v**2 - 1.0)
        parts = [
            (w * np.outer(v, self.r)).ravel(), own, w * v[:d] * self.last_learned[:d],
            (w * np.tril(np.outer(v[:d], v[:d]) - self.partial, -1)).ravel(), w * (z * v[:d] / self.products[0] - 1.0),
            [own[self.M - d :].sum()],
        ]  # fmt: skip
        pace = 1.0 / min(self.learned - 300 + 50.0, self.memory)
        self.products = self.products + pace * (np.array([z * v[:d], z * z]) - self.products)
        score = np.concatenate(parts)
        squares = score**2
        squares[-1] = (own[self.M - d :] ** 2).sum()
        for m, block in enumerate(self.blocks):
            block["rows"].append((score, squares))
            if len(block["rows"]) == 40 * 4**m:
                length = len(block["rows"])
                keep = 1.0 - length / min(self.memory, max(2_000.0, 0.5 * self.learned))
                block["n"] = keep * block["n"] + 1.0
                block["fourth"] = keep * block["fourth"] + sum(row for row, _ in block["rows"]) ** 4
                block["own"] = keep * block["own"] + sum(row for _, row in block["rows"])
                R = len(self.r)
                means = slice((self.M - d) * R, self.M * R)
                sums = sum(row for row, _ in block["rows"])[means] ** 2
                ratio = (sums * block["n"] / (block["own"][means] + 1e-12)).mean()
                block["joint"] = keep * block["joint"] + ratio**2
                block["rows"] = []
                self.temper(len(score))

    def temper(self, n):
        self.tempering = np.ones((3, n))
        for m, block in enumerate(self.blocks):
            if m:
                self.tempering[m] = self.tempering[m - 1]
            if block["n"] >= 4.0:
                own = np.maximum(block["own"], 1e-12)
                ratio = np.sqrt(block["fourth"] / 3.0 * block["n"]) / own / (1.0 + math.sqrt(2.0 / block["n"]))
                self.tempering[m] = np.maximum(self.tempering[m], np.where(block["own"] > 1e-12, ratio, 0.0))
            self.of_all[m] = self.of_all[m - 1] if m else 1.0
            if block["n"] >= 4.0:
                k = self.d * len(self.r)
                joint = math.sqrt(block["joint"] / block["n"] / (1.0 + 2.0 / k))
                self.of_all[m] = max(self.of_all[m], joint / (1.0 + math.sqrt(2.0 / block["n"] / k)))

    def test(self, x, y, full, h, now):
        self.take(x, y, full, h, 2 * self.tested + 1)
        self.tested += 1
        if self.learned < 300 + (5 * self.F if self.mix.max() > 0.0 else 10 * len(self.r)):
            self.sums.follow(0.0, now)
            return False
        v = self.prewhitened(self.last)
        if not self.levels[0] or self.tested % 8 == 0:
            self.push((len(self.rows), now))
        self.rows.append((self.weight, self.r, v, self.last[: self.d], self.whole, self.excess, self.h))
        wild = np.abs(v).max() > 3.0
        self.last = self.w
        for i, level in enumerate(self.levels):
            for k, (first, begun) in enumerate(level):
                if now - begun > max(64.0, self.learned / 4.0):
                    self.mixed[first] = -1e4
                elif (wild and i < 2) or (self.tested + k) % max(4, min(2 << i, 32)) == 0:
                    self.mixed[first] = self.compare(first)
        logs = [self.mixed.get(first, -1e4) for level in self.levels for first, _ in level]
        total = float(np.logaddexp.reduce(logs)) - math.log(32.0)
        self.sums.follow(total, now)
        return total > max(-math.log(self.rate * 256.0) - 1.0, self.sums.ratio_threshold())

    def push(self, new):
        for level in self.levels:
            full = len(level) == 4
            up = level[0] if full else None
            level[:] = [*(level[2:] if full else level), new]
            if not full:
                return
            new = up

    def compare(self, first):
        w, r, v, last, z, excess, h = (np.array(column) for column in zip(*self.rows[first:], strict=True))
        d, M, R = self.d, self.M, r.shape[1]
        n = w.sum()
        if n < 2.0:
            return -1e4
        t = np.ones(M * R + M + 2 * d + d * d + 1) if self.tempering is None else self.tempering
        m, novelty = 0 if n < 80.0 else 1 if n < 320.0 else 2, 1.0 + w @ excess
        t = novelty * (t if self.tempering is None else t[m])
        of_all = novelty * self.of_all[m]
        of_means, of_v = t[: M * R].reshape(M, R), t[M * R : M * R + M]
        of_lag, of_pair = t[M * R + M : M * R + M + d], t[M * R + M + d : -1 - d].reshape(d, d)
        of_factor, shape = t[-1 - d : -1], 2.0 + n / 2.0
        A, B, q = (w * r.T) @ r, (w * v.T) @ r, w @ v**2
        base = 2.0 + q / 2.0
        of_n = 2.0 * math.log(2.0) + math.lgamma(shape)
        cost, square = 0.002 * n + 0.5 * self.mix**2 * (w @ h), np.diag(A) + R
        shares = B**2 / square

        def explains(share):
            share = np.asarray(share)
            series = share * (1.0 + share * (0.5 + share / 3.0))
            return shape * np.where(share < 0.02, series, -np.log(np.maximum(1.0 - share, 1e-12)))

        def regression(prior):
            precision = A + np.eye(R) / prior
            found = np.einsum("ci,ij,cj->c", B, np.linalg.inv(precision), B)
            price = -0.5 * (R * math.log(prior) + np.linalg.slogdet(precision)[1])
            tempered = (of_means * shares).sum(1) / shares.sum(1)
            return price, explains(found / 2.0 / base), tempered

        variance = of_n - shape * np.log(base) + q / 2.0
        variance = np.where(variance > 0.0, variance / of_v, variance) - 0.01 * n
        single = explains(B**2 / 2.0 / (square * base[:, None])) / of_means - 0.5 * np.log(square / R)
        price, gained, tempered = regression(1.0 / R)
        wide, narrow = price + gained / tempered, [regression(0.03 / R), regression(0.2 / R)]
        narrow = [price + gained / np.maximum(tempered, of_all) for price, gained, tempered in narrow]
        lag = 4.0 + w @ last**2
        lag = explains((w @ (v[:, :d] * last)) ** 2 / 2.0 / (lag * base[:d])) / of_lag - 0.5 * np.log(lag / 4.0)
        ta = (w @ (z * v[:, :d])) / self.products[0]
        tt = (w @ z**2) / (self.products[1] * self.own**2)
        g = np.array([[0.35, 0.55, 0.75]]).T
        factors = -n * np.log(g) - (1.0 / g - 1.0) * ta - (1.0 / g - 1.0) ** 2 * tt / 2.0
        factors = np.where(factors > 0.0, factors / of_factor, factors)
        pairs = np.full((d, d), -1e4)
        own = {name: [] for name in ("variance", "regression", "lag", "one", "factor", "mean")}
        for c in range(d):
            own["variance"].append(variance[c] - cost[c])
            own["regression"].append(wide[c] - cost[c])
            own["lag"].append(lag[c] - cost[c])
            own["one"].append(log_mean(single[c]) - cost[c])
            if d > 1 and self.mix[c] == 0.0:
                own["factor"].append(log_mean(factors[:, c]) - cost[c] - 0.01 * n)
            own["mean"].append(single[c, 0] - cost[c])
            for i in range(c):
                rho, b = self.partial[c, i], w @ (v[:, c] * v[:, i])
                left = 2.0 + 0.5 * (q[c] - 2.0 * rho * b + rho * rho * q[i]) / (1.0 - rho * rho)
                share = (b - rho * q[i]) ** 2 / (1.0 - rho * rho) / 2.0 / ((4.0 + q[i]) * left)
                pairs[c, i] = explains(share) / of_pair[c, i] - 0.5 * math.log(1.0 + q[i] / 4.0) - cost[c]
        own["both"] = [*(np.add(own["variance"], own["mean"]) + cost)]
        own["all"] = [*(np.add(own["variance"], own["regression"]) + cost)]
        kinds = [np.logaddexp.reduce([*each, -1e4]) - math.log(d) for each in own.values()]
        if d > 1:
            together = variance[d:].sum()
            together /= max(1.0, t[-1] / of_v[-1]) if together > 0.0 else 1.0
            price = 0.5 * np.log(square / R)
            columns = ((single + price)[d:] * np.minimum(1.0, of_means[d:] / of_all) - price).sum(0)
            kinds += [together - cost.max(), log_mean(columns) - cost.max()]
            kinds.append(np.logaddexp.reduce(pairs.ravel()) - math.log(d * (d - 1) / 2.0))
        kinds.append(log_mean([found[M - d :].sum() for found in narrow]) - cost.max())
        return float(np.logaddexp.reduce(kinds)) - math.log(12.0)
