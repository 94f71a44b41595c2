"""The scalar equations of the package, one function each.

Symbols follow the sources:
  [B]  Bui, Parker, Ghobadi, Liu: Q-Learning with Shift-Aware Upper Confidence Bound, AISTATS 2026
  [J]  Jin, Allen-Zhu, Bubeck, Jordan: Is Q-learning provably efficient?, NeurIPS 2018
  [W]  Wang, Dong, Chen, Wang: Q-learning with UCB exploration is sample efficient, ICLR 2020
  [M]  Menard, Domingues, Shang, Valko: UCB Momentum Q-learning, ICML 2021
  [R]  Mao, Zhang, Zhu, Simchi-Levi, Basar: Near-optimal model-free RL in non-stationary episodic MDPs, ICML 2021
  [GM] Garivier, Moulines: On upper-confidence bound policies for switching bandit problems, ALT 2011
  [P]  Page: Continuous inspection schemes, Biometrika 1954
  [C]  Cheung, Simchi-Levi, Zhu: RL for non-stationary MDPs: the blessing of (more) optimism, ICML 2020
  [D]  da Silva, Basso, Bazzan, Engel: Dealing with non-stationary environments using context detection, ICML 2006
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
    """b_t / p: an unlikely transition gets a larger bonus. [B] equation 5."""
    return bonus / p


@kernel
def capped_value(best_q, v_h):
    """V_h(s) = min(v_h, max_a Q_h(s, a)). [B] Algorithm 1, line 9."""
    return min(v_h, best_q)


@kernel
def lowest_return(low, H, h):
    """w_h = (H - h) low: no return from step h is lower, where no reward is lower than low <= 0."""
    return low * (H - h)


@kernel
def effective_horizon(gamma):
    """H = ln(2 / (1 - gamma)) / ln(1 / gamma). [W], [B] Algorithm 2, line 1."""
    if gamma == 0.0:  # the limit
        return 0.0
    return math.log(2.0 / (1.0 - gamma)) / math.log(1.0 / gamma)


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


@kernel
def whole_power(base, exponent):
    """base^exponent for an integer exponent >= 0, by squaring: `**` is not bit-identical with and without the JIT."""
    if exponent > 0x10000:
        return math.pow(base, float(exponent))
    power = 1.0
    while exponent > 0:
        if exponent & 1:
            power *= base
        exponent >>= 1
        base *= base
    return power


@kernel
def discounted_count(n, memory, age):
    """memory^age n + 1: the count after a visit, `age` episodes after the last one. [GM] section 3.1."""
    return n * whole_power(memory, age) + 1.0


@kernel
def next_stage(e, H):
    """floor((1 + 1/H) e), the length of the stage after one of e visits. [R] section 3."""
    return e + e // H


@kernel
def stage_value(rewards, values, n, bonus):
    """r / n + v / n + b from the sums of a stage of n visits. [R] Algorithm 1, line 11."""
    return rewards / n + values / n + bonus


@kernel
def bernstein_width(form, c, t, variance, v_h, v_0, H, iota, SA):
    """beta_t: twice the bonus of the chosen form, with a smaller leading term where the next value varies little.

    theory: c min(sqrt(H (W + H) iota / t) + sqrt(H^7 S A) iota / t, 2 sqrt(H^3 iota / t)), [J] Algorithm 2, with the
    constant that makes its second part the width of [J] Algorithm 1. Its first part over its second is
    sqrt(W / H^2 + 1 / H) / 2 up to lower order; the other forms, which have v_0 for H, shrink their c by
    min(1, sqrt(W / v_0^2 + 1 / H)).
    """
    if form == THEORY:
        wide = 2.0 * math.sqrt(H * H * H * iota / t)
        narrow = math.sqrt(H * (variance + H) * iota / t) + math.sqrt(H**7 * SA) * iota / t
        return c * min(narrow, wide)
    shrunk = c * min(1.0, math.sqrt(variance / (v_0 * v_0) + 1.0 / H))
    return 2.0 * episodic_bonus(form, shrunk, t, v_h, H, iota)


@kernel
def width_to_bonus(beta, last_beta, alpha):
    """b_t = (beta_t - (1 - alpha_t) beta_{t-1}) / (2 alpha_t). [J] Algorithm 2, line 11."""
    return (beta - (1.0 - alpha) * last_beta) / (2.0 * alpha)


@kernel
def outcome_likelihood(count, n, different):
    """(count + 1) / (n + different + 1): add-one smoothing, with one outcome for all unobserved ones."""
    return (count + 1.0) / (n + different + 1.0)


@kernel
def cusum(evidence, p, different):
    """max(0, g + ln(q / p)), q uniform over the observed outcomes and "a new one". [P]

    While p is correct, E[q / p] = 1, so that false alarms at a threshold x are at least e^x visits apart on average.
    """
    return max(0.0, evidence - math.log(p * (different + 1.0)))


@kernel
def ratio_cusum(evidence, p, q):
    """max(0, g + ln(p / q)): evidence that p predicts better than q. [P]"""
    return max(0.0, evidence + math.log(p / q))


@kernel
def split_threshold(x, different, n):
    """x + (k - 1) / 2 ln(n + 1): threshold plus the cost of learning k outcomes in n visits (Rissanen 1984)."""
    return x + 0.5 * (different - 1.0) * math.log(n + 1.0)


@kernel
def page_hinkley(evidence, p, mean):
    """max(0, g + mean - p - 0.05): drop of the likelihood below its mean, less a tolerated drift. [P]"""
    return max(0.0, evidence + mean - p - 0.05)


@kernel
def ucrl_radius(n, log_term):
    """2 sqrt(2 ln(S A T / delta) / n), rad_r; rad_p is sqrt(S) times it. [C] section 3."""
    return 2.0 * math.sqrt(2.0 * log_term / n)


@kernel
def exp3p_rates(arms, blocks):
    """(gamma, alpha, beta) of EXP3.P for so many arms and rounds. [C] section 5, after Bubeck and Cesa-Bianchi 2012."""
    ratio = math.log(arms) / blocks
    exploration = min(1.0, 1.05 * math.sqrt(arms * ratio))
    return exploration, 0.95 * math.sqrt(ratio / arms), math.sqrt(ratio / arms)


@kernel
def context_quality(confidence, weight, transition_error, reward_error):
    """e = c (Omega (1 - 2 x_R) + (1 - Omega) (1 - x_T)): how well a model predicted a transition, in [-1, 1]. [D]

    x_T = sum_k (1{k = s'} - T^(k))^2 in [0, 2], x_R the squared error of the reward in units of its range, c = N / M.
    """
    return confidence * (weight * (1.0 - 2.0 * reward_error) + (1.0 - weight) * (1.0 - transition_error))
