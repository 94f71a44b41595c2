"""The `dqucb` command: what it prints, what it refuses, and its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from dqucb.cli import app

ROOT = Path(__file__).resolve().parent.parent
QUICK = ["--episodes", "90", "--seeds", "2", "--jobs", "1"]


def shell(*arguments: str):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "dqucb.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


def call(*arguments: str):
    """The command in this process, which is quicker."""
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "results"
    done = shell("run", "frozen-lake", "--agents", "dqucb,qucb", *QUICK, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert "DQUCB" in done.stdout
    assert "4 runs made, 0 were there" in done.stdout
    return folder


def test_a_second_run_computes_nothing(folder):
    again = call("run", "frozen-lake", "--agents", "dqucb,qucb", *QUICK, "--out", str(folder), "--json")
    assert again.exit_code == 0
    result = json.loads(again.stdout)
    assert (result["computed"], result["runs"]) == (0, 4)
    assert [row["agent"] for row in result["summary"]] == ["DQUCB", "QUCB"]
    assert result["settings"]["length"] == 90


def test_quiet_prints_nothing(folder):
    again = call("run", "frozen-lake", "--agents", "dqucb,qucb", *QUICK, "--out", str(folder), "--quiet")
    assert (again.exit_code, again.output) == (0, "")


def test_help_is_quick_and_has_examples():
    began = os.times().children_user
    assert shell("--help").returncode == 0
    assert os.times().children_user - began < 1.5, "heavy modules are loaded for --help"
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, dqucb.cli; print({'numba', 'pandas', 'matplotlib'} & set(sys.modules))"],
        capture_output=True, text=True, timeout=60, cwd=ROOT, check=True,
    )  # fmt: skip
    assert loaded.stdout.strip() == "set()"
    assert "dqucb run frozen-lake --agents" in call("run", "--help").stdout
    assert "dqucb sweep gridworld" in call("sweep", "--help").stdout


def test_version():
    from dqucb import __version__

    assert call("--version").stdout.strip() == f"dqucb {__version__}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "frozen-laek"], "unknown problem 'frozen-laek': did you mean frozen-lake"),
        (["run", "gridworld", "--agents", "dqucb,ucbv"], "unknown agent 'ucbv': did you mean ucbvi"),
        (["run", "gridworld", "--set", "dqucb.windw=3"], "unknown parameter of dqucb 'windw': did you mean window"),
        (["run", "gridworld", "--set", "dqcb.window=3"], "did you mean dqucb"),
        (["run", "gridworld", "--set", "problem.nose=3"], "unknown parameter of gridworld 'nose': did you mean noise"),
        (["run", "gridworld", "--set", "window=3"], "--set must be AGENT.PARAMETER=VALUE"),
        (["run", "gridworld", "--set", "dqucb.bandwidth=-1"], "bandwidth must be > 0, got -1"),
        (["run", "gridworld", "--seeds", "two"], "seeds must be a number, or seeds as in 3,5,7 or 10-19, got 'two'"),
        (["run"], "which problem? There is gridworld, two-rooms, frozen-lake"),
        (["run", "gridworld", "--config", "nowhere.toml"], "config file nowhere.toml does not exist"),
        (["sweep", "gridworld"], "nothing to sweep over"),
        (["sweep", "gridworld", "--vary", "bonus_scal=1,2"], "did you mean bonus_scale"),
        (["report", "nowhere"], "no manifest.json here"),
        (["export", "nowhere", "--format", "xls"], "no manifest.json here"),
        (["run", "gridworld", "--backend", "dask"], "scheduler must be the address"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(arguments, message, tmp_path):
    out = ["--out", str(tmp_path / "out")] if arguments[0] in ("run", "sweep") else []
    result = call(*arguments, *out)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists(), "nothing may be written before the call is known to be right"


def test_typos_in_a_real_process_show_no_traceback():
    wrong = shell("run", "frozen-lake", "--agents", "dqbuc")
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert "did you mean dqucb" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert shell("runn").returncode == 2


def test_a_folder_with_other_settings_is_refused(folder):
    other = call("run", "frozen-lake", "--agents", "dqucb,qucb", *QUICK, "--out", str(folder), "--bonus-scale", "0.7")
    assert other.exit_code == 2
    assert "agents.DQUCB.parameters.bonus_scale is 0.2 there, 0.7 here" in other.stderr


def test_a_failure_while_running_is_exit_code_1(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    result = call("run", "frozen-lake", "--agents", "qucb", *QUICK, "--out", str(blocked / "below"))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: NotADirectoryError")


def test_a_toml_file_says_the_same_as_flags_and_flags_win(tmp_path):
    config = tmp_path / "study.toml"
    config.write_text(
        'problem = "gridworld"\nagents = ["dqucb", "qucb"]\nseeds = [3, 5]\nepisodes = 40\njobs = 1\n'
        "[set.dqucb]\nwindow = 7\n[set.problem]\nnoise = [0.0, 0.5]\nrows = 2\ncols = 2\n"
    )
    result = json.loads(call("run", "--config", str(config), "--json", "--episodes", "60").stdout)
    settings = result["settings"]
    assert (settings["seeds"], settings["length"], settings["change_at"]) == ([3, 5], 60, [30])
    assert settings["agents"]["DQUCB"]["parameters"]["window"] == 7
    assert settings["problem"]["noise"] == [0.0, 0.5]
    flags = ["--agents", "dqucb,qucb", "--seeds", "3,5", "--episodes", "60", "--jobs", "1", "--set", "dqucb.window=7"]
    flags += ["--set", "problem.noise=[0.0,0.5]", "--set", "problem.rows=2", "--set", "problem.cols=2"]
    again = json.loads(call("run", "gridworld", *flags, "--json").stdout)
    assert again["settings"] == settings
    assert [row["regret"] for row in again["summary"]] == [row["regret"] for row in result["summary"]]
    config.write_text("episode = 3")
    wrong = call("run", "gridworld", "--config", str(config))
    assert (wrong.exit_code, "did you mean episodes" in wrong.stderr) == (2, True)


def test_sweep_plot_export_and_list(tmp_path):
    out = tmp_path / "sweep"
    swept = call("sweep", "gridworld", "--agents", "qucb,random", "--bonus-scale", "0.1,1", *QUICK, "--out", str(out))
    assert swept.exit_code == 0, swept.stderr
    assert "best of QUCB: QUCB bonus_scale=" in swept.stdout
    drawn = call("plot", str(out), "--visits")
    assert drawn.exit_code == 0, drawn.stderr
    names = {path.name for path in (out / "plots").iterdir()}
    assert {"regret.png", "regret.svg", "final_regret.png", "regret_by_bonus_scale.svg", "visits.png"} <= names
    assert call("export", str(out), "--points", "0").exit_code == 0
    table = pd.read_csv(out / "curves.csv")
    assert len(table) == 3 * 2 * 90
    assert set(table["agent"]) == {"QUCB bonus_scale=0.1", "QUCB bonus_scale=1", "Random"}
    assert call("export", str(out), "--table", "summary").exit_code == 0
    assert call("export", str(out), "--format", "xls").exit_code == 2
    listed = json.loads(call("list", "--json").stdout)
    assert listed["agents"]["dqucb"]["parameters"]["window"] == 100
    assert "slip" in listed["problems"]["frozen-lake"]["parameters"]


def test_parquet_or_a_message(folder, tmp_path):
    result = call("export", str(folder), "--format", "parquet", "--out", str(tmp_path / "t.parquet"))
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        assert result.exit_code == 2
        assert "needs the package pyarrow" in result.stderr
    else:
        assert len(pd.read_parquet(tmp_path / "t.parquet")) == 4 * 90


def test_warmup():
    result = call("warmup")
    assert result.exit_code == 0
    assert "ready after" in result.stdout
