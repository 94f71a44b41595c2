"""One equation, one function. Nothing here appears anywhere else in the package.

Symbols follow the sources:
  [B]  Bui, Parker, Ghobadi, Liu: Q-Learning with Shift-Aware Upper Confidence Bound, AISTATS 2026
  [J]  Jin, Allen-Zhu, Bubeck, Jordan: Is Q-learning provably efficient?, NeurIPS 2018
  [W]  Wang, Dong, Chen, Wang: Q-learning with UCB exploration is sample efficient, ICLR 2020
  [M]  Menard, Domingues, Shang, Valko: UCB Momentum Q-learning, ICML 2021
H horizon, h step (from 0), t visits of (h, s, a) counting this one, v_h bound on the return from step h,
c bonus scale, p likelihood of the transition.
"""

import math

from dqucb._kernels._jit import kernel

THEORY, SIMPLIFIED, ROOT = 0, 1, 2
BONUS_FORMS = ("theory", "simplified", "root")  # position = code above


@kernel
def learning_rate(t, H):
    """alpha_t = (H + 1) / (H + t). [J] equation 3.1, [B] equation 5."""
    return (H + 1.0) / (H + t)


@kernel
def blend(old, target, alpha):
    """(1 - alpha) old + alpha target: the Q-learning update. [B] Algorithm 1, line 8."""
    return (1.0 - alpha) * old + alpha * target


@kernel
def confidence_log(S, A, K, H, delta):
    """iota = ln(S A K H / delta). [B] Algorithm 1, line 1."""
    return math.log(S * A * K * H / delta)


@kernel
def theory_bonus(c, t, H, iota):
    """c sqrt(H^3 iota / t). [J] Algorithm 1."""
    return c * math.sqrt(H * H * H * iota / t)


@kernel
def simplified_bonus(c, t, v_h):
    """min(c / sqrt(t) + v_h / t, v_h): the form of the public implementations of [M] and [B]."""
    return min(c / math.sqrt(t) + v_h / t, v_h)


@kernel
def root_bonus(c, t, v_h):
    """min(c / sqrt(t), v_h): the leading term of the simplified form."""
    return min(c / math.sqrt(t), v_h)


@kernel
def episodic_bonus(form, c, t, v_h, H, iota):
    """The bonus of the chosen form before it is divided by the likelihood."""
    if form == ROOT:
        return root_bonus(c, t, v_h)
    if form == SIMPLIFIED:
        return simplified_bonus(c, t, v_h)
    return theory_bonus(c, t, H, iota)


@kernel
def shift_aware(bonus, p):
    """b_t / p: a transition that the window finds unlikely gets a larger bonus. [B] equation 5."""
    return bonus / p


@kernel
def capped_value(best_q, v_h):
    """V_h(s) = min(v_h, max_a Q_h(s, a)). [B] Algorithm 1, line 9."""
    return min(v_h, best_q)


@kernel
def value_bound(h, H, return_bound):
    """v_h = min(H - h, bound on the whole return)."""
    return min(float(H - h), return_bound)


@kernel
def effective_horizon(gamma):
    """H = ln(2 / (1 - gamma)) / ln(1 / gamma). [W], [B] Algorithm 2, line 1."""
    if gamma == 0.0:  # the limit
        return 0.0
    return math.log(2.0 / (1.0 - gamma)) / math.log(1.0 / gamma)


@kernel
def discounted_bound(gamma):
    """1 / (1 - gamma): no discounted return of rewards in [0, 1] is larger."""
    return 1.0 / (1.0 - gamma)


@kernel
def discounted_log(S, A, T, k):
    """iota(k) = ln(S A T (k + 1) (k + 2)). [B] Algorithm 2, line 1."""
    return math.log(float(S) * A * T * (k + 1.0) * (k + 2.0))


@kernel
def discounted_bonus(c, k, gamma, H, iota_k):
    """c / (1 - gamma) sqrt(H iota(k) / k), before it is divided by the likelihood. [B] equation 12."""
    return c / (1.0 - gamma) * math.sqrt(H * iota_k / k)


@kernel
def conditional_likelihood(joint, marginal, density_ratio, floor):
    """p(s' | s, a) = joint / marginal by Bayes' rule [B] equation 6, floored; 1 where nothing is known.

    `density_ratio` is 1 for the normalised form; for the ratio of two densities it is the quotient of
    their normalising constants.
    """
    if marginal <= 0.0:
        return 1.0
    return max(floor, joint / marginal * density_ratio)


@kernel
def momentum_rate(t, H):
    """gamma_t = H / (H + t) (t - 1) / t. [M] section 3."""
    return H / (H + t) * ((t - 1.0) / t)


@kernel
def running_mean(mean, sample, t):
    """The mean of t samples from that of the first t - 1."""
    return mean + (sample - mean) / t
