"""Agents from outside: the same bits by every loop, Gymnasium, a density of one's own."""

import signal
import threading

import gymnasium
import numpy as np
import pytest
from agent_cases import CASES, IDS, SIZE, A, S, assert_same, copy, task

import dqucb
from dqucb import DQUCB, QUCB, UCBMQ, UCBVI, QLearning, Random
from dqucb.envs import TabularEnv
from dqucb.problems import frozen_lake, gridworld
from dqucb.running import compiled as training

# ---- the same bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "kind"), CASES, ids=IDS)
def test_seed_decides_and_blocks_do_not(agent, kind, monkeypatch):
    problem, size = task(kind), SIZE[kind]
    whole, again, other = copy(agent), copy(agent), copy(agent)
    run = whole.train(problem, seed=3, **size)
    monkeypatch.setattr(training, "FIRST_BLOCK", 1)
    monkeypatch.setattr(training, "BLOCK_SECONDS", 0.0)  # blocks never grow
    assert_same(run, whole, again.train(problem, seed=3, **size), again)
    assert other.train(problem, seed=4, **size).returns.tobytes() != run.returns.tobytes()


@pytest.mark.parametrize("regret", ["realized", "expected", "pseudo"])
@pytest.mark.parametrize(("agent", "kind"), CASES, ids=IDS)
def test_stop_save_load_and_go_on(agent, kind, regret, tmp_path):
    problem, size = task(kind), {**SIZE[kind], "regret": regret, "records": 50}
    whole, part = copy(agent), copy(agent)
    run = whole.train(problem, seed=1, **size)
    for stop in (10, 21, 77) if kind == "horizon" else (30, 101, 655):
        short = part.train(problem, seed=1, stop_at=stop, **size)
        assert short.ends[-1] == (stop if kind == "horizon" else run.ends[run.ends >= stop][0])
        assert short.returns.tobytes() == run.returns[: len(short)].tobytes()
        part = dqucb.Agent.load(part.save(tmp_path / "agent.npz"))
    assert_same(run, whole, part.train(problem, seed=1, **size), part)


RESUMED = """
import sys, dqucb, numpy as np
sys.path.insert(0, "tests")
import agent_cases as t
for number, (agent, kind) in enumerate(t.CASES):
    agent = dqucb.Agent.load(f"{FOLDER}/{number}.npz")
    agent.train(t.task(kind), seed=1, **t.SIZE[kind]).save(f"{FOLDER}/{number}.run.npz")
    agent.save(f"{FOLDER}/{number}.npz")
"""


def test_resume_in_a_new_process(run_python, tmp_path):
    whole = []
    for number, (agent, kind) in enumerate(CASES):
        first, part = copy(agent), copy(agent)
        whole.append((first.train(task(kind), seed=1, **SIZE[kind]), first))
        part.train(task(kind), seed=1, stop_at=50, **SIZE[kind])
        part.save(tmp_path / f"{number}.npz")
    run_python(f"FOLDER = {str(tmp_path)!r}" + RESUMED)
    for number, (run, agent) in enumerate(whole):
        resumed = dqucb.Agent.load(tmp_path / f"{number}.npz")
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
                    agent.train(problem, **size)
                except KeyboardInterrupt:
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert_same(run, whole, agent.train(problem, **size), agent)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.nojit
def test_the_same_bits_without_the_jit(same_bits_without_jit):
    same_bits_without_jit("""
import sys, hashlib
sys.path.insert(0, "tests")
import agent_cases as t
for agent, kind in t.CASES:
    for regret in ("realized", "expected"):
        size = {"episodes": 30} if kind == "horizon" else {"steps": 130, "records": 20}
        run = t.copy(agent).train(t.task(kind), seed=2, regret=regret, **size)
        curves = (run.returns, run.gaps, run.likelihood)
        print(repr(agent), kind, [hashlib.sha256(x.tobytes()).hexdigest() for x in curves])
    agent = t.copy(agent)
    agent.train(t.task(kind), seed=2, **size)
    print(hashlib.sha256(agent.q_.tobytes() + agent.visits_.tobytes()).hexdigest())
""")


