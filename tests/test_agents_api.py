"""Agents from outside: the same bits by every road, Gymnasium, bad input, saved files, a density of one's own."""

import json
import signal
import zipfile

import gymnasium
import numpy as np
import pytest

import dqucb
from dqucb import (
    DQUCB,
    QUCB,
    UCBMQ,
    UCBVI,
    QLearning,
    Random,
    SavedFileError,
    SelfTuningDQUCB,
    ShiftingMDP,
    TabularMDP,
)
from dqucb.agents import training
from dqucb.envs import TabularEnv
from dqucb.problems import frozen_lake, gridworld

EPISODIC = [
    QUCB(bonus="simplified"),
    DQUCB(window=6),
    DQUCB(window=9, scope="step", likelihood="density", bonus="theory", state_features=np.arange(8)[:, None] // 2),
    DQUCB(window=9, scope="shared", kernel="linear", bandwidth=2.0),
    DQUCB(window=8, likelihood="oracle"),
    DQUCB(window=5, likelihood_noise=0.1),
    UCBVI(),
    UCBVI(planning="real_time"),
    UCBVI(transition_noise=0.05),
    UCBVI(planning="real_time", transition_noise=0.05),
    UCBMQ(),
    SelfTuningDQUCB(memory=20, threshold=2.0),
    QLearning(epsilon=0.3),
    Random(),
]
DISCOUNTED = [agent for agent in EPISODIC if isinstance(agent, QUCB | QLearning | Random)] + [QUCB(act_on="q")]
ROADS = [(agent, "horizon") for agent in EPISODIC] + [(agent, "discount") for agent in DISCOUNTED]
IDS = [f"{agent!r:.60}-{kind}" for agent, kind in ROADS]
S, A = 8, 3
SIZE = {"horizon": {"episodes": 90}, "discount": {"steps": 700}}


def copy(agent):
    return type(agent)(**agent.parameters())


def task(kind, **ends):
    """Two phases, some episodes that end early, a random start in the second phase; with a horizon P_h depends on h."""
    ends = ends or ({"horizon": 6} if kind == "horizon" else {"discount": 0.9})
    steps = [ends["horizon"]] if "horizon" in ends else []
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.full(S, 0.3), size=(2, *steps, S, A))
    R = rng.random((2, S, A))
    starts = (3, np.append(np.full(S - 1, 1 / (S - 1)), 0.0))
    phases = [TabularMDP(P[i], R[i], terminal=[S - 1], initial=starts[i], **ends) for i in range(2)]
    return ShiftingMDP(phases, [20 if kind == "horizon" else 100])


def assert_same(run, agent, other_run, other_agent, generator=True):
    for name in ("returns", "gaps", "likelihood", "lengths", "ends"):
        assert getattr(run, name).tobytes() == getattr(other_run, name).tobytes(), name
    assert agent.q_.tobytes() == other_agent.q_.tobytes()
    assert agent.visits_.tobytes() == other_agent.visits_.tobytes()
    if generator:
        states = [a._training.rng.bit_generator.state for a in (agent, other_agent)]
        assert states[0] == states[1]


# ---- the same bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "kind"), ROADS, ids=IDS)
def test_seed_decides_and_blocks_do_not(agent, kind, monkeypatch):
    problem, size = task(kind), SIZE[kind]
    whole, again, other = copy(agent), copy(agent), copy(agent)
    run = whole.train(problem, seed=3, **size)
    monkeypatch.setattr(training, "FIRST_BLOCK", 1)
    monkeypatch.setattr(training, "BLOCK_SECONDS", 0.0)  # blocks never grow
    assert_same(run, whole, again.train(problem, seed=3, **size), again)
    assert other.train(problem, seed=4, **size).returns.tobytes() != run.returns.tobytes()


