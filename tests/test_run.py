"""`Run`: curves that add up, detection delays, files."""

from itertools import pairwise

import numpy as np
import pytest

import dqucb
from dqucb import DQUCB, QUCB, Run, SavedFileError, ShiftingMDP, TabularMDP, _storage
from dqucb.problems import frozen_lake, gridworld


def made(likelihood, change_at=(), ends=None, gaps=None, **changes):
    """A run with hand-made curves."""
    n = len(likelihood)
    ends = np.arange(1, n + 1) if ends is None else np.asarray(ends)
    fields = {
        "returns": np.zeros(n),
        "gaps": np.ones(n) if gaps is None else np.asarray(gaps, float),
        "likelihood": np.asarray(likelihood, float),
        "lengths": np.diff(ends, prepend=0),
        "ends": ends,
        "seconds": 0.5,
        "seed": 3,
        "agent": "DQUCB",
        "parameters": {"window": 5},
        "problem": {"problem": "made"},
        "unit": "episodes",
        "change_at": tuple(change_at),
        "regret_form": "realized",
        "versions": {"dqucb": "0"},
    }
    return Run(**{**fields, **changes})


def quiet(n):
    """Values within the band 0.5 +- 0.1 (one standard deviation)."""
    return np.where(np.arange(n) % 2, 0.6, 0.4)


def test_detection_delays_are_the_first_alarms_after_each_change():
    run = made(quiet(100), [30, 60], alarms=np.array([5, 33, 34, 59, 60]))
    assert run.detection_delays() == [3, 0]
    assert run.false_alarms == 3
    assert made(quiet(100), [30, 60], alarms=np.array([59])).detection_delays() == [29, None]
    assert made(quiet(100), [30, 60]).detection_delays() == [None, None]
    assert made(quiet(100)).detection_delays() == []
    assert made(quiet(100), alarms=np.array([5, 7])).false_alarms == 2


def test_phase_regret_sums_to_the_total():
    run = made(quiet(100), [30, 60], gaps=np.arange(100))
    assert run.phase_regret() == [sum(range(30)), sum(range(30, 60)), sum(range(60, 100))]
    assert sum(run.phase_regret()) == run.regret[-1]
    stopped = made(quiet(40), [30, 60], gaps=np.arange(40))
    assert stopped.phase_regret() == [sum(range(30)), sum(range(30, 40)), 0.0]
    problem = frozen_lake(slip=(0, 0.5), change_at=(40,), horizon=12)
    run = DQUCB().train(problem, episodes=90)
    assert sum(run.phase_regret()) == pytest.approx(run.regret[-1])
    assert run.phase_regret()[0] == pytest.approx(run.regret[39])
    assert run.steps == run.lengths.sum()
    assert run.lengths.max() <= 12


def discounted():
    P = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 4, 2))
    return ShiftingMDP([TabularMDP(p, np.arange(4) / 4, discount=0.9) for p in P], [333])


@pytest.mark.parametrize("records", [1, 7, 100, 1_000, 5_000])
def test_records_of_a_discounted_run(records):
    run = QUCB().train(discounted(), steps=1_000, records=records)
    assert run.unit == "steps"
    assert run.ends[-1] == run.steps == 1_000
    assert 333 in run.ends
    assert (np.diff(run.ends, prepend=0) == run.lengths).all()
    assert (run.lengths >= 1).all()
    assert min(records, 1_000) <= len(run) <= min(records, 1_000) + 1
    everything = QUCB().train(discounted(), steps=1_000, records=1_000)
    edges = [0, *run.ends]
    sums = [everything.returns[a:b].sum() for a, b in pairwise(edges)]
    np.testing.assert_allclose(run.returns, sums, rtol=1e-12)
    np.testing.assert_allclose(run.regret, everything.regret[run.ends - 1], rtol=1e-9)


def test_stop_at_inside_a_record_stops_at_its_end():
    run = QUCB().train(discounted(), steps=1_000, records=10, stop_at=150)
    assert run.ends.tolist() == [100, 200]


