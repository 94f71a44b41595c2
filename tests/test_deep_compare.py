"""Deep agents in `compare`: the same tables, store, plots and reports as for the tabular ones."""

import functools

import gymnasium
import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

import dqucb
from dqucb import DQUCB, compare
from dqucb.deep import DAILY, DQN, DQNUCB, CalibrationRecorder, DeepDQUCB, RandomPolicy
from dqucb.experiments import Evaluation, load_comparison, plots, sweep
from dqucb.experiments.report import write_report
from dqucb.hospital import CUCBRA, GreedyByFreeBeds

CARTPOLE = functools.partial(gymnasium.make, "dqucb/CartPole-v0", change_at=(6,), noise=0.3)
SMALL = {"hidden": (8,), "learning_starts": 50}


def agents():
    return {"DQN": DQN(**SMALL), "ours": DeepDQUCB(**SMALL, window=20)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_compare_equals_train_seeds_and_is_kept_with_report_and_plot(tmp_path, jobs):
    made = compare(agents(), CARTPOLE, 12, seeds=[3, 5], out=tmp_path / "sweep", jobs=jobs)
    runs = DeepDQUCB(**SMALL, window=20).train_seeds(CARTPOLE, [3, 5], episodes=12)
    for run in runs:
        np.testing.assert_array_equal(made.load_run("ours", run.seed).returns, run.returns)
    assert made.change_at == [6]
    assert made.computed == 4
    again = compare(agents(), CARTPOLE, 12, seeds=[3, 5], out=tmp_path / "sweep")
    assert again.computed == 0
    loaded = load_comparison(tmp_path / "sweep")
    assert loaded.summary().equals(made.summary())
    assert loaded.notes == []
    assert not list((tmp_path / "sweep" / "checkpoints").iterdir())
    loaded.plot(tmp_path / "regret.png")
    page = write_report(loaded, tmp_path / "report.html").read_text()
    assert "dqucb/CartPole-v0" in page
    assert (tmp_path / "regret.png").stat().st_size > 1_000
    with pytest.raises(ValueError, match="got DQN on dqucb/CartPole-v0"):
        plots.draw_all(loaded, tmp_path / "plots", visits=True)


def test_more_seeds_train_only_the_new_ones(tmp_path):
    compare(DQN(**SMALL), CARTPOLE, 12, seeds=2, out=tmp_path / "x")
    more = compare(DQN(**SMALL), CARTPOLE, 12, seeds=3, out=tmp_path / "x")
    assert more.computed == 1
    (whole,) = DQN(**SMALL).train_seeds(CARTPOLE, [2], episodes=12)
    np.testing.assert_array_equal(more.load_run("DQN", 2).returns, whole.returns)


class Interrupted:
    """A recorder that is interrupted once, when it has seen so many steps, and keeps what it saw."""

    fired = False

    def __init__(self, after):
        self.after, self.seen = after, 0

    def __call__(self, moment):
        self.seen += 1
        if self.seen == self.after and not Interrupted.fired:
            Interrupted.fired = True
            raise KeyboardInterrupt

    def state(self):
        return {"seen": np.array(self.seen)}

    def restore(self, state):
        self.seen = int(state["seen"])

    def results(self, i):
        return {"seen": np.array(self.seen)}


def test_an_experiment_stopped_in_the_middle_goes_on_from_its_checkpoint_with_more_seeds(tmp_path, monkeypatch):
    from dqucb.running import engine

    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)  # after every step
    monkeypatch.setattr(Interrupted, "fired", False)
    # The class of the recorder changes while it is used, so that its version is stated.
    recorded = {"recorder": functools.partial(Interrupted, 100), "version": "1"}
    with pytest.raises(KeyboardInterrupt):
        compare(DQNUCB(**SMALL), CARTPOLE, 12, seeds=2, out=tmp_path / "x", **recorded)
    assert Interrupted.fired
    assert len(list((tmp_path / "x" / "checkpoints").iterdir())) == 1
    resumed = compare(DQNUCB(**SMALL), CARTPOLE, 12, seeds=3, jobs=1, out=tmp_path / "x", **recorded)
    whole = DQNUCB(**SMALL).train_seeds(CARTPOLE, 3, episodes=12)
    for run in whole:
        np.testing.assert_array_equal(resumed.load_run("DQNUCB", run.seed).returns, run.returns)
    both = max(run.steps for run in whole[:2])
    assert resumed.load_run("DQNUCB", 0).extras["seen"] in (both, both - 1)  # it did not begin again
    assert resumed.load_run("DQNUCB", 2).extras["seen"] == whole[2].steps
    assert not list((tmp_path / "x" / "checkpoints").iterdir())