@pytest.mark.parametrize("regret", ["realized", "expected"])
@pytest.mark.parametrize(("agent", "kind"), ROADS, ids=IDS)
def test_stop_save_load_and_resume(agent, kind, regret, tmp_path):
    problem, size = task(kind), {**SIZE[kind], "regret": regret, "records": 50}
    whole, part = copy(agent), copy(agent)
    run = whole.train(problem, seed=1, **size)
    for stop in (10, 21, 77) if kind == "horizon" else (30, 101, 655):
        short = part.train(problem, seed=1, stop_at=stop, **size, **({"resume": part} if part._training else {}))
        assert short.ends[-1] == (stop if kind == "horizon" else run.ends[run.ends >= stop][0])
        assert short.returns.tobytes() == run.returns[: len(short)].tobytes()
        part = dqucb.load_agent(part.save(tmp_path / "agent.npz"))
    assert_same(run, whole, part.train(problem, seed=1, resume=part, **size), part)


RESUMED = """
import sys, numpy as np
sys.path.insert(0, "tests")
import test_agents_api as t
for number, (agent, kind) in enumerate(t.ROADS):
    agent = t.dqucb.load_agent(f"{FOLDER}/{number}.npz")
    agent.train(t.task(kind), seed=1, resume=agent, **t.SIZE[kind]).save(f"{FOLDER}/{number}.run.npz")
    agent.save(f"{FOLDER}/{number}.npz")
"""


def test_resume_in_a_new_process(run_python, tmp_path):
    whole = []
    for number, (agent, kind) in enumerate(ROADS):
        first, part = copy(agent), copy(agent)
        whole.append((first.train(task(kind), seed=1, **SIZE[kind]), first))
        part.train(task(kind), seed=1, stop_at=50, **SIZE[kind])
        part.save(tmp_path / f"{number}.npz")
    run_python(f"FOLDER = {str(tmp_path)!r}" + RESUMED)
    for number, (run, agent) in enumerate(whole):
        resumed = dqucb.load_agent(tmp_path / f"{number}.npz")
        assert_same(run, agent, dqucb.Run.load(tmp_path / f"{number}.run.npz"), resumed)


def test_an_interrupted_run_goes_on_with_the_same_bits():
    """A signal that arrives while a kernel runs is raised as soon as it returns: nothing may be lost then."""

    def interrupt(*_):
        raise KeyboardInterrupt

    grid = gridworld(rows=4, cols=5, horizon=50, change_at=(20_000,))
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for agent, problem, size in (
            (DQUCB(window=20), grid, {"episodes": 30_000}),
            (DQUCB(window=20), task("discount"), {"steps": 1_000_000}),
        ):
            whole = copy(agent)
            run = whole.train(problem, **size)
            for delay in (0.002, 0.004, 0.008, 0.02):
                signal.setitimer(signal.ITIMER_REAL, delay)
                try:
                    agent.train(problem, **size, **({"resume": agent} if agent._training else {}))
                except KeyboardInterrupt:
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert_same(run, whole, agent.train(problem, resume=agent, **size), agent)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.nojit
def test_the_same_bits_without_the_jit(same_bits_without_jit):
    same_bits_without_jit("""
import sys, hashlib
sys.path.insert(0, "tests")
import test_agents_api as t
for agent, kind in t.ROADS:
    for regret in ("realized", "expected"):
        size = {"episodes": 30} if kind == "horizon" else {"steps": 130, "records": 20}
        run = t.copy(agent).train(t.task(kind), seed=2, regret=regret, **size)
        curves = (run.returns, run.gaps, run.likelihood)
        print(repr(agent), kind, [hashlib.sha256(x.tobytes()).hexdigest() for x in curves])
    agent = t.copy(agent)
    agent.train(t.task(kind), seed=2, **size)
    print(hashlib.sha256(agent.q_.tobytes() + agent.visits_.tobytes()).hexdigest())
""")


@pytest.mark.parametrize(("agent", "kind"), ROADS, ids=IDS)
def test_the_gymnasium_face_gives_the_bits_of_the_fused_loop(agent, kind):
    problem, size = task(kind), {**SIZE[kind], "records": 40}
    fused, stepped = copy(agent), copy(agent)
    run = fused.train(problem, seed=7, **size)
    assert_same(run, fused, stepped.train(TabularEnv(problem), seed=7, **size), stepped, generator=False)


