"""Saved agents: they come back whole, and damaged or forged files are refused."""

import json
import pickle
import zipfile
from copy import deepcopy

import numpy as np
import pytest
from agent_cases import CASES, IDS, SIZE, S, assert_same, copy, task

import dqucb
from dqucb import DQUCB, QUCB, UCBMQ, UCBVI, SavedFileError, _storage
from dqucb._kernels.window_pools import ENTRY_START, RING_START


@pytest.mark.parametrize(("agent", "kind"), CASES, ids=IDS)
def test_saved_agents_come_back(agent, kind, tmp_path):
    agent = copy(agent)
    agent.train(task(kind), seed=1, **SIZE[kind])
    path = agent.save(tmp_path / "agent.npz")
    loaded = type(agent).load(path)
    assert loaded.parameters() == agent.parameters()
    assert loaded.q_.tobytes() == agent.q_.tobytes()
    assert loaded.visits_.tobytes() == agent.visits_.tobytes()
    np.testing.assert_array_equal(loaded.greedy_policy(), agent.greedy_policy())
    again = loaded.save(tmp_path / "again.npz")
    assert contents(again)[1].keys() == contents(path)[1].keys()
    with pytest.raises(SavedFileError, match="expected a UCBMQ" if kind == "discount" else "holds a .*expected a"):
        (UCBMQ if not isinstance(agent, UCBMQ) else UCBVI).load(path)


def test_a_stepped_agent_comes_back(tmp_path):
    agent = DQUCB(window=4).start(5, 2, horizon=3)
    rng = np.random.default_rng(0)
    script = [(int(s), int(a), 0.5, int(y), int(h)) for s, a, y, h in rng.integers([5, 2, 5, 3], size=(200, 4))]
    for step in script[:100]:
        agent.observe(*step)
    path = agent.save(tmp_path / "agent.npz")
    assert path.stat().st_size < 100_000
    loaded = DQUCB.load(path)
    for step in script[100:]:
        assert loaded.observe(*step) == agent.observe(*step)
    assert loaded.q_.tobytes() == agent.q_.tobytes()


def contents(path):
    return _storage.load(path, "Agent")