@pytest.mark.parametrize(("agent", "kind"), CASES, ids=IDS)
def test_a_gymnasium_env_gives_the_bits_of_the_fused_loop(agent, kind):
    problem, size = task(kind), {**SIZE[kind], "records": 40}
    fused, stepped = copy(agent), copy(agent)
    run = fused.train(problem, seed=7, **size)
    assert_same(run, fused, stepped.train(TabularEnv(problem), seed=7, **size), stepped, generator=False)


@pytest.mark.parametrize(
    "agent",
    [QUCB(), DQUCB(window=6), DQUCB(window=6, scope="step"), UCBVI(), UCBMQ()],
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


class Own:
    """A density that is written in Python: the share of next states among all that were ever seen."""

    def __init__(self):
        self.reset()

    def push(self, state, action, next_state, step=0):
        self.seen[step, state, action, next_state] = self.seen.get((step, state, action, next_state), 0) + 1

    def likelihood(self, state, action, next_state, step=0):
        total = sum(count for key, count in self.seen.items() if key[:3] == (step, state, action))
        return self.seen.get((step, state, action, next_state), 0) / total if total else 1.0

    def reset(self):
        self.seen = {}

    def state(self):
        return {
            "keys": np.array(list(self.seen), np.int64).reshape(-1, 4),
            "counts": np.array(list(self.seen.values())),
        }

    def restore(self, state):
        self.seen = {tuple(key): int(n) for key, n in zip(state["keys"].tolist(), state["counts"], strict=True)}

    def describe(self):
        return {"name": "own"}


def test_other_densities_by_name_mapping_or_object(tmp_path):
    problem = task("horizon")
    fused = DQUCB(kernel="tophat", bandwidth=1.0, window=50)
    run = fused.train(problem, episodes=90, seed=2)
    assert (run.likelihood < 1).any()
    for density in (
        {"name": "counts", "window": 50},
        dqucb.TransitionCounts(S, A, horizon=6, window=50),
    ):
        own = DQUCB(density=density)
        assert_same(run, fused, own.train(problem, episodes=90, seed=2), own, generator=False)
        loaded = dqucb.Agent.load(own.save(tmp_path / "agent"))
        assert loaded.q_.tobytes() == own.q_.tobytes()
        assert loaded.observe(0, 0, 0.5, 1, 2) == own.observe(0, 0, 0.5, 1, 2)
    everything = DQUCB(density=Own()).train(problem, episodes=90, seed=2)
    assert (everything.likelihood < 1).any()
    for name in dqucb.DENSITIES:
        assert DQUCB(density=name).train(problem, episodes=30, seed=2).steps > 0
    for density, message in (("count", "unknown density 'count': did you mean counts"), (3, "density must be one of")):
        with pytest.raises(ValueError, match=message):
            DQUCB(density=density)
    with pytest.raises(ValueError, match="the density is for n_states=3, the problem has n_states=8"):
        DQUCB(density=dqucb.TransitionCounts(3, A)).train(problem, episodes=90)


def test_windows_take_memory_for_what_is_visited():
    problem = gridworld(rows=100, cols=100, horizon=200, noise=0.1, change_at=())
    agent = DQUCB(window=100)
    run = agent.train(problem, episodes=300)
    assert run.steps == 60_000
    windows = agent._started().learner.windows
    ring, entries = windows.used
    held = windows.slot.nbytes + ring * windows.ring.itemsize + entries * 8
    assert held < 60e6
    pools = [windows.ring, windows.held, windows.chain, windows.first]
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
        agent = dqucb.Agent.load(agent.save(tmp_path / "a.npz"))
    agent.end_episode(), stepped.end_episode()
    assert agent.visits_[2, 0, 1] == stepped.visits_[2, 0, 1]
    np.testing.assert_array_equal(agent.q_, stepped.q_)
    assert agent._started().learner.counts[2, 0, 1].sum() == agent.visits_[2, 0, 1]
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
    assert run.problem["problem"] == "FrozenLake-v1"
    assert run.problem["is_slippery"] is False
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
        ({"steps": 5}, "one of horizon= and discount="),
        ({"episodes": 5, "horizon": 5, "discount": 0.9}, "at most one of horizon and discount"),
        ({"steps": 5, "horizon": 5}, "takes episodes=, got steps=5"),
        ({"episodes": 5, "discount": 0.5}, "takes steps="),
        ({"episodes": 0, "horizon": 5}, "episodes must be an integer >= 1, got 0"),
        ({"episodes": 5, "horizon": 2.5}, "horizon must be an integer >= 1, got 2.5"),
        ({"steps": 5, "discount": 1.5}, "discount must be .*got 1.5"),
        ({"episodes": 5, "horizon": 5, "regret": "expected"}, "regret='expected' is for finite problems"),
    ):
        with pytest.raises(ValueError, match=message):
            QUCB().train(lake_env, **size)
    with pytest.raises(ValueError, match=r"observation_space must be finite.*Box.*with a wrapper"):
        QUCB().train(gymnasium.make("CartPole-v1"), episodes=5, horizon=5)
    with pytest.raises(
        ValueError, match=r"problem must be a TabularMDP, a ShiftingMDP, a Gymnasium env, its id.*got 5"
    ):
        QUCB().train(5, episodes=5)
    with pytest.raises(ValueError, match="horizon must be 6, as the env's own problem states, got 3"):
        QUCB().train(TabularEnv(task("horizon")), episodes=90, horizon=3)
    with pytest.raises(ValueError, match="change_at=20 lies at or beyond the end"):
        QUCB().train(TabularEnv(task("horizon")), episodes=20)
    with pytest.raises(ValueError, match=r"oracle.*must know the true transitions"):
        DQUCB(likelihood="oracle").train(lake_env, episodes=5, horizon=5)