@pytest.mark.parametrize(
    "agent",
    [QUCB(), DQUCB(window=6), DQUCB(window=6, scope="step"), UCBVI(), UCBMQ(), SelfTuningDQUCB(threshold=2.0)],
    ids=repr,
)
def test_a_loop_of_ones_own_gives_the_bits_of_the_fused_loop(agent):
    problem = task("horizon")
    fused = copy(agent)
    run = fused.train(problem, episodes=90, seed=7)
    env = TabularEnv(problem)
    state, _ = env.reset(seed=7)
    agent.start(S, A, horizon=6, length=90)
    returns = []
    for _ in range(90):
        total, over, step = 0.0, False, 0
        while not over:
            action = agent.act(state, step)
            after, reward, terminated, truncated, _ = env.step(action)
            bonus, p = agent.observe(state, action, reward, after, step, terminated)
            assert bonus > 0
            assert 0 < p <= 1
            state, over, step, total = after, terminated or truncated, step + 1, total + reward
        agent.end_episode()
        returns.append(total)
        state, _ = env.reset()
    assert np.array(returns).tobytes() == run.returns.tobytes()
    assert agent.q_.tobytes() == fused.q_.tobytes()
    np.testing.assert_array_equal(agent.visits_, fused.visits_)
    np.testing.assert_array_equal(agent.greedy_policy(), fused.greedy_policy())


def test_a_density_of_ones_own():
    problem = task("horizon")
    fused = DQUCB(kernel="tophat", bandwidth=1.0, window=50)
    own = DQUCB(density=lambda S, A, H: dqucb.TransitionCounts(S, A, horizon=H, window=50))
    run = fused.train(problem, episodes=90, seed=2)
    assert_same(run, fused, own.train(TabularEnv(problem), episodes=90, seed=2), own, generator=False)
    assert (run.likelihood < 1).any()
    with pytest.raises(ValueError, match=r"density of your own.*TabularEnv"):
        own.train(problem, episodes=90)
    with pytest.raises(ValueError, match="density must be a function"):
        DQUCB(density="counts")
    with pytest.raises(ValueError, match="cannot be saved"):
        own.save("never.npz")


def test_windows_take_memory_for_what_is_visited():
    problem = gridworld(rows=100, cols=100, horizon=200, noise=0.1, change_at=())
    agent = DQUCB(window=100)
    run = agent.train(problem, episodes=300)
    assert run.steps == 60_000
    windows = agent._training.learner.windows
    header, ring, entries = windows.used
    held = windows.slot.nbytes + header * 4 + ring * windows.ring.itemsize + entries * 8
    assert held < 60e6
    pools = [windows.header, windows.ring, windows.held, windows.chain, windows.first]
    assert sum(pool.nbytes for pool in pools) < 100e6  # the room that is reserved, too


def test_stepping_goes_on_after_training():
    """Memory for the windows is reserved anew for each table, whatever was stepped before."""
    agent = DQUCB(window=50)
    agent.start(S, A, horizon=6)
    agent.observe(0, 0, 0.0, 1, 0)
    agent.train(task("horizon"), episodes=41)
    reference = DQUCB(window=50)
    reference.train(task("horizon"), episodes=41)
    rng = np.random.default_rng(0)
    for _ in range(9_000):
        step = (int(rng.integers(S)), int(rng.integers(A)), 0.5, int(rng.integers(S)), int(rng.integers(6)), False)
        assert agent.observe(*step) == reference.observe(*step)
    assert agent.q_.tobytes() == reference.q_.tobytes()


def test_ucbvi_meets_successors_that_the_problem_did_not_have(tmp_path):
    agent = UCBVI()
    agent.train(task("horizon"), episodes=41)
    stepped = UCBVI()
    stepped.train(TabularEnv(task("horizon")), episodes=41)
    for after in range(S):
        for learner in (agent, stepped):
            learner.observe(0, 1, 0.25, after, 2)
        agent = dqucb.load_agent(agent.save(tmp_path / "a.npz"))
    agent.end_episode(), stepped.end_episode()
    assert agent.visits_[2, 0, 1] == stepped.visits_[2, 0, 1]
    np.testing.assert_array_equal(agent.q_, stepped.q_)
    assert agent._training.learner.counts[2, 0, 1].sum() == agent.visits_[2, 0, 1]
    untouched = UCBVI()
    untouched.train(task("horizon"), episodes=41)
    changed = agent.visits_ - untouched.visits_
    assert changed.sum() == changed[2, 0, 1] == S


