"""Deep agents in `compare`: the same tables, store, plots and reports as for the tabular ones."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch", reason='torch is missing: pip install "dqucb[deep]"')

import dqucb
from dqucb import DQUCB, compare
from dqucb.deep import DAILY, DQN, DQNUCB, DeepDQUCB, RandomPolicy
from dqucb.experiments import load_comparison, sweep
from dqucb.experiments.report import write_report

CARTPOLE = "dqucb/CartPole-v0"
SMALL = {"hidden": (8,), "learning_starts": 50}
OPTIONS = {"env_options": {"shift_at": 6, "noise": 0.3}}


def agents():
    return {"DQN": DQN(**SMALL), "ours": DeepDQUCB(**SMALL, window=20)}


def test_compare_equals_learn_and_is_kept_with_report_and_plot(tmp_path):
    made = compare(agents(), CARTPOLE, 12, seeds=[3, 5], out=tmp_path / "sweep", **OPTIONS)
    runs = DeepDQUCB(**SMALL, window=20).learn(CARTPOLE, episodes=12, seeds=[3, 5], **OPTIONS)
    for run in runs:
        np.testing.assert_array_equal(made.load_run("ours", run.seed).returns, run.returns)
    assert made.change_at == [6]
    assert made.computed == 4
    again = compare(agents(), CARTPOLE, 12, seeds=[3, 5], out=tmp_path / "sweep", **OPTIONS)
    assert again.computed == 0
    loaded = load_comparison(tmp_path / "sweep")
    assert loaded.summary().equals(made.summary())
    assert loaded.notes == []
    assert not list((tmp_path / "sweep" / "checkpoints").iterdir())
    loaded.plot(tmp_path / "regret.png")
    page = write_report(loaded, tmp_path / "report.html").read_text()
    assert "dqucb/CartPole-v0" in page
    assert (tmp_path / "regret.png").stat().st_size > 1_000


def test_a_comparison_killed_in_the_middle_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    whole = compare(DQNUCB(**SMALL), CARTPOLE, 12, seeds=2, **OPTIONS)
    seen = []

    def dies_late(moment):
        seen.append(moment.step)
        if len(seen) == 100:
            raise KeyboardInterrupt

    learn = DQNUCB.learn
    monkeypatch.setattr(
        DQNUCB, "learn", lambda self, env, **given: learn(self, env, callback=dies_late, checkpoint_every=40, **given)
    )
    with pytest.raises(KeyboardInterrupt):
        compare(DQNUCB(**SMALL), CARTPOLE, 12, seeds=2, out=tmp_path / "sweep", **OPTIONS)
    resumed = compare(DQNUCB(**SMALL), CARTPOLE, 12, seeds=2, out=tmp_path / "sweep", **OPTIONS)
    assert seen[100] == 81  # it began where the last checkpoint was, not at the start
    for seed in range(2):
        np.testing.assert_array_equal(resumed.load_run("DQNUCB", seed).returns, whole.load_run("DQNUCB", seed).returns)


def test_sweep_chooses_a_scale():
    made = sweep([DQN(**SMALL), DQNUCB(**SMALL)], CARTPOLE, {"bonus_scale": [0.1, 1.0]}, 8, seeds=2, **OPTIONS)
    assert set(made.groups()) == {"DQN", "DQNUCB"}
    assert made.best([0], [1])["DQNUCB"].value in ("DQNUCB bonus_scale=0.1", "DQNUCB bonus_scale=1.0")


def test_envs_without_checkpoints_can_be_compared(tmp_path):
    made = compare(RandomPolicy(), "CartPole-v1", 3, seeds=2, out=tmp_path / "x", max_return=500.0)
    assert (made.finals()["regret"] > 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare([DQN(), DQUCB()], CARTPOLE, 5), "all tabular or all deep, got DQN"),
        (lambda: compare(DQN(), "CartPole-v1", 5), "max_return must be given: CartPole-v1"),
        (lambda: compare(DQN(), CARTPOLE), "exactly one of episodes and steps"),
        (lambda: compare(DQUCB(), "gridworld", 5, max_return=3.0), "env_options and max_return are for deep agents"),
        (lambda: compare(DQN(), dqucb.problems.gridworld(), 5), "env must be an id or a function"),
        (lambda: compare(DQN(), "CartPol-v1", 5, max_return=1.0), "CartPol"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(call, message):
    with pytest.raises((ValueError, gymnasium.error.Error), match=message):
        call()


def test_an_env_that_tells_the_regret_of_each_step(tmp_path):
    small = {"hospitals": 3, "change_day": 30}
    agents = {"DQN": DQN(**DAILY), "ours": DeepDQUCB(**DAILY)}
    made = compare(agents, "dqucb/HospitalAllocation-v0", steps=60, seeds=2, out=tmp_path / "x", env_options=small)
    loaded = load_comparison(tmp_path / "x")
    assert loaded.change_at == [30]
    assert len(loaded.load_run("ours", 1)) == 60
    assert np.isfinite(loaded.summary()["regret"]).all()
    assert loaded.summary().equals(made.summary())