def test_ids_and_functions_are_problems_too():
    by_env = QUCB().train(gymnasium.make("FrozenLake-v1"), episodes=30)
    by_id = QUCB().train("FrozenLake-v1", episodes=30)
    by_function = QUCB().train(lambda: gymnasium.make("FrozenLake-v1"), episodes=30)
    assert by_env.returns.tobytes() == by_id.returns.tobytes() == by_function.returns.tobytes()
    assert by_env.problem == by_id.problem == by_function.problem
    with pytest.raises(ValueError, match=r"problem must be an env that exists, got 'FrozenLak-v1'"):
        QUCB().train("FrozenLak-v1", episodes=30)


def test_change_points_of_a_foreign_env():
    run = QUCB().train("FrozenLake-v1", episodes=30, change_at=[10, 20], max_return=1.0)
    assert run.change_at == (10, 20)
    assert len(run.phase_regret()) == 3
    assert run.gaps.tolist() == (1.0 - run.returns).tolist()
    with pytest.raises(ValueError, match="change_at must increase strictly"):
        QUCB().train("FrozenLake-v1", episodes=30, change_at=[20, 10])
    with pytest.raises(ValueError, match=r"change_at must be \(20,\), as the problem states, got \(5,\)"):
        QUCB().train(task("horizon"), episodes=30, change_at=5)


# ---- stopping, callbacks, checkpoints -----------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["FrozenLake-v1", task("horizon")], ids=["env", "problem"])
def test_a_callback_sees_the_run_and_stops_it(problem):
    whole = DQUCB().train(problem, episodes=90, seed=2)
    seen = []

    def watch(moment):
        run = moment.runs()[0]
        seen.append((moment.done, moment.length, moment.unit, len(run), moment.agent.name))
        return len(seen) < 2

    agent = DQUCB()
    stopped = agent.train(problem, episodes=90, seed=2, stop_at=40, callback=watch)
    assert seen[0][1:3] == (90, "episodes")
    assert seen[0][0] == seen[0][3] <= 40
    assert len(stopped) <= 40
    assert agent.train(problem, episodes=90, seed=2).returns.tobytes() == whole.returns.tobytes()


