"""Figure 10: UCBVI and DQUCB with a transition estimate that carries Gaussian errors.

UCBVI plans in the noisy estimate (in real time: drawing fresh errors for all 32,000 pairs after each episode would
take an hour); DQUCB takes its likelihood from the share of visits that led to s', with the same error added, instead
of the kernel density.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dqucb import DQUCB, UCBVI
from dqucb.problems import frozen_lake
from reproduce._claims import is_lower, likelihood_claims, ratio, regret_results
from reproduce._drawing import draw_panels
from reproduce._protocol import PAPER_DQUCB, SCALES, Claim, Panel, begin

SETTINGS = {
    "slip": (0, 2 / 3),
    "horizon": 500,
    "episodes": 50_000,
    "errors": (0.1, 0.5, 10.0),
    "counted_visits": 50_000,  # all of them: no pair is visited more often
    "scales": SCALES,
}


def agents(error: float) -> dict[str, DQUCB | UCBVI]:
    """Both agents with the same error on the same kind of estimate."""
    counts = PAPER_DQUCB | {"kernel": "tophat", "bandwidth": 1.0, "window": SETTINGS["counted_visits"]}
    return {
        "DQUCB": DQUCB(likelihood_noise=error, **counts),
        "UCBVI": UCBVI(transition_noise=error, planning="real_time"),
    }


def claims_of(panel: Panel, error: float) -> list[Claim]:
    """From an error of 0.5 on, the paper sees UCBVI clearly behind; at 0.1 in the last rounds."""
    claims = likelihood_claims(panel)
    for way, labels in panel.ways().items():
        measured = ratio(panel, labels["DQUCB"], labels["UCBVI"])
        text = f"{panel.title}: DQUCB ends with less regret than UCBVI, {way}"
        claims.append(Claim(text, is_lower(measured), measured))
    return claims


def main() -> None:
    figure = begin("fig10_model_error", __doc__, SETTINGS)
    panels = [
        figure.panel(
            f"error {error:g}",
            lambda episodes: frozen_lake(
                slip=SETTINGS["slip"], change_at=(episodes // 2,), horizon=SETTINGS["horizon"]
            ),
            SETTINGS["episodes"],
            agents(error),
        )
        for error in SETTINGS["errors"]
    ]
    draw_panels(panels, figure.out / figure.name, "FrozenLake, slip 0 then 2/3: errors in the transition estimate")
    claims = [c for panel, error in zip(panels, SETTINGS["errors"], strict=True) for c in claims_of(panel, error)]
    figure.write(claims, {panel.title: regret_results(panel) for panel in panels})


if __name__ == "__main__":
    main()
