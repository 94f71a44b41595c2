"""Actions that act late: which ones acted, how a delay is found, and what the agent then does."""

import functools

import gymnasium
import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

from dqucb.deep import DeepDQUCB
from dqucb.deep.adaptation import ModelAdaptation
from dqucb.deep.delays import MOST_STEPS, Delays, likeliest
from dqucb.deep.dynamics import CurrentDynamics
from dqucb.envs import PhysicsShift
from dqucb.envs.cartpole import FORCE, advance

SETTINGS = {"hidden": (16,), "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40, "buffer_size": 4_000,
            "batch_size": 8, "burn_in": 1_000}  # fmt: skip


class Late:
    """The actions that act in an env where they act some steps late: a queue for each episode."""

    def __init__(self, steps):
        self.steps, self.queue = steps, []

    def __call__(self, action, begun):
        self.queue = [action] if begun else [*self.queue, action]
        return self.queue[max(0, len(self.queue) - 1 - self.steps)]


@pytest.mark.parametrize("steps", [0, 1, 3, MOST_STEPS])
def test_actions_that_acted_and_that_are_coming_are_those_of_a_queue(steps):
    rng, memory = np.random.default_rng(steps), 30
    delays, late = Delays(2, 1, memory), Late(steps)
    delays.steps[1] = steps
    ended, acted = [False], []
    for t in range(100):
        begun = t == 0 or ended[-1]
        choices, coming = rng.integers(5, size=(2, 1)), delays.coming(1, begun)
        assert len(coming) == (0 if begun else steps)
        if steps and not begun:  # what acts now was on its way, and the others come next
            assert coming[0] == (late.queue[max(0, len(late.queue) - steps)])
            expected = [late.queue[max(0, len(late.queue) + k - steps)] for k in range(steps)]
            np.testing.assert_array_equal(coming[:, 0], expected)
        found = delays.add(choices, np.array([begun, begun]))
        acted.append(late(choices[1, 0], begun))
        assert found[:, 0].tolist() == [choices[0, 0], acted[-1]]
        ended.append(rng.random() < 0.1)
    newest = delays.acted(1, np.array(ended[-memory:]), steps)
    np.testing.assert_array_equal(newest[MOST_STEPS:, 0], acted[-memory + MOST_STEPS :])
    again = Delays(2, 1, memory)
    again.restore(delays.state())
    np.testing.assert_array_equal(again.coming(1, False), delays.coming(1, False))
    with pytest.raises(ValueError, match="delays must be in"):
        again.restore({**delays.state(), "steps": np.array([0, MOST_STEPS + 1])})


class TestLikeliest:
    """A linear env whose actions act so many steps late."""

    def candidates(self, steps, n, gain=1.0, noise=0.0, alternating=False):
        rng = np.random.default_rng(3)
        model, states, actions = CurrentDynamics(3, 2), rng.normal(size=(500, 2)), rng.normal(size=(500, 1))
        push = np.array([0.1, 1.0])
        model.begin(np.hstack([states, actions]), 0.2 * states + actions * push + 1e-3 * rng.normal(size=(500, 2)))
        states, actions = rng.normal(size=(n, 2)), rng.normal(size=(n + MOST_STEPS, 1))
        if alternating:
            actions = np.sign(actions) * np.resize([[1.0], [-1.0]], actions.shape) * np.sign(actions)
        late = [actions[MOST_STEPS - d : len(actions) - d] for d in range(MOST_STEPS + 1)]
        outputs = 0.2 * states + gain * late[steps] * push + (1e-3 + noise) * rng.normal(size=(n, 2))
        return model, [(np.hstack([states, each]), outputs) for each in late]

    @pytest.mark.parametrize("n", [12, 200])
    def test_the_delay_is_found_from_few_transitions_and_its_end_too(self, n):
        for steps in (0, 1, 2, 5, MOST_STEPS):
            assert likeliest(*self.candidates(steps, n), present=0) == steps
            assert likeliest(*self.candidates(steps, n), present=3) == steps

    def test_other_changes_are_no_delays(self):
        for present in (0, 2):
            assert likeliest(*self.candidates(present, 100, noise=0.5), present) == present
            assert likeliest(*self.candidates(present, 100, gain=-1.0), present) == present
            # One step late looks the same as a reversed action if actions alternate.
            assert likeliest(*self.candidates(present, 100, gain=-1.0, alternating=True), present) == present
        assert likeliest(*self.candidates(2, 100, gain=-1.0), present=0) == 2  # both


