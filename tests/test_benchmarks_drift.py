"""The benchmark of the detectors, its families and what it measures."""

import numpy as np
import pytest

from benchmarks import drift_agents, drift_learning, drift_limit
from benchmarks.drift_streams import FAMILIES as NAMED
from benchmarks.drift_streams import POLICIES
from dqucb.drift.benchmark import ADAPTERS, FAMILIES, Adapter, delays, draw, false_alarms
from dqucb.drift.benchmark import __main__ as benchmark_main
from dqucb.drift.benchmark.__main__ import main
from dqucb.drift.benchmark.adapters import Alarm, alarms_of, armed, calibrate, conformal, on_residuals, our_detector
from dqucb.drift.benchmark.measure import poisson_interval, verdict
from dqucb.drift.benchmark.report import merged
from dqucb.drift.benchmark.simulation import Linear, divergence
from dqucb.drift.benchmark.tables import Table, walk


def test_the_quick_form_writes_a_report(tmp_path):
    results = main(["--quick", "--parts", "delay,cost", "--out", str(tmp_path)])
    assert [row["family"] for row in results["delay"]] == ["linear 1-3, mean", "finite, sparse rows"]
    assert "| finite, sparse rows | ours |" in (tmp_path / "drift.md").read_text()
    assert (tmp_path / "drift.json").exists()
    assert (tmp_path / "drift_finite.png").exists()
    assert (tmp_path / "drift_continuous.png").exists()
    again = main(["--quick", "--parts", "cost", "--out", str(tmp_path)])
    assert again["delay"] == results["delay"]


def test_a_stopped_run_continues_and_other_code_is_measured_again(tmp_path, monkeypatch, capsys):
    arguments = ["--families", "finite, sparse rows", "--parts", "rate,delay", "--rates", "1e-3", "--seeds", "2",
                 "--steps", "500", "--out", str(tmp_path)]  # fmt: skip
    first = main(arguments)
    assert capsys.readouterr().out.count("finite, sparse rows") == 2
    assert main(arguments)["rate"] == first["rate"]
    assert capsys.readouterr().out == ""
    main([*arguments, "--first-seed", "5"])
    assert capsys.readouterr().out.count("finite, sparse rows") == 2
    monkeypatch.setattr(benchmark_main, "SOURCES", "other kernels")
    main([*arguments, "--first-seed", "5"])
    assert capsys.readouterr().out.count("finite, sparse rows") == 2
    main([*arguments, "--first-seed", "5", "--again"])
    assert capsys.readouterr().out.count("finite, sparse rows") == 2


