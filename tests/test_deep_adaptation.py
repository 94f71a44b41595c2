"""Deep agents after a change: alarms, old transitions that move on, intervals that are corrected online."""

import functools

import gymnasium
import numpy as np
import pytest

pytest.importorskip("scipy", reason='SciPy is missing: pip install "dqucb[deep]"')

import dqucb.envs  # noqa: F401
from dqucb.deep import DQN, DeepDQUCB, Replay, Visits, calibration, corrected
from dqucb.deep.adaptation import BLOCK, BLOCKS, became_worse, usual_errors, value_errors
from dqucb.deep.dynamics import MOST_ENDS, CurrentDynamics, Ends, ends_of, features, fitted, is_over
from dqucb.envs.cartpole import ANGLE_LIMIT, FORCE, advance

SMALL = {"hidden": (16,), "learning_starts": 50, "buffer_size": 4_000, "batch_size": 8, "bonus_scale": 0.01,
         "burn_in": 3_000}  # fmt: skip


def shifting(change=(60,), noise=0.15):
    return functools.partial(gymnasium.make, "dqucb/CartPole-v0", change_at=change, noise=noise)


class TestDynamics:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(400, 3))
    truth = np.column_stack([inputs[:, 0] * inputs[:, 1] - 2.0, inputs[:, 2] ** 2 + inputs[:, 0]])

    def model(self, noise_since):
        model = CurrentDynamics(3, 2)
        model.begin(self.inputs, self.truth)
        model.refresh(self.inputs, self.truth + noise_since * self.rng.normal(size=self.truth.shape))
        return model

    def test_features_and_the_fit_are_those_of_a_plain_regression(self):
        x = self.inputs[:5]
        products = [x[:, i] * x[:, j] for i in range(3) for j in range(i, 3)]
        np.testing.assert_allclose(features(x), np.column_stack([np.ones(5), x, *products]))
        assert features(np.zeros((2, 30))).shape == (2, 61)  # with many inputs only squares
        np.testing.assert_allclose(features(self.inputs) @ fitted(self.inputs, self.truth), self.truth, atol=1e-3)

    def test_draws_are_the_old_dynamics_with_the_current_noise(self):
        model, place = self.model(0.5), np.tile([0.3, -1.0, 2.0], (20_000, 1))
        drawn = model.draw(np.random.default_rng(1), place)
        np.testing.assert_allclose(drawn.mean(0), [-2.3, 4.3], atol=0.1)
        np.testing.assert_allclose(drawn.std(0), 0.5, rtol=0.1)
        assert model.explained[0] > 0.99
        far = model.draw(np.random.default_rng(1), 100.0 * place)  # nothing like it was seen
        assert (far <= self.truth.max(0) + 3.0).all()
        model.refresh(self.inputs, self.truth)  # only the last deviations count
        np.testing.assert_allclose(model.draw(np.random.default_rng(1), place[:9]), [[-2.3, 4.3]] * 9, atol=1e-2)

    def test_near_a_known_transition_its_residual_replaces_noise_that_is_not_new(self):
        cubes = self.truth + 0.1 * self.inputs[:, :2] ** 3  # not in the features
        model = CurrentDynamics(3, 2)
        model.begin(self.inputs, cubes)
        left = model.residuals(self.inputs, cubes)
        assert 0.01 < left.std() < 0.3
        noise = self.rng.normal(size=(400, 2)) * [0.0, 1.0]
        model.refresh(self.inputs, cubes + np.array([0.5, 0.0]) + noise)  # a shift, and noise
        assert model.is_noisier.tolist() == [False, True]
        drawn = model.draw(np.random.default_rng(1), self.inputs, left)
        inside = np.abs(drawn[:, 0]) < np.abs(cubes[:, 0]).max()
        np.testing.assert_allclose(drawn[inside, 0], cubes[inside, 0] + 0.5, atol=0.05)
        assert (drawn - cubes)[:, 1].std() == pytest.approx(1.0, abs=0.2)

    def test_noise_is_told_from_deviations_that_depend_on_the_inputs(self):
        model = CurrentDynamics(3, 2)
        model.begin(self.inputs, self.truth + 0.1 * self.rng.normal(size=self.truth.shape))
        noise = self.rng.normal(size=self.truth.shape)
        assert model.refresh(self.inputs, self.truth - 2.0 * self.inputs[:, :2] + 0.1 * noise)
        assert model.is_systematic
        assert model.refresh(self.inputs, self.truth + 0.5 * noise)  # most of the variance is still explained
        assert not model.is_systematic
        assert not model.refresh(self.inputs, self.truth + 5.0 * noise)

    def test_a_model_that_explains_little_says_so(self):
        model = CurrentDynamics(3, 2)
        model.begin(self.inputs, self.truth + 5.0 * self.rng.normal(size=self.truth.shape))
        assert model.explained[0] < 0.2

    def test_ends_are_the_few_bounds_that_explain_them(self):
        states = self.rng.uniform(-3, 3, (4_000, 3))
        over = (np.abs(states[:, 1]) > 2) | (states[:, 2] < -2.5)
        bounds = ends_of(states[~over], states[over])
        assert sorted((bound.coordinate, bound.sign) for bound in bounds) == [(1, -1.0), (1, 1.0), (2, -1.0)]
        fresh = self.rng.uniform(-3, 3, (4_000, 3))
        truth = (np.abs(fresh[:, 1]) > 2) | (fresh[:, 2] < -2.5)
        assert (is_over(bounds, fresh) != truth).mean() < 0.01
        assert ends_of(states, np.zeros((0, 3))) == []
        assert ends_of(states, np.zeros((1, 3))) == []  # an end in the middle of everything


