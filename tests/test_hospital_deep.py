"""Deep agents that place patients: the head, the loop's record per day, resuming, and conservation."""

import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')


from dqucb.deep import DQN, DQNUCB, DeepAgent, DeepDQUCB
from dqucb.hospital import HospitalAllocationEnv, clairvoyant_rewards, synthetic_hospitals
from dqucb.hospital.head import AllocationHead, growing_knots
from tests.naive_allocation import best_split

SMALL = {"hidden": (16,), "learning_starts": 8, "epsilon_steps": 8, "batch_size": 8, "train_every": 1, "n_steps": 2,
         "buffer_size": 64, "freeze_after": 10}  # fmt: skip
SYSTEM = synthetic_hospitals(4, days=40, change_at=(20,))


def new_env():
    return HospitalAllocationEnv(SYSTEM, project=False)  # an allocation that loses a patient is an error


class TestHead:
    head = AllocationHead([10, 20, 30], 9, [0, 1, 3, 9])

    def matrix(self, q):
        """Q[i, j] by numpy's own interpolation."""
        values = q.reshape(3, 4) * (5.0 + np.array(self.head.knots))
        return np.array([np.interp(np.arange(10), self.head.knots, row) for row in values])

    def test_the_best_allocation_is_that_of_brute_force(self):
        rng = np.random.default_rng(0)
        q = rng.normal(size=(2, 25, 12)).astype(np.float32)
        observations = np.zeros((2, 25, 7), np.float32)
        observations[..., -1] = rng.integers(0, 10, (2, 25))
        choices = self.head.best(q, observations)
        values = self.head.values(q, choices).sum(2)
        for i in range(2):
            for j in range(25):
                amounts = self.head.actions(choices[i, j])
                assert amounts.sum() == observations[i, j, -1]
                best = best_split(self.matrix(q[i, j]).tolist(), int(observations[i, j, -1]))[1]
                assert values[i, j] == pytest.approx(best, rel=1e-4, abs=1e-4)

    def test_parts_are_values_of_hospitals_and_have_the_right_gradients(self):
        q = np.random.default_rng(2).normal(size=(1, 1, 12)).astype(np.float32)
        choices = (np.array([2, 0, 7]) + np.arange(3) * 10)[None, None]
        parts = self.head.values(q, choices)
        expected = self.matrix(q[0, 0])[np.arange(3), [2, 0, 7]]
        np.testing.assert_allclose(parts[0, 0], expected, rtol=1e-5)
        gradients = self.head.backward(np.array([[[1.0, 0.0, 0.0]]], np.float32), choices)
        np.testing.assert_allclose(gradients[0, 0, :4], [0, 3.0, 4.0, 0], rtol=1e-6)  # halves of 6 and 8
        assert not gradients[0, 0, 4:].any()

    def test_random_allocations_place_everyone(self):
        rng = np.random.default_rng(1)
        for patients in range(10):
            choices = self.head.random(rng.random(3), np.array([0] * 6 + [patients], np.float32))
            assert self.head.actions(choices).sum() == patients
            assert self.head.actions(choices).min() >= 0

    def test_what_changed_is_the_share_who_stayed(self):
        before = np.array([[20, 10, 0, 5, 5, 5, 4]], np.float32)
        after = np.array([[12, 10, 3, 5, 5, 5, 4]], np.float32)
        choices = np.array([[2, 5, 3]]) + np.arange(3) * 10
        change = self.head.change(before, choices, after)[0]
        np.testing.assert_allclose(change[:3] * 0.1, [(10 + 0.855) / 21, (5 + 0.855) / 11, 0.855])
        assert not change[3:].any()

    def test_knots(self):
        assert growing_knots(9) == [0, 1, 2, 4, 8, 9]
        assert growing_knots(8) == [0, 1, 2, 4, 8]
        assert growing_knots(1) == [0, 1]
        with pytest.raises(ValueError, match="knots must grow from 0 to 9, got"):
            AllocationHead([1, 2], 9, [0, 5])


@pytest.mark.parametrize("kind", [DQN, DQNUCB, DeepDQUCB])
class TestAgents:
    def test_a_record_per_day_regret_and_every_patient_placed(self, kind):
        seen = []

        def look(moment):
            amounts = moment.trainer.head.actions(moment.choices)
            assert (amounts >= 0).all()
            np.testing.assert_array_equal(amounts.sum(1), moment.observations[:, -1])
            seen.append(amounts)

        runs = kind(**SMALL).train_seeds(new_env, [0, 1], steps=40, callback=look)
        assert len(seen) == 40
        best = clairvoyant_rewards(SYSTEM)
        for run in runs:
            assert (len(run), run.unit, run.change_at) == (40, "steps", (20,))
            np.testing.assert_allclose(run.gaps, best - run.returns)
            assert (run.lengths == 1).all()
            assert run.problem["source"] == "synthetic"
        assert not np.array_equal(runs[0].returns, runs[1].returns)
        assert (runs[0].likelihood < 1).any() == (kind is DeepDQUCB)

    def test_stopped_and_resumed_is_bit_identical(self, kind, tmp_path):
        whole = kind(**SMALL).train_seeds(new_env, [3, 4], steps=40)
        for stop in (9, 25, None):
            parts = kind(**SMALL).train_seeds(new_env, [3, 4], steps=40, checkpoint=tmp_path / "c", stop_at=stop)
        for one, other in zip(whole, parts, strict=True):
            for name in ("returns", "gaps", "likelihood", "ends"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))

    def test_a_seed_does_not_depend_on_the_others(self, kind):
        alone = kind(**SMALL).train(new_env, steps=40, seed=4)
        among = kind(**SMALL).train_seeds(new_env, [3, 4], steps=40)[1]
        np.testing.assert_allclose(alone.returns, among.returns, rtol=1e-6)

    def test_a_saved_agent_places_the_same_patients(self, kind, tmp_path):
        agent = kind(**SMALL)
        agent.train(new_env, steps=20)
        observation, _ = new_env().reset(seed=0)
        amounts = agent.predict(observation)
        assert amounts.sum() == observation[-1]
        again = DeepAgent.load(agent.save(tmp_path / "agent"))
        np.testing.assert_array_equal(again.predict(observation), amounts)