def test_a_run_comes_back_from_its_file(tmp_path):
    run = DQUCB(state_features=np.eye(16, dtype=int)).train(
        frozen_lake(slip=(0, 0.5), change_at=(40,), horizon=12), episodes=90, seed=4, regret="expected"
    )
    loaded = Run.load(run.save(tmp_path / "run.npz"))
    for name, value in vars(run).items():
        if isinstance(value, np.ndarray):
            assert getattr(loaded, name).tobytes() == value.tobytes()
            assert getattr(loaded, name).dtype == value.dtype
        else:
            assert getattr(loaded, name) == value, name
    assert loaded.phase_regret() == run.phase_regret()
    assert repr(loaded) == repr(run)
    assert "DQUCB on frozen-lake" in repr(run)
    assert len(loaded) == 90
    assert set(run.versions) == {"code", "python", "dqucb", "numpy", "numba"}


def test_a_run_with_unknown_regret_comes_back(tmp_path):
    run = made(quiet(5), gaps=np.full(5, np.nan))
    assert np.isnan(Run.load(run.save(tmp_path / "run.npz")).regret).all()


def rewrite(path, change_settings=(), kind="Run", **changed):
    settings, arrays = _storage.load(path, kind)
    settings = {name: value for name, value in {**settings, **dict(change_settings)}.items() if value is not ...}
    arrays = {name: array for name, array in {**arrays, **changed}.items() if array is not None}
    _storage.save(path, "Run", settings, **arrays)


@pytest.mark.parametrize(
    "changed",
    [
        {"returns": None},
        {"returns": np.zeros(4)},
        {"returns": np.float64(1)},
        {"returns": np.zeros((5, 1))},
        {"gaps": np.zeros(5, np.float32)},
        {"ends": np.arange(5)},
        {"ends": np.arange(5, 0, -1)},
        {"ends": np.float64(3)},
        {"lengths": np.zeros(5, np.int64)},
        {"lengths": np.ones(5, np.int32)},
        {"alarms": np.array([3, 1])},
        {"alarms": np.zeros(2)},
    ],
    ids=str,
)
def test_damaged_curves_are_refused(changed, tmp_path):
    path = made(quiet(5)).save(tmp_path / "run.npz")
    rewrite(path)
    Run.load(path)
    rewrite(path, **changed)
    with pytest.raises(SavedFileError, match=r"run\.npz: not a complete run"):
        Run.load(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": ...},
        {"seed": "one"},
        {"seconds": None},
        {"unit": "years"},
        {"change_at": 3},
        {"change_at": ["x"]},
        {"regret_form": "none"},
        {"parameters": []},
        {"agent": 1},
        {"extra": 1},
    ],
    ids=str,
)
def test_damaged_settings_are_refused(changed, tmp_path):
    path = made(quiet(5)).save(tmp_path / "run.npz")
    rewrite(path, changed)
    with pytest.raises(SavedFileError, match=r"run\.npz: not a complete run"):
        Run.load(path)


def test_files_that_are_no_runs(tmp_path):
    path = made(quiet(50)).save(tmp_path / "run.npz")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for content in (b"", whole[:10], whole[: len(whole) // 2], rng.bytes(len(whole)), b"PK\x03\x04" + rng.bytes(500)):
        path.write_bytes(content)
        with pytest.raises(SavedFileError, match=r"run\.npz"):
            Run.load(path)
    with pytest.raises(SavedFileError, match=r"none\.npz"):
        Run.load(tmp_path / "none.npz")
    agent = dqucb.QUCB()
    agent.start(3, 2, horizon=2)
    with pytest.raises(SavedFileError, match="holds a Agent, expected a Run"):
        Run.load(agent.save(tmp_path / "agent.npz"))
    rewrite(tmp_path / "agent.npz", kind="Agent")
    with pytest.raises(SavedFileError, match="not a complete run"):
        Run.load(tmp_path / "agent.npz")


@pytest.mark.parametrize("name", ["returns", "gaps", "likelihood"])
def test_a_file_with_nan_in_it_is_no_run(name, tmp_path):
    run = QUCB().train(gridworld(0.1, rows=2, cols=2, horizon=3), episodes=5)
    getattr(run, name)[2] = np.nan
    with pytest.raises(SavedFileError, match=rf"broken\.npz: not a complete run \({name} must be finite"):
        Run.load(run.save(tmp_path / "broken.npz"))
    getattr(run, name)[:] = np.nan
    if name != "returns":  # unknown for the whole run
        assert len(Run.load(run.save(tmp_path / "unknown.npz"))) == 5
