"""Theory made visible: how regret grows with K under a shift, and how fast the estimate of 1/p gets better."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from dqucb import DQUCB, QUCB, Agent, PlanningDQUCB, theory
from dqucb.density import DiscreteTransitionKDE
from dqucb.problems import ShiftingMDP, TabularMDP
from reproduce._drawing import COLOURS, save
from reproduce._protocol import PAPER_DQUCB, Claim, Figure, begin

SETTINGS = {
    "states": 5,
    "actions": 2,
    "horizon": 4,
    "episodes": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "bonus_scale": 0.2,
    "problem_seeds": (0, 1, 2),
    "still_problems": 10,
    "still_runs": 5,
    "still_first_seed": 9_700,
    "still_from": 10_000,
    "samples": (10, 30, 100, 300, 1_000, 3_000, 10_000),
    "bandwidths": (0.01, 0.5, 1.0),
}
LOOKS = {
    "QUCB": (COLOURS["QUCB"], "--"),
    "DQUCB": (COLOURS["DQUCB"], "-"),
    "oracle DQUCB": ("#009E73", "-."),
    "PlanningDQUCB": (COLOURS["PlanningDQUCB"], "-"),
}


def random_shift(seed: int, episodes: int) -> ShiftingMDP:
    """Two random MDPs with the same rewards, one after the other."""
    rng = np.random.default_rng(seed)
    S, A, H = SETTINGS["states"], SETTINGS["actions"], SETTINGS["horizon"]
    rewards = rng.random((S, A))
    phases = [TabularMDP(rng.dirichlet(np.full(S, 0.3), (S, A)), rewards, horizon=H) for _ in range(2)]
    return ShiftingMDP(phases, change_at=(episodes // 2,))


def agents() -> dict[str, Agent]:
    c = SETTINGS["bonus_scale"]
    return {
        "QUCB": QUCB(bonus_scale=c),
        "DQUCB": DQUCB(bonus_scale=c, **PAPER_DQUCB),
        "oracle DQUCB": DQUCB(**{**PAPER_DQUCB, "bonus_scale": c, "likelihood": "oracle"}),
        "PlanningDQUCB": PlanningDQUCB(),
    }


def growth(figure: Figure, lengths: tuple[int, ...]) -> dict[str, list[float]]:
    """Mean final expected regret by K, over random problems and seeds."""
    regret: dict[str, list[float]] = {name: [] for name in agents()}
    for K in lengths:
        finals: dict[str, list[float]] = {name: [] for name in regret}
        for problem_seed in SETTINGS["problem_seeds"]:
            runs = figure.compare(agents(), random_shift(problem_seed, K), K, seeds=figure.report_on[:5],
                                  regret="expected", folder=f"{K}-{problem_seed}", progress=False)  # fmt: skip
            for name in finals:
                finals[name] += runs.final_regret(name).values()
        for name, values in finals.items():
            regret[name].append(float(np.mean(values)))
        print(f"K = {K:,}: " + ", ".join(f"{name} {values[-1]:.1f}" for name, values in regret.items()), flush=True)
    return regret


def growth_of_runs(figure: Figure, longest: int) -> dict[str, Any]:
    """PlanningDQUCB on problems that do not change, run by run: regret (sum of V* - Q*) early and at the end.

    A regret of (ln K)^2 grows by `allowed` in between; a run that loses something in every episode by far more.
    """
    first, problems, seeds = SETTINGS["still_first_seed"], SETTINGS["still_problems"], SETTINGS["still_runs"]
    early = min(SETTINGS["still_from"], longest // 4)
    found: list[tuple[float, float]] = []
    for problem_seed in range(first, first + (2 if figure.quick else problems)):
        problem = random_shift(problem_seed, longest).phases[0]
        runs = figure.compare({"PlanningDQUCB": PlanningDQUCB()}, problem, longest, seeds=range(first, first + seeds),
                              regret="pseudo", folder=f"still-{longest}-{problem_seed}", progress=False)  # fmt: skip
        for seed in runs.seeds_of("PlanningDQUCB"):
            regret = runs.load_run("PlanningDQUCB", seed).regret
            found.append((float(regret[early - 1]), float(regret[-1])))
    quotients = [late / max(sooner, 1e-9) for sooner, late in found]
    allowed = float((np.log(longest) / np.log(early)) ** 2)
    return {
        "runs": len(found),
        "faster": sum(quotient > allowed for quotient in quotients),
        "allowed": round(allowed, 3),
        "largest_quotient": round(max(quotients), 3),
        "median_regret": round(float(np.median([late for _, late in found])), 2),
        "largest_regret": round(max(late for _, late in found), 2),
    }


def exponent(x: Any, y: Any) -> float:
    """The slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def inverse_likelihood_errors(samples: tuple[int, ...]) -> dict[float, list[float]]:
    """Mean squared error of 1/p against the true 1/P by number of samples, for each bandwidth."""
    rng = np.random.default_rng(0)
    S = SETTINGS["states"]
    errors: dict[float, list[float]] = {bandwidth: [] for bandwidth in SETTINGS["bandwidths"]}
    for n in samples:
        squared: dict[float, list[float]] = {bandwidth: [] for bandwidth in errors}
        for _ in range(30):
            P = rng.dirichlet(np.full(S, 2.0))
            seen = rng.choice(S, size=n, p=P)
            for bandwidth, values in squared.items():
                density = DiscreteTransitionKDE(S, 1, window=n, bandwidth=bandwidth, likelihood_floor=1e-3)
                for state in seen:
                    density.push(0, 0, int(state))
                likely = [s for s in range(S) if P[s] > 0.05]  # 1/P of what never happens is not a quantity to estimate
                values += [(1 / density.likelihood(0, 0, s) - 1 / P[s]) ** 2 for s in likely]
        for bandwidth, values in squared.items():
            errors[bandwidth].append(float(np.mean(values)))
    return errors