def delayed(values, change_at):
    env = gymnasium.make("CartPole-v1", max_episode_steps=200, disable_env_checker=True)
    return PhysicsShift(env, "delay", change_at=change_at, values=values)


def test_a_delay_is_undone_transitions_hold_what_acted_and_its_end_is_noticed():
    agent = DeepDQUCB(**SETTINGS)
    env = functools.partial(delayed, (3.0, 0.0), (2_000, 3_500))
    run = agent.train(env, steps=2_300)
    adaptation, replay = agent._trainer.adaptation, agent._trainer.replay
    assert len(run.alarms) == 1
    assert adaptation.delays.steps.tolist() == [3]
    since = replay.part(0, 300)
    forces = np.where(since["choices"][:, 0] == 1, FORCE, -FORCE)
    np.testing.assert_allclose(
        advance(since["observations"].astype(float), forces), since["next_observations"], atol=1e-5
    )
    assert replay.kept[0] > 1 << 60  # nothing was imagined and nothing forgotten
    agent.extend(1)  # a new episode
    assert agent._trainer.adaptation.acting_states(agent._trainer) is not agent._trainer.observations
    agent.extend(1_700)
    assert agent._trainer.adaptation.delays.steps.tolist() == [0]
    last = replay.part(0, 300)
    forces = np.where(last["choices"][:, 0] == 1, FORCE, -FORCE)
    np.testing.assert_allclose(
        advance(last["observations"].astype(float), forces), last["next_observations"], atol=1e-5
    )


def test_the_policy_reads_the_state_in_which_its_action_will_act(monkeypatch):
    read, seen = ModelAdaptation.acting_states, []

    def recorded(adaptation, trainer):
        states = read(adaptation, trainer)
        if adaptation.delays.steps[0]:
            begun = bool(trainer.replay.store["ended"][0, trainer.replay.next - 1])
            seen.append((states[0].copy(), trainer.observations[0].copy(), begun))
        return states

    monkeypatch.setattr(ModelAdaptation, "acting_states", recorded)
    DeepDQUCB(**SETTINGS).train(functools.partial(delayed, (2.0,), (2_000,)), steps=2_200)
    checked = 0
    for (ahead, now, begun), one, two in zip(seen, seen[1:], seen[2:], strict=False):
        if begun:
            np.testing.assert_array_equal(ahead, now)
        elif not one[2] and not two[2]:
            np.testing.assert_allclose(ahead, two[1], atol=0.02)
            checked += 1
    assert checked > 50


def test_a_run_that_stops_after_a_delay_was_found_goes_on_with_the_same_bits(tmp_path):
    env, settings = functools.partial(delayed, (2.0,), (2_000,)), {**SETTINGS, "epsilon": 0.3, "learning_starts": 60}
    whole = DeepDQUCB(**settings).train_seeds(env, [3, 4], steps=2_300)
    for stop in (1_900, 2_150, None):
        agent = DeepDQUCB(**settings)
        parts = agent.train_seeds(env, [3, 4], steps=2_300, stop_at=stop, checkpoint=tmp_path / "c")
    assert agent._trainer.adaptation.delays.steps.tolist() == [2, 2]
    for ref, comp in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(comp.returns, ref.returns)
        np.testing.assert_array_equal(comp.alarms, ref.alarms)