def test_a_checkpoint_goes_on_in_another_agent(tmp_path, monkeypatch):
    problem, path = task("horizon"), tmp_path / "checkpoint"
    whole = DQUCB().train(problem, episodes=90, seed=2)
    DQUCB().train(problem, episodes=90, seed=2, stop_at=40, checkpoint=path)
    run = DQUCB().train(problem, episodes=90, seed=2, checkpoint=path)
    assert run.returns.tobytes() == whole.returns.tobytes()
    assert DQUCB().train(problem, episodes=90, seed=2, checkpoint=path).returns.tobytes() == whole.returns.tobytes()
    with pytest.raises(ValueError, match=r"checkpoint .* is of another run: its seed is 2, not 3"):
        DQUCB().train(problem, episodes=90, seed=3, checkpoint=path)
    with pytest.raises(ValueError, match="the checkpoint is of another agent"):
        DQUCB(window=5).train(problem, episodes=90, seed=2, checkpoint=path)
    path.write_bytes(b"damaged")
    with pytest.raises(dqucb.SavedFileError, match="checkpoint"):
        DQUCB().train(problem, episodes=90, seed=2, checkpoint=path)


def test_a_loaded_agent_never_starts_again_silently(tmp_path):
    agent = DQUCB()
    agent.train(task("horizon"), episodes=90, seed=2)
    loaded = dqucb.Agent.load(agent.save(tmp_path / "agent"))
    with pytest.raises(ValueError, match="finished run of 90 episodes"):
        loaded.train(task("horizon"), episodes=90, seed=2)
    assert loaded.clone().train(task("horizon"), episodes=90, seed=2).steps > 0
    on_env = DQUCB()
    on_env.train("FrozenLake-v1", episodes=20, stop_at=10)
    loaded = dqucb.Agent.load(on_env.save(tmp_path / "agent"))
    with pytest.raises(ValueError, match="cannot be resumed"):
        loaded.train("FrozenLake-v1", episodes=20)


def test_an_agent_with_an_unfinished_run_refuses_another_one():
    agent = DQUCB()
    agent.train(task("horizon"), episodes=90, stop_at=30)
    for change, message in (
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"episodes": 91}, "its length is 90, not 91"),
        ({"regret": "expected"}, "its regret_form is 'realized', not 'expected'"),
    ):
        with pytest.raises(ValueError, match=message):
            agent.train(task("horizon"), **{"episodes": 90, **change})
    with pytest.raises(ValueError, match="holds another run"):
        agent.train(gridworld(change_at=(20,)), episodes=90)


def test_train_seeds():
    runs = DQUCB().train_seeds(task("horizon"), seeds=[3, 5], episodes=30)
    assert [run.seed for run in runs] == [3, 5]
    assert runs[1].returns.tobytes() == DQUCB().train(task("horizon"), episodes=30, seed=5).returns.tobytes()
    for seeds, message in (
        ([1, 1], "different seeds"),
        ([], "different seeds"),
        (0, "seeds must be"),
        ("a", "each of"),
    ):
        with pytest.raises(ValueError, match=message):
            DQUCB().train_seeds(task("horizon"), seeds=seeds, episodes=30)
    with pytest.raises(ValueError, match="takes seeds, not seed"):
        DQUCB().train_seeds(task("horizon"), seeds=2, episodes=30, seed=1)


def test_one_agent_serves_one_thread_at_a_time():
    agent, refused = DQUCB(), []
    lake = frozen_lake(change_at=(100, 200))

    def elsewhere():
        for call in (lambda: agent.train(lake, episodes=300), lambda: agent.act(0), lambda: agent.save("never")):
            with pytest.raises(RuntimeError, match="in use by another thread") as caught:
                call()
            refused.append(caught)

    def callback(moment):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return False

    agent.train(lake, episodes=300, callback=callback)
    assert len(refused) == 3
    assert agent.train(lake, episodes=300).returns.tobytes() == DQUCB().train(lake, episodes=300).returns.tobytes()