# ---- Gymnasium --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [QUCB(), DQUCB(), UCBVI(), UCBMQ(), QLearning(), Random()], ids=repr)
def test_training_on_a_gymnasium_env(agent):
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    run = agent.train(env, episodes=300, horizon=20)
    assert run.unit == "episodes"
    assert len(run) == 300
    assert run.problem == {"problem": "FrozenLake-v1"}
    assert np.isnan(run.regret).all()
    assert np.isfinite(run.returns).all()
    assert agent.q_.shape == (20, 16, 4)
    again = copy(agent)
    assert again.train(env, episodes=300, horizon=20).returns.tobytes() == run.returns.tobytes()


def test_training_on_a_gymnasium_env_learns_and_takes_a_discount():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    run = QUCB(bonus_scale=0.01).train(env, steps=4_000, discount=0.9, records=40)
    assert run.unit == "steps"
    assert len(run) == 40
    run = UCBVI(bonus_scale=0.05).train(env, episodes=2_000, horizon=8)
    assert run.returns[-200:].mean() > 0.9


def test_errors_of_gymnasium_envs():
    lake_env = gymnasium.make("FrozenLake-v1")
    for size, message in (
        ({"episodes": 5}, "one of horizon= and discount="),
        ({"episodes": 5, "horizon": 5, "discount": 0.9}, "one of horizon= and discount="),
        ({"steps": 5, "horizon": 5}, "takes episodes=, got episodes=None, steps=5"),
        ({"episodes": 5, "discount": 0.5}, "takes steps="),
        ({"episodes": 0, "horizon": 5}, "episodes must be an integer >= 1, got 0"),
        ({"episodes": 5, "horizon": 2.5}, "horizon must be an integer >= 1, got 2.5"),
        ({"steps": 5, "discount": 1.5}, "discount must be .*got 1.5"),
        ({"episodes": 5, "horizon": 5, "regret": "expected"}, "regret='expected'.*Gymnasium"),
        ({"episodes": 5, "horizon": 5, "stop_at": 3}, "stop_at=3.*Gymnasium"),
    ):
        with pytest.raises(ValueError, match=message):
            QUCB().train(lake_env, **size)
    with pytest.raises(ValueError, match=r"observation_space must be Discrete.*Box.*wrap the env"):
        QUCB().train(gymnasium.make("CartPole-v1"), episodes=5, horizon=5)
    with pytest.raises(ValueError, match="problem must be a TabularMDP, a ShiftingMDP or a Gymnasium env, got 5"):
        QUCB().train(5, episodes=5)
    with pytest.raises(ValueError, match="horizon must be 6, as the env's own problem states, got 3"):
        QUCB().train(TabularEnv(task("horizon")), episodes=90, horizon=3)
    with pytest.raises(ValueError, match="change_at=20 lies at or beyond the end"):
        QUCB().train(TabularEnv(task("horizon")), episodes=20)
    with pytest.raises(ValueError, match=r"oracle.*must know the true transitions"):
        DQUCB(likelihood="oracle").train(lake_env, episodes=5, horizon=5)


# ---- bad input --------------------------------------------------------------------------------------------

