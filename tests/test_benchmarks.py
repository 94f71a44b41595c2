"""The benchmarks do what they say: the C loop is QUCB, the reports run, the check catches a slowdown."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    agents,
    ceiling,
    compare,
    consistency,
    instructions,
    readme,
    rlberry_table,
    start,
    windows,
    workloads,
)
from benchmarks.fits import Exponent, fit_exponent
from benchmarks.reference import run_refit
from benchmarks.sweeps import Record, Series, Settings, run_series
from dqucb import AGENTS, QUCB
from dqucb.agents import TabularAgent
from dqucb.density import DiscreteTransitionKDE
from dqucb.problems import gridworld
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
needs_compiler = pytest.mark.skipif(ceiling.compiler() is None, reason="there is no C compiler")


@needs_compiler
def test_c_loop_equals_qucb_where_nothing_is_random():
    problem = gridworld(noise=(0.0, 0.0), change_at=(200,), horizon=20)
    ref = QUCB(bonus_scale=0.3)
    run = ref.train(problem, episodes=400)
    comp = ceiling.run_ceiling(problem, 400, scale=0.3)
    assert np.array_equal(comp.visits, ref.visits_)
    np.testing.assert_allclose(comp.Q, ref.q_, rtol=1e-12)  # a C compiler may fuse a multiplication and an addition
    assert comp.total == run.returns.sum()


@needs_compiler
def test_c_loop_agrees_with_qucb_in_distribution():
    problem = gridworld(noise=(0.01, 0.2), change_at=(1_500,), horizon=30, rows=3, cols=4)
    ref = [QUCB().train(problem, episodes=3_000, seed=seed).returns.sum() for seed in range(12)]
    comp = [ceiling.run_ceiling(problem, 3_000, seed=seed).total for seed in range(12)]
    spread = np.hypot(np.std(ref, ddof=1), np.std(comp, ddof=1)) / np.sqrt(12)
    assert abs(np.mean(ref) - np.mean(comp)) < 4 * spread


def test_refit_reference_is_the_shared_window():
    problem = gridworld(noise=0.2, rows=3, cols=4, horizon=10)
    run = run_refit(problem, 60, window=15, floor=0.0)
    assert run.steps == 60
    assert run.likelihoods[0] == 1.0
    # Replay the same transitions: the reference draws one number per step and acts greedily on its own values.
    density = DiscreteTransitionKDE(12, 4, window=15, scope="shared")
    replayed = []
    for next_state, state, action in run.transitions:
        replayed.append(density.likelihood(state, action, next_state))
        density.push(state, action, next_state)
    np.testing.assert_allclose(run.likelihoods, replayed, rtol=1e-9)


def test_every_agent_has_a_cost():
    found = agents.ratios(rounds=1, episodes=40)
    assert set(found) >= {cls.__name__ for cls in AGENTS.values() if issubclass(cls, TabularAgent)}
    assert found["QUCB"] == 1.0
    assert all(0.1 < ratio < 500 for ratio in found.values())


def test_exponent_of_a_power_law():
    x = np.array([1.0, 10.0, 100.0, 1_000.0])
    fit = fit_exponent(x, 3.0 * x**0.4)
    assert fit.value == pytest.approx(0.4)
    assert fit.low <= fit.value <= fit.high
    constant = fit_exponent(x, np.full(4, 7.0))
    assert constant.value == 0.0
    assert np.isfinite([constant.low, constant.high]).all()
    assert fit_exponent(x[:2], x[:2]) is None


def test_an_interval_that_says_nothing_is_not_shown():
    assert str(Exponent(0.95, -0.37, 2.27, 3)) == "0.95 (3 points, interval wider than 0.5)"
    assert str(Exponent(0.25, 0.15, 0.35, 6)) == "0.25 [0.15, 0.35]"


def test_the_start_is_judged_by_its_bars():
    def row(compiled, kept, shipped):
        pairs = {"compiled": compiled, "kept": kept, "shipped": shipped}.items()
        return {kind: {"cpu": cpu, "wall": cpu, "compiled": int(kind == "compiled")} for kind, cpu in pairs}

    report = {
        "imports": {"numba": {"cpu": 0.5}, "dqucb": {"cpu": 0.45}},
        "start": {"DQUCB": row(8.0, 0.1, 1.1), "all agents": row(90.0, 3.0, 11.0)},
        "wheel_mb": 4.0,
    }
    bars = {what: measured <= limit for what, measured, limit in start.verdicts(report)}
    assert list(bars.values()) == [False, True, False, True]
    printed = start.table(report)
    assert "| DQUCB | 8.00 | 0.10 | 1.10 | 1 / 0 |" in printed
    assert "| first use, all agents, s | 11.00 | 10.00 | NO |" in printed
    del report["start"]["DQUCB"]["compiled"]
    assert "| DQUCB | - | 0.10 | 1.10 | 0 |" in start.table(report)


def test_cells_beyond_the_budget_are_skipped_and_say_so():
    measured = []

    def measure(x):
        measured.append(x)
        return workloads.Timed(seconds=0.1 * x, steps=10, nbytes=8 * x)

    series = Series("K", "GridWorld", "QUCB", (1, 10, 1_000), measure, growth=1.0)
    records = run_series(series, Settings(rounds=1, seconds_budget=5.0), lambda: 1e-8)
    assert [bool(record.skipped) for record in records] == [False, False, True]
    assert 1_000 not in measured
    assert "budget" in records[-1].skipped
    assert isinstance(records[0], Record)
    assert records[0].seconds_per_step == pytest.approx(0.01)


@needs_compiler
def test_the_check_fails_on_a_slowdown_and_only_then(tmp_path, capsys):
    baseline = tmp_path / "baseline.json"
    options = ["--baseline", str(baseline), "--only", "QUCB, GridWorld", "--rounds", "1"]
    assert compare.main([*options, "--save"]) == 0
    saved = json.loads(baseline.read_text())
    assert "QUCB, GridWorld" in saved

    baseline.write_text(json.dumps({name: 100.0 * ratio for name, ratio in saved.items()}))
    assert compare.main(options) == 0
    baseline.write_text(json.dumps({name: 0.01 * ratio for name, ratio in saved.items()}))
    assert compare.main(options) == 1
    assert "SLOWER" in capsys.readouterr().out


def test_regressions_are_ratios_of_ratios():
    found = compare.regressions({"a": 2.7, "b": 2.5, "new": 9.0}, {"a": 2.0, "b": 2.0, "gone": 1.0}, limit=1.3)
    assert found == {"a": pytest.approx(1.35)}


@needs_compiler
def test_steps_are_judged_by_their_bars(capsys):
    assert ceiling.main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == list(ceiling.BARS)
    for line in lines[2:]:
        low, middle, high = (float(cell) for cell in line.split("|")[2:5])
        assert 0.0 < low <= middle <= high
        if abs(low - ceiling.BARS[line.split()[1]]) > 0.01:  # it is rounded
            assert ("MISSED" in line) == (low > ceiling.BARS[line.split()[1]])


def test_windows_are_judged_by_their_bar(capsys):
    assert windows.main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[1] for line in lines] == list(workloads.SCOPES)
    assert lines[0].split()[-2] == "-"  # a pair's own window has no bar here


def test_the_stream_of_windows_has_as_many_tuples_as_it_says():
    stream = windows.stream_of(5_000)
    assert len(np.unique(stream[:, 1:], axis=0)) == windows.DISTINCT


@needs_compiler
def test_complexity_report(tmp_path):
    """The command itself; its measuring takes seconds, a first compilation may take longer."""
    command = [sys.executable, "-m", "benchmarks.complexity", "--quick", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE, capture_output=True)
    report = json.loads((tmp_path / "complexity.json").read_text())
    assert {record["sweep"] for record in report["records"]} == {"n", "S", "K", "seeds"}
    for record in report["records"]:
        assert record["skipped"] or (record["seconds_per_step"] > 0 and record["nbytes"] > 0)
    assert any(item["target"].startswith("DQUCB pair, time per step in n") for item in report["targets"])
    table = (tmp_path / "complexity.md").read_text()
    assert table.startswith("| grows |")
    for sweep in ("n", "S", "K", "seeds"):
        assert (tmp_path / f"complexity_{sweep}.png").stat().st_size > 10_000
        assert (tmp_path / f"complexity_{sweep}.svg").exists()


def test_the_readme_takes_its_growth_figures_from_a_report(tmp_path, capsys):
    def fit(sweep, workload, series, value):
        power = {"value": value, "low": value - 0.1, "high": value + 0.1, "points": 3}
        place = {"sweep": sweep, "workload": workload, "series": series, "from": 1, "to": 100}
        return {**place, "time": power, "bytes": power}

    report = {
        "exponents": [fit("n", place, name, 0.25) for place in ("GridWorld", "FrozenLake") for name in readme.ROWS]
        + [fit("S", place, name, 0.5) for place, names in readme.STATES.items() for name in names],
        "records": [
            {"sweep": "n", "workload": "GridWorld", "series": series, "x": 100, "seconds_per_step": seconds}
            for series, seconds in (("DQUCB pair", 1e-8), (readme.REFIT, 2e-4))
        ],
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    page = tmp_path / "README.md"
    page.write_text(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n")
    told = ["--report", str(tmp_path / "report.json"), "--readme", str(page)]
    readme.main(told)
    once = page.read_text()
    assert "old" not in once
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert "n^0.25 [0.15, 0.35]" in once
    assert "| PlanningDQUCB, GridWorlds without episodes | 1 to 100 | S^0.50 [0.40, 0.60] |" in once
    assert "20,000 times as fast" in once
    readme.main(told)
    assert page.read_text() == once
    page.write_text("no marks")
    with pytest.raises(SystemExit):
        readme.main(told)
    assert "must hold the lines" in capsys.readouterr().err


@needs_compiler
def test_figure_4_script(tmp_path):
    command = [sys.executable, "reproduce/fig04_complexity.py", "--quick", "--seeds", "2", "--jobs", "1"]
    subprocess.run([*command, "--out", str(tmp_path)], cwd=ROOT, check=True, timeout=PATIENCE, capture_output=True)
    verdict = json.loads((tmp_path / "fig04_complexity" / "fig04_complexity.json").read_text())
    assert len(verdict["claims"]) == 10
    for claim in verdict["claims"]:
        assert isinstance(claim["holds"], bool)
        assert claim["measured"]["ratio"] > 0
    assert (tmp_path / "fig04_complexity" / "fig04_complexity.png").exists()


def test_bytes_of_an_agent_count_used_parts():
    learner = workloads.agent("DQUCB")
    timed = workloads.train(learner, workloads.grid_problem(20), 20)
    tables = learner._started().learner
    assert timed.nbytes > tables.q.Q.nbytes + tables.q.V.nbytes + tables.q.visits.nbytes
    reserved = sum(pool.nbytes for pool in (tables.windows.ring, tables.windows.held))
    assert timed.nbytes < tables.q.Q.nbytes + tables.q.V.nbytes + tables.q.visits.nbytes + reserved + 200_000


def test_ruff():
    targets = ["benchmarks", "reproduce/fig04_complexity.py", "tests/test_benchmarks.py"]
    for verb in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *verb, *targets], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_counts_come_out_of_a_summary_of_valgrind():
    report = """==7== I   refs:      3,419,154,881
