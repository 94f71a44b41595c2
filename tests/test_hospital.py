"""Patient allocation: the synthetic system, its dynamics, the env, and every agent keeping every patient."""

import warnings
from dataclasses import replace
from datetime import date
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from dqucb import AGENTS, Agent, Run, check_agent
from dqucb.hospital import (
    BEFORE_A_WAVE,
    CUCBRA,
    AllocationAgent,
    ClairvoyantDaily,
    HospitalAllocationEnv,
    HospitalSystem,
    ModelAllocation,
    Simulation,
    by_largest_remainders,
    clairvoyant_allocation,
    clairvoyant_rewards,
    synthetic_hospitals,
    texas_census,
)
from dqucb.hospital.prior import expected_overflow
from dqucb.hospital.synthetic import CENSUS
from tests.naive_allocation import splits

NAME = "dqucb/HospitalAllocation-v0"
KINDS = {kind.__name__: kind for kind in AGENTS.values() if issubclass(kind, AllocationAgent)}


def small(seed=0, hospitals=3, days=30):
    return synthetic_hospitals(hospitals, days=days, change_at=(days // 2,), seed=seed)


class TestSynthetic:
    def test_is_seeded_and_has_the_papers_size(self):
        one, two = synthetic_hospitals(), synthetic_hospitals()
        assert (len(one.names), one.days, one.change_at) == (40, 1274, (637,))
        assert (one.date_of(0), one.date_of(1273)) == ("2020-08-02", "2024-01-27")
        for name in ("capacity", "arrivals", "non_covid", "initial", "beta", "beta_after"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert not np.array_equal(one.arrivals, synthetic_hospitals(seed=1).arrivals)

    def test_is_calibrated(self):
        census = texas_census(1274)
        start = date(2020, 8, 2)
        for day, count in CENSUS[:-1]:
            assert census[(date.fromisoformat(day) - start).days] == pytest.approx(count)
        peaks = [i for i in range(1, 1273) if census[i] > census[i - 1] and census[i] >= census[i + 1]]
        assert len(peaks) == 7
        many = synthetic_hospitals(2000, days=10, change_at=())
        assert 65 < np.median(many.capacity) < 95  # Texas: 80
        assert 0.80 < many.beta.mean() < 0.87
        whole = synthetic_hospitals()
        others = whole.non_covid.sum() / whole.capacity.sum() / (whole.days + 1)
        assert 0.75 < others < 0.85

    def test_both_meanings_of_uniform(self):
        same, drawn = synthetic_hospitals(beta_after="same"), synthetic_hospitals(beta_after="random")
        assert len(set(same.beta_after)) == 1
        assert same.beta_after[0] == same.beta.mean()
        assert drawn.beta_after.min() < 0.2
        assert drawn.beta_after.max() > 0.8
        longer = synthetic_hospitals(beta_after="longer")
        np.testing.assert_allclose(1 / (1 - longer.beta_after), 1.5 / (1 - longer.beta))
        with pytest.raises(ValueError, match="beta_after must be one of 'random', 'same', 'longer', got 'constant'"):
            synthetic_hospitals(beta_after="constant")

    def test_a_system_that_makes_no_sense(self):
        good = {"names": ("A", "B"), "capacity": [10, 20], "arrivals": [1, 2], "non_covid": np.zeros((3, 2)),
                "initial": [0, 0], "beta": [0.5, 0.5], "beta_after": [0.5, 0.5], "change_at": (1,)}  # fmt: skip
        HospitalSystem(**good)
        for name, value, message in (
            ("arrivals", [1.5, 2], "arrivals must be whole numbers"),
            ("non_covid", np.zeros((2, 2)), r"non_covid must have shape \(3, 2\)"),
            ("beta", [0.5, 1.5], "beta must be <= 1, got 1.5"),
            ("capacity", [0, 1], "capacity must be > 0"),
            ("initial", [1.0], "initial must have 2 numbers"),
            ("change_at", (1, 2), "change_at must hold at most one day"),
        ):
            with pytest.raises(ValueError, match=message):
                HospitalSystem(**{**good, name: value})


def test_the_dynamics_are_the_papers():
    system = small()
    simulation, y = Simulation(system), system.initial.copy()
    rng = np.random.default_rng(0)
    for day in range(system.days):
        amounts = rng.multinomial(system.arrivals[day], np.full(3, 1 / 3))
        outcome = simulation.step(amounts)
        y = (system.beta if day < 15 else system.beta_after) * y + amounts
        np.testing.assert_array_equal(simulation.covid, y)
        expected = sum(max(0.0, y[i] + system.non_covid[day + 1, i] - system.capacity[i]) for i in range(3))
        assert outcome.reward == pytest.approx(-expected)
    assert simulation.over


def test_the_clairvoyant_is_the_daily_optimum_by_brute_force():
    overflowing = 0
    for seed in range(5):
        system = small(seed)
        system = replace(system, capacity=0.93 * system.capacity)
        simulation, rewards = Simulation(system), clairvoyant_rewards(system)
        while not simulation.over:
            day, state = simulation.day, simulation.state
            load = system.beta_at(day) * state.covid + system.non_covid[day + 1] - system.capacity
            best = min(np.maximum(0, load + split).sum() for split in splits(state.patients, 3))
            outcome = simulation.step(clairvoyant_allocation(system, day, state))
            assert outcome.reward == pytest.approx(-best, abs=1e-9)
            assert rewards[day] == outcome.reward
            overflowing += 0 < best < state.patients
    assert overflowing > 10


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 1000), hospitals=st.integers(1, 6))
def test_every_agent_places_every_patient_every_day(name, seed, hospitals):
    env = HospitalAllocationEnv(small(seed, hospitals, 20), project=False)
    agent = KINDS[name]().start(env, seed=seed)
    state, _ = env.reset(seed=seed)
    over, day = False, 0
    while not over:
        amounts = agent.act(state, day)
        assert amounts.dtype == np.int64
        assert amounts.min() >= 0
        assert amounts.sum() == state[-1]
        assert agent.predict(state, step=day).sum() == state[-1]
        following, _, _, over, info = env.step(amounts)
        agent.observe(state, amounts, info["rewards"], following, day)
        # Whoever was there or came is still there or has left.
        there = state[:hospitals] + amounts
        np.testing.assert_allclose(there, following[:hospitals] + info["discharged"], rtol=1e-5, atol=1e-5)
        state, day = following, day + 1
    assert day == 20


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.integers(0, 300))
def test_rounding_keeps_the_sum_and_stays_within_one(weights, patients):
    weights = np.array(weights)
    amounts = by_largest_remainders(weights, patients)
    assert amounts.sum() == patients
    assert amounts.min() >= 0
    if weights.sum() > 0:
        assert np.abs(amounts - patients * weights / weights.sum()).max() <= 1 + 1e-6