BAD_SETTINGS = [
    (QUCB, {"bonus": "rot"}, "bonus must be one of .*got 'rot'; did you mean 'root'"),
    (QUCB, {"bonus_scale": -1}, "bonus_scale must be >= 0, got -1"),
    (QUCB, {"bonus_scale": float("nan")}, "bonus_scale must be .*got nan"),
    (QUCB, {"delta": 0}, "delta must be > 0 and <= 1, got 0"),
    (QUCB, {"learning_rate_horizon": 0}, "learning_rate_horizon must be > 0, got 0"),
    (DQUCB, {"variant": "papr"}, "variant must be one of 'studied', 'paper', got 'papr'"),
    (QUCB, {"act_on": "Q"}, "act_on must be one of 'qhat', 'q', got 'Q'"),
    (DQUCB, {"window": 0}, "window must be an integer >= 1, got 0"),
    (DQUCB, {"window": 2.5}, "window must be an integer >= 1, got 2.5"),
    (DQUCB, {"kernel": "gausian"}, "kernel must be one of .*did you mean 'gaussian'"),
    (DQUCB, {"bandwidth": -1.0}, "bandwidth must be > 0, got -1.0"),
    (DQUCB, {"scope": "pairs"}, "scope must be one of .*did you mean 'pair'"),
    (DQUCB, {"likelihood": "exact"}, "likelihood must be one of .*got 'exact'"),
    (DQUCB, {"likelihood_floor": 0.0}, "likelihood_floor must be > 0 and <= 1, got 0.0"),
    (DQUCB, {"likelihood_floor": 2}, "likelihood_floor must be .*got 2"),
    (DQUCB, {"likelihood_noise": -0.1}, "likelihood_noise must be >= 0, got -0.1"),
    (UCBVI, {"planning": "lazy"}, "planning must be one of 'full', 'real_time', got 'lazy'"),
    (UCBVI, {"transition_noise": float("inf")}, "transition_noise must be .*got inf"),
    (UCBMQ, {"bonus": 3}, "bonus must be one of .*got 3"),
    (QLearning, {"epsilon": 1.5}, "epsilon must be >= 0 and <= 1, got 1.5"),
    (QLearning, {"learning_rate": 0.0}, "learning_rate must be > 0 and <= 1, got 0.0"),
    (QLearning, {"optimistic": "yes"}, "optimistic must be True or False, got 'yes'"),
]


@pytest.mark.parametrize(("cls", "settings", "message"), BAD_SETTINGS, ids=[str(s) for _, s, _ in BAD_SETTINGS])
def test_bad_settings(cls, settings, message):
    with pytest.raises(ValueError, match=message):
        cls(**settings)


def test_bad_training():
    problem, discounted = task("horizon"), task("discount")
    for given, options, message in (
        (problem, {}, "takes episodes=, got episodes=None"),
        (problem, {"steps": 90}, "a problem with a horizon takes episodes="),
        (problem, {"episodes": 90, "steps": 90}, "takes episodes="),
        (discounted, {"episodes": 400}, "a discounted problem takes steps="),
        (problem, {"episodes": 90.0}, "episodes must be an integer >= 1, got 90.0"),
        (problem, {"episodes": 20}, "change_at=20 lies at or beyond the end of a run of episodes=20"),
        (discounted, {"steps": 100}, "change_at=100 lies at or beyond"),
        (problem, {"episodes": 90, "horizon": 6}, "only for Gymnasium envs"),
        (problem, {"episodes": 90, "seed": -1}, "seed must be an integer >= 0, got -1"),
        (problem, {"episodes": 90, "seed": None}, "seed must be an integer >= 0, got None"),
        (problem, {"episodes": 90, "regret": "exact"}, "regret must be one of .*got 'exact'"),
        (problem, {"episodes": 90, "stop_at": 91}, r"stop_at must be an integer in \[1, 90\], got 91"),
        (discounted, {"steps": 400, "records": 0}, "records must be an integer >= 1, got 0"),
        (problem, {"episodes": 90, "resume": QUCB()}, r"resume must be an agent with an unfinished run, got QUCB\(\)"),
        (problem, {"episodes": 90, "resume": "agent.npz"}, "resume must be an agent .*got 'agent.npz'"),
    ):
        agent = QUCB()
        with pytest.raises(ValueError, match=message):
            agent.train(given, **options)
        with pytest.raises(ValueError, match="has learned nothing yet"):
            agent.visits_  # noqa: B018
    for agent in (UCBVI(), UCBMQ()):
        message = rf"{agent.name} needs a problem with a horizon, got discount=0.9: use QUCB"
        with pytest.raises(ValueError, match=message):
            agent.train(discounted, steps=400)
    with pytest.raises(ValueError, match=r"state_features must have shape \(8, axes\), got \(4, 2\)"):
        DQUCB(state_features=np.zeros((4, 2), int)).train(problem, episodes=90)