def write(path, settings, arrays):
    _storage.save(path, "Agent", settings, **arrays)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The content of one saved agent of each kind of table."""
    folder = tmp_path_factory.mktemp("saved")
    agents = {
        "dqucb": (DQUCB(window=6), "horizon"),
        "step": (DQUCB(window=9, scope="step"), "horizon"),
        "oracle": (DQUCB(window=6, likelihood="oracle"), "horizon"),
        "ucbvi": (UCBVI(), "horizon"),
        "ucbmq": (UCBMQ(), "horizon"),
        "discounted": (DQUCB(window=6), "discount"),
    }
    found = {}
    for name, (agent, kind) in agents.items():
        agent.train(task(kind), seed=1, stop_at=60, **SIZE[kind])
        found[name] = contents(agent.save(folder / f"{name}.npz"))
    return found


def test_damaged_files_are_refused(saved, tmp_path):
    path = tmp_path / "agent.npz"
    write(path, *saved["dqucb"])
    whole = path.read_bytes()
    dqucb.Agent.load(path)
    rng = np.random.default_rng(0)
    for size in (0, 1, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SavedFileError, match=r"agent\.npz"):
            dqucb.Agent.load(path)
    path.write_bytes(rng.bytes(5_000))
    with pytest.raises(SavedFileError):
        dqucb.Agent.load(path)
    with pytest.raises(SavedFileError):
        dqucb.Agent.load(tmp_path / "none.npz")
    for place in rng.integers(len(whole), size=60):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            dqucb.Agent.load(path)  # some bytes of a zip file mean nothing
        except SavedFileError:
            continue


def test_a_run_is_not_an_agent(tmp_path):
    run = QUCB().train(task("horizon"), episodes=90)
    with pytest.raises(SavedFileError, match="holds a Run, expected a Agent"):
        dqucb.Agent.load(run.save(tmp_path / "run.npz"))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("a.txt", "not an array")
    with pytest.raises(SavedFileError):
        dqucb.Agent.load(tmp_path / "x.npz")


def changed(array, value, where=0):
    array = array.copy()
    array.flat[where] = value
    return array


def first_used(array):
    return np.flatnonzero(array.ravel() >= 0)[0]


def with_tuple(held, change):
    """With another first tuple of the first window."""
    place = held.view(np.int32)[ENTRY_START]
    return changed(held, change(held[place]), place)


TAMPERED = [
    ("dqucb", "learner.q.visits", lambda x: changed(x, -1)),
    ("dqucb", "learner.q.visits", lambda x: x.astype(np.int64)),
    ("dqucb", "learner.q.visits", lambda x: x[:-1]),
    ("dqucb", "learner.q.Q", lambda x: changed(x, np.nan)),
    ("dqucb", "learner.q.Q", lambda x: x.astype(np.float32)),
    ("dqucb", "learner.q.V", lambda x: x[:, :-1]),
    ("dqucb", "bounds", lambda x: x[:-1]),
    ("dqucb", "bounds", lambda x: x.astype(int)),
    ("dqucb", "learner.q.bounds", lambda x: np.append(x, 0.0)),
    ("dqucb", "learner.windows.slot", lambda x: changed(x, 10**6)),
    ("dqucb", "learner.windows.slot", lambda x: changed(x, 4, first_used(x))),
    ("dqucb", "learner.windows.held", lambda x: changed(x.view(np.int32), 10**6, RING_START).view(np.int64)),
    ("dqucb", "learner.windows.held", lambda x: changed(x.view(np.int32), 0, ENTRY_START).view(np.int64)),
    ("dqucb", "learner.windows.held", lambda x: x[:-1]),
    ("dqucb", "learner.windows.ring", lambda x: changed(x, 60_000)),
    ("dqucb", "learner.windows.held", lambda x: with_tuple(x, lambda word: (S << 32) + (word & 0xFFFFFFFF))),
    ("dqucb", "learner.windows.held", lambda x: with_tuple(x, lambda word: word + 1)),
    ("dqucb", "learner.windows.used", lambda x: x * 2),
    ("dqucb", "learner.windows.used", lambda x: -x),
    ("step", "learner.windows.chain", lambda x: np.full_like(x, 10**6)),
    ("step", "learner.windows.first", lambda x: changed(x, 10**6)),
    ("step", "learner.windows.first", lambda x: np.full_like(x, -1)),
    ("oracle", "learner.windows.held", lambda x: with_tuple(x, lambda word: (2 << 32) + (word & 0xFFFFFFFF))),
    ("ucbvi", "learner.successors", lambda x: changed(x, S + 1)),
    ("ucbvi", "learner.successors", lambda x: changed(x, -1)),
    ("ucbvi", "learner.counts", lambda x: changed(x, -3)),
    ("ucbvi", "learner.counts", lambda x: x + 1),
    ("ucbvi", "learner.counts", lambda x: x[..., ::-1]),
    ("ucbvi", "learner.untried", lambda x: changed(x, 0, -1)),
    ("ucbvi", "learner.reward", lambda x: changed(x, np.inf)),
    ("ucbmq", "learner.slot", lambda x: changed(x, 10**6, first_used(x))),
    ("ucbmq", "learner.slot", lambda x: changed(x, -1, first_used(x))),
    ("ucbmq", "learner.slot", lambda x: np.where(x > 0, 0, x)),
    ("ucbmq", "learner.used", lambda x: x + 10**6),
    ("ucbmq", "learner.used", lambda x: x - 1),
    ("ucbmq", "learner.used", lambda x: -x),
    ("ucbmq", "learner.bias", lambda x: x[:1]),
    ("ucbmq", "learner.bias", lambda x: x[:, :-1]),
    ("dqucb", "curve.returns", lambda x: x[:-1]),
    ("dqucb", "curve.returns", lambda x: x.astype(np.float32)),
    ("dqucb", "curve.ends", lambda x: x[::-1]),
    ("dqucb", "curve.ends", lambda x: x + 1),
    ("dqucb", "curve.lengths", lambda x: x[:, None]),
    ("dqucb", "curve.position", lambda x: changed(x, 91, 1)),
    ("dqucb", "curve.position", lambda x: changed(x, -1, 1)),
    ("discounted", "curve.position", lambda x: changed(x, S)),
    ("discounted", "curve.position", lambda x: changed(x, -2)),
    ("discounted", "curve.position", lambda x: x[:1]),
    ("discounted", "curve.lengths", lambda x: x * 1000),
    ("discounted", "curve.lengths", lambda x: -x),
    ("discounted", "learner.visits", lambda x: -x),
    ("discounted", "learner.Qhat", lambda x: x * np.inf),
]


TAMPERED_IDS = [f"{kind}-{name}-{number}" for number, (kind, name, _) in enumerate(TAMPERED)]


@pytest.mark.parametrize(("kind", "name", "change"), TAMPERED, ids=TAMPERED_IDS)
def test_tampered_arrays_are_refused(saved, kind, name, change, tmp_path):
    settings, arrays = saved[kind]
    path = tmp_path / "agent.npz"
    write(path, settings, arrays)
    dqucb.Agent.load(path)
    write(path, settings, {**arrays, name: change(arrays[name])})
    with pytest.raises(SavedFileError, match=r"agent\.npz"):
        dqucb.Agent.load(path)
    write(path, settings, {other: array for other, array in arrays.items() if other != name})
    with pytest.raises(SavedFileError):
        dqucb.Agent.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": {"n_states": 10**15}},
        {"sizes": {"n_states": 7}},
        {"sizes": {"n_states": -8}},
        {"sizes": {"n_actions": 2.5}},
        {"sizes": {"horizon": 5}},
        {"sizes": {"horizon": None}},
        {"sizes": {"discount": 0.5}},
        {"sizes": {"length": "long"}},
        {"sizes": {"extra": 1}},
        {"scalars": {"learner.bonus.scale": 5.0}},
        {"scalars": {"learner.density": 2}},
        {"rng": {"bit_generator": "MT19937"}},
        {"rng": {"state": {"state": "x", "inc": 1}}},
        {"agent": {"name": "Nobody"}},
        {"agent": {"parameters": {"window": -1}}},
        {"agent": {"parameters": {"unknown": 1}}},
        {"agent": {"parameters": {"scope": "shared"}}},
        {"regret_form": "wishful"},
        {"seed": -1},
        {"seconds": "few"},
        {"problem": 3},
    ],
    ids=str,
)
def test_tampered_settings_are_refused(saved, change, tmp_path):
    settings, arrays = saved["dqucb"]
    settings = json.loads(json.dumps(settings))
    for name, value in change.items():
        if isinstance(value, dict):
            settings[name].update(value)
        else:
            settings[name] = value
    write(tmp_path / "agent.npz", settings, arrays)
    with pytest.raises(SavedFileError, match=r"agent\.npz"):
        dqucb.Agent.load(tmp_path / "agent.npz")


def test_a_file_for_other_sizes_cannot_go_on(saved, tmp_path):
    """Tables that agree with each other but not with the problem must not reach its kernels."""
    problem, size = task("horizon"), {"episodes": 90, "seed": 1}
    agent = DQUCB(window=6)
    agent.train(task("horizon", horizon=5), **size, stop_at=60)
    settings, arrays = contents(agent.save(tmp_path / "agent.npz"))
    settings["problem"] = saved["dqucb"][0]["problem"]
    write(tmp_path / "agent.npz", settings, arrays)
    forged = dqucb.Agent.load(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="its horizon is 5, not 6"):
        forged.train(problem, **size)


@pytest.mark.parametrize(("agent", "kind"), CASES, ids=IDS)
def test_a_copied_agent_goes_on_with_the_same_bits(agent, kind):
    whole, part = copy(agent), copy(agent)
    run = whole.train(task(kind), seed=1, **SIZE[kind])
    part.train(task(kind), seed=1, stop_at=50, **SIZE[kind])
    for twin in (deepcopy(part), pickle.loads(pickle.dumps(part))):
        assert_same(run, whole, twin.train(task(kind), seed=1, **SIZE[kind]), twin)
