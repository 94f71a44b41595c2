"""The statements that several figures check, and the numbers behind them."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dqucb import Run
from dqucb.experiments import statistics
from reproduce._protocol import Claim, Panel


def mean_ranks(table: np.ndarray) -> np.ndarray:
    """The mean over columns of the rank of each row, the lowest value first; ties share the mean of their ranks."""
    lower = (table[None] < table[:, None]).sum(axis=1)
    equal = (table[None] == table[:, None]).sum(axis=1)
    return (lower + (equal + 1) / 2).mean(axis=1)


def compared(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """Two means, their ratio, and how often a run of ours ends lower, with its 95 % interval."""
    positive = theirs.mean() > 0  # a ratio means nothing where regret is negative
    return {
        "mean_ours": round(float(ours.mean()), 1),
        "mean_theirs": round(float(theirs.mean()), 1),
        "ratio": round(float(ours.mean() / theirs.mean()), 3) if positive else None,
        "probability_lower": statistics.probability_of_improvement(ours, theirs).rounded(3),
    }


def ratio(panel: Panel, ours: str, theirs: str) -> dict[str, Any]:
    """`compared` for the final regret of two labels."""
    return {"ours": ours, "theirs": theirs, **compared(panel.final(ours), panel.final(theirs))}


def is_lower(measured: Mapping[str, Any]) -> bool:
    """Lower on average, and the interval of the probability of ending lower lies above one half."""
    low = measured["probability_lower"][1]  # None for too few seeds, which show nothing
    return measured["mean_ours"] < measured["mean_theirs"] and low is not None and low > 0.5


def band_delays(run: Run, reference: int = 500, sigmas: float = 4.0) -> list[int | None]:
    """How long after each change the likelihood first leaves its normal band, in episodes or steps.

    The band is the mean plus and minus `sigmas` standard deviations over the last `reference` records before the
    change; None if the likelihood stays in it until the next change or the end.
    """
    delays: list[int | None] = []
    for change, end in itertools.pairwise([*run.change_at, int(run.ends[-1])]):
        first, last = np.searchsorted(run.ends, [change, end], side="right")
        before = run.likelihood[max(0, first - reference) : first]
        # A deterministic phase has no spread at all; rounding alone must not count.
        width = sigmas * float(before.std()) + 1e-9 if len(before) > 1 else np.inf
        hits = np.flatnonzero(np.abs(run.likelihood[first:last] - before.mean()) > width) if len(before) > 1 else []
        starts = np.concatenate([[0], run.ends[:-1]])
        delays.append(int(starts[first + hits[0]] - change) if len(hits) else None)
    return delays


def regret_claims(panel: Panel) -> list[Claim]:
    """The paper's claims about the four agents on one problem, at the same c and at each agent's best c."""
    claims = []
    for way, labels in panel.ways().items():
        for text, ours, theirs in (
            ("DQUCB ends with less regret than QUCB", "DQUCB", "QUCB"),
            ("DQUCB ends with more regret than UCBVI", "UCBVI", "DQUCB"),
            ("DQUCB is competitive with UCBMQ (at most 1.1 times its regret)", "DQUCB", "UCBMQ"),
        ):
            if ours not in labels or theirs not in labels:
                continue
            measured = ratio(panel, labels[ours], labels[theirs])
            holds = measured["ratio"] <= 1.1 if "competitive" in text else is_lower(measured)
            claims.append(Claim(f"{panel.title}: {text}, {way}", bool(holds), measured))
    return [*claims, *shared_claims(panel), *likelihood_claims(panel)]


def shared_claims(panel: Panel) -> list[Claim]:
    """Claims of this project: what dividing by the likelihood does where steps learn together, and PlanningDQUCB."""
    best = panel.best()
    if "PlanningDQUCB" not in best:
        return []
    pairs = [("DQUCB shared", "QUCB shared"), *(("PlanningDQUCB", agent) for agent in best if agent != "PlanningDQUCB")]
    claims = []
    for ours, theirs in pairs:
        measured = ratio(panel, best[ours], best[theirs])
        text = f"{panel.title}: {ours} ends with less regret than {theirs}, each at its own best c"
        claims.append(Claim(text, is_lower(measured), measured))
    return claims


def likelihood_claims(panel: Panel, agent: str = "DQUCB") -> list[Claim]:
    """Whether the likelihood falls at every change and rises again, and how soon it left its normal band.

    It falls if the first episodes of a phase have less than the last ones before it, on at least nine seeds of
    ten; it rises again if the end of the phase has more than its lowest stretch, on as many. Where that stretch lies
    is read from one half of the seeds for the other, or chance alone would find one.
    """
    label = panel.same()[agent]
    runs = panel.runs_of(label)
    curves = np.array([run.likelihood for run in runs])
    edges = [*panel.runs.change_at, panel.length]
    changes = []
    for change, end in itertools.pairwise(edges):
        few = max(1, min(100, (end - change) // 10))
        before = curves[:, max(0, change - 5 * few) : change].mean(axis=1)
        first, last = curves[:, change : change + few].mean(axis=1), curves[:, end - 5 * few : end].mean(axis=1)
        sums = np.cumsum(np.pad(curves[:, change:end], ((0, 0), (1, 0))), axis=1)
        stretches = (sums[:, few:] - sums[:, :-few]) / few
        halves = (slice(0, None, 2), slice(1, None, 2))
        lowest = np.empty(len(runs))
        for half, other in (halves, halves[::-1]):
            lowest[half] = stretches[half, stretches[other].mean(axis=0).argmin()]
        changes.append(
            {
                "change_at": change,
                "before": round(float(before.mean()), 4),
                "first_episodes": round(float(first.mean()), 4),
                "lowest_stretch": round(float(lowest.mean()), 4),
                "end_of_phase": round(float(last.mean()), 4),
                "seeds_fallen": int((first < before).sum()),
                "seeds_recovered": int((last > lowest).sum()),
                "detection_delays": [band_delays(run)[len(changes)] for run in runs],
            }
        )
    most = 0.9 * len(runs)
    measured = {"runs": label, "changes": changes}
    fallen, recovered = (all(c[name] >= most for c in changes) for name in ("seeds_fallen", "seeds_recovered"))
    return [
        Claim(f"{panel.title}: the likelihood falls at every change point", bool(changes) and fallen, measured),
        Claim(
            f"{panel.title}: the likelihood rises again within each new phase", bool(changes) and recovered, measured
        ),
    ]


def regret_results(panel: Panel) -> dict[str, Any]:
    """The numbers behind a panel's pictures."""
    table = {label: {name: row[name] for name in ("mean", "std")} for label, row in panel.table().items()}
    settings = panel.runs.settings
    return {
        "episodes": panel.length, "problem": settings["problem"], "best": panel.best(), "final_regret": table,
    }  # fmt: skip
