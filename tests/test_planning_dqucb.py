"""PlanningDQUCB: against its twin, in every loop, through files; its alarms; what it learns."""

import naive_agents as naive
import naive_planning_discounted
import naive_planning_dqucb
import numpy as np
import pytest
from test_agents_twins import check, dense, random_pair

from dqucb._kernels.learners.planning import plan_budget
from dqucb.agents import PlanningDQUCB
from dqucb.agents.planning_dqucb import sweeps_for
from dqucb.problems import (
    TabularMDP,
    combination_lock,
    endless_river,
    frozen_lake,
    gridworld,
    new_prize,
    periodic_lake,
    random_mdp,
    returning_rooms,
    river_swim,
    still_lake,
    tidal_river,
)

FORMS = {False: "shared", True: "steps", "auto": "auto"}


def width_of(problem):
    """Room for the most next states of a pair over all steps and phases, and four more outcomes."""
    model = problem.model
    pairs = model.n_states * model.n_actions
    row = np.repeat(np.arange(len(model.row_start) - 1), np.diff(model.row_start)) % pairs
    return max(len(set(model.successor[row == pair])) for pair in range(pairs)) + 4


def test_one_episode_looks_at_many_new_pairs():
    problem = gridworld(noise=0.0)
    agent = PlanningDQUCB(stage_dependent=False)
    agent.train(problem, episodes=1, seed=0)
    assert (agent.visits_ > 0).sum() >= problem.horizon // 2


class Twin:
    """The twin under the words of `naive_agents.train`."""

    def __init__(self, world, width, form, false_alarms, discount=None, probes=0.0):
        S, A = world.shape
        if discount is None:
            self.twin = naive_planning_dqucb.NaivePlanningDQUCB(S, A, world.bounds, width, form, false_alarms, probes)
        else:
            self.twin = naive_planning_discounted.NaiveDiscountedPlanning(
                S, A, world.bounds[0], width, false_alarms, discount, sweeps_for(discount)
            )
        self.visits = np.zeros((len(world.bounds) - 1, S, A) if discount is None and form != "shared" else (S, A), int)

    @property
    def Q(self):  # noqa: N802 the library's name
        return self.twin.Q

    def act(self, *place_and_rng):
        *step, state, _ = place_and_rng
        return self.twin.act(step[0] if step else 0, state)

    def learn(self, phase, *seen_and_rng):
        *seen, _ = seen_and_rng
        step = seen.pop(0) if len(seen) == 6 else 0
        state, action, reward, next_state, terminated = seen
        self.visits[(step, state, action) if self.visits.ndim == 3 else (state, action)] += 1
        return self.twin.learn(step, state, action, float(reward), int(next_state), bool(terminated))

    def end_episode(self):
        self.twin.finish_episode()


