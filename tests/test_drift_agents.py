"""`train(detector=...)`: any agent can be watched by any detector, and acts on its alarms where it can."""

import numpy as np
import pytest

import dqucb
from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector, RiverDetector
from dqucb.envs.tabular import TabularEnv
from dqucb.experiments import SettingsDifferError

LAKE = {"slip": (0.0, 0.6), "change_at": (150,), "horizon": 40}


def lake():
    return dqucb.frozen_lake(**LAKE)


def finite(**options):
    return FiniteDriftDetector(16, 4, **{"false_alarms": 1e-5, **options})


class Counter(dqucb.Agent):
    """Written in Python: acts at random, and counts how often it was restarted."""

    def begin(self, observation_space, action_space, *, rng, **facts):
        self.rng, self.n, self.restarts = rng, int(action_space.n), 0

    def act(self, observation, step=0):
        return int(self.rng.integers(self.n))

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        return None

    def restart(self):
        self.restarts += 1


def same(one, other):
    return all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in ("returns", "lengths", "alarms")
    )


def test_the_alarm_of_a_tabular_agent_comes_after_the_change_and_not_before():
    run = dqucb.QUCB(bonus_scale=0.05).train(lake(), episodes=300, detector=finite())
    assert len(run.alarms) >= 1
    assert run.alarms[0] in range(150, 170)
    assert run.detection_delays()[0] is not None


def test_without_a_change_there_is_no_alarm():
    still = dqucb.frozen_lake(slip=(0.3,), change_at=(), horizon=40)
    run = dqucb.QUCB(bonus_scale=0.05).train(still, episodes=300, detector=finite(false_alarms=1e-6))
    assert run.alarms.size == 0


def test_watching_alone_changes_no_bit_of_the_run():
    plain = dqucb.QUCB(bonus_scale=0.05).train(lake(), episodes=300)
    noted = dqucb.QUCB(bonus_scale=0.05).train(lake(), episodes=300, detector=finite(), on_alarm="note")
    assert plain.returns.tobytes() == noted.returns.tobytes()
    assert noted.alarms.size > 0
    assert plain.alarms.size == 0


def test_an_alarm_restarts_a_tabular_agent():
    agent = dqucb.QUCB(bonus_scale=0.05)
    run = agent.train(lake(), episodes=300, detector=finite())
    last = int(run.alarms[-1])
    assert agent.visits_.sum() == run.lengths[last + 1 :].sum()  # what came before is forgotten


def test_a_loop_of_ones_own_does_the_same():
    agent, detector = dqucb.QUCB(bonus_scale=0.05), finite()
    env, returns, alarms = TabularEnv(lake()), [], []
    agent.start(16, 4, horizon=40, seed=3, length=300, return_bound=1.0)
    state, _ = env.reset(seed=3)
    agent._started().rng = env.np_random  # one stream for both, as in `train`
    for episode in range(300):
        total, over, step, alarmed = 0.0, False, 0, False
        while not over:
            action = agent.act(state, step)
            following, reward, ended, cut, _ = env.step(action)
            agent.observe(state, action, reward, following, step, ended)
            if detector.update(state, action, following, reward).drift_detected:
                alarms.append(episode)
                alarmed = True
            state, total, over, step = following, total + reward, ended or cut, step + 1
        agent.end_episode()
        if alarmed:
            agent.restart()
        returns.append(total)
        state, _ = env.reset()
    run = dqucb.QUCB(bonus_scale=0.05).train(lake(), episodes=300, seed=3, detector=finite())
    assert run.alarms.tolist() == alarms
    assert run.returns.tolist() == returns


@pytest.mark.parametrize("agent", [dqucb.QUCB(bonus_scale=0.05), dqucb.DQUCB(bonus_scale=0.05, window=20)], ids=str)
def test_a_watched_run_goes_on_from_a_file_bit_for_bit(agent, tmp_path):
    whole = agent.clone().train(lake(), episodes=300, detector=finite())
    assert whole.alarms.size > 0
    for stop in (60, 200):  # before and after the alarm
        stopped = agent.clone()
        stopped.train(lake(), episodes=300, stop_at=stop, detector=finite())
        loaded = dqucb.Agent.load(stopped.save(tmp_path / "agent"))
        again = dqucb.Agent.load(loaded.save(tmp_path / "again"))  # a loaded one can be saved as it is
        assert same(again.train(lake(), episodes=300, detector=finite()), whole)
        assert same(stopped.train(lake(), episodes=300, detector=finite()), whole)
        path = tmp_path / f"checkpoint-{stop}"
        agent.clone().train(lake(), episodes=300, stop_at=stop, detector=finite(), checkpoint=path)
        assert same(agent.clone().train(lake(), episodes=300, detector=finite(), checkpoint=path), whole)
        assert same(agent.clone().train(lake(), episodes=300, detector=finite(), checkpoint=path), whole)  # finished