def test_learning_beats_random_allocation():
    system = synthetic_hospitals(8, days=250, change_at=())
    agent = DQN(hidden=(32,), discount=0.8, n_steps=1, batch_size=32, learning_starts=20, train_every=1,
                epsilon_steps=30, act_on="online", tau=0.05, max_grad_norm=1e9)  # fmt: skip
    runs = agent.train_seeds(lambda: HospitalAllocationEnv(system, project=False), [0, 1, 2], steps=250)
    still = DQN(learning_starts=1 << 40).train_seeds(
        lambda: HospitalAllocationEnv(system, project=False), [0, 1, 2], steps=250
    )
    late = [np.mean([run.gaps[150:].sum() for run in group]) for group in (runs, still)]
    assert late[0] < 0.5 * late[1]


def test_the_likelihood_falls_when_patients_stay_longer_or_shorter():
    system = synthetic_hospitals(6, days=160, change_at=(80,))
    agent = DeepDQUCB(**{**SMALL, "freeze_after": 40})
    for run in agent.train_seeds(lambda: HospitalAllocationEnv(system, project=False), [0, 1], steps=160):
        assert run.likelihood[80:90].mean() < 0.7 * run.likelihood[40:80].mean()


@pytest.mark.parametrize("kind", [DQN, DeepDQUCB])
def test_a_loop_of_ones_own_learns_each_hospital_from_its_own_reward(kind):
    trained, stepped, env = kind(**SMALL), kind(**SMALL), new_env()
    run = trained.train(new_env, steps=40, seed=5)
    stepped.start(env, seed=5)
    state, _ = env.reset(seed=5)
    rewards = []
    for _ in range(40):
        action = stepped.act(state)
        following, reward, _, _, info = env.step(action)
        stepped.observe(state, action, info["rewards"], following)
        rewards.append(reward)
        state = following
    np.testing.assert_array_equal(rewards, run.returns)


class TestKnown:
    """Q that starts from the overflow of the coming days."""

    def env(self):
        return HospitalAllocationEnv(SYSTEM, project=False, known=True)

    def overflow(self, observation, k, amount):
        """Of the first hospital in three weeks, discounted, if every day is as today but for the others."""
        share, total = SYSTEM.capacity[0] / SYSTEM.capacity.sum(), 0.0
        covid = 0.855 * observation[0] + amount
        for day in range(21):
            s = 3**0.5 / np.pi * ((0.0006 * (day + 1)) ** 0.5 * SYSTEM.capacity[0] + 0.3)  # of a logistic movement
            total += 0.7**day * s * np.log1p(np.exp((covid + observation[k] - SYSTEM.capacity[0]) / s))
            covid = 0.855 * covid + share * observation[-1]
        return total

    def test_before_anything_is_learned_q_is_minus_the_overflow_with_usual_stays(self):
        agent = DQN(**{**SMALL, "learning_starts": 1 << 40, "epsilon": 0.0, "epsilon_steps": 0})
        run = agent.train(self.env, steps=3)
        observation, _ = self.env().reset(seed=0)
        head, k = agent._trainer.head, len(SYSTEM.names)
        q = agent._trainer.learner.q(observation[None, None])
        for amount in (0, 3, int(observation[-1])):
            choices = (np.full(k, amount) + head._first)[None, None]
            known = np.interp(amount, head.knots, [-self.overflow(observation, k, knot) for knot in head.knots])
            assert float(head.values(q, choices)[0, 0, 0]) == pytest.approx(known, rel=1e-3, abs=1e-3)
        random = DQN(**{**SMALL, "learning_starts": 1 << 40}).train(self.env, steps=40)
        still = DQN(**{**SMALL, "learning_starts": 1 << 40, "epsilon": 0.0, "epsilon_steps": 0})
        assert still.train(self.env, steps=40).regret[-1] < 0.5 * random.regret[-1]
        assert len(run) == 3

    def test_deep_dqucb_follows_the_stays_of_every_seed_and_goes_on_from_a_file(self, tmp_path):
        agent = DeepDQUCB(**SMALL)
        agent.train_seeds(self.env, [3, 4], steps=40, stop_at=20)
        np.testing.assert_allclose(agent._trainer.head.staying, np.tile(SYSTEM.beta, (2, 1)), atol=1e-3)
        whole = agent.train_seeds(self.env, [3, 4], steps=40)
        np.testing.assert_allclose(agent._trainer.head.staying, np.tile(SYSTEM.beta_after, (2, 1)), atol=1e-3)
        observation, _ = self.env().reset(seed=0)
        again = DeepAgent.load(agent.save(tmp_path / "agent"))
        np.testing.assert_array_equal(
            again.predict(observation, trained_seed=4), agent.predict(observation, trained_seed=4)
        )
        for stop in (15, 31, None):
            parts = DeepDQUCB(**SMALL).train_seeds(self.env, [3, 4], steps=40, checkpoint=tmp_path / "c", stop_at=stop)
        for ref, comp in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(comp.returns, ref.returns)

    def test_the_published_form_keeps_the_usual_stays(self):
        agent = DeepDQUCB(variant="paper", **SMALL)
        agent.train(self.env, steps=10)
        assert (agent._trainer.head.staying == 0.855).all()
