"""`compare` and `sweep`: the same bits however they run, and tables that agree with the runs."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import dqucb
from dqucb import DQUCB, PROBLEMS, QUCB, UCBVI, Random, make_agent
from dqucb.experiments import Evaluation, Trial, compare, load_comparison, make_problem, plots, sweep
from dqucb.experiments.report import write_report
from dqucb.experiments.trials import Parts
from dqucb.problems import ShiftingMDP, TabularMDP, frozen_lake, gridworld
from dqucb.running import catalog

CURVES = ("ends", "returns", "gaps", "likelihood", "lengths")


def small_grid():
    return gridworld(noise=(0.05, 0.3), change_at=(60,), rows=2, cols=3, horizon=8)


def assert_same_runs(one, other):
    assert list(one.traces) == list(other.traces)
    for place in one.traces:
        for name in CURVES:
            np.testing.assert_array_equal(
                getattr(one.load_run(*place), name), getattr(other.load_run(*place), name), strict=True
            )


@pytest.fixture(scope="module")
def comparison():
    return compare([DQUCB(window=20), QUCB(), Random()], small_grid(), 120, seeds=5, jobs=1)


# ---- trials -----------------------------------------------------------------------------------------------


def trial(**changes):
    settings = {"agent": "QUCB", "parameters": {"bonus_scale": 0.2, "delta": 0.05}, "problem": {"problem": "gridworld"}}
    settings |= {"length": 100, "unit": "episodes", "regret": "realized", "seeds": (3,)}
    return Trial(**settings | changes)


def test_the_key_of_a_run_never_changes():
    assert trial().key(3) == "183d1cb5867de1a50b263627afe7793dae85177691f134fd33880812568f9c76"


def test_the_key_ignores_the_order_of_settings_and_sees_every_value():
    assert trial(parameters={"delta": 0.05, "bonus_scale": 0.2}).key(3) == trial().key(3)
    assert trial(seeds=(3, 4)).key(3) == trial().key(3)
    changed = [trial(agent="DQUCB"), trial(parameters={"bonus_scale": 0.3, "delta": 0.05}), trial(length=101)]
    changed += [trial(problem={"problem": "two-rooms"}), trial(unit="steps"), trial(regret="expected")]
    changed += [trial(options={"max_return": 3.0})]
    assert len({trial().key(4), *(each.key(3) for each in [trial(), *changed])}) == 9


def test_a_trial_trains_what_it_says():
    problem = small_grid()
    agent = DQUCB(window=7)
    one = Trial(
        agent="DQUCB", parameters=agent.parameters(), problem=problem.description, length=90, unit="episodes",
        regret="expected", seeds=(11,), parts=Parts(agent, problem),
    )  # fmt: skip
    ref = agent.clone().train(problem, episodes=90, seed=11, regret="expected")
    _, (comp,) = one.train()
    for name in CURVES:
        np.testing.assert_array_equal(getattr(comp, name), getattr(ref, name), strict=True)
    assert one.matches(ref)
    assert not one.matches(DQUCB(window=8).train(problem, episodes=90, seed=11, regret="expected"))


@pytest.mark.parametrize("name", PROBLEMS)
def test_registered_problems_are_rebuilt_exactly_under_their_own_name(name):
    problem = make_problem(name, length=600)
    assert (problem.name, problem.description["problem"]) == (name, name)
    again = catalog.rebuild_problem(problem.description)
    assert again.description == problem.description
    for ref, comp in zip(problem.model, again.model, strict=True):
        np.testing.assert_array_equal(comp, ref)
    problem.check_run(600)
    assert problem.n_phases == PROBLEMS[name]().n_phases


# ---- running ----------------------------------------------------------------------------------------------


def test_one_job_two_jobs_and_a_folder_give_the_same_bits(comparison, tmp_path):
    parallel = compare([DQUCB(window=20), QUCB(), Random()], small_grid(), 120, seeds=5, jobs=2, out=tmp_path / "a")
    assert_same_runs(comparison, parallel)
    assert (comparison.computed, parallel.computed) == (15, 15)
    assert_same_runs(comparison, load_comparison(tmp_path / "a"))
    for seed in range(5):
        ref = DQUCB(window=20).train(small_grid(), episodes=120, seed=seed)
        np.testing.assert_array_equal(comparison.load_run("DQUCB", seed).gaps, ref.gaps)


def test_hand_made_problems_and_agents_travel_to_workers(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), (2, 4, 2))
    phases = [TabularMDP(p, rng.random((4, 2)), horizon=5) for p in P]
    problem = ShiftingMDP(phases, [15])

    @dataclass(kw_only=True, eq=False, repr=False)
    class Bolder(QUCB):
        bonus_scale: float = 2.0

    agents = {"ours": Bolder(), "theirs": QUCB()}
    serial = compare(agents, problem, 30, seeds=2, jobs=1)
    parallel = compare(agents, problem, 30, seeds=2, jobs=2, out=tmp_path)
    assert_same_runs(serial, parallel)
    assert_same_runs(serial, load_comparison(tmp_path))
    with pytest.raises(ValueError, match="made with other settings: problem"):
        compare(agents, ShiftingMDP(phases[::-1], [15]), 30, seeds=2, jobs=1, out=tmp_path)


def test_a_dead_worker_is_replaced(tmp_path):
    flag = str(tmp_path / "died")

    @dataclass(kw_only=True, eq=False, repr=False)
    class Mortal(QUCB):
        def _new_learner(self, sizes):
            if sizes.length > 1 and not os.path.exists(flag):  # a length of 1 is the parent's warm-up
                Path(flag).touch()
                os._exit(9)
            return super()._new_learner(sizes)

    comparison = compare(Mortal(), small_grid(), 70, seeds=4, jobs=2, out=tmp_path / "out")
    assert Path(flag).exists()
    assert_same_runs(comparison, compare({"Mortal": Mortal()}, small_grid(), 70, seeds=4, jobs=1))


def test_a_worker_has_one_compute_thread_unless_told_otherwise():
    @dataclass(kw_only=True, eq=False, repr=False)
    class Counting(QUCB):
        expected: int = 1

        def _new_learner(self, sizes):
            from threadpoolctl import threadpool_info

            if sizes.length > 1:
                assert {pool["num_threads"] for pool in threadpool_info()} <= {self.expected}
            return super()._new_learner(sizes)

    compare(Counting(), small_grid(), 70, seeds=2, jobs=2)
    compare(Counting(), small_grid(), 70, seeds=2, jobs=1)
    compare(Counting(expected=2), small_grid(), 70, seeds=2, jobs=2, threads=2)


def test_discounted_problems_take_steps():
    problem = frozen_lake(slip=(0.0, 0.5), change_at=(300,), discount=0.9)
    comparison = compare(["qucb", "dqucb"], problem, steps=700, seeds=2, jobs=1, regret="expected")
    assert comparison.unit == "steps"
    assert comparison.frame()["step"].max() == 700


# ---- other problems, agents and wishes --------------------------------------------------------------------


class Cautious(dqucb.Agent):
    """An agent with the fewest methods: it repeats what paid best, whatever the state."""

    def __init__(self, *, first_guess=1.0):
        self.first_guess = first_guess

    def begin(self, observation_space, action_space, **facts):
        self.means, self.counts = [self.first_guess] * int(action_space.n), [1] * int(action_space.n)

    def act(self, observation, step=0):
        return self.means.index(max(self.means))

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        self.counts[action] += 1
        self.means[action] += (reward - self.means[action]) / self.counts[action]


def test_an_agent_with_act_and_observe_runs_in_compare_and_the_report(tmp_path):
    agents = {"cautious": Cautious(), "bold": Cautious(first_guess=3.0), "QUCB": QUCB()}
    made = compare(agents, small_grid(), 80, seeds=2, jobs=2, out=tmp_path / "x")
    assert_same_runs(made, compare(agents, small_grid(), 80, seeds=2, jobs=1))
    page = write_report(load_comparison(tmp_path / "x"), tmp_path / "report.html").read_text()
    assert "cautious" in page
    assert made.final_regret("cautious")[0] > 0


def test_a_gymnasium_env_by_id_function_or_object(tmp_path):
    import gymnasium

    given = {"change_at": 30, "max_return": 1.0, "horizon": 20, "seeds": 2}
    named = compare("qucb", "FrozenLake-v1", 60, jobs=2, out=tmp_path / "x", **given)
    assert named.change_at == [30]
    assert len(named.load_run("QUCB", 1).phase_regret()) == 2
    made = compare("qucb", functools.partial(gymnasium.make, "FrozenLake-v1"), 60, jobs=1, **given)
    held = compare("qucb", gymnasium.make("FrozenLake-v1"), 60, jobs=2, **given)
    assert_same_runs(named, made)
    assert_same_runs(named, held)
    assert load_comparison(tmp_path / "x").summary().equals(named.summary())
    with pytest.raises(ValueError, match=r"options\.change_at is \[30\] there, \[31\] here"):
        compare("qucb", "FrozenLake-v1", 60, out=tmp_path / "x", **given | {"change_at": 31})


def test_returns_are_compared_where_regret_is_unknown(tmp_path):
    agents = {"careful": QUCB(bonus_scale=0.01), "random": Random()}
    made = compare(agents, "FrozenLake-v1", 40, seeds=3, jobs=1, regret="none", horizon=15, out=tmp_path / "x")
    loaded = load_comparison(tmp_path / "x")
    assert loaded.measure == "return"
    assert "regret" not in loaded.summary()
    returns = [loaded.load_run("random", seed).returns.mean() for seed in range(3)]
    assert loaded.summary().loc["random", "return"] == pytest.approx(np.mean(returns))
    assert 0.0 <= made.probability_of_improvement("careful", "random").value <= 1.0
    page = write_report(loaded, tmp_path / "report.html").read_text()
    assert "mean return" in page
    assert "Cumulative regret" not in page
    names = {path.name for path in plots.draw_all(loaded, tmp_path / "plots")}
    assert {"return.png", "final_return.svg"} <= names


def test_evaluations_are_kept_with_the_run_and_do_not_disturb_it(tmp_path):
    clean = gridworld(noise=0.0, rows=2, cols=3, horizon=8)
    evaluations = [Evaluation("early", 10, clean, 3), Evaluation("late", 120, clean, 3)]
    plain = compare(QUCB(), small_grid(), 120, seeds=2, jobs=1)
    made = compare(QUCB(), small_grid(), 120, seeds=2, jobs=2, evaluations=evaluations, out=tmp_path / "x")
    for seed in range(2):
        run = load_comparison(tmp_path / "x").load_run("QUCB", seed)
        np.testing.assert_array_equal(run.gaps, plain.load_run("QUCB", seed).gaps)
        assert {name: values.shape for name, values in run.extras.items()} == {"early": (3,), "late": (3,)}
        agent = QUCB()
        agent.train(small_grid(), episodes=120, seed=seed, stop_at=10)
        np.testing.assert_array_equal(run.extras["early"], agent.evaluate(clean, 3, seed=1_000 + seed))
    again = compare(QUCB(), small_grid(), 120, seeds=3, jobs=1, evaluations=evaluations, out=tmp_path / "x")
    assert (made.computed, again.computed) == (2, 1)
    moved = [evaluations[0], evaluations[1]._replace(at=119)]
    with pytest.raises(ValueError, match=r"options\.evaluations\.late\.at is 120 there, 119 here"):
        compare(QUCB(), small_grid(), 120, seeds=2, evaluations=moved, out=tmp_path / "x")


class Counter:
    """A callback that counts its calls for each seed."""

    def __init__(self, step):
        self.step, self.calls = step, 0

    def __call__(self, moment):
        self.calls += self.step

    def results(self, i):
        return {"calls": np.array([self.calls])}


def test_a_recorder_puts_its_results_into_the_run():
    made = compare(QUCB(), small_grid(), 120, seeds=2, jobs=1, recorder=functools.partial(Counter, 2))
    for seed in range(2):
        calls = made.load_run("QUCB", seed).extras["calls"]
        assert calls[0] >= 2
        assert calls[0] % 2 == 0


# ---- tables -----------------------------------------------------------------------------------------------


def test_summary_agrees_with_the_runs(comparison):
    summary = comparison.summary()
    assert list(summary.index) == ["DQUCB", "QUCB", "Random"]
    for label in summary.index:
        runs = [comparison.load_run(label, seed) for seed in range(5)]
        row = summary.loc[label]
        assert row["regret"] == pytest.approx(np.mean([run.regret[-1] for run in runs]))
        assert row["regret_phase_0"] == pytest.approx(np.mean([run.gaps[:60].sum() for run in runs]))
        assert row["regret_phase_0"] + row["regret_phase_1"] == pytest.approx(row["regret"])
        assert row["low"] <= row["regret"] <= row["high"]
    assert comparison.probability_of_improvement("QUCB", "Random").value > 0.9


def test_frame_is_tidy(comparison):
    frame = comparison.frame(points=None)
    assert list(frame.columns) == ["agent", "seed", "episode", "phase", "return", "regret", "likelihood"]
    assert len(frame) == 3 * 5 * 120
    one = frame[(frame["agent"] == "QUCB") & (frame["seed"] == 2)]
    np.testing.assert_array_equal(one["return"], comparison.load_run("QUCB", 2).returns)
    assert (one["phase"] == np.repeat([0, 1], 60)).all()


def test_thinned_curves_lose_nothing():
    comparison = compare("qucb", small_grid(), 3_001, seeds=1, jobs=1)
    frame, run = comparison.frame(points=100), comparison.load_run("QUCB", 0)
    assert 100 <= len(frame) <= 101
    assert {60, 3_001} <= set(frame["episode"])
    sizes = np.diff(frame["episode"], prepend=0)
    assert (frame["return"] * sizes).sum() == pytest.approx(run.returns.sum())
    np.testing.assert_array_equal(frame["regret"], run.regret[frame["episode"] - 1])


def test_sweep_varies_what_an_agent_has_and_finds_the_best():
    comparison = sweep(["qucb", "random"], small_grid(), {"bonus_scale": [0.1, 50.0]}, 400, seeds=6, jobs=1)
    assert comparison.labels == ["QUCB bonus_scale=0.1", "QUCB bonus_scale=50.0", "Random"]
    best = comparison.best()
    assert best["QUCB"].value == "QUCB bonus_scale=0.1"
    assert best["QUCB"].chosen_on == (0, 1, 2)
    finals = comparison.final_regret("QUCB bonus_scale=0.1")
    assert best["QUCB"].result.value == pytest.approx(np.mean([finals[seed] for seed in (3, 4, 5)]))
    assert comparison.frame()["bonus_scale"].dropna().unique().tolist() == [0.1, 50.0]


# ---- refusals, all before anything runs -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare("dqcb", "gridworld"), r"unknown agent 'dqcb': did you mean dqucb"),
        (lambda: compare("dqucb", "grid-world"), r"unknown problem 'grid-world': did you mean gridworld\?"),
        (lambda: make_agent("dqucb", windw=3), r"unknown parameter of dqucb 'windw': did you mean window"),
        (lambda: make_problem("gridworld", {"nois": 3}), r"unknown parameter of gridworld 'nois': did you mean noise"),
        (lambda: sweep("qucb", small_grid(), {"bonus": []}, 99), "bonus must be a list of at least one value"),
        (lambda: sweep("qucb", small_grid(), {"scale": [1]}, 99), "unknown parameter of these agents 'scale'"),
        (lambda: compare([], small_grid(), 99), "agents must be different agents, at least one, got none"),
        (lambda: compare([QUCB(), QUCB()], small_grid(), 99), "agents must be different agents"),
        (lambda: compare({"a": QUCB(), "b": QUCB()}, small_grid(), 99), "got 'a' and 'b' with the same settings"),
        (lambda: compare("qucb", small_grid(), 50), "change_at=60 lies at or beyond"),
        (lambda: compare("qucb", small_grid(), steps=50), "takes episodes="),
        (lambda: compare("qucb", small_grid(), 99, seeds=0), r"seeds must be an integer in \[1, 1000000\], got 0"),
        (lambda: compare("qucb", small_grid(), 99, seeds=[1, 1]), "different seeds"),
        (lambda: compare("qucb", small_grid(), 99, jobs=0), "jobs must be .* got 0"),
        (lambda: compare("qucb", small_grid(), 99, backend="dusk"), "did you mean 'dask'"),
        (lambda: compare("qucb", small_grid(), 99, backend="dask"), "scheduler must be the address"),
        (lambda: compare("qucb", "no problem at all"), "there is .*gridworld"),
        (lambda: compare(UCBVI(), gridworld(0.1, discount=0.9), steps=9), "needs a problem with a horizon"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_threads_give_the_same_runs_and_pass_on_errors():
    agents, problem = ["qucb", "random"], small_grid()
    in_threads = compare(agents, problem, 120, seeds=4, jobs=3, backend="threads")
    assert_same_runs(compare(agents, problem, 120, seeds=4, jobs=1), in_threads)

    class Failing(dqucb.Agent):
        def act(self, observation, step=0):
            raise RuntimeError("cannot act")

        def observe(self, *transition, **facts):
            pass

    with pytest.raises(RuntimeError, match="cannot act"):
        compare([Failing()], problem, 120, seeds=4, jobs=2, backend="threads")


def test_an_agent_has_the_name_that_tables_print():
    made = compare(["PlanningDQUCB", "UCBVI", "qucb"], "combination-lock", 20, seeds=1, jobs=1)
    assert made.labels == ["PlanningDQUCB", "UCBVI", "QUCB"]


def test_labels_that_read_alike_are_refused():
    agents = {1: QUCB(), "1": QUCB(bonus_scale=0.1)}
    with pytest.raises(ValueError, match="labels of agents must differ as text, got '1' twice"):
        compare(agents, "combination-lock", 20, seeds=1, jobs=1)
    with pytest.raises(ValueError, match=r"labels of agents must be text that can be written as UTF-8, got '\\ud800'"):
        compare({"\ud800": QUCB()}, "combination-lock", 20, seeds=1, jobs=1)


def test_a_sweep_takes_a_generator_and_no_value_twice():
    made = sweep("qucb", "combination-lock", {"bonus_scale": (c / 10 for c in (1, 2))}, 20, seeds=1, jobs=1)
    assert made.labels == ["QUCB bonus_scale=0.1", "QUCB bonus_scale=0.2"]
    with pytest.raises(ValueError, match=r"values of bonus_scale must differ as text, got '0\.1' twice"):
        sweep("qucb", "combination-lock", {"bonus_scale": [0.1, 0.1]}, 20, seeds=1, jobs=1)


def test_a_folder_whose_name_is_too_long_is_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match=r"out must be a folder that can be written, got .*File name too long"):
        compare("qucb", "combination-lock", 20, seeds=1, jobs=1, out=tmp_path / ("x" * 300))


def test_a_summary_shows_the_worst_runs_beside_the_mean():
    made = compare("qucb", "combination-lock", 100, seeds=6, jobs=1)
    row, finals = made.summary().loc["QUCB"], list(made.final("QUCB").values())
    assert (row["median"], row["worst"]) == (np.median(finals), max(finals))
    assert row["worst_decile"] == pytest.approx(np.quantile(finals, 0.9))
    assert row["median_low"] <= row["median"] <= row["median_high"]
    returns = compare("qucb", "combination-lock", 100, seeds=6, jobs=1, regret="none")
    row, finals = returns.summary().loc["QUCB"], list(returns.final("QUCB").values())
    assert row["worst"] == min(finals)
    assert row["worst_decile"] == pytest.approx(np.quantile(finals, 0.1))


def test_train_and_compare_take_the_same_names():
    run = QUCB().train("river_swim", episodes=40, seed=3)
    assert run.problem["change_at"] == [20]  # in proportion to the usual length, as in compare
    comparison = compare(["qucb", "PlanningDQUCB"], "River-Swim", 40, seeds=[3], jobs=1)
    assert comparison.labels == ["QUCB", "PlanningDQUCB"]
    assert comparison.final("QUCB")[3] == run.regret[-1]
    assert type(make_agent("planning_dqucb")) is type(make_agent("PlanningDQUCB"))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: QUCB().train("frozen-lke", episodes=10), ValueError, "'frozen-lke': did you mean frozen-lake"),
    (lambda: compare("qucb", "frozen-lke", 10), ValueError, "'frozen-lke': did you mean frozen-lake"),
    (lambda: compare("DQUBC", "river-swim", 10), ValueError, "unknown agent 'DQUBC': did you mean dqucb"),
    (lambda: compare("qucb", "river-swim", 40, sedes=3), TypeError, "'sedes': did you mean seeds"),
    (lambda: load_comparison("nowhere"), dqucb.SavedFileError, "nowhere: no such folder"),
])  # fmt: skip
def test_misspelt_names_are_answered_with_the_nearest_ones(call, error, message):
    with pytest.raises(error, match=message):
        call()