class TestEnds:
    def walked(self, n_steps, seed=0):
        """Ends of two seeds that walk in (-1, 1) and of which the second does not take part in every step."""
        rng = np.random.default_rng(seed)
        ends, going_on, over = Ends(2, 2), [], []
        for t in range(n_steps):
            states = rng.uniform(-1.2, 1.2, (2, 2))
            rows = np.array([0]) if t % 2 else np.array([0, 1])
            is_end = np.abs(states[rows, 0]) > 1.0
            ends.observe(rows, states[rows], is_end)
            (over if is_end[0] else going_on).append(states[0])
        return ends, np.array(going_on), np.array(over)

    def test_bounds_are_those_of_all_states_of_the_run(self):
        ends, going_on, over = self.walked(300)
        assert ends.bounds(0) == ends_of(going_on, over)
        assert sorted((bound.coordinate, bound.sign) for bound in ends.bounds(1)) == [(0, -1.0), (0, 1.0)]
        assert Ends(1, 2).bounds(0) == []

    def test_the_box_of_imagined_states_is_the_range_of_those_seen(self):
        ends = Ends(1, 2)
        for state in ([-1.0, 5.0], [3.0, 5.0]):
            ends.observe(np.array([0]), np.array([state]), np.array([False]))
        lowest, highest = ends.box(0)
        assert (lowest.tolist(), highest.tolist()) == ([-1.0, -np.inf], [3.0, np.inf])

    def test_only_the_last_ends_are_kept_and_they_go_on_from_their_state(self):
        ends, _, over = self.walked(6_000)
        assert len(over) > MOST_ENDS
        assert {tuple(state) for state in ends.last[0]} == {tuple(state) for state in over[-MOST_ENDS:]}
        again = Ends(2, 2)
        again.restore(ends.state())
        assert again.bounds(1) == ends.bounds(1)
        with pytest.raises(ValueError, match="the number of ends must be >= 0"):
            again.restore({**ends.state(), "count": np.array([-1, 0])})