@pytest.mark.parametrize("stage_dependent", FORMS)
@pytest.mark.parametrize("by_step", [False, True])
def test_it_is_its_twin(stage_dependent, by_step):
    events = 0
    for seed in range(3):
        problem, world = random_pair(seed, by_step=by_step, random_start=seed == 2)
        agent = PlanningDQUCB(stage_dependent=stage_dependent, false_alarms=1.0)
        twin = Twin(world, width_of(problem), FORMS[stage_dependent], 1.0)
        run = agent.train(problem, episodes=250, seed=seed)
        returns, regret, likelihood, lengths = naive.train(twin, world, 250, seed)
        np.testing.assert_array_equal(run.returns, returns)
        np.testing.assert_array_equal(run.lengths, lengths)
        np.testing.assert_array_equal(agent.visits_, twin.visits)
        np.testing.assert_allclose(run.likelihood, likelihood, rtol=1e-12)
        np.testing.assert_allclose(run.regret, regret, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(agent.q_, twin.twin.Q, rtol=1e-9, atol=1e-9)
        assert run.alarms.tolist() == twin.twin.alarms
        assert agent.steps_differ_ == twin.twin.by_step
        events += len(run.alarms) + agent.steps_differ_
    assert events > 0  # something was forgotten or split, so that this code was reached


@pytest.mark.parametrize("stage_dependent", [False, "auto"])
def test_it_is_its_twin_where_worlds_return(stage_dependent):
    problem = combination_lock(change_at=(60, 120, 180, 240))
    returned = 0
    for seed in range(2):
        twin = Twin(dense(problem), width_of(problem), FORMS[stage_dependent], 0.1)
        agent = PlanningDQUCB(stage_dependent=stage_dependent, false_alarms=0.1)
        check(agent, twin, problem, dense(problem), seed, episodes=300)
        returned += twin.twin.adopted
    assert returned > 0


@pytest.mark.parametrize("stage_dependent", [False, "auto"])
def test_it_is_its_twin_with_probes(stage_dependent):
    problem = new_prize(change_at=(150,), rows=2, cols=5, horizon=12)
    modes = set()
    for seed in range(2):
        twin = Twin(dense(problem), width_of(problem), FORMS[stage_dependent], 0.1, probes=0.05)
        aim = twin.twin.probing.aim
        twin.twin.probing.aim = lambda probing=twin.twin.probing, aim=aim: (modes.add(probing.mode), aim())[1]
        agent = PlanningDQUCB(stage_dependent=stage_dependent, false_alarms=0.1, probes=0.05)
        check(agent, twin, problem, dense(problem), seed, episodes=400)
    assert modes == {"states", "pairs", "follow"}


def test_probes_find_a_prize_where_the_policy_no_longer_goes():
    prize = new_prize(change_at=(1_500,), rows=4, cols=6, horizon=25)
    for seed in range(3):
        without, with_probes = (
            PlanningDQUCB(probes=probes).train(prize, episodes=3_000, seed=seed).returns for probes in (0.0, 0.01)
        )
        assert with_probes[-500:].mean() > 1.3 * without[-500:].mean()


def test_a_probe_under_way_continues_from_a_file(tmp_path):
    prize, given = new_prize(change_at=(150,), rows=2, cols=5, horizon=12), {"episodes": 400, "seed": 1}
    whole = PlanningDQUCB(probes=0.05).train(prize, **given)
    stopped, modes = PlanningDQUCB(probes=0.05), set()
    for stop_at in range(100, 400, 3):
        stopped.train(prize, **given, stop_at=stop_at)
        modes.add(int(stopped._started().learner.probing.status[0]))
        stopped = PlanningDQUCB.load(stopped.save(tmp_path / "agent"))
    np.testing.assert_array_equal(stopped.train(prize, **given).returns, whole.returns)
    assert len(modes) > 1  # some stops were before a probe


def test_probes_cost_at_most_their_share():
    grid = gridworld((0.1,), change_at=(), rows=4, cols=6, horizon=25)
    without, with_probes = (
        np.mean([PlanningDQUCB(probes=probes).train(grid, episodes=4_000, seed=seed).returns[500:].mean()
                 for seed in range(4)]) for probes in (0.0, 0.02)
    )  # fmt: skip
    assert 0.97 * without < with_probes < 0.999 * without


def test_probes_need_a_horizon():
    with pytest.raises(ValueError, match=r"probes must be 0 in a problem without a horizon, got 0\.01"):
        PlanningDQUCB(probes=0.01).train(gridworld((0.1,), change_at=(), discount=0.9), steps=100)
    with pytest.raises(ValueError, match=r"probes must be .* got 0\.7"):
        PlanningDQUCB(probes=0.7)


@pytest.mark.parametrize("stage_dependent", FORMS)
def test_it_is_its_twin_where_the_budget_of_plans_is_exhausted(stage_dependent, monkeypatch):
    monkeypatch.setattr(plan_budget, "FIRST_WORK", -50_000)  # of new plans; after an alarm it is what it was
    backed_up = 0
    for seed in range(3):
        problem, world = random_pair(seed, random_start=seed == 2)
        twin = Twin(world, width_of(problem), FORMS[stage_dependent], 1e-3)
        twin.twin.budget = -50_000
        back_up_state, calls = twin.twin.back_up_state, []
        twin.twin.back_up_state = lambda *place, back_up=back_up_state, calls=calls: (calls.append(1), back_up(*place))
        check(PlanningDQUCB(stage_dependent=stage_dependent), twin, problem, world, seed, episodes=250)
        backed_up += len(calls)
    assert backed_up > 50 or stage_dependent is True  # by step, the first outcome of a pair outdates nothing


def test_the_budget_of_plans_bounds_their_work_in_a_large_problem():
    grid = gridworld((0.1,), change_at=(), rows=30, cols=30, horizon=60)
    agent = PlanningDQUCB()
    agent.train(grid, episodes=400, seed=0)
    plan = agent._started().learner.plan
    one_plan = grid.horizon * len(plan.work.ends) * (plan.work.ends[-1] / len(plan.work.ends) + plan_budget.PAIR_WORK)
    assert -one_plan <= plan.budget[0] < plan_budget.FIRST_WORK / 10  # it was needed, and at most one plan exceeded it
    assert (agent.visits_.sum(axis=0) > 0).mean() > 0.5  # the agent explored without whole plans, too


def test_it_is_its_twin_where_a_change_is_small():
    problem = frozen_lake(slip=(0.3, 0.5), change_at=(200,), map=("SF", "FG"), horizon=20)
    kept = []
    for seed in range(3):
        twin = Twin(dense(problem), width_of(problem), "shared", 1.0)
        forget = twin.twin.forget
        twin.twin.forget = lambda visits, forget=forget: (kept.append(visits), forget(visits))
        check(PlanningDQUCB(stage_dependent=False, false_alarms=1.0), twin, problem, dense(problem), seed, episodes=500)
    assert max(kept) > 0  # something was kept in one of the runs


@pytest.mark.parametrize("gamma", [0.6, 0.95])
def test_without_episodes_it_is_its_twin(gamma):
    for seed in range(3):
        problem, world = random_pair(seed, discount=gamma, random_start=seed == 1)
        agent, twin = PlanningDQUCB(false_alarms=1.0), Twin(world, width_of(problem), "shared", 1.0, gamma)
        run = agent.train(problem, steps=400, seed=seed, records=400)
        rewards, _, likelihood = naive.train_discounted(twin, world, 400, seed)
        np.testing.assert_array_equal(run.returns, rewards)
        np.testing.assert_allclose(run.likelihood, likelihood, rtol=1e-12)
        np.testing.assert_allclose(agent.q_, twin.twin.Q[0], rtol=1e-9, atol=1e-9)
        assert run.alarms.tolist() == twin.twin.alarms


def dense_problem(n_states, horizon=20, seed=5):
    """From each pair every state can be reached."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_states), (n_states, 3))
    return TabularMDP(P, rng.random((n_states, 3)) * (rng.random((n_states, 3)) < 0.1), horizon=horizon)


def test_hundreds_of_outcomes_of_a_pair_are_all_modelled():
    """With 68 places the rest joined one of them, which soon looked like a change: six alarms in this run."""
    agent = PlanningDQUCB()
    run = agent.train(dense_problem(200), episodes=3_000, seed=1)
    outcomes = agent._started().learner.outcomes
    assert outcomes.known[0].max() > 150
    assert (outcomes.counts[0] <= outcomes.sizes[0, ..., :1]).all()
    listed = outcomes.next_states[0, 0, 0, : outcomes.known[0, 0, 0]]
    assert len(set(listed.tolist())) == len(listed)
    assert len(run.alarms) == 0


def test_where_memory_is_short_nothing_looks_like_a_change(monkeypatch):
    monkeypatch.setattr("dqucb.agents.planning_dqucb.LIST_BYTES", 0)
    for seed in range(2):
        assert len(PlanningDQUCB().train(dense_problem(200), episodes=3_000, seed=seed).alarms) == 0


def test_where_memory_is_short_outcomes_share_places_as_those_of_the_twin(monkeypatch):
    monkeypatch.setattr("dqucb.agents.planning_dqucb.LEAST_WIDTH", 3)
    monkeypatch.setattr("dqucb.agents.planning_dqucb.LIST_BYTES", 0)
    problem = dense_problem(12, horizon=3)
    for seed in range(2):
        twin = Twin(dense(problem), 3 + 4, "shared", 1.0)
        agent = PlanningDQUCB(stage_dependent=False, false_alarms=1.0)
        check(agent, twin, problem, dense(problem), seed, episodes=200)
        assert agent._started().learner.outcomes.known.max() == 7


def test_a_large_problem_that_does_not_change_gives_no_alarm():
    """Two of three such runs gave one when bets could win on the second outcome of a pair."""
    grid = gridworld((0.1,), (), rows=20, cols=20, horizon=60)
    assert not any(len(PlanningDQUCB().train(grid, episodes=300, seed=seed).alarms) for seed in (100, 102, 103))


def test_a_diagnosis_says_what_the_tables_hold(tmp_path):
    lake = frozen_lake(slip=(0.0, 0.5), change_at=(200,), horizon=30)
    agent = PlanningDQUCB()
    run = agent.train(lake, episodes=400, seed=1)
    found, tried = agent.diagnose(), agent._started().learner.outcomes.sizes[0, ..., 0]
    visited = tried[tried.sum(axis=1) > 0]
    assert found.visited == len(visited)
    assert found.never_tried == (visited == 0).sum()
    assert found.alarms == len(run.alarms) > 0
    assert found.last_alarm == run.alarms[-1]
    assert found.plans > 0 == found.unaffordable == found.steps_differ
    np.testing.assert_array_equal(run.extras["diagnosis"], found.numbers())
    assert PlanningDQUCB.load(agent.save(tmp_path / "agent")).diagnose() == found
    assert f"the last one at {run.alarms[-1]}" in str(found)


def test_a_diagnosis_names_where_a_second_action_was_hardly_tried():
    coin = [(0.5, 0, 1.0, False), (0.5, 0, 0.0, False)]
    bandit = TabularMDP({0: {0: coin, 1: [(1.0, 0, 0.3, False)]}}, horizon=1, initial=[1.0])
    agent = PlanningDQUCB()
    agent.train(bandit, episodes=5_000, seed=1)
    tried = agent._started().learner.outcomes.sizes[0, 0, :, 0]
    second = int(1 - agent.predict(0))
    is_rare = bool(tried[second] < np.log(tried.sum()))
    found = agent.diagnose()
    assert found.rarely_tried == is_rare
    assert found.examples == (((-1, 0, 5_000, second, int(tried[second])),) if is_rare else ())
    learner = agent._started().learner
    learner.plan.looked_at[:] = second
    learner.outcomes.sizes[0, 0, second, 0] = 0
    doubtful = agent.diagnose()
    assert (doubtful.rarely_tried, doubtful.looks_due, doubtful.never_tried) == (1.0, 1.0, 1.0)


def test_both_changes_of_the_lake_are_found_and_no_others():
    lake = frozen_lake(slip=(0.0, 1 / 2, 1 / 2, 2 / 3), change_at=(500, 1_500, 2_500))
    for seed in range(100, 104):
        alarms = PlanningDQUCB().train(lake, episodes=4_000, seed=seed).alarms
        assert len(alarms) == 2
        assert 500 <= alarms[0] <= 504
        assert 2_500 <= alarms[1] <= 3_500


def test_a_still_world_gives_no_alarm():
    run = PlanningDQUCB().train(still_lake(), episodes=5_000, seed=100)
    assert run.alarms.size == 0
    assert run.regret[-1] < 300


def test_it_finds_the_better_bank_again():
    """RiverSwim after its current turned round is hard: all that was learned is wrong."""
    run = PlanningDQUCB().train(river_swim(change_at=(1_000,)), episodes=2_000, seed=100)
    assert run.phase_regret()[1] < 300
    assert len(run.alarms) == 1


def test_a_world_that_returns_is_known_again():
    """The third and the fifth phase of this lake are its first one, which took it 40 episodes or more to learn."""
    lake = periodic_lake(change_at=(1_000, 2_000, 3_000, 4_000))
    runs = [PlanningDQUCB().train(lake, episodes=5_000, seed=seed, regret="expected") for seed in range(100, 105)]
    first, _, third, _, fifth = np.transpose([run.phase_regret() for run in runs])
    assert (first > 20).all()
    assert np.median(third) < 5
    assert np.median(fifth) < 5


def test_a_change_in_all_pairs_is_noticed_before_any_pair_could_tell():
    """From slip 1/2 to 2/3 a single pair needs hundreds of visits, all of them together a few episodes.

    Over seeds 100 to 119 the median is 13.
    """
    lake = frozen_lake(slip=(0.5, 2 / 3), change_at=(5_000,))
    runs = [PlanningDQUCB().train(lake, episodes=6_000, seed=seed) for seed in range(100, 105)]
    delays = [run.detection_delays()[0] for run in runs]
    assert None not in delays
    assert np.median(delays) <= 15
    assert sum(run.false_alarms for run in runs) == 0


def test_steps_that_differ_are_found():
    """Over a long run; in the first thousands of episodes it is no better than with shared steps on most seeds."""
    agent = PlanningDQUCB()
    run = agent.train(tidal_river(), episodes=20_000, seed=100)
    shared = PlanningDQUCB(stage_dependent=False).train(tidal_river(), episodes=20_000, seed=100)
    assert agent.steps_differ_
    assert run.regret[-1] < 0.5 * shared.regret[-1]
    same = PlanningDQUCB()
    same.train(random_mdp(change_at=()), episodes=4_000, seed=100)
    assert not same.steps_differ_


def test_without_episodes_a_change_is_dated_in_steps():
    run = PlanningDQUCB().train(endless_river(change_at=(5_000,)), steps=10_000, seed=100)
    assert run.unit == "steps"
    assert 5_000 <= run.alarms[0] <= 5_200


def test_rewards_that_never_repeat_do_not_fill_the_memory():
    agent = PlanningDQUCB().start(3, 2, horizon=4, seed=1)
    rng = np.random.default_rng(3)
    for _ in range(200):
        state = 0
        for step in range(4):
            action, there = agent.act(state, step), int(rng.integers(3))
            _, p = agent.observe(state, action, float(rng.normal()), there, step)
            assert 0.0 <= p <= 1.0
            state = there
        agent.end_episode()
    assert np.isfinite(agent.q_).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stage_dependent": "maybe"}, "stage_dependent must be True, False or \"auto\", got 'maybe'"),
        ({"stage_dependent": 1}, 'stage_dependent must be True, False or "auto", got 1'),
        ({"false_alarms": 0.0}, "false_alarms must be > 0 and <= 1, got 0.0"),
    ],
)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        PlanningDQUCB(**given)


@pytest.mark.parametrize("seed", [101, 104])
def test_a_world_that_changes_does_not_look_like_steps_that_differ(seed):
    """After a change the policy visits other steps, so that old and new outcomes stand at different steps."""
    problem = returning_rooms(change_at=(1_200, 2_400, 3_600, 4_800))
    agent, shared = PlanningDQUCB(), PlanningDQUCB(stage_dependent=False)
    run = agent.train(problem, episodes=6_000, seed=seed)
    assert not agent.steps_differ_
    assert len(run.alarms) == 4
    assert run.returns.tobytes() == shared.train(problem, episodes=6_000, seed=seed).returns.tobytes()


def test_a_coin_that_failed_first_is_tossed_again():
    """Half of these runs end with the sure 0.3 without a second look; the coin pays 0.5."""
    coin = [(0.5, 0, 1.0, False), (0.5, 0, 0.0, False)]
    bandit = TabularMDP({0: {0: coin, 1: [(1.0, 0, 0.3, False)]}}, horizon=1, initial=[1.0])
    agents = [PlanningDQUCB() for _ in range(40)]
    for seed, agent in enumerate(agents):
        agent.train(bandit, episodes=5_000, seed=seed)
    assert sum(agent.predict(0) != 0 for agent in agents) <= 4
