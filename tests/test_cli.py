"""The `dqucb` command: what it prints, what it refuses, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from dqucb import compare
from dqucb.cli import app
from dqucb.experiments import tables
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
QUICK = ["--episodes", "90", "--seeds", "2", "--jobs", "1"]


def shell(*arguments: str):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "dqucb.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)


def call(*arguments: str):
    """The command in this process, which is quicker."""
    runner = CliRunner()
    runner.mix_stderr = False  # before click 8.2 the two were one
    return runner.invoke(app, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "results"
    done = shell("run", "frozen-lake", "--agents", "dqucb,qucb", *QUICK, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert "DQUCB" in done.stdout
    assert "4 runs made, 0 reused" in done.stdout
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
    assert shell("--help").returncode == 0
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, dqucb.cli; print({'numba', 'pandas', 'matplotlib'} & set(sys.modules))"],
        capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=True,
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
        (
            ["run", "gridworld", "--seeds", "two"],
            "seeds must be a number, seeds as in 3,5,7 or 10-19, or auto, got 'two'",
        ),
        (["run"], "which problem? There is "),
        (["run", "gridworld", "--episodes", "-5"], "episodes must be an integer >= 1, got -5"),
        (["run", "gridworld", "--steps", "100"], "takes episodes="),
        (["run", "CartPole-v1", "--agents", "random-policy", "--episodes", "5"], "max_return must be given"),
        (["run", "CartPole-v1", "--set", "problem.noise=1"], "--set problem.PARAMETER needs a name"),
        (["run", "gridworld", "--config", "nowhere.toml"], "config file nowhere.toml does not exist"),
        (["sweep", "gridworld"], "nothing to sweep over"),
        (["sweep", "gridworld", "--vary", "bonus_scal=1,2"], "did you mean bonus_scale"),
        (["report", "nowhere"], "no such folder"),
        (["export", "nowhere", "--format", "xls"], "no such folder"),
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


def test_a_failure_while_running_is_exit_code_1(monkeypatch, tmp_path):
    def fail(self, number, trial):
        raise RuntimeError("the kernel is out of order")

    monkeypatch.setattr("dqucb.experiments.execution.Job.__call__", fail)
    result = call("run", "frozen-lake", "--agents", "qucb", *QUICK, "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "error: RuntimeError: the kernel is out of order"


def test_a_folder_that_cannot_be_written_is_one_line_and_exit_code_2(folder, tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    for arguments in (
        ["run", "frozen-lake", "--agents", "qucb", *QUICK],
        ["plot", str(folder)],
        ["report", str(folder)],
        ["export", str(folder)],
    ):
        result = call(*arguments, "--out", str(blocked / "below"))
        assert result.exit_code == 2, arguments
        assert str(blocked) in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('episodes = "many"', "episodes must be an integer >= 1, got 'many'"),
        ("problem = 3", "problem must be a word, got 3"),
        ('jobs = "all"', "jobs must be an integer >= -1, got 'all'"),
        ('bonus_scale = "large"', "bonus_scale must be"),
        ("seeds = 2.5", "seeds must be"),
        ("seeds = [1, 1]", "different seeds"),
    ],
)
def test_a_toml_file_with_wrong_values_is_refused(tmp_path, line, message):
    config = tmp_path / "study.toml"
    config.write_text(line)
    problem = [] if line.startswith("problem") else ["gridworld"]
    wrong = call("run", *problem, "--config", str(config))
    assert wrong.exit_code == 2
    assert message in wrong.stderr


@pytest.mark.parametrize("name", ["drifting-lake", "periodic-lake", "still-lake", "still-grid"])
def test_problems_that_vary_others_have_their_own_length_and_title(name):
    from dqucb.experiments.design import target

    problem, length = target(name, None, None)
    assert (length.number, problem.name, problem.description["problem"]) == (20_000, name, name)
    result = json.loads(call("run", name, "--agents", "random", *QUICK, "--json").stdout)
    assert result["settings"]["problem"]["problem"] == name


def test_more_seeds_agents_and_scales_reuse_what_is_there(tmp_path):
    out = ["--out", str(tmp_path / "out"), "--episodes", "90", "--jobs", "1", "--json"]

    def computed(*arguments):
        result = call(*arguments, *out)
        assert result.exit_code == 0, result.stderr
        facts = json.loads(result.stdout)
        return facts["computed"], facts["runs"]

    assert computed("sweep", "gridworld", "--agents", "qucb", "--bonus-scale", "0.1,1", "--seeds", "2") == (4, 4)
    assert computed("sweep", "gridworld", "--agents", "qucb", "--bonus-scale", "0.1,1", "--seeds", "3") == (2, 6)
    assert computed("sweep", "gridworld", "--agents", "qucb", "--bonus-scale", "0.1,1,9", "--seeds", "3") == (3, 9)
    assert computed("sweep", "gridworld", "--agents", "qucb,random", "--bonus-scale", "0.1", "--seeds", "1") == (1, 2)
    table = call("export", str(tmp_path / "out"), "--table", "finals")
    assert len(pd.read_csv(table.stdout.strip())) == 10
    assert "unfinished" not in call("report", str(tmp_path / "out")).stderr


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


def test_a_variant_is_a_parameter_like_any_other():
    result = json.loads(
        call("run", "gridworld", "--agents", "dqucb", *QUICK, "--set", "dqucb.variant=paper", "--json").stdout
    )
    assert result["settings"]["agents"]["DQUCB"]["parameters"]["variant"] == "paper"


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
    assert "20,000 episodes" in listed["problems"]["drifting-lake"]["about"]
    assert listed["envs"]["cartpole"]["about"].endswith("Usually 800 episodes.")
    assert listed["envs"]["hopper"]["parameters"]["name"] == "Hopper"
    assert listed["densities"]


def test_visits_that_cannot_be_drawn_are_refused_in_one_line(tmp_path):
    from dqucb import QUCB, TabularMDP, compare

    custom = TabularMDP([[[1.0, 0.0]], [[0.0, 1.0]]], [0.0, 1.0], horizon=3)
    compare(QUCB(), custom, 20, seeds=1, jobs=1, out=tmp_path)
    result = call("plot", str(tmp_path), "--visits")
    assert result.exit_code == 2
    assert "registered problems" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert call("plot", str(tmp_path)).exit_code == 0


def test_labels_are_shown_as_they_are(tmp_path, capsys):
    from dqucb import QUCB, compare
    from dqucb.experiments.tables import rich_summary
    from dqucb.problems import gridworld

    agents = {r"$\frac$": QUCB(), "a [/] b [bold]": QUCB(bonus_scale=1.0), "$x$": QUCB(bonus_scale=2.0)}
    made = compare(agents, gridworld(0.1, rows=2, cols=2, horizon=4), 20, seeds=2, jobs=1, out=tmp_path)
    rich_summary(made)
    shown = capsys.readouterr().out
    assert all(label in shown for label in agents)
    assert call("plot", str(tmp_path)).exit_code == 0


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


def test_a_problem_of_many_phases_still_has_a_readable_table(capsys):
    runs = compare(["random"], "drifting-lake", 60, seeds=1, jobs=1)
    tables.rich_summary(runs)
    printed = capsys.readouterr().out
    assert "phase" not in printed
    assert "Random" in printed


def test_list_of_one_kind_or_one_name():
    agents = call("list", "agents").output
    assert "planning-dqucb" in agents
    assert "frozen-lake" not in agents
    one = call("list", "planning-dqucb").output
    assert one.startswith("agents\n  planning-dqucb:")
    assert (
        "      false_alarms=0.001\n          The order of the probability" in one
    )  # what it means, from its docstring
    inherited = call("list", "dqucb").output
    assert "As in" not in inherited.split("bonus_scale=")[1].split("delta=")[0]
    assert "no parameters" in call("list", "random").output
    unheard = call("list", "xyzzy").stderr
    assert unheard == "error: unknown agent, problem, family, env or density 'xyzzy': dqucb list shows all names\n"
    wrong = call("list", "planing-dqucb")
    assert wrong.exit_code == 2
    assert "did you mean planning-dqucb" in wrong.stderr


def test_help_says_the_defaults():
    said = " ".join(call("run", "--help").output.replace("│", " ").split())
    assert "Default: planning-dqucb,dqucb,qucb,ucbvi." in said
    assert "Default: 10." in said


@pytest.mark.parametrize("text", ["60", "6e1", "+60", "60.0"])
def test_lengths_may_be_written_with_an_exponent_and_a_run_without_out_says_that_nothing_was_kept(text):
    done = call("run", "combination-lock", "--agents", "qucb", "--episodes", text, "--seeds", "1", "--jobs", "1")
    assert done.exit_code == 0
    assert "60 episodes" in done.output
    assert "the results were not saved" in done.stderr


@pytest.mark.parametrize("text", ["1.5", "many", "inf", "nan", "1e-3"])
def test_lengths_that_are_not_whole_are_refused(text):
    refused = call("run", "combination-lock", "--episodes", text)
    assert refused.exit_code == 2
    assert "whole number" in refused.stderr


def test_completion_knows_problems_agents_and_the_last_of_several():
    from dqucb import _cli_options

    assert "--install-completion" in call("--help").output
    assert "frozen-lake" in _cli_options.complete_problem("froz")
    assert _cli_options.complete_agents("dqucb,plan") == ["dqucb,planning-dqucb"]
    assert "agents" in _cli_options.complete_entry("ag")
