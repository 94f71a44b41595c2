"""The CartPole figures as a user runs them, in their quick form, and calibration records that survive a stop."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from dqucb.deep import DQNUCB, CalibrationRecorder
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent


def run_script(name, out):
    command = [sys.executable, f"reproduce/{name}.py", "--quick", "--jobs", "1", "--out", str(out)]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stderr
    assert (out / name / f"{name}.png").stat().st_size > 10_000
    assert (out / name / f"{name}.svg").exists()
    return json.loads((out / name / f"{name}.json").read_text())


def test_both_figures_run_share_their_runs_and_give_verdicts(tmp_path):
    verdict = run_script("fig03c_cartpole", tmp_path)
    assert "DeepDQUCB bonus_scale=0.01" in verdict["results"]["final_regret"]
    claims = verdict["claims"]
    assert all(isinstance(claim["holds"], bool) and claim["measured"] for claim in claims)
    assert "DeepDQUCB paper bonus_scale=0.01" in verdict["results"]["final_regret"]
    assert any("deep DQUCB has the lowest regret after the shift" in claim["text"] for claim in claims)
    assert any("at most 0.75 of DQN's and DQN-UCB's regret" in claim["text"] for claim in claims)
    assert verdict["versions"]["numpy"] == np.__version__
    verdict = run_script("fig05_calibration", tmp_path)
    for part in ("choosing", "reporting"):
        manifest = json.loads((tmp_path / "cartpole_quick_runs" / part / "manifest.json").read_text())
        assert len(manifest["sessions"]) == 1  # nothing was trained again
    assert any("better calibrated than DQN-UCB" in claim["text"] for claim in verdict["claims"])
    assert any("(intervals corrected online" in claim["text"] for claim in verdict["claims"])
    for numbers in verdict["results"]["mean_over_seeds"].values():
        assert all(0 <= numbers[form][phase]["ece"] <= 1 for form in numbers for phase in numbers[form])


def test_losses_falls_and_claims_of_drawn_changes_are_those_of_plain_counts():
    from reproduce import deep_changes as script

    class Run:
        ends = np.array([200, 250, 450, 510, 540, 740, 760, 767])
        lengths = np.diff(ends, prepend=0)
        returns = lengths.astype(float)

    assert script.falls_after(Run(), 449, 200) == 3
    assert script.falls_after(Run(), 510, 200) == 2
    assert script.returns_after(Run(), 510) == (pytest.approx((30 + 200 + 20) / 3), 3)  # the last may have been cut

    def found(ours, base, falls=(0.0, 0.0)):
        def of(value, fallen=0.0):
            return {"returns": [value - 1.0, value, value + 1.0], "falls": [fallen] * 3, "alarms": [0] * 3}

        return {script.OURS: of(ours, falls[0]), script.BASE: of(base, falls[1]), script.BOUNDED: of(base),
                script.ORACLE: of(0.0)}  # fmt: skip

    rows = {("cartpole", "flip", 1): found(100.0, 50.0), ("pendulum", "mass", 1): found(40.0, 80.0),
            ("cartpole", script.PLACEBO, 1): found(90.0, 90.0),
            (script.NAMED, "force x -1", 1): found(100.0, 50.0, (3.0, 20.0))}  # fmt: skip
    losses = script.losses(rows["pendulum", "mass", 1])
    np.testing.assert_allclose(losses[script.OURS], [0.5125, 0.5, 0.4875])
    result = script.summary(rows)
    assert result["cases"] == 2  # neither a placebo nor a named change
    assert result["all"]["improvement_over"][script.BASE][0] == 0.5
    assert result["by_kind"]["flip"]["loss_over_dqn"] == 0.0
    assert result["by_kind"]["mass"]["loss_over_dqn"] is None  # DQN has no loss, so that ours is worse
    assert [kind for kind, each in result["by_kind"].items() if each["worse_than_dqn"]] == ["mass"]
    mixed = {
        **rows["cartpole", "flip", 1],
        script.BASE: {"returns": [98.0, 100.5, 99.5], "falls": [0] * 3, "alarms": [0] * 3},
    }
    one = script.summary({("cartpole", "flip", 1): mixed})["all"]["improvement_over"][script.BASE]
    assert one[0] == pytest.approx(6 / 9, abs=1e-3)  # pairs of seeds
    assert one[1] < one[0] < one[2]
    # More cases with the same agents tell no more about these agents.
    assert script.summary({("cartpole", "flip", d): mixed for d in range(9)})["all"]["improvement_over"][
        script.BASE
    ] == (pytest.approx(one, abs=0.05))
    verdicts = {claim.text: claim.holds for claim in script.claims(result)}
    assert verdicts == {text: ("without a change" in text or "CartPole" in text)
                        for text in verdicts}  # fmt: skip
    assert len(verdicts) == 4


def test_a_recorder_that_was_stopped_and_restored_keeps_the_same_visits(tmp_path):
    env = functools.partial(gymnasium.make, "dqucb/CartPole-v0", change_at=(4,))
    agent = DQNUCB(hidden=(16,), learning_starts=60, buffer_size=300, batch_size=8)
    whole = agent.clone().train_seeds(env, [0, 1], episodes=9, callback=CalibrationRecorder([(2, 7)], 0.98))
    for stop in (3, 5, None):
        runs = agent.clone().train_seeds(
            env, [0, 1], episodes=9, callback=CalibrationRecorder([(2, 7)], 0.98), checkpoint=tmp_path / "c",
            stop_at=stop,
        )  # fmt: skip
    for ref, comp in zip(whole, runs, strict=True):
        assert len(ref.extras["visit_q"]) > 20
        for name, values in ref.extras.items():
            np.testing.assert_array_equal(comp.extras[name], values)