def trained(agent, system, seed=0):
    return agent.train(lambda: HospitalAllocationEnv(system, project=False), steps=system.days, seed=seed)


class TestAgents:
    @pytest.mark.parametrize("name", sorted(KINDS))
    def test_runs_are_whole_and_can_be_saved(self, name, tmp_path):
        system = small(days=40)
        run = trained(KINDS[name](), system, seed=3)
        assert (len(run), run.unit, run.change_at, run.agent) == (40, "steps", (20,), name)
        np.testing.assert_allclose(run.gaps, clairvoyant_rewards(system) - run.returns)
        again = Run.load(run.save(tmp_path / f"{name}.npz"))
        np.testing.assert_array_equal(again.regret, run.regret)
        np.testing.assert_array_equal(trained(KINDS[name](), system, seed=3).returns, run.returns)

    @pytest.mark.parametrize("name", sorted(KINDS))
    @pytest.mark.parametrize("arrivals", ["data", "poisson"])
    def test_the_contract_holds_and_a_loaded_agent_goes_on(self, name, arrivals, tmp_path):
        def env():
            return HospitalAllocationEnv(small(days=25), arrivals=arrivals)

        check_agent(KINDS[name](), env, steps=60)  # more than two episodes
        whole, stopped = KINDS[name]().train(env, steps=60, seed=4), KINDS[name]()
        stopped.train(env, steps=60, seed=4, stop_at=33)
        loaded = Agent.load(stopped.save(tmp_path / "agent"))
        again = Agent.load(loaded.save(tmp_path / "again"))
        for agent in (stopped, loaded, again):
            np.testing.assert_array_equal(agent.train(env, steps=60, seed=4).gaps, whole.gaps)

    def test_every_form_of_the_problem_will_do(self):
        agent = KINDS["GreedyByFreeBeds"]()
        forms = ("hospital", NAME, HospitalAllocationEnv, HospitalAllocationEnv(), gymnasium.make(NAME))
        runs = [agent.train(problem, steps=30) for problem in forms]
        assert {run.returns.tobytes() for run in runs} == {runs[0].returns.tobytes()}
        facts = agent.describe("hospital")
        assert (facts.unit, facts.change_at, facts.regret_known, facts.resumable) == ("steps", (637,), True, True)
        with pytest.raises(ValueError, match="problem must be a hospital env"):
            agent.train("cartpole", steps=3)
        with pytest.raises(ValueError, match="takes steps=, which are days, got episodes=3"):
            agent.clone().train("hospital", episodes=3)
        with pytest.raises(ValueError, match="knows no hospitals yet"):
            agent.clone().act(np.zeros(3))

    def test_the_clairvoyant_has_no_regret_and_rules_beat_random(self):
        system = synthetic_hospitals(10, days=300, change_at=(150,))
        regret = {name: trained(kind(), system).regret[-1] for name, kind in KINDS.items()}
        assert regret["ClairvoyantDaily"] == 0
        assert max(regret["GreedyByFreeBeds"], regret["ProportionalToFreeBeds"]) < regret["RandomAllocation"] / 3
        agent = ClairvoyantDaily()
        trained(agent, system)
        returns = agent.evaluate(lambda: HospitalAllocationEnv(system), episodes=1)
        assert returns[0] == pytest.approx(clairvoyant_rewards(system).sum())

    def test_a_bandit_learns_which_hospital_overflows(self):
        system = HospitalSystem(names=("full", "empty"), capacity=[10, 1000], arrivals=np.full(400, 4),
                                non_covid=np.tile([10.0, 0.0], (401, 1)), initial=[0, 0], beta=[0, 0],
                                beta_after=[0, 0], change_at=())  # fmt: skip
        agent = CUCBRA(bonus_scale=0.1)
        run = trained(agent, system)
        assert run.gaps[:5].sum() > 0
        assert run.gaps[-100:].mean() < 0.1 * run.gaps[:20].mean()
        assert agent.predict(HospitalAllocationEnv(system).reset(seed=0)[0]).tolist() == [0, 4]

    def test_the_model_finds_the_new_stays_in_a_day(self):
        system = replace(small(hospitals=4, days=60), beta_after=np.array([0.2, 0.9, 0.5, 0.7]), change_at=(40,))
        agent = ModelAllocation()
        agent.train(partial(HospitalAllocationEnv, system, project=False), steps=60, stop_at=40)
        np.testing.assert_allclose(agent._staying()[0], system.beta, atol=2e-3)
        agent.train(partial(HospitalAllocationEnv, system, project=False), steps=60, stop_at=41)
        np.testing.assert_allclose(agent._staying()[0], system.beta_after, atol=2e-3)

    def test_expected_overflow_is_the_mean_over_logistic_noise(self):
        noise = np.random.default_rng(0).logistic(scale=3.0**0.5 / np.pi, size=400_000) * 4.0  # deviation 4
        for load in (-9.0, -1.0, 0.0, 6.0):
            drawn = np.maximum(0.0, load + noise)
            found = expected_overflow(np.array([load]), np.array([4.0]))[0]
            assert found == pytest.approx(drawn.mean(), abs=5 * drawn.std() / 400_000**0.5)

    def test_looking_ahead_beats_rules_of_thumb_before_and_after_longer_stays(self):
        system = synthetic_hospitals(12, days=460, change_at=BEFORE_A_WAVE, beta_after="longer", seed=4)
        names = ("ModelAllocation", "GreedyByFreeBeds", "ProportionalToFreeBeds")
        regret = {name: trained(KINDS[name](), system).phase_regret() for name in names}
        assert max(regret["ModelAllocation"][0], 0.0) <= min(regret[name][0] for name in names[1:])
        assert regret["ModelAllocation"][1] < 0.9 * min(regret[name][1] for name in names[1:])

    def test_bad_settings(self):
        with pytest.raises(ValueError, match="horizon must be an integer >= 1, got 0"):
            ModelAllocation(horizon=0)
        with pytest.raises(ValueError, match="bonus_scale must be >= 0, got -1"):
            CUCBRA(bonus_scale=-1)
        with pytest.raises(NotImplementedError):
            trained(AllocationAgent(), small())


