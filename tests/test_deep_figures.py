"""The CartPole figures as a user runs them, in their quick form, and calibration records that survive a stop."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason='torch is missing: pip install "dqucb[deep]"')

from dqucb.deep import DQNUCB, CalibrationRecorder

ROOT = Path(__file__).resolve().parent.parent


def run_script(name, out):
    command = [sys.executable, f"reproduce/{name}.py", "--quick", "--jobs", "1", "--out", str(out)]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert finished.returncode == 0, finished.stderr
    assert (out / name / f"{name}.png").stat().st_size > 10_000
    assert (out / name / f"{name}.svg").exists()
    return json.loads((out / name / f"{name}.json").read_text()), finished.stdout


def test_both_figures_run_share_their_runs_and_give_verdicts(tmp_path):
    verdict, told = run_script("fig03c_cartpole", tmp_path)
    assert "DeepDQUCB bonus_scale=0.1: 2 seeds" in told
    claims = verdict["claims"]
    assert all(isinstance(claim["holds"], bool) and claim["measured"] for claim in claims)
    assert any("lowest regret of the four after the shift" in claim["text"] for claim in claims)
    assert verdict["versions"]["numpy"] == np.__version__
    verdict, told = run_script("fig05_calibration", tmp_path)
    assert "seeds," not in told  # nothing was trained again
    assert any("better calibrated than DQN-UCB" in claim["text"] for claim in verdict["claims"])
    for numbers in verdict["results"]["mean_over_seeds"].values():
        assert all(0 <= numbers[form][phase]["ece"] <= 1 for form in numbers for phase in numbers[form])


def test_a_recorder_that_was_stopped_and_restored_keeps_the_same_visits(tmp_path):
    settings = {"hidden": (16,), "learning_starts": 60, "capacity": 300, "batch": 8}
    kwargs = {"episodes": 9, "seeds": [0, 1], "env_options": {"shift_at": 4}}
    whole = CalibrationRecorder([(2, 7)], 0.98)
    DQNUCB(**settings).learn("dqucb/CartPole-v0", **kwargs, callback=whole)
    saved = {}
    for stop in (75, 120, None):
        part = CalibrationRecorder([(2, 7)], 0.98)
        part.restore(saved)
        agent = DQNUCB(**settings)
        agent.learn("dqucb/CartPole-v0", **kwargs, callback=part, checkpoint=tmp_path / "c", stop_at=stop)
        saved = part.state()
    for i in (0, 1):
        assert len(whole.visits(i).q) > 20
        for mine, other in zip(whole.visits(i), part.visits(i), strict=True):
            np.testing.assert_array_equal(mine, other)
