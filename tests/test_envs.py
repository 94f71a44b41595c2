"""Gymnasium envs: the checker, seeding, the draws of the compiled loops, shifts, rendering, ShiftWrapper."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from naive_planning import random_arrays

import dqucb.envs
from dqucb._kernels import model as kernels
from dqucb._kernels._jit import kernel
from dqucb.envs import CartPoleEnv, ShiftWrapper, TabularEnv
from dqucb.envs.making import env_identity
from dqucb.problems import ShiftingMDP, TabularMDP, frozen_lake, gridworld, two_rooms

IDS = ["dqucb/GridWorld-v0", "dqucb/TwoRooms-v0", "dqucb/FrozenLake-v0"]


@kernel
def walk(model, change_at, horizon, actions, rng, states, rewards):
    """What a fused loop does: one uniform per step, one more per episode when the start is random."""
    position = 0
    for episode in range(actions.shape[0]):
        phase = 0
        for index in change_at:
            if episode >= index:
                phase += 1
        state = kernels.draw_initial(model, phase, rng)
        states[position] = state
        position += 1
        for step in range(horizon):
            row = kernels.row_of(model, phase, step, state, actions[episode, step])
            state, reward = kernels.draw(model, row, rng.random())
            states[position] = state
            rewards[position] = reward
            position += 1
            if model.terminal[state]:
                break
    return position


def random_problem(seed, steps):
    """Two phases with random starts; transitions by step when steps > 1."""
    phases = []
    for number in range(2):
        P, R, _, initial = random_arrays(seed + number, 5, 3, steps, random_start=True)
        dense = (P, R) if steps > 1 else (P[0], R[0])
        start = np.where(np.arange(5) == 2, 0.0, initial) + 1e-3 * (np.arange(5) != 2)
        phases.append(TabularMDP(*dense, horizon=6, terminal=[2], initial=start / start.sum()))
    return ShiftingMDP(phases, [7])


@pytest.mark.parametrize(
    "problem",
    [
        gridworld(change_at=(5,), horizon=30),
        two_rooms(change_at=(5,), horizon=30),
        frozen_lake(change_at=(5, 12), horizon=40),
        frozen_lake(slip=0.5, map=["SFFG", "SFHF"], horizon=9),
        random_problem(1, 1),
        random_problem(2, 6),
    ],
    ids=repr,
)
@pytest.mark.parametrize("seed", [0, 12345])
def test_the_env_draws_what_a_fused_loop_draws(problem, seed):
    episodes, horizon = 20, problem.horizon
    actions = np.random.default_rng(99).integers(problem.n_actions, size=(episodes, horizon))
    states, rewards = np.full((2, episodes * (horizon + 1)), -1.0)
    change_at = np.array([*problem.change_at, 10**9])
    length = walk(problem.model, change_at, horizon, actions, np.random.default_rng(seed), states, rewards)
    env = TabularEnv(problem)
    seen = []
    for episode in range(episodes):
        state, info = env.reset(seed=seed if episode == 0 else None)
        assert info == {"phase": problem.phase_at(episode), "episode_number": episode}
        seen.append((state, -1.0))
        for step in range(horizon):
            state, reward, terminated, truncated, info = env.step(actions[episode, step])
            seen.append((state, reward))
            assert info["phase"] == problem.phase_at(episode)
            assert terminated == bool(problem.model.terminal[state])
            assert truncated == (step == horizon - 1 and not terminated)
            if terminated:
                break
    assert seen == list(zip(states[:length].tolist(), rewards[:length].tolist(), strict=True))


@pytest.mark.parametrize("name", IDS)
def test_check_env_is_silent(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name).unwrapped)
        check_env(gymnasium.make(name, discount=0.9, render_mode="ansi").unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_make_passes_the_builders_arguments(name):
    env = gymnasium.make(
        name,
        change_at=(2, 4),
        horizon=3,
        **({"slip": (0, 0.1, 1)} if "Lake" in name else {"noise": (0, 0.1, 1)}),
    )
    assert env.unwrapped.problem.change_at == (2, 4)
    assert env.unwrapped.problem.horizon == 3
    phases = []
    for episode in range(5):
        _, info = env.reset(seed=0 if episode == 0 else None)
        phases.append(info["phase"])
        env.step(0)
    assert phases == [0, 0, 1, 1, 2]


def test_module_style_ids_and_repeated_registration():
    dqucb.envs.register_envs()
    env = gymnasium.make("dqucb.envs:dqucb/FrozenLake-v0")
    assert repr(env.unwrapped).startswith("FrozenLakeEnv(ShiftingMDP('frozen-lake'")


def test_vector_envs():
    envs = gymnasium.make_vec("dqucb/FrozenLake-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=1)
    assert observations.tolist() == [0, 0, 0]
    envs.step(np.array([1, 2, 2]))
    envs.close()


def rollout(env, seed, length):
    result = [env.reset(seed=seed)[0]]
    for step in range(length):
        state, reward, terminated, truncated, _ = env.step(step % 4)
        result.append((state, reward))
        if terminated or truncated:
            result.append(env.reset()[0])
    return result


def test_seeds():
    env = TabularEnv(gridworld(noise=0.9, horizon=10))
    assert rollout(env, 3, 100) == rollout(env, 3, 100)
    assert rollout(env, 3, 100) != rollout(env, 4, 100)


def test_shifts_by_step_and_restart():
    env = TabularEnv(gridworld(noise=(0.0, 0.1, 0.2), change_at=(4, 6), horizon=3), unit="steps")
    phases = []
    env.reset(seed=0)
    for step in range(8):
        phases.append(env.step(1)[4]["phase"])
        if step % 3 == 2:
            _, info = env.reset()
    assert phases == [0, 0, 0, 0, 1, 1, 2, 2]
    assert info == {"phase": 2, "episode_number": 2}
    assert env.reset(options={"restart": True})[1] == {"phase": 0, "episode_number": 0}
    # A reset without a step in between does not use up an episode.
    assert env.reset()[1]["episode_number"] == 0
    env.step(0)
    assert env.reset()[1]["episode_number"] == 1


def test_a_discounted_problem_never_ends_and_counts_steps():
    env = TabularEnv(frozen_lake(slip=(0, 0.5), change_at=(50,), discount=0.9))
    assert env.unit == "steps"
    env.reset(seed=0)
    seen = [env.step(step % 4) for step in range(300)]
    assert not any(terminated or truncated for _, _, terminated, truncated, _ in seen)
    assert [info["phase"] for *_, info in seen] == [0] * 50 + [1] * 250


def test_misuse_is_explained():
    env = TabularEnv(frozen_lake(slip=0.0, horizon=2))
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must be an integer in \[0, 3\], got 4"):
        env.step(4)
    env.step(0)
    assert env.step(np.int64(0))[3] is True
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    with pytest.raises(ValueError, match="problem must be a TabularMDP or ShiftingMDP, got str"):
        TabularEnv("frozen-lake")
    with pytest.raises(ValueError, match="render_mode must be one of 'ansi', 'rgb_array', got 'human'"):
        TabularEnv(gridworld(), render_mode="human")
    with pytest.raises(ValueError, match=r"unit must be one of .* did you mean 'episodes'"):
        TabularEnv(gridworld(), unit="episode")


def test_text():
    env = TabularEnv(two_rooms(noise=0.0, change_at=(1,), rows=3, cols=5), render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()
    env.reset(seed=0)
    env.step(1)
    assert env.render() == "phase 0  episode 0  step 1  state 1\nS@...\n.....\n....G\n"
    env.reset()
    env.step(3)
    assert env.render() == "phase 1  episode 1  step 1  state 5\nS.#..\n@....\n..#.G\n"
    plain = TabularEnv(TabularMDP(np.full((5, 1, 5), 0.2), np.zeros(5), horizon=9, terminal=[4]), "ansi")
    plain.reset(seed=0)
    assert plain.render().splitlines()[1:] == ["@..", ".T "]


def test_pictures():
    env = TabularEnv(two_rooms(noise=0.0, change_at=(1,)), render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.shape == (6 + 5 * 32, 10 * 32, 3)
    assert before.dtype == np.uint8
    env.step(1)
    after = env.render()
    differs = (before != after).any(axis=2)
    cells = differs[6:].reshape(5, 32, 10, 32).any(axis=(1, 3))
    assert np.argwhere(cells).tolist() == [[0, 0], [0, 1]]
    assert not differs[:6].any()
    env.reset()
    shifted = env.render()
    assert (shifted[:6] != before[:6]).any()  # the strip shows the phase
    walls = (shifted != before).any(axis=2)[6:].reshape(5, 32, 10, 32).any(axis=(1, 3))
    assert np.argwhere(walls).tolist() == [[0, 5], [1, 5], [3, 5], [4, 5]]


def test_rendering_without_a_mode_warns():
    env = TabularEnv(gridworld())
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="needs a render_mode"):
        assert env.render() is None


class TestShiftWrapper:
    def test_attributes_by_episode(self):
        env = ShiftWrapper(gymnasium.make("CartPole-v1"), [{"gravity": 20.0}, {"gravity": 1.0}], (1, 3))
        base = env.unwrapped
        seen = []
        for episode in range(4):
            _, info = env.reset(seed=0 if episode == 0 else None)
            assert info["episode_number"] == episode
            seen.append((info["phase"], base.gravity))
            assert env.step(0)[4]["phase"] == info["phase"]
        assert seen == [(0, 9.8), (1, 20.0), (1, 20.0), (2, 1.0)]
        _, info = env.reset(options={"restart": True})
        assert (info["phase"], info["episode_number"], base.gravity) == (0, 0, 9.8)

    def test_functions_by_step(self):
        def push_harder(env):
            env.force_mag *= 3.0
            env.note = "shifted"

        env = ShiftWrapper(gymnasium.make("CartPole-v1"), [push_harder], (2,), "steps")
        for _ in range(2):  # a seeded reset begins the run anew
            env.reset(seed=5)
            assert not hasattr(env.unwrapped, "note")
            phases = [env.step(step % 2)[4]["phase"] for step in range(4)]
            assert phases == [0, 0, 1, 1]
            assert (env.unwrapped.force_mag, env.unwrapped.note) == (30.0, "shifted")
        _, info = env.reset(seed=5, options={"restart": False})
        assert (info["phase"], info["episode_number"]) == (1, 1)

    def test_a_change_from_the_start_and_restore(self):
        calls = []
        env = ShiftWrapper(
            gymnasium.make("CartPole-v1"),
            [lambda env: calls.append("change")],
            (0,),
            restore=lambda env: calls.append("restore"),
        )
        assert env.reset(seed=0)[1]["phase"] == 1
        env.reset(seed=0)
        assert calls == ["change", "restore", "change"]

    def test_same_seed_same_run(self):
        env = ShiftWrapper(gymnasium.make("CartPole-v1"), [{"gravity": 20.0}], (1,))

        def run():
            observations = [env.reset(seed=3)[0]]
            for step in range(200):
                observation, _, terminated, truncated, _ = env.step(step % 2)
                observations.append(observation)
                if terminated or truncated:
                    observations.append(env.reset()[0])
            return np.array(observations)

        assert np.array_equal(run(), run())

    def test_the_checker_accepts_it(self):
        env = ShiftWrapper(gymnasium.make("dqucb/GridWorld-v0").unwrapped, [lambda env: None], (1,))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=".*different from the unwrapped version")
            check_env(env, skip_render_check=True)

    def test_errors(self):
        env = gymnasium.make("CartPole-v1")
        with pytest.raises(ValueError, match=r"changes\[0\] sets 'gravitas', which .* does not have"):
            ShiftWrapper(env, [{"gravitas": 1.0}], (3,))
        with pytest.raises(ValueError, match="must be a function or a dict"):
            ShiftWrapper(env, [7], (3,))
        with pytest.raises(ValueError, match="each of change_at must be an integer >= 0, got -1"):
            ShiftWrapper(env, [{"gravity": 1.0}], (-1,))
        with pytest.raises(ValueError, match="unit must be one of"):
            ShiftWrapper(env, [], (), unit="days")
        with pytest.raises(ValueError, match="changes must be 2, one for each of change_at, got 1 of them"):
            ShiftWrapper(env, [{"gravity": 1.0}], (3, 4))
        with pytest.raises(ValueError, match="changes must be a list with one change"):
            ShiftWrapper(env, {"gravity": 1.0}, (3,))


def test_importing_the_package_is_light(run_python):
    code = (
        "import sys, dqucb.envs; "
        "print([m for m in ('numba', 'pandas', 'matplotlib', 'dqucb.envs.tabular') if m in sys.modules])"
    )
    assert run_python(code).strip() == "[]"


def test_change_points_are_read_through_wrappers():
    """Every env of ours says when it changes, and what that counts."""
    for env, change_at, unit in (
        (gymnasium.make("dqucb/CartPole-v0"), (400,), "episodes"),
        (gymnasium.make("dqucb/FrozenLake-v0"), (20_000, 40_000), "episodes"),
        (gymnasium.make("dqucb/GridWorld-v0", change_at=(9,), unit="steps"), (9,), "steps"),
        (gymnasium.make("dqucb/HospitalAllocation-v0", hospitals=2), (637,), "steps"),
        (ShiftWrapper(gymnasium.make("CartPole-v1"), [{"gravity": 2.0}], (5,), "steps"), (5,), "steps"),
    ):
        outer = gymnasium.Wrapper(env)
        assert (outer.get_wrapper_attr("change_at"), outer.get_wrapper_attr("unit")) == (change_at, unit)


def test_short_names_give_the_env_its_id_and_the_usual_length():
    envs = dqucb.envs.ENVS
    assert list(envs) == ["cartpole", "pixel-frozen-lake", "hospital", "hopper", "half-cheetah", "walker2d",
                          "drawn-change"]  # fmt: skip
    assert envs.facts("cartpole") == {"id": "dqucb/CartPole-v0", "episodes": 800}
    assert envs.facts("hospital") == {"id": "dqucb/HospitalAllocation-v0", "steps": 1274}
    assert envs["cartpole"](max_steps=7).max_return == 7
    assert "hospitals" in envs.about("hospital")
    for name in envs:
        identifier = envs.facts(name)["id"]
        assert identifier is None or identifier in gymnasium.registry
    with pytest.raises(ValueError, match="unknown env 'cartpol': did you mean cartpole"):
        envs.find("cartpol")


def test_the_description_of_an_env_is_json_and_tells_settings_and_wrappers_apart():
    def described(env):
        return env_identity(env, env)[0]

    plain = described(gymnasium.make("CartPole-v1"))
    assert plain == {"problem": "CartPole-v1", "max_episode_steps": 500}
    assert plain == described(gymnasium.make("CartPole-v1", disable_env_checker=True))
    assert described(gymnasium.make("CartPole-v1", sutton_barto_reward=True)) != plain
    assert described(gymnasium.make("CartPole-v1", max_episode_steps=9)) != plain
    ours = described(gymnasium.make("dqucb/CartPole-v0", change_at=(6,)))
    assert ours == {"problem": "dqucb/CartPole-v0", "change_at": [6], "noise": 0.15, "noise_is": "std",
                    "max_steps": 200}  # fmt: skip
    shifted = ShiftWrapper(CartPoleEnv(), [{"render_mode": None}], (2,))
    assert described(shifted)["env"].startswith("<ShiftWrapper")
    tuples = gymnasium.make("FrozenLake-v1", desc=("SF", "FG"))
    assert described(tuples)["desc"] == ["SF", "FG"]