def test_evaluations_in_lockstep_survive_a_stop(tmp_path, monkeypatch):
    evaluations = [Evaluation(f"{at}", at, CARTPOLE, 2) for at in (60, 90, 150)]
    options = {"steps": 150, "seeds": 2, "jobs": 1, "regret": "none", "evaluations": evaluations}
    whole = compare(DQN(**SMALL), CARTPOLE, **options)
    evaluate, calls = DQN.evaluate, []

    def dies_late(self, *given, **more):
        calls.append(more["trained_seed"])
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(self, *given, **more)

    monkeypatch.setattr(DQN, "evaluate", dies_late)
    with pytest.raises(KeyboardInterrupt):
        compare(DQN(**SMALL), CARTPOLE, out=tmp_path / "x", **options)
    resumed = compare(DQN(**SMALL), CARTPOLE, out=tmp_path / "x", **options)
    assert len(calls) == 4 + 4  # those at 60 were kept
    for seed in range(2):
        ref, comp = whole.load_run("DQN", seed), resumed.load_run("DQN", seed)
        np.testing.assert_array_equal(comp.returns, ref.returns)
        assert sorted(comp.extras) == ["150", "60", "90"]
        for name, values in ref.extras.items():
            np.testing.assert_array_equal(comp.extras[name], values)
    ends, values = resumed.curves("DQN", "returns")  # episodes end at other steps for each seed
    assert (ends[-1], values.shape) == (150, (2, len(ends)))
    assert values[1, -1] == resumed.load_run("DQN", 1).returns[-1]
    assert "Mean return" in write_report(load_comparison(tmp_path / "x"), tmp_path / "report.html").read_text()
    assert plots.draw_all(resumed, tmp_path / "plots")


def test_sweep_chooses_a_scale_and_recorders_are_kept():
    recorder = functools.partial(CalibrationRecorder, [(2, 5)], 0.98)
    made = sweep(
        [DQN(**SMALL), DQNUCB(**SMALL)], CARTPOLE, {"bonus_scale": [0.1, 1.0]}, 8, seeds=2, jobs=1, recorder=recorder
    )
    assert set(made.groups()) == {"DQN", "DQNUCB"}
    assert made.best([0], [1])["DQNUCB"].value in ("DQNUCB bonus_scale=0.1", "DQNUCB bonus_scale=1.0")
    run = made.load_run("DQN", 1)
    assert len(run.extras["visit_q"]) == run.lengths[2:5].sum()


def test_envs_without_checkpoints_can_be_compared(tmp_path):
    made = compare(RandomPolicy(), "CartPole-v1", 3, seeds=2, out=tmp_path / "x", max_return=500.0)
    assert (made.finals()["regret"] > 0).all()


def test_deep_and_tabular_agents_meet_where_the_spaces_fit():
    with pytest.raises(ValueError, match="Discrete"):
        compare([DQN(), DQUCB()], CARTPOLE, 12, seeds=1, jobs=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare(DQN(), "CartPole-v1", 5), "max_return must be given: CartPole-v1"),
        (lambda: compare(DQN(), CARTPOLE), "exactly one of episodes and steps"),
        (lambda: compare(DQN(), dqucb.problems.gridworld(), 50_000), "Box|observation"),
        (lambda: compare(DQN(), "CartPol-v1", 5, max_return=1.0), "CartPol"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(call, message):
    with pytest.raises((ValueError, gymnasium.error.Error), match=message):
        call()


def test_hospital_agents_with_and_without_networks(tmp_path):
    env = functools.partial(gymnasium.make, "dqucb/HospitalAllocation-v0", hospitals=3, change_at=(30,))
    agents = {"DQN": DQN(**DAILY), "ours": DeepDQUCB(**DAILY), "greedy": GreedyByFreeBeds(), "bandit": CUCBRA()}
    made = compare(agents, env, steps=60, seeds=2, out=tmp_path / "x")
    loaded = load_comparison(tmp_path / "x")
    assert loaded.change_at == [30]
    assert len(loaded.load_run("ours", 1)) == 60
    assert np.isfinite(loaded.summary()["regret"]).all()
    assert loaded.summary().equals(made.summary())
    other = functools.partial(env, beta_after="same")  # the same hospitals with other lengths of stay after the change
    with pytest.raises(ValueError, match=r"problem\.sha256 is"):
        compare(GreedyByFreeBeds(), other, steps=60, seeds=2, out=tmp_path / "x")


def test_the_command_runs_cartpole_and_hospitals(tmp_path):
    import json

    from typer.testing import CliRunner

    from dqucb.cli import app

    def call(*arguments):
        result = CliRunner().invoke(app, ["run", *arguments, "--seeds", "2", "--jobs", "1", "--json"])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    out = ["--episodes", "8", "--out", str(tmp_path / "cartpole")]
    small = [f"--set={name}.hidden=[8]" for name in ("dqn", "dqn-ucb", "deep-dqucb")]
    result = call("cartpole", "--agents", "dqn,dqn-ucb,deep-dqucb", "--set", "problem.noise=0.3", *small, *out)
    assert result["settings"]["change_at"] == [4]  # in proportion
    assert result["settings"]["problem"]["noise"] == 0.3
    assert [row["agent"] for row in result["summary"]] == ["DQN", "DQNUCB", "DeepDQUCB"]
    hospital = ["hospital", "--agents", "greedy-by-free-beds,cucb-ra,dqn", "--steps", "40", "--set"]
    result = call(*hospital, "problem.hospitals=3", "--set", "dqn.hidden=[8]")
    assert result["settings"]["change_at"] == [20]
    assert len(result["summary"]) == 3
    for command in ("plot", "report", "export"):
        done = CliRunner().invoke(app, [command, str(tmp_path / "cartpole")])
        assert done.exit_code == 0, done.stderr
    refused = CliRunner().invoke(app, ["plot", str(tmp_path / "cartpole"), "--visits"])
    assert (refused.exit_code, len(refused.stderr.strip().splitlines())) == (2, 1)
