"""Reports from runs that other libraries made."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dqucb.cli import app
from dqucb.experiments import load_logs

HEAD = '#{"t_start": 0.0, "env_id": "CartPole-v1"}\nr,l,t\n'


def monitor(path, rows):
    """Write a monitor file of (return, length, seconds)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "".join(f"{r},{length},{t}\n" for r, length, t in rows))


def test_monitor_files_of_a_folder(tmp_path):
    for agent, gain in (("dqn", 1.0), ("ppo", 2.0)):
        for seed in range(3):
            rows = [(gain * (i + seed), 10, 0.1 * i) for i in range(1, 5)]
            monitor(tmp_path / agent / f"run_{seed}" / "monitor.csv", rows)
    found = load_logs(tmp_path, change_at=[20])
    assert found.labels == ["dqn", "ppo"]
    assert found.settings["problem"]["problem"] == "CartPole-v1"
    assert (found.unit, found.settings["length"], found.change_at) == ("steps", 40, [20])
    assert found.final("ppo") == {seed: 2.0 * (2.5 + seed) for seed in range(3)}
    np.testing.assert_array_equal(found.load_run("dqn", 1).returns, [2.0, 3.0, 4.0, 5.0])
    np.testing.assert_array_equal(found.load_run("dqn", 1).ends, [10, 20, 30, 40])


def test_copies_of_a_vectorised_environment_are_one_run(tmp_path):
    monitor(tmp_path / "ppo" / "CartPole_1" / "0.monitor.csv", [(1.0, 5, 0.1), (3.0, 5, 0.3)])
    monitor(tmp_path / "ppo" / "CartPole_1" / "1.monitor.csv", [(2.0, 7, 0.2)])
    found = load_logs(tmp_path)
    assert found.seeds_of("ppo") == [0]
    np.testing.assert_array_equal(found.load_run("ppo", 0).returns, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found.load_run("ppo", 0).ends, [5, 12, 17])


def test_files_beside_one_another_are_named_by_their_agent(tmp_path):
    for name in ("dqn_0", "dqn_1", "sac-7"):
        monitor(tmp_path / f"{name}.monitor.csv", [(1.0, 5, 0.1)])
    found = load_logs(tmp_path)
    assert {label: found.seeds_of(label) for label in found.labels} == {"dqn": [0, 1], "sac": [0]}


def test_agents_may_be_named(tmp_path):
    monitor(tmp_path / "x.monitor.csv", [(1.0, 5, 0.1)])
    assert load_logs({"mine": [tmp_path / "x.monitor.csv"]}, problem="own").labels == ["mine"]


def test_a_table(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("Return,agent,seed,step,other\n1,a,0,10,x\n2,a,0,20,y\n3,b,4,10,z\n5,b,4,20,\n")
    found = load_logs(path)
    assert found.final("a") == {0: 1.5}
    assert found.final("b") == {4: 4.0}
    assert (found.unit, found.settings["length"]) == ("steps", 20)


def test_tensorboard_files(tmp_path):
    writing = pytest.importorskip("torch.utils.tensorboard")
    for seed in range(2):
        with writing.SummaryWriter(str(tmp_path / "sac" / f"run_{seed}")) as writer:
            for step in range(1, 6):
                writer.add_scalar("rollout/ep_rew_mean", float(step + seed), 100 * step)
    found = load_logs(tmp_path)
    assert found.final("sac") == {0: 3.0, 1: 4.0}
    assert found.settings["length"] == 500
    with pytest.raises(ValueError, match=r"tag must be a series of .*rollout/ep_rew_mean.*, got 'nothing'"):
        load_logs(tmp_path, tag="nothing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent,seed,return\na,0,1\n", "one of step and episode"),
        ("agent,seed,step,return\n", "at least one row"),
        ("agent,seed,step,return\na,0,1,x\n", "line 2 of .*return must be a finite number, got 'x'"),
        ("agent,seed,step,return\na,0,1,1_0\n", "return must be a finite number, got '1_0'"),
        ("agent,seed,step,return\na,0,1,nan\n", "return must be a finite number, got 'nan'"),
        ("agent,seed,step,return\na,-1,1,1\n", "whole numbers of at least 0"),
        ("agent,seed,step,return\na,0,1,1\na,0,1,2\n", "line 3 of .*stands twice"),
        ("agent,seed,step,return\na,0,1\n", "return must be a finite number, got None"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_logs(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "at least one finished episode"),
        ("a,b\n1,2\n", "needs the columns r, l and t"),
        (HEAD + "1.0,0,0.1\n", "l must be a number of steps, got '0'"),
        (HEAD + "inf,3,0.1\n", "r must be a finite number, got 'inf'"),
    ],
)
def test_wrong_monitor_files_are_refused(tmp_path, text, message):
    path = tmp_path / "monitor.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_logs(path)


def test_the_command_writes_the_page(tmp_path):
    for agent in ("dqn", "ppo"):
        for seed in range(2):
            monitor(tmp_path / agent / f"{seed}_run" / "monitor.csv", [(1.0 + seed, 10, 0.1), (2.0, 10, 0.2)])
    made = CliRunner().invoke(app, ["report", "--from", str(tmp_path), "--change-at", "10"])
    assert made.exit_code == 0, made.output
    page = (tmp_path / "report.html").read_text()
    assert "CartPole-v1" in page
    assert "made elsewhere" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either the FOLDER"),
        (["folder", "--from", "logs"], "give either the FOLDER"),
        (["folder", "--tag", "x"], "belong to --from"),
        (["--from", "nothing"], "got 'nothing': not there"),
    ],
)
def test_wrong_calls(arguments, message):
    made = CliRunner().invoke(app, ["report", *arguments])
    assert made.exit_code == 2
    assert message in made.output


def test_no_logs_in_a_folder(tmp_path):
    with pytest.raises(ValueError, match=r"must hold monitor\.csv or TensorBoard files, got none"):
        load_logs(tmp_path)