def test_a_watched_run_of_steps_goes_on_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(6, 0.3), size=(2, 6, 2))
    phases = [dqucb.TabularMDP(p, rng.random((6, 2)), discount=0.9) for p in P]
    problem = dqucb.ShiftingMDP(phases, [1_500])
    detector = FiniteDriftDetector(6, 2, false_alarms=1e-4)
    whole = dqucb.QUCB().train(problem, steps=3_000, detector=detector)
    assert (whole.alarms >= 1_500).any()
    stopped = dqucb.QUCB()
    stopped.train(problem, steps=3_000, stop_at=900, detector=detector)
    loaded = dqucb.QUCB.load(stopped.save(tmp_path / "agent"))
    assert same(loaded.train(problem, steps=3_000, detector=detector), whole)


def test_another_detector_is_another_run(tmp_path):
    stopped = dqucb.QUCB()
    stopped.train(lake(), episodes=300, stop_at=20, detector=finite())
    loaded = dqucb.QUCB.load(stopped.save(tmp_path / "agent"))
    for agent in (stopped, loaded):
        for other in ({}, {"detector": finite(false_alarms=1e-3)}, {"detector": finite(), "on_alarm": "note"}):
            with pytest.raises(ValueError, match="its detector is"):
                agent.train(lake(), episodes=300, **other)


def test_an_agent_with_alarms_of_its_own_keeps_to_them():
    plain = dqucb.PlanningDQUCB().train(lake(), episodes=300)
    agent = dqucb.PlanningDQUCB()
    watched = agent.train(lake(), episodes=300, detector=finite())
    assert same(watched, plain)
    assert agent.detector_alarms_.size > 0


def test_an_agent_written_in_python_is_watched_and_told():
    agent = Counter()
    run = agent.train(lake(), episodes=300, detector=finite())
    assert agent.restarts == len(np.unique(run.alarms)) > 0
    runs = Counter().train_seeds(lake(), seeds=2, episodes=300, detector=finite())
    assert runs[0].alarms.tolist() == run.alarms.tolist()


def test_the_detector_that_is_given_stays_as_it_is():
    detector = finite()
    dqucb.QUCB().train(lake(), episodes=200, detector=detector)
    assert detector.n_updates == 0


class Jump:
    """A stand-in for a detector of river: an alarm once a reward is seen."""

    drift_detected = False

    def update(self, x):
        self.drift_detected = x > 0.5

    def clone(self):
        return Jump()

    def __repr__(self):
        return "Jump()"


def test_a_river_detector_can_watch_and_cannot_be_saved(tmp_path):
    problem = dqucb.combination_lock(change_at=())
    detector = RiverDetector(Jump(), on="reward")
    run = dqucb.QUCB(bonus_scale=0.1).train(problem, episodes=400, detector=detector, on_alarm="note")
    assert run.alarms.tolist() == np.flatnonzero(run.returns > 0.5).tolist()
    with pytest.raises(ValueError, match="checkpoint must be None"):
        dqucb.QUCB().train(problem, episodes=10, detector=detector, checkpoint=tmp_path / "file")
    stopped = dqucb.QUCB()
    stopped.train(problem, episodes=40, stop_at=10, detector=detector)
    loaded = dqucb.QUCB.load(stopped.save(tmp_path / "agent"))
    with pytest.raises(ValueError, match="could not be saved"):
        loaded.train(problem, episodes=40, detector=detector)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="detector must have 'update'"):
        dqucb.QUCB().train(lake(), episodes=10, detector=3)
    with pytest.raises(ValueError, match="on_alarm must be"):
        dqucb.QUCB().train(lake(), episodes=10, detector=finite(), on_alarm="run")
    with pytest.raises(ValueError, match=r"detector must be for at least 16 states, got n_states=9"):
        dqucb.QUCB(bonus_scale=1.0).train(lake(), episodes=300, detector=FiniteDriftDetector(9, 4))