def test_parts_of_a_replay_are_replaced_and_the_rest_is_forgotten():
    replay = Replay(2, 50, 1, 1)
    for t in range(60):
        row = np.full((2, 1), t, np.float32)
        replay.add(row, np.zeros((2, 1), np.int64), np.ones(2), row + 1, np.zeros(2), np.zeros(2, bool),
                   np.zeros((2, 1), np.int64), np.ones(2))  # fmt: skip
    part = replay.part(1, 25, 20)
    assert part["observations"][:, 0].tolist() == [35, 36, 37, 38, 39]
    assert part["next_observations"][:, 0].tolist() == [36, 37, 38, 39, 40]
    replay.replace(1, 20, {name: column + 100 if name == "observations" else column for name, column in part.items()})
    replay.kept[1] = 25
    generators = [np.random.default_rng(i) for i in range(2)]
    batch = replay.sample(generators, 400, 3)
    assert set(batch.observations[0, :, 0]) == set(range(10, 60))
    assert set(batch.observations[1, :, 0]) == {*range(135, 140), *range(40, 60)}
    alone, again = replay.sample_one(1, np.random.default_rng(7), 9, 3), np.random.default_rng(7)
    both = replay.sample([np.random.default_rng(0), again], 9, 3)
    for ref, comp in zip(both, alone, strict=True):
        np.testing.assert_array_equal(comp[0], ref[1])


