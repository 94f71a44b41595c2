"""All deep agents: numbers of the updates, evaluation during training, longer runs, prediction."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from dqucb.deep import DQN, DeepDQUCB, TrainingRecorder
from tests.deep_cases import CARTPOLE, KINDS, SMALL, cartpole, weights


@pytest.mark.parametrize("kind", KINDS)
def test_loss_error_and_gradient_norm_are_recorded(kind):
    agent, seen = kind(**SMALL), []

    class Recorder(TrainingRecorder):
        def __call__(self, progress):
            super().__call__(progress)
            seen.append((progress.step, progress.loss.copy(), progress.td_error.copy(), progress.gradient_norm.copy()))

    runs = agent.train_seeds(CARTPOLE, [3, 4], steps=200, callback=Recorder(every=25))
    assert np.isnan(seen[10][2]).all()  # before the first update
    for i, run in enumerate(runs):
        assert run.extras["recorded_at"].tolist() == list(range(25, 201, 25))
        for name, place in (("loss", 1), ("td_error", 2), ("gradient_norm", 3)):
            expected = [row[place][i] for row in seen if row[0] % 25 == 0]
            np.testing.assert_allclose(run.extras[name], expected, equal_nan=True)
            assert (run.extras[name][4:] > 0).all()
        assert "evaluations" not in run.extras


def test_the_error_is_the_mean_distance_from_the_targets():
    agent = DQN(**SMALL, huber_delta=1e9)
    agent.train(CARTPOLE, steps=100)
    learner = agent._trainer.learner
    batch = agent._trainer.replay.sample([np.random.default_rng(0)], 8, 1)
    learner.update(batch, np.zeros((1, 8, 1)))
    values, targets = learner._errors
    assert learner.td_error[0] == pytest.approx(np.abs(values - targets).mean())
    assert learner.loss[0] == pytest.approx(0.5 * np.square(values - targets).mean(), rel=1e-4)  # no linear part


@pytest.mark.parametrize("problem", ["CartPole-v1", lambda: gymnasium.make("CartPole-v1", max_episode_steps=60)])
def test_the_policy_is_evaluated_on_the_way_without_effect_on_training(problem, tmp_path):
    plain = DQN(**SMALL)
    before = plain.train_seeds(CARTPOLE, [0, 1], steps=240)
    agent, best = DQN(**SMALL), tmp_path / "best"
    recorder = TrainingRecorder(every=80, problem=problem, episodes=3, best=best)
    runs = agent.train_seeds(CARTPOLE, [0, 1], steps=240, callback=recorder)
    np.testing.assert_array_equal(weights(agent), weights(plain))
    np.testing.assert_array_equal(runs[1].returns, before[1].returns)
    means = np.mean([run.extras["evaluations"] for run in runs], axis=(0, 2))
    assert means.shape == (3,)
    last = agent.evaluate(problem, 3, seed=240, trained_seed=1)
    np.testing.assert_array_equal(runs[1].extras["evaluations"][-1], last)
    saved = DQN.load(best)
    step = 80 * (1 + int(means.argmax()))
    found = [saved.evaluate(problem, 3, seed=step, trained_seed=seed).mean() for seed in (0, 1)]
    assert np.mean(found) == pytest.approx(means.max())


def test_a_recorder_goes_on_from_a_checkpoint(tmp_path):
    def train(stop, checkpoint):
        recorder = TrainingRecorder(every=30, problem=CARTPOLE, episodes=2)
        return DQN(**SMALL).train(cartpole(), steps=200, callback=recorder, checkpoint=checkpoint, stop_at=stop)

    whole = train(None, None)
    for stop in (70, None):
        run = train(stop, tmp_path / "c")
    assert run.extras.keys() == whole.extras.keys()
    for name, values in whole.extras.items():
        np.testing.assert_array_equal(run.extras[name], values)


def test_wrong_recorders_are_errors():
    with pytest.raises(ValueError, match="problem must be given with best"):
        TrainingRecorder(best="x")
    with pytest.raises(ValueError, match="every must be an integer >= 1, got 0"):
        TrainingRecorder(every=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_run_is_continued(kind):
    agent = kind(**SMALL)
    first = agent.train_seeds(CARTPOLE, [5, 6], steps=150)
    learned, updates = weights(agent).copy(), agent._trainer.learner.online.updates
    longer = agent.extend(100)
    for old, new in zip(first, longer, strict=True):
        assert (old.steps, new.steps) == (150, 250)
        np.testing.assert_array_equal(new.returns[: len(old)], old.returns)
        assert new.ends[-1] == new.lengths.sum() == 250
    assert agent._trainer.learner.online.updates == updates + 100
    assert agent._trainer.replay.size == 250
    assert not np.array_equal(weights(agent), learned)
    assert [run.steps for run in agent.extend(10)] == [260, 260]
    assert agent.predict([0.0, 0.0, 0.1, 0.0], trained_seed=6) in (0, 1)


def test_the_cut_between_two_parts_is_the_end_of_a_chain_and_episodes_can_be_added_for_one_seed():
    agent = DQN(**SMALL)
    agent.train(CARTPOLE, episodes=4)
    assert len(agent.extend(3)[0]) == 7
    agent = DQN(**SMALL)
    agent.train(CARTPOLE, steps=75)
    agent.extend(20)
    ended = agent._trainer.replay.part(0, 95)["ended"]
    assert ended[74]


def test_what_cannot_be_continued_is_an_error(tmp_path):
    agent = DQN(**SMALL)
    with pytest.raises(ValueError, match="train"):
        agent.extend(5)
    agent.train_seeds(CARTPOLE, [0, 1], episodes=2)
    with pytest.raises(ValueError, match="more is for one seed, or a run of steps: got 2 seeds and episodes"):
        agent.extend(5)
    agent.save(tmp_path / "a")
    with pytest.raises(ValueError, match="extend needs a finished run that this DQN trained itself"):
        DQN.load(tmp_path / "a").extend(5)
    with pytest.raises(ValueError, match="more must be an integer >= 1, got 0"):
        agent.extend(0)


def test_predictions_can_explore():
    agent = DQN(**SMALL, epsilon=0.4)
    agent.train(CARTPOLE, steps=100)
    states = np.tile([0.0, 0.1, 0.02, -0.1], (2_000, 1))
    greedy = agent.predict(states)
    assert len(set(greedy.tolist())) == 1
    np.testing.assert_array_equal(agent.predict(states, deterministic=True), greedy)
    assert (agent.predict(states, deterministic=False) != greedy).mean() == pytest.approx(0.2, abs=0.04)
    still = DeepDQUCB(**SMALL, epsilon=0.0)
    still.train(CARTPOLE, steps=100)
    np.testing.assert_array_equal(still.predict(states, deterministic=False), still.predict(states))
    with pytest.raises(ValueError, match="deterministic must be True or False, got 2"):
        agent.predict(states, deterministic=2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_copy_of_a_trained_agent_goes_on_like_the_original(copied):
    agent = DeepDQUCB(**SMALL)
    agent.train_seeds(CARTPOLE, [0, 1], steps=150)
    twin = copied(agent)
    for ref, comp in zip(agent.extend(150), twin.extend(150), strict=True):
        np.testing.assert_array_equal(comp.returns, ref.returns)
    np.testing.assert_array_equal(weights(twin), weights(agent))