def test_resume_refuses_another_run():
    problem = task("horizon")
    part = DQUCB(window=7)
    part.train(problem, episodes=90, seed=3, stop_at=50)
    other = frozen_lake(slip=(0, 0.4), change_at=(40,), horizon=12)
    base = {"episodes": 90, "seed": 3}
    for agent, given, options, what in (
        (DQUCB(window=8), problem, base, "parameters"),
        (QUCB(), problem, base, "agent"),
        (DQUCB(window=7), other, base, "problem"),
        (DQUCB(window=7), problem, {**base, "episodes": 91}, "length"),
        (DQUCB(window=7), problem, {**base, "seed": 4}, "seed"),
        (DQUCB(window=7), problem, {**base, "regret": "expected"}, "regret"),
    ):
        with pytest.raises(ValueError, match=f"resume must have the same {what} "):
            agent.train(given, resume=part, **options)
    assert len(part.train(problem, resume=part, **base)) == 90


@pytest.mark.parametrize("agent", [QUCB(), DQUCB(), UCBVI(), UCBMQ(), QLearning(), Random()], ids=repr)
def test_stepping_refuses_bad_input_and_keeps_its_tables(agent):
    agent = copy(agent)
    with pytest.raises(ValueError, match="has learned nothing yet: call train or start first"):
        agent.act(0, 0)
    with pytest.raises(ValueError, match="call train or start first"):
        agent.save("never.npz")
    for sizes, message in (
        ({}, "exactly one of horizon and discount"),
        ({"horizon": 3, "discount": 0.9}, "exactly one of horizon and discount"),
        ({"horizon": 0}, "horizon must be an integer >= 1, got 0"),
        ({"discount": 1.0}, "discount must be .*got 1.0"),
        ({"horizon": 3, "return_bound": -1.0}, "return_bound must be > 0, got -1.0"),
        ({"horizon": 3, "length": 0}, "length must be an integer >= 1, got 0"),
        ({"horizon": 3, "seed": 1.5}, "seed must be an integer >= 0, got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.start(5, 2, **sizes)
    with pytest.raises(ValueError, match="n_states must be an integer >= 1, got 0"):
        agent.start(0, 2, horizon=3)
    agent.start(5, 2, horizon=3)
    agent.observe(1, 1, 0.5, 2, 0)
    q, visits = agent.q_, agent.visits_
    good = {"state": 1, "action": 1, "reward": 0.5, "next_state": 2, "step": 0}
    for change, message in (
        ({"reward": float("nan")}, "reward must be a finite number, got nan"),
        ({"reward": float("inf")}, "reward must be a finite number, got inf"),
        ({"state": 5}, r"state must be an integer in \[0, 4\], got 5"),
        ({"state": -1}, r"state must be an integer in \[0, 4\], got -1"),
        ({"next_state": 5}, r"next_state must be an integer in \[0, 4\], got 5"),
        ({"action": 2}, r"action must be an integer in \[0, 1\], got 2"),
        ({"step": 3}, r"step must be an integer in \[0, 2\], got 3"),
        ({"step": 0.0}, r"step must be an integer in \[0, 2\], got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.observe(**{**good, **change})
    with pytest.raises(ValueError, match="state must be"):
        agent.act(7, 0)
    assert agent.q_.tobytes() == q.tobytes()
    assert agent.visits_.tobytes() == visits.tobytes()


def test_an_oracle_needs_the_true_transitions():
    agent = DQUCB(likelihood="oracle")
    with pytest.raises(ValueError, match="must know the true transitions"):
        agent.start(5, 2, horizon=3)
    agent.train(task("horizon"), episodes=90)
    with pytest.raises(ValueError, match="must know the true transitions"):
        agent.observe(3, 1, 0.0, 4, 2)


def test_agents_print_and_describe_themselves():
    assert repr(DQUCB()) == "DQUCB()"
    assert repr(DQUCB(window=7, bonus="theory")) == "DQUCB(bonus='theory', window=7)"
    assert json.dumps(DQUCB(state_features=np.eye(3, dtype=int)).parameters())
    run = QUCB(bonus_scale=np.float64(0.5)).train(task("horizon"), episodes=90, seed=np.int64(2))
    assert run.seed == 2
    assert type(run.seed) is int


# ---- saved agents -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "kind"), ROADS, ids=IDS)
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
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("settings.json").tobytes()), arrays


def write(path, settings, arrays):
    np.savez(path, **{"settings.json": np.frombuffer(json.dumps(settings).encode(), np.uint8)}, **arrays)


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
    dqucb.load_agent(path)
    rng = np.random.default_rng(0)
    for size in (0, 1, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SavedFileError, match=r"agent\.npz"):
            dqucb.load_agent(path)
    path.write_bytes(rng.bytes(5_000))
    with pytest.raises(SavedFileError):
        dqucb.load_agent(path)
    with pytest.raises(SavedFileError):
        dqucb.load_agent(tmp_path / "none.npz")
    for place in rng.integers(len(whole), size=60):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            dqucb.load_agent(path)  # some bytes of a zip file mean nothing
        except SavedFileError:
            continue


def test_a_run_is_not_an_agent(tmp_path):
    run = QUCB().train(task("horizon"), episodes=90)
    with pytest.raises(SavedFileError, match="holds a Run, expected a Agent"):
        dqucb.load_agent(run.save(tmp_path / "run.npz"))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("a.txt", "not an array")
    with pytest.raises(SavedFileError):
        dqucb.load_agent(tmp_path / "x.npz")


def changed(array, value, where=0):
    array = array.copy()
    array.flat[where] = value
    return array


def first_used(array):
    return np.flatnonzero(array.ravel() >= 0)[0]


TAMPERED = [
    ("dqucb", "learner.visits", lambda x: changed(x, -1)),
    ("dqucb", "learner.visits", lambda x: x.astype(np.int64)),
    ("dqucb", "learner.visits", lambda x: x[:-1]),
    ("dqucb", "learner.Q", lambda x: changed(x, np.nan)),
    ("dqucb", "learner.Q", lambda x: x.astype(np.float32)),
    ("dqucb", "learner.V", lambda x: x[:, :-1]),
    ("dqucb", "bounds", lambda x: x[:-1]),
    ("dqucb", "bounds", lambda x: x.astype(int)),
    ("dqucb", "learner.bounds", lambda x: np.append(x, 0.0)),
    ("dqucb", "window.slot", lambda x: changed(x, 10**6)),
    ("dqucb", "window.slot", lambda x: changed(x, 4, first_used(x))),
    ("dqucb", "window.header", lambda x: changed(x, 10**6, 2)),
    ("dqucb", "window.header", lambda x: x[:-1]),
    ("dqucb", "window.ring", lambda x: changed(x, 60_000)),
    ("dqucb", "window.held", lambda x: (S << 32) + (x & 0xFFFFFFFF)),
    ("dqucb", "window.held", lambda x: x + 1),
    ("dqucb", "window.used", lambda x: x * 2),
    ("dqucb", "window.used", lambda x: -x),
    ("step", "window.chain", lambda x: np.full_like(x, 10**6)),
    ("step", "window.first", lambda x: changed(x, 10**6)),
    ("step", "window.first", lambda x: np.full_like(x, -1)),
    ("oracle", "window.held", lambda x: (2 << 32) + (x & 0xFFFFFFFF)),
    ("ucbvi", "learner.successors", lambda x: changed(x, S)),
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
    dqucb.load_agent(path)
    write(path, settings, {**arrays, name: change(arrays[name])})
    with pytest.raises(SavedFileError, match=r"agent\.npz"):
        dqucb.load_agent(path)
    write(path, settings, {other: array for other, array in arrays.items() if other != name})
    with pytest.raises(SavedFileError):
        dqucb.load_agent(path)


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
        {"scalars": {"scale": 5.0}},
        {"scalars": {"density": 2}},
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
        dqucb.load_agent(tmp_path / "agent.npz")


def test_a_file_for_other_sizes_cannot_be_resumed(saved, tmp_path):
    """Tables that agree with each other but not with the problem must not reach its kernels."""
    problem, size = task("horizon"), {"episodes": 90, "seed": 1}
    agent = DQUCB(window=6)
    agent.train(task("horizon", horizon=5), **size, stop_at=60)
    settings, arrays = contents(agent.save(tmp_path / "agent.npz"))
    settings["problem"] = saved["dqucb"][0]["problem"]
    write(tmp_path / "agent.npz", settings, arrays)
    forged = dqucb.load_agent(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="resume must have the same sizes"):
        forged.train(problem, resume=forged, **size)