class TestEnv:
    @pytest.mark.parametrize("options", [{}, {"project": True, "render_mode": "ansi"}, {"arrivals": "poisson"}])
    def test_check_env_is_silent(self, options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gymnasium.make(NAME, hospitals=5, **options).unwrapped)
        assert gymnasium.make(NAME).observation_space.shape == (81,)

    def test_a_whole_run_conserves_patients(self):
        env = HospitalAllocationEnv(small(), project=False)
        _, info = env.reset(seed=0)
        assert info["data"]["source"] == "synthetic"
        assert info["data"]["hospitals"] == 3
        truncated, days, best = False, 0, []
        while not truncated:
            patients = env.system.arrivals[days]
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            days += 1
            assert info["allocation"].sum() == patients
            assert info["allocation"].min() >= 0
            assert reward == pytest.approx(-info["overflow"].sum())
            assert info["gap"] == pytest.approx(info["best_reward"] - reward)
            assert info["phase"] == (days >= 15)
            assert not terminated
            assert observation in env.observation_space
            best.append(info["best_reward"])
        assert days == 30
        np.testing.assert_allclose(best, clairvoyant_rewards(env.system))
        with pytest.raises(ResetNeeded):
            env.step(np.zeros(3, int))

    def test_a_number_in_the_place_of_a_system(self):
        with pytest.raises(ValueError, match="system must be a HospitalSystem, got 4"):
            HospitalAllocationEnv(4)

    def test_an_action_that_is_no_allocation(self):
        env = HospitalAllocationEnv(small(), project=False)
        env.reset(seed=0)
        n = int(env.system.arrivals[0])
        for action in ([n + 1, 0, 0], [n + 1, -1, 0], [n - 0.5, 0.5, 0], [n, 0], [np.nan, 0, n], ["a", "b", "c"]):
            with pytest.raises(
                ValueError, match=f"action must be 3 whole numbers >= 0 that sum to today's {n} patients"
            ):
                env.step(action)
        assert env.action_space.contains(np.array([n, 0, 0]))
        assert not env.action_space.contains(np.array([n, 1, 0]))
        wishes = HospitalAllocationEnv(small())
        wishes.reset(seed=0)
        with pytest.raises(ValueError, match="action must be 3 numbers >= 0, got"):
            wishes.step([1, -1, 0])
        *_, info = wishes.step([1.0, 1.0, 0.0])
        assert info["allocation"].sum() == n
        assert abs(int(info["allocation"][0]) - int(info["allocation"][1])) <= 1

    def test_options_of_reset(self):
        env = HospitalAllocationEnv(small())
        observation, info = env.reset(options={"start_day": 7})
        assert (info["day"], observation[-1]) == (7, env.system.arrivals[7])
        with pytest.raises(ValueError, match=r"start_day must be an integer in \[0, 29\], got 30"):
            env.reset(options={"start_day": 30})
        with pytest.raises(ValueError, match=r"options must hold start_day or nothing, got \['day'\]"):
            env.reset(options={"day": 3})

    def test_poisson_arrivals_follow_the_seed(self):
        env = HospitalAllocationEnv(small(), arrivals="poisson")
        first, again = (env.reset(seed=5)[0] for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert len({float(env.reset(seed=seed)[0][-1]) for seed in range(20)}) > 1

    def test_a_restored_env_goes_on_exactly(self):
        env, twin = (HospitalAllocationEnv(small(), arrivals="poisson") for _ in range(2))
        env.reset(seed=1)
        for _ in range(12):
            env.step(env.action_space.sample())
        twin.reset(seed=9)
        twin.restore_state(env.checkpoint_state())
        twin.action_space.seed(0)
        env.action_space.seed(0)
        for _ in range(18):
            mine, other = env.step(env.action_space.sample()), twin.step(twin.action_space.sample())
            np.testing.assert_array_equal(mine[0], other[0])
            assert mine[1:4] == other[1:4]
            assert mine[4]["gap"] == other[4]["gap"]
