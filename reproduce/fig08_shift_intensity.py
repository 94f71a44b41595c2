"""Figure 8: FrozenLake with shifts of growing size, slip 0 then 1/2, 2/3 or 3/4."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dqucb.problems import frozen_lake
from reproduce._claims import regret_claims, regret_results
from reproduce._drawing import draw_panels
from reproduce._protocol import SCALES, Claim, Panel, begin

SETTINGS = {"slips": {"1/2": 1 / 2, "2/3": 2 / 3, "3/4": 3 / 4}, "horizon": 500, "episodes": 50_000, "scales": SCALES}


def harder_with_slip(panels: list[Panel]) -> Claim:
    """Whether every agent's regret after the shift grows with the slip, relative to what could be earned."""
    shares = {}
    for panel in panels:
        after = panel.problem.optimal_values(1)[0][0] * (panel.length - panel.problem.change_at[0])
        for agent, label in panel.best().items():
            lost = [run.phase_regret()[1] for run in panel.runs_of(label)]
            shares.setdefault(agent, []).append(round(sum(lost) / len(lost) / after, 4))
    holds = all(values == sorted(values) for values in shares.values())
    text = "the larger the slip, the larger the share of the attainable return that every agent loses after the shift"
    return Claim(text, holds, {"lost_share_by_slip": shares, "slips": list(SETTINGS["slips"])})


def main() -> None:
    figure = begin("fig08_shift_intensity", __doc__, SETTINGS)
    panels = [
        figure.panel(
            f"slip 0 to {name}",
            lambda episodes, slip=slip: frozen_lake(
                slip=(0, slip), change_at=(episodes // 2,), horizon=SETTINGS["horizon"]
            ),
            SETTINGS["episodes"],
        )
        for name, slip in SETTINGS["slips"].items()
    ]
    draw_panels(panels, figure.out / figure.name, "FrozenLake 4x4: shifts of growing size")
    claims = [claim for panel in panels for claim in regret_claims(panel)]
    figure.write([*claims, harder_with_slip(panels)], {panel.title: regret_results(panel) for panel in panels})


if __name__ == "__main__":
    main()