def error_exponent(samples: tuple[int, ...], values: list[float]) -> float:
    """How the error falls with n, without the first third of the points: ten samples say nothing of that."""
    later = len(samples) // 3
    return exponent(samples[later:], values[later:])


def draw(figure: Figure, lengths: tuple[int, ...], regret: dict[str, list[float]], samples: Any, errors: Any) -> None:
    picture, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for name, values in regret.items():
        colour, style = LOOKS[name]
        slope = exponent(lengths[len(lengths) // 2 :], values[len(lengths) // 2 :])
        left.plot(lengths, values, style, color=colour, marker="o", markersize=3, label=f"{name}, K^{slope:.2f}")
    S, A, H = SETTINGS["states"], SETTINGS["actions"], SETTINGS["horizon"]
    scale = regret["QUCB"][0] / theory.episodic_bound(S, A, H, lengths[0])
    left.plot(lengths, [scale * theory.episodic_bound(S, A, H, K) for K in lengths], ":", color="0.4",
              label="bound of DQUCB, scaled")  # fmt: skip
    scale = regret["QUCB"][0] / theory.episodic_bound_unaware(S, A, H, lengths[0], lengths[0] // 2)
    left.plot(lengths, [scale * theory.episodic_bound_unaware(S, A, H, K, K // 2) for K in lengths],
              color="0.4", linestyle=(0, (6, 3)), label="bound of QUCB under a shift, scaled")  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel="episodes K (shift at K/2)", ylabel="expected regret")
    left.legend(frameon=False, fontsize=8)
    for (bandwidth, values), marker in zip(errors.items(), "osd", strict=False):
        label = f"bandwidth {bandwidth:g}, n^{error_exponent(samples, values):.2f}"
        right.plot(samples, values, marker=marker, markersize=3, label=label)
    first = next(iter(errors.values()))[0]
    right.plot(samples, first * (np.array(samples) / samples[0]) ** -0.8, ":", color="0.4", label="n^(-4/5)")
    right.set(xscale="log", yscale="log", xlabel="samples n", ylabel="mean squared error of 1/p")
    right.legend(frameon=False, fontsize=8)
    save(picture, figure.out / figure.name)


def main() -> None:
    figure = begin("theory_growth", __doc__, SETTINGS)
    lengths = (200, 400, 800) if figure.quick else SETTINGS["episodes"]
    samples = (10, 30, 100) if figure.quick else SETTINGS["samples"]
    regret = growth(figure, lengths)
    by_run = growth_of_runs(figure, lengths[-1])
    errors = inverse_likelihood_errors(samples)
    draw(figure, lengths, regret, samples, errors)
    half = len(lengths) // 2
    slopes = {name: round(exponent(lengths[half:], values[half:]), 3) for name, values in regret.items()}
    error_slopes = {f"{b:g}": round(error_exponent(samples, values), 3) for b, values in errors.items()}
    claims = [
        Claim(
            "oracle DQUCB's regret grows no faster than sqrt(K ln K) under a shift",
            slopes["oracle DQUCB"] <= 0.6,
            {"exponents": slopes},
        ),
        Claim(
            "QUCB's regret grows faster than oracle DQUCB's under a shift (by 0.05 in the exponent)",
            slopes["QUCB"] > slopes["oracle DQUCB"] + 0.05,
            {"exponents": slopes},
        ),
        Claim(
            "PlanningDQUCB's regret grows no faster than sqrt(K ln K) under a shift",
            slopes["PlanningDQUCB"] <= 0.6,
            {"exponents": slopes},
        ),
        Claim(
            "no run of PlanningDQUCB grows faster than (ln K)^2 on problems that do not change",
            by_run["faster"] == 0,
            by_run,
        ),
        Claim(
            "practical DQUCB's regret grows no faster than QUCB's",
            slopes["DQUCB"] <= slopes["QUCB"] + 0.02,
            {"exponents": slopes},
        ),
        *(
            Claim(
                f"the squared error of 1/p falls at least like n^(-4/5), bandwidth {name}",
                slope <= -0.8,
                {"exponent": slope},
            )
            for name, slope in error_slopes.items()
        ),
    ]
    figure.write(claims, {"K": lengths, "regret": regret, "by_run": by_run, "samples": samples,
                           "squared_error_of_1_over_p": errors})  # fmt: skip


if __name__ == "__main__":
    main()