class TestDeep:
    OPTIONS = {"hidden": (16,), "learning_starts": 200, "epsilon_steps": 400}  # noqa: RUF012

    def detector(self):
        return ContinuousDriftDetector(n_actions=2, burn_in=500, false_alarms=1e-5)

    @pytest.fixture(autouse=True)
    def _needs_scipy(self):
        pytest.importorskip("scipy")

    def test_each_seed_has_its_own_alarms_and_files_keep_them(self, tmp_path):
        from dqucb.deep import DQN

        problem = _short_cartpole
        options = {"episodes": 120, "detector": self.detector()}
        whole = DQN(**self.OPTIONS).train_seeds(problem, seeds=2, **options)
        assert all((run.alarms >= 60).any() and not (run.alarms < 60).any() for run in whole)
        path = tmp_path / "checkpoint"
        DQN(**self.OPTIONS).train_seeds(problem, seeds=2, stop_at=90, checkpoint=path, **options)
        again = DQN(**self.OPTIONS).train_seeds(problem, seeds=2, checkpoint=path, **options)
        assert all(same(one, other) for one, other in zip(again, whole, strict=True))
        noted = DQN(**self.OPTIONS).train_seeds(problem, seeds=2, on_alarm="note", **options)
        plain = DQN(**self.OPTIONS).train_seeds(problem, seeds=2, episodes=120)
        for one, other in zip(noted, plain, strict=True):
            assert one.returns.tobytes() == other.returns.tobytes()
        # After the alarm replay holds the new world alone, so that what is learned differs.
        assert any(one.returns.tobytes() != other.returns.tobytes() for one, other in zip(whole, plain, strict=True))


def _short_cartpole():
    from dqucb.envs.cartpole import CartPoleEnv

    return CartPoleEnv(change_at=(60,))


def compared(**options):
    agents = {"QUCB": dqucb.QUCB(), "watched": dqucb.QUCB()}
    options = {"episodes": 300, "seeds": 2, "jobs": 1, "detector": {"watched": finite()}, **options}
    return dqucb.compare(agents, lake(), **options)


def test_an_agent_is_compared_with_itself_under_a_detector(tmp_path):
    alone = dqucb.QUCB().train(lake(), episodes=300, seed=1, detector=finite())
    assert alone.alarms.size
    made = compared(out=tmp_path / "out")
    assert [made.load_run("QUCB", seed).alarms.size for seed in range(2)] == [0, 0]
    np.testing.assert_array_equal(made.load_run("watched", 1).alarms, alone.alarms)
    np.testing.assert_array_equal(made.load_run("watched", 1).returns, alone.returns)
    again = compared(out=tmp_path / "out", seeds=3, jobs=2)  # more seeds, in worker processes
    assert again.computed == 2
    np.testing.assert_array_equal(again.load_run("watched", 1).returns, alone.returns)
    assert dqucb.load_comparison(tmp_path / "out").load_run("watched", 2).alarms.size
    with pytest.raises(SettingsDifferError):
        compared(out=tmp_path / "out", on_alarm="note")


def test_a_detector_for_all_agents_of_a_comparison():
    noted = dqucb.compare(["qucb"], lake(), 300, seeds=1, jobs=1, detector=finite(), on_alarm="note")
    plain = dqucb.compare(["qucb"], lake(), 300, seeds=1, jobs=1)
    assert noted.load_run("QUCB", 0).alarms.size
    np.testing.assert_array_equal(noted.load_run("QUCB", 0).returns, plain.load_run("QUCB", 0).returns)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"detector": {"nobody": "auto"}}, "unknown label in detector .nobody."),
        ({"detector": "best"}, "detector must be .*auto.* got 'best'"),
        ({"detector": 3}, "detector must have 'update', got 3"),
        ({"on_alarm": "run"}, "on_alarm must be"),
        ({"detector": "auto"}, "agents must differ"),
    ],
)
def test_a_comparison_refuses_what_is_no_detector(options, message):
    with pytest.raises(ValueError, match=message):
        compared(**options)


def test_auto_is_the_detector_that_fits_the_spaces():
    chosen = dqucb.QUCB().train(lake(), episodes=300, detector="auto")
    given = dqucb.QUCB().train(lake(), episodes=300, detector=FiniteDriftDetector(16, 4))
    np.testing.assert_array_equal(chosen.alarms, given.alarms)
    np.testing.assert_array_equal(chosen.returns, given.returns)


def test_the_command_watches_runs(tmp_path):
    from typer.testing import CliRunner

    from dqucb.cli import app

    arguments = ["run", "frozen-lake", "--agents=qucb", "--seeds=1", "--episodes=600", "--jobs=1", "--quiet"]
    done = CliRunner().invoke(app, [*arguments, "--on-alarm", "note", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert dqucb.load_comparison(tmp_path).load_run("QUCB", 0).alarms.size
    refused = CliRunner().invoke(app, [*arguments, "--on-alarm", "shout"])
    assert refused.exit_code != 0
