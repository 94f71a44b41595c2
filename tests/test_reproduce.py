"""Every reproduction script runs in its quick form and leaves a picture and a verdict."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted(path.stem for path in (ROOT / "reproduce").glob("[a-z]*.py"))
WITHOUT_PICTURE = {"tab02_density_ablation", "study_defaults"}
NEEDS_SCIPY = {"deep_changes", "fig03c_cartpole", "fig05_calibration", "fig06_hospital", "mujoco_recovery",
               "tab03_mujoco"}  # fmt: skip
NEEDS_MUJOCO = {"mujoco_recovery", "tab03_mujoco"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_quick_form(name, tmp_path):
    if name in NEEDS_SCIPY:
        pytest.importorskip("scipy", reason="the deep agents need the extra `deep`")
    if name in NEEDS_MUJOCO:
        pytest.importorskip("mujoco", reason="the locomotion tasks need the extra `mujoco`")
    command = [sys.executable, f"reproduce/{name}.py", "--quick", "--out", str(tmp_path)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    verdict = json.loads((tmp_path / name / f"{name}.json").read_text())
    assert verdict["quick"] is True
    assert verdict["settings"]
    assert verdict["versions"]["dqucb"]
    assert all(isinstance(claim["holds"], bool) and claim["measured"] for claim in verdict["claims"])
    assert verdict["claims"]
    if name not in WITHOUT_PICTURE:
        assert (tmp_path / name / f"{name}.png").stat().st_size > 10_000
        assert (tmp_path / name / f"{name}.svg").exists()


def test_the_best_rival_is_judged_by_other_runs_than_those_that_chose_it():
    import numpy as np

    from reproduce.generated_arena import cross_fitted

    lucky, steady = [[0.0, 0.0, 4.0, 4.0]], [[1.0, 1.0, 1.0, 1.0]]
    assert cross_fitted(np.array([lucky, steady])).tolist() == [2.5]  # lucky is judged by 4, steady by 1


def test_a_second_run_computes_nothing(tmp_path):
    command = [sys.executable, "reproduce/tab02_density_ablation.py", "--quick", "--out", str(tmp_path)]
    for _ in range(2):
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE)
    manifest = tmp_path / "tab02_density_ablation" / "quick_runs" / "manifest.json"
    sessions = json.loads(manifest.read_text())["sessions"]
    assert len(sessions) == 1