def test_an_adapter_of_the_user_is_measured_beside_the_others(tmp_path, monkeypatch):
    lines = [
        "from dqucb.drift.benchmark import Adapter",
        "from dqucb.drift.benchmark.adapters import Alarm",
        "always = Adapter('always', lambda stream, rate: [Alarm(t) for t in range(len(stream.states))], lambda s: 0)",
    ]
    (tmp_path / "mine.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ["--families", "finite, sparse rows", "--parts", "delay", "--seeds", "2", "--out", str(tmp_path)]
    rows = main([*arguments, "--adapter", "mine:always"])["delay"]
    assert [(row["detector"], row["early"], row["found"]) for row in rows] == [("ours", 0, 2), ("always", 2, 2)]
    with pytest.raises(ValueError, match="adapter must be MODULE:NAME of an Adapter, got 'mine:never'"):
        main([*arguments, "--adapter", "mine:never"])


def test_streams_have_as_many_visits_before_their_change_as_asked_for():
    seen = []
    adapter = Adapter("look", lambda stream, rate: seen.append(stream) or [], lambda stream: 0)
    row = delays(adapter, "finite, sparse rows", range(2), 1e-6, visits=7)
    assert [stream.change_at for stream in seen] == [7 * s.n_states * s.n_actions for s in seen]
    assert (row["found"], row["streams"]) == (0, 2)


def test_limits_of_tests_that_know_less_are_larger():
    row = drift_limit.measured("dense", "some pairs", 4, 1e-6)
    assert 0.0 < row["known"] <= row["which"]
    assert row["known"] <= row["fair"] <= 20.0


def test_alarms_are_counted_while_agents_learn(capsys):
    rows = drift_agents.main(["--seeds", "1", "--steps", "60", "--families", "1"])
    assert [row["agent"] for row in rows] == ["QLearning", "DQUCB", "PlanningDQUCB"]
    assert all(row["updates"] >= 60 and row["from"] <= row["ratio"] <= row["to"] for row in rows)


def test_wrong_options_name_what_is_allowed(tmp_path):
    with pytest.raises(ValueError, match="families must be parts of names such as"):
        main(["--families", "weather", "--out", str(tmp_path)])
    with pytest.raises(ValueError, match="detectors must be one of"):
        main(["--detectors", "oracle", "--out", str(tmp_path)])
    with pytest.raises(ValueError, match="parts must be one of"):
        main(["--parts", "all", "--out", str(tmp_path)])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_drawn_stream_and_its_twin_without_a_change_agree_up_to_it(name):
    changed, still = draw(name, 3, steps=120, change_at=60), draw(name, 3, changes=False, steps=120)
    assert len(changed.states) == len(still.states) == 120
    np.testing.assert_array_equal(changed.next_states[:60], still.next_states[:60])
    np.testing.assert_array_equal(changed.rewards[:60], still.rewards[:60])
    assert (changed.change_at, still.change_at, still.information) == (60, None, None)
    other = draw(name, 4, steps=120, change_at=60)
    assert other.states.shape != changed.states.shape or not np.array_equal(other.states, changed.states)


@pytest.mark.parametrize("name", [name for name in FAMILIES if not FAMILIES[name].placebo])
def test_a_change_changes_the_stream(name):
    changed, still = draw(name, 5, steps=4_000, change_at=60), draw(name, 5, changes=False, steps=4_000)
    same = [np.array_equal(getattr(changed, x)[60:], getattr(still, x)[60:]) for x in ("next_states", "rewards")]
    assert not all(same)


def test_the_divergence_of_linear_systems_is_the_mean_log_ratio():
    rng = np.random.default_rng(0)
    old = Linear(np.array([[0.5]]), np.array([[1.0]]), np.array([0.0]), np.array([[1.0]]))
    new = Linear(np.array([[0.8]]), np.array([[0.5]]), np.array([0.3]), np.array([[2.0]]))
    x, u = np.array([1.5]), np.array([-0.7])
    y = 0.8 * 1.5 - 0.5 * 0.7 + 0.3 + np.sqrt(2.0) * rng.standard_normal(400_000)
    under_old = -0.5 * (y - (0.5 * 1.5 - 0.7)) ** 2
    under_new = -0.25 * (y - (0.8 * 1.5 - 0.35 + 0.3)) ** 2 - 0.5 * np.log(2.0)
    assert divergence(old, new)(x, u) == pytest.approx(np.mean(under_new - under_old), abs=0.01)


def test_the_information_of_a_finite_stream_weighs_pairs_by_their_visits():
    successors = np.array([[0, 1], [0, 1]])
    old = Table(successors, np.array([[0.5, 0.5], [0.9, 0.1]]), 1)
    new = Table(successors, np.array([[0.2, 0.8], [0.6, 0.4]]), 1)
    policy = np.ones((2, 1))
    rng = np.random.default_rng(0)
    stream = walk((old, new), (policy, policy), rng, rng, 1_000, 3_000)
    each = [0.2 * np.log(0.4) + 0.8 * np.log(1.6), 0.6 * np.log(0.6 / 0.9) + 0.4 * np.log(4.0)]
    share = stream.states[1_000:].mean()
    assert stream.information == pytest.approx((1.0 - share) * each[0] + share * each[1])
    assert stream.limit(1e-6) == pytest.approx(np.log(1e6) / stream.information)
    certain = Table(successors, np.array([[1.0, 0.0], [0.9, 0.1]]), 1)
    assert walk((certain, new), (policy, policy), rng, rng, 10, 100).information is None


class At:
    """A detector with an alarm at chosen updates."""

    def __init__(self, *when):
        self.when, self.t, self.changed_at = when, -1, None

    def update(self, state, action, next_state, reward):
        self.t += 1
        self.drift_detected = self.t in self.when
        self.changed_at = self.t - 5
        self.changed_between = (self.t - 20, self.t)
        return self


def adapter_at(*when):
    return Adapter("fixed", lambda stream, rate: alarms_of(At(*when), stream), lambda stream: 300)


def test_false_alarms_are_counted_per_armed_update():
    row = false_alarms(adapter_at(499), "linear 1-3, mean", range(4), 1e-3, steps=1_000)
    assert (row["alarms"], row["updates"]) == (4, 4 * 400)
    assert row["ratio"] == pytest.approx(4 / 1.6)
    assert row["from"] < 1.5 < row["to"]
    assert row["verdict"] == "above, few counts"


def test_delays_begin_at_the_change_and_early_alarms_are_counted():
    row = delays(adapter_at(4_000, 5_009), "linear 1-3, mean", range(3), 1e-6)
    assert (row["found"], row["early"], row["delay"]) == (3, 3, 10.0)
    limits = [draw("linear 1-3, mean", seed).limit(1e-6) for seed in range(3)]
    assert row["over_limit"] == pytest.approx(np.median([10.0 / limit for limit in limits]))
    assert (row["error_of_date"], row["covered"]) == (4.0, 1.0)
    assert delays(adapter_at(), "linear 1-3, mean", range(1), 1e-6)["delay"] is None


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_detector_of_the_benchmark_runs(name):
    if name == "FOCuS":
        pytest.importorskip("changepoint_online")
    if name in ("ADWIN", "KSWIN", "Page-Hinkley"):
        pytest.importorskip("river")
    adapter = ADAPTERS[name]
    stream = draw("linear 1-3, mean", 11, steps=2_600, change_at=2_300)
    found = adapter.run(stream, 1e-6 if adapter.grid is None else adapter.grid[-1])
    assert all(isinstance(alarm, Alarm) and 0 <= alarm.at < 2_600 for alarm in found)


def test_a_conformal_martingale_finds_larger_residuals_and_keeps_its_rate():
    rng = np.random.default_rng(0)
    still = [conformal(rng.random(6_000), 1e-5) for _ in range(4)]
    assert still == [None] * 4
    changed = np.concatenate([rng.random(4_000), 1.0 + rng.random(500)])
    assert 4_000 <= conformal(changed, 1e-5) < 4_100


def test_a_grid_is_calibrated_to_at_most_one_stream_in_alarm():
    streams = [draw("finite, sparse rows", seed, changes=False, steps=10) for seed in range(4)]
    peaks = {id(stream): peak for stream, peak in zip(streams, (1.0, 2.0, 3.0, 9.0), strict=True)}
    grid = (0.5, 1.5, 2.5, 3.5, 9.5)
    adapter = Adapter("peak", lambda s, x: [Alarm(0)] if peaks[id(s)] > x else [], lambda s: 0, grid)
    assert calibrate(adapter, streams) == 3.5
    with pytest.raises(ValueError, match="must have a grid"):
        calibrate(on_residuals("x", conformal), streams)


@pytest.mark.parametrize("name", [*NAMED, *POLICIES])
def test_a_named_stream_and_its_placebo_agree_up_to_the_change(name):
    if "cheetah" in name or "hopper" in name:
        pytest.importorskip("mujoco")
    family = {**NAMED, **POLICIES}[name]
    changed, still = family(0, 60, steps=120), family(0, None, steps=120)
    assert len(changed.states) == len(still.states) == 120
    np.testing.assert_array_equal(changed.next_states[:60], still.next_states[:60])
    assert changed.change_at == 60
    assert still.change_at is None


@pytest.mark.parametrize("seed", [211, 213])
def test_the_edge_of_what_a_stream_visits_is_no_change(seed):
    """A scale that was a parabola in the state called ten patients free of noise, and one more an alarm."""
    stream = NAMED["hospital stays"](seed, None)
    assert alarms_of(our_detector(stream, 1e-6), stream) == []


@pytest.mark.parametrize("seed", [200, 215])
def test_a_wave_of_patients_is_no_change(seed):
    """The noise of a count grows with it, also three spreads above the mean, where a wave is rare."""
    stream = NAMED["hospital stays"](seed, None, steps=20_000)
    assert alarms_of(our_detector(stream, 1e-6), stream) == []


@pytest.mark.parametrize("seed", [302, 312, 324])
def test_noise_that_carries_a_cart_to_unknown_places_is_found(seed):
    """What the noise says on the way must not be lost by the silence of such places."""
    stream = NAMED["cartpole noise"](seed, 4_000, steps=4_600)
    found = alarms_of(our_detector(stream, 1e-6), stream)
    assert [alarm.at >= 4_000 for alarm in found[:1]] == [True]


def test_alarms_while_an_agent_learns_are_counted(tmp_path):
    rows = [
        {"task": "Hopper", "world": "still", "seed": 0, "alarms": [40]},
        {"task": "Hopper", "world": "mass", "seed": 0, "alarms": [20, 55, 95]},
        {"task": "Hopper", "world": "mass", "seed": 1, "alarms": []},
        {"task": "Hopper", "world": "mass", "seed": 2, "alarms": [70]},
    ]
    table = drift_learning.measured(rows, steps=100, burn_in=10)
    assert table == [
        {"task": "Hopper", "world": "still", "streams": 1, "false_alarms": 1, "updates": 80},
        {"task": "Hopper", "world": "mass", "streams": 3, "found": 1, "median_delay": 5.0,
         "false_alarms": 2, "updates": 100},
    ]  # fmt: skip
    assert "3 false alarms in 180 updates" in drift_learning.report(table)
    pytest.importorskip("mujoco")
    arguments = ["--tasks", "Hopper", "--worlds", "gravity", "--seeds", "1", "--steps", "300", "--burn-in", "100"]
    assert drift_learning.main([*arguments, "--out", str(tmp_path)])[0]["streams"] == 1


def test_a_report_keeps_the_rows_that_are_not_run_again():
    before = [{"family": "a", "asked": 1e-3, "ratio": 1.0}, {"family": "b", "asked": 1e-3, "ratio": 2.0}]
    now = [{"family": "b", "asked": 1e-3, "ratio": 3.0}, {"family": "b", "asked": 1e-4, "ratio": 4.0}]
    assert merged(before, now) == [before[0], *now]


def test_armed_updates_leave_out_every_burn_in_up_to_the_end():
    assert armed([], 1_000, 300) == 700
    assert armed([499], 1_000, 300) == 200 + 200
    assert armed([499, 899], 1_000, 300) == 200 + 100 + 0  # the last burn-in is cut by the end, and no debt


def test_the_interval_of_a_rate_is_exact():
    lowest, highest = poisson_interval(2)
    assert (lowest, highest) == pytest.approx((0.2422, 7.2247), abs=1e-3)  # tables of Garwood (1936)
    assert poisson_interval(0) == (0.0, pytest.approx(3.6889, abs=1e-3))
    words = [verdict(*row, 1.5) for row in ((1.0, 0.6, 1.7), (0.1, 0.0, 5.0), (1.6, 0.9, 3.0), (2.2, 1.6, 4.0))]
    assert words == ["kept", "kept, few counts", "above, few counts", "broken"]