class TestAlarms:
    @pytest.fixture(autouse=True)
    def few_updates(self, monkeypatch):
        monkeypatch.setattr("dqucb.deep.adaptation.UPDATES", 20)
        # These agents hardly learn, and their policies are no worse after a change.
        monkeypatch.setattr("dqucb.deep.adaptation.became_worse", lambda *_: True)

    def test_noise_is_noticed_at_once_and_is_in_what_is_imagined(self):
        agent = DeepDQUCB(**{**SMALL, "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40})
        run = agent.train(shifting((150,)), episodes=160)
        assert run.alarms.tolist() in ([150], [151])
        adaptation, replay = agent._trainer.adaptation, agent._trainer.replay
        since = int(adaptation.since[0])
        assert since == pytest.approx(run.lengths[150:].sum(), abs=30)
        assert adaptation.imagined[0] == np.searchsorted(adaptation.times, since, side="right") >= 2
        kept = int(replay.kept[0])
        assert kept - since == 1_000 * ((replay.size - since) // 1_000) > 0  # in whole rounds
        imagined = replay.part(0, kept, since)
        forces = np.where(imagined["choices"][:, 0] == 1, FORCE, -FORCE)
        noise = imagined["next_observations"] - advance(imagined["observations"].astype(float), forces)
        np.testing.assert_allclose(noise.std(0), [0, 0.15, 0, 0.15], atol=0.06)  # of the few deviations known then
        fallen = np.abs(imagined["next_observations"][:, 2]) > ANGLE_LIMIT
        assert (imagined["terminated"] == fallen).mean() > 0.98
        assert fallen.sum() > 20
        np.testing.assert_allclose(imagined["rewards"], 1.0, atol=1e-3)

    def test_a_placebo_gives_no_alarm_and_the_published_form_never_does(self):
        settings = {**SMALL, "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40}
        assert not len(DeepDQUCB(**settings).train(shifting((150,), noise=0.0), episodes=300).alarms)
        assert not len(DeepDQUCB(variant="paper", **settings).train(shifting((100,)), episodes=150).alarms)
        with pytest.raises(ValueError, match="variant must be one of 'adaptive', 'paper', got 'new'"):
            DeepDQUCB(variant="new")
        with pytest.raises(ValueError, match="burn_in must be an integer >= 100, got 5"):
            DeepDQUCB(burn_in=5)

    @pytest.mark.parametrize("answers", [[False, False], [False, True], [True, False], [True, True]])
    def test_only_a_model_that_predicts_is_used_and_what_it_imagined_is_forgotten_when_it_fails(
        self, answers, monkeypatch
    ):
        monkeypatch.setattr("dqucb.deep.adaptation.IMAGINE_AGAIN", ())
        monkeypatch.setattr("dqucb.deep.adaptation.BLOCKS", 1 << 30)  # nothing is forgotten but what was imagined
        left, refresh, seen = list(answers), CurrentDynamics.refresh, []

        def judged(model, inputs, outputs):
            seen.append(len(inputs))
            refresh(model, inputs, outputs)
            return left.pop(0)

        monkeypatch.setattr(CurrentDynamics, "refresh", judged)
        agent = DeepDQUCB(**{**SMALL, "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40})
        agent.train(shifting((150,)), episodes=160)
        assert seen[0] >= 20  # twice the features of a linear correction (1, a state, an action) and the longest delay
        assert len(seen) == 2
        assert seen[1] == 50  # the same with all products
        adaptation, replay = agent._trainer.adaptation, agent._trainer.replay
        since, kept = int(adaptation.since[0]), int(replay.kept[0])
        assert adaptation.trusted[0] == answers[-1]
        if answers[-1]:
            assert kept == since + 1_000 * ((replay.size - 50) // 1_000)
        elif answers[0]:
            assert kept == since  # real transitions since the change
        else:
            assert kept > 1 << 60  # all of them

    def test_a_model_that_explodes_stays_in_the_range_of_what_was_seen(self, monkeypatch):
        monkeypatch.setattr("dqucb.deep.adaptation.is_over", lambda bounds, states: np.zeros(len(states), bool))
        draw = CurrentDynamics.draw

        def explosive(model, rng, inputs, nearby=None):
            return draw(model, rng, inputs, nearby) + 10.0 * np.square(inputs[:, :4]).sum(1, keepdims=True)

        monkeypatch.setattr(CurrentDynamics, "draw", explosive)
        agent = DeepDQUCB(**{**SMALL, "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40})
        agent.train(shifting((150,)), episodes=160)
        trainer = agent._trainer
        lowest, highest = trainer.adaptation.ends.box(0)
        imagined = trainer.replay.part(0, int(trainer.replay.kept[0]), int(trainer.adaptation.since[0]))
        states, rounding = imagined["next_observations"], 1e-5
        assert ((states >= lowest - rounding) & (states <= highest + rounding)).all()
        assert (np.abs(states - highest) < rounding).any()
        assert not imagined["terminated"].any()

    @pytest.mark.parametrize("change", [{"force": -1.0}, {"length": 2.0}])
    def test_what_is_imagined_follows_a_change_of_the_physics(self, change):
        settings = {**SMALL, "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40}
        env = functools.partial(shifting((3_300,), noise=0.0), unit="steps", **change)
        agent = DeepDQUCB(**settings)
        run = agent.train(env, steps=3_400)
        assert len(run.alarms) == 1
        replay, since = agent._trainer.replay, int(agent._trainer.adaptation.since[0])
        imagined = replay.part(0, int(replay.kept[0]), since)
        forces = np.where(imagined["choices"][:, 0] == 1, FORCE, -FORCE) * change.get("force", 1.0)
        states = imagined["observations"].astype(float)
        truth = advance(states, forces, half_length=0.5 * change.get("length", 1.0))
        old = advance(states, forces * change.get("force", 1.0))
        now = np.square(imagined["next_observations"] - truth).mean()
        assert now < 0.1 * np.square(old - truth).mean()

    def test_both_forms_are_one_until_the_alarm(self):
        forms = [
            DeepDQUCB(variant=form, **SMALL).train(shifting((90,)), episodes=100) for form in ("adaptive", "paper")
        ]
        np.testing.assert_array_equal(forms[0].returns[:90], forms[1].returns[:90])

    def test_a_run_that_stops_after_an_alarm_goes_on_with_the_same_bits(self, tmp_path):
        settings = {**SMALL, "epsilon": 0.5, "buffer_size": 4_800}
        whole = DeepDQUCB(**settings).train_seeds(shifting((280,)), [3, 4], episodes=300)
        assert all(len(run.alarms) for run in whole)
        for stop in (60, 290, None):
            parts = DeepDQUCB(**settings).train_seeds(
                shifting((280,)), [3, 4], episodes=300, stop_at=stop, checkpoint=tmp_path / "c"
            )
        alone = DeepDQUCB(**settings).train(shifting((280,)), episodes=300, seed=4)
        for ref, comp in zip([*whole, whole[1]], [*parts, alone], strict=True):
            np.testing.assert_array_equal(comp.returns, ref.returns)
            np.testing.assert_array_equal(comp.alarms, ref.alarms)


class TestForgetting:
    def test_errors_of_values_are_those_of_a_plain_loop(self):
        agent = DeepDQUCB(**SMALL)
        agent.train("cartpole", steps=300)
        trainer, part = agent._trainer, agent._trainer.replay.part(0, 40, 10)

        def value(state):
            return min(100.0, float(trainer.greedy_values(state[None])[0]))

        expected = [
            reward + (0.0 if over else 0.99 * value(after)) - value(before)
            for before, reward, after, over in zip(
                part["observations"], part["rewards"], part["next_observations"], part["terminated"], strict=True
            )
        ]
        errors, values = value_errors(trainer, 0, 40, 10)
        np.testing.assert_allclose(errors, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(values, [value(state) for state in part["observations"]], rtol=1e-5)

    def test_rewards_that_fall_short_of_values_are_told_from_noise_and_trifles(self):
        rng = np.random.default_rng(0)
        usual = np.array(usual_errors(rng.normal(0.1, 1.0, 1_000), np.full(1_000, -20.0)))
        np.testing.assert_allclose(usual, [0.1, 1 / np.sqrt(BLOCK), 20.0], atol=0.15)
        for n in (12, 42, 500):
            wrong = [became_worse(rng.normal(0.1, 1.0, n), usual, 0.99) for _ in range(300)]
            assert np.mean(wrong) < 0.05
            assert became_worse(rng.normal(-3.0, 1.0, n), usual, 0.99)
            assert not became_worse(rng.normal(3.0, 1.0, n), usual, 0.99)  # better than expected
        assert became_worse(np.append(np.zeros(11), -99.0), usual, 0.99)  # a fall
        exact = np.array([0.0, 0.0, 20.0])  # without noise only the size counts: a tenth of 20 in 100 steps
        assert not became_worse(np.full(500, -0.019), exact, 0.99)
        assert became_worse(np.full(500, -0.021), exact, 0.99)
        unknown = np.array(usual_errors(np.zeros(BLOCK * BLOCKS - 1), np.zeros(BLOCK * BLOCKS - 1)))
        assert not became_worse(np.full(500, -9.0), unknown, 0.99)

    @pytest.mark.parametrize("worse", [True, False])
    def test_without_a_model_old_transitions_are_forgotten_if_rewards_fall_short(self, worse, monkeypatch):
        monkeypatch.setattr("dqucb.deep.adaptation.EXPLAINED", 2.0)  # no model is good enough
        monkeypatch.setattr("dqucb.deep.adaptation.became_worse", lambda *_: worse)
        refresh = CurrentDynamics.refresh

        def systematic(model, inputs, outputs):
            refresh(model, inputs, outputs)
            model.is_systematic = True
            return True

        monkeypatch.setattr(CurrentDynamics, "refresh", systematic)
        agent = DeepDQUCB(**{**SMALL, "epsilon": 1.0, "epsilon_steps": 0, "learning_starts": 1 << 40})
        run = agent.train(shifting((150,)), episodes=165)
        assert len(run.alarms) == 1
        replay, since = agent._trainer.replay, int(agent._trainer.adaptation.since[0])
        assert since > BLOCK * BLOCKS
        assert replay.kept[0] == since if worse else replay.kept[0] > 1 << 60


def test_values_are_bounded_by_the_largest_reward_where_the_env_states_none():
    class Growing(gymnasium.Env):
        """A reward of its number of steps so far, negative at first."""

        observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)
        steps = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.steps += 1
            return np.zeros(1, np.float32), self.steps / 100 - 1.0, False, self.steps % 50 == 0, {}

    settings = {"hidden": (8,), "learning_starts": 20, "discount": 0.9, "buffer_size": 200, "batch_size": 8}
    agent = DQN(value_bound="observed", **settings)
    agent.train(Growing, steps=60)
    assert agent._trainer.value_bounds().tolist() == [0.0]  # an end is worth more than what was seen
    agent = DQN(value_bound="observed", **settings)
    agent.train_seeds(Growing, [0, 1], steps=300)
    np.testing.assert_allclose(agent._trainer.value_bounds(), [20.0, 20.0])
    batch = agent._trainer.replay.sample([np.random.default_rng(i) for i in range(2)], 8, 3)
    assert agent._trainer.learner.value_bound == np.inf
    seen = []
    for bounds in (None, np.array([-1e3, 1e9])):
        one = DQN(**settings)
        one.train_seeds(Growing, [0, 1], steps=30)
        one._trainer.learner.update(batch, np.zeros(batch.rewards.shape), bounds)
        seen.append(one._trainer.learner.loss)
    assert seen[0][0] != seen[1][0]  # bounded by -1000
    assert seen[0][1] == seen[1][1]
    assert DeepDQUCB().value_bound == "observed"
    assert DQN().value_bound is None
    with pytest.raises(ValueError, match="value_bound must be one of 'observed', got 'seen'"):
        DQN(value_bound="seen")
    stated = DeepDQUCB(**SMALL)
    stated.train("cartpole", steps=60)
    assert stated._trainer.value_bounds() is None  # the env states its own
    assert stated._trainer.learner.value_bound == pytest.approx(100.0)


def test_a_large_error_is_learned_as_a_mean_and_not_as_a_median():
    """A value that is 0 at nine visits of ten and -30 at one: its mean is -3, its median 0."""

    class Seldom(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), -30.0 * (self.np_random.random() < 0.1), True, False, {}

    found = {}
    for largest in (1.0, 30.0):
        agent = DQN(hidden=(), huber_delta=largest, max_grad_norm=1e9, learning_rate=3e-3, learning_starts=64)
        agent.train(Seldom, steps=4_000)
        found[largest] = float(agent._trainer.greedy_values(np.zeros((1, 1), np.float32))[0])
    assert found[1.0] > -1.0
    assert found[30.0] == pytest.approx(-3.0, abs=0.8)


def test_corrected_intervals_are_those_of_a_plain_loop_and_never_look_ahead():
    rng = np.random.default_rng(0)
    episodes = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    visits = Visits(episodes, rng.normal(size=len(episodes)), rng.uniform(0.5, 1, len(episodes)),
                    rng.normal(size=len(episodes)) * np.where(episodes < 30, 1, 4))  # fmt: skip
    found = corrected(visits, 30, memory=4, levels=np.array([0.8]))
    ratios, inside = np.abs(visits.returns - visits.q) / visits.bonus, []
    for episode in range(30, 60):
        known = ratios[(episodes >= episode - 4) & (episodes < episode)]
        inside += (ratios[episodes == episode] <= np.quantile(known, 0.8)).tolist()
    assert found.coverage[0] == pytest.approx(np.mean(inside))
    assert found.visits == len(inside)
    plain = calibration(*(part[episodes >= 30] for part in visits[1:]))
    assert corrected(visits, 30).ece < 0.5 * plain.ece
    with pytest.raises(ValueError, match="visits must hold a second episode and one from 60 on, got 60 episodes"):
        corrected(visits, 60)