==7== D   refs:      1,526,814,963  (1,024,367,330 rd   + 502,447,633 wr)
==7== D1  misses:       42,945,647  (   38,559,906 rd   +   4,385,741 wr)
==7== Mispredicts:      58,742,273  (   33,483,774 cond +  25,258,499 ind)"""
    assert list(instructions.counts_in(report).values()) == [3_419_154_881, 1_526_814_963, 42_945_647, 33_483_774]
    with pytest.raises(ValueError, match="no wrong guesses in what valgrind wrote"):
        instructions.counts_in(report.replace("Mispredicts", "Guesses"))


@pytest.mark.parametrize("name", rlberry_table.PROBLEMS)
def test_rlberry_gets_the_problem_that_our_agents_have(name):
    problem = rlberry_table.PROBLEMS[name](change_at=(10,))
    given = rlberry_table.arrays_of(problem)
    for phase in range(2):
        P, R, V = given["P"][phase], given["R"][phase], np.zeros(problem.n_states)
        np.testing.assert_allclose(P.sum(axis=-1), 1.0)
        for _ in range(problem.horizon):
            V = (R + P @ V).max(axis=1)
        np.testing.assert_allclose(V, problem.optimal_values(phase)[0])
        best = given["initial"][phase] @ V
        np.testing.assert_allclose(rlberry_table.best_returns(problem, 20)[10 * phase : 10 * phase + 10], best)


def test_consistency_counts_runs_that_end_at_the_second_best(capsys, monkeypatch):
    assert consistency.share_stuck(QUCB(), "2 arms, sure", runs=3, episodes=300) == 0.0
    assert consistency.share_stuck(AGENTS["random"](), "3 arms, sure", runs=3, episodes=300) == 1.0
    monkeypatch.setattr(sys, "argv", ["consistency", "--runs", "1", "--episodes", "20", "--agents", "qucb"])
    assert consistency.main() == 0
    rows = consistency.drawn_table(["psrl", "random"], problems=2, first_seed=3, runs=2, episodes=200)
    assert len(rows) == 5
    sampling, guessing = (float(share) for share in re.findall(r"([0-9.]+)%, worst", rows[-1]))
    assert sampling == 0.0 < guessing
    assert "| 1.00, worst 1.00 |" in rows[-1]  # Thompson sampling over itself
    assert "| QUCB |" in capsys.readouterr().out
