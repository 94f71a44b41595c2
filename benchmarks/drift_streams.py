"""Streams of transitions for the drift harness: every family with a change, and the same without one (placebo).

`FAMILIES[name](seed, change_at, steps)` gives a `Stream`; `change_at=None` is the placebo. All draws come from
the seed.
"""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_policies import load
from dqucb.drift.benchmark.streams import Stream
from dqucb.envs.cartpole import ANGLE_LIMIT, HALF_LENGTH, advance
from dqucb.hospital import by_largest_remainders, synthetic_hospitals
from dqucb.problems import frozen_lake, random_mdp


def _tabular(problem: Any, seed: int, change_at: int | None, steps: int, policy_changes: bool = False) -> Stream:
    """A random walk over the phases of a tabular problem; its policy is a random one, drawn anew at `change_at`
    where only the policy changes."""
    rng = np.random.default_rng([seed, 1])
    phases = getattr(problem, "phases", (problem,))
    S, A = phases[0].n_states, phases[0].n_actions
    policies = [rng.dirichlet(np.ones(A), S) for _ in range(2)] if policy_changes else [np.full((S, A), 1 / A)] * 2
    mixed = [np.cumsum(policy, 1) for policy in policies]
    models = [phases[0 if policy_changes else i].model.written_out() for i in (0, -1)]
    starts = models[0].initial_cumulative[0]
    first = int(np.searchsorted(starts, rng.random(), side="right"))
    last = steps if change_at is None else change_at
    out, rewards = np.zeros((3, steps), np.int64), np.zeros(steps)
    state, age = first, 0
    for part, model, policy in zip((slice(0, last), slice(last, steps)), models, mixed, strict=True):
        draws = rng.random((len(rewards[part]), 3))
        state, age = _walk(model.row_start, model.cumulative, model.successor, model.reward, model.terminal, starts,
                           policy, draws, state, age, out[:, part], rewards[part])  # fmt: skip
    return Stream(out[0], out[1], out[2], rewards, change_at, n_states=S, n_actions=A)


@numba.njit(cache=True)
def _walk(
    row_start, cumulative, successor, reward, terminal, starts, policy, draws, state, age, out, rewards
):  # OUT: last two
    """One stretch of a walk; returns the state and the age of the episode at its end."""
    A = policy.shape[1]
    for t in range(draws.shape[0]):
        action = min(np.searchsorted(policy[state], draws[t, 0], side="right"), A - 1)
        row = state * A + action
        begin, end = row_start[row], row_start[row + 1]
        entry = begin + np.searchsorted(cumulative[begin:end], draws[t, 1], side="right")
        out[0, t], out[1, t], out[2, t] = state, action, successor[entry]
        rewards[t] = reward[entry]
        state = successor[entry]
        age += 1
        if terminal[state] or age >= 100:
            state, age = np.searchsorted(starts, draws[t, 2], side="right"), 0
    return state, age


def frozen(seed: int, change_at: int | None, steps: int = 20_000, slips: tuple[float, float] = (0.1, 0.3),
           map: str = "4x4") -> Stream:  # fmt: skip
    """A random walk on the frozen lake whose slip changes."""
    return _tabular(frozen_lake(slips, (1,), map=map), seed, change_at, steps)


def random_chain(seed: int, change_at: int | None, steps: int = 20_000, change: float = 0.3, n_states: int = 10,
                 n_actions: int = 3) -> Stream:  # fmt: skip
    """A random MDP, each row of which moves by `change` in total variation."""
    problem = random_mdp(change, (1,), n_states=n_states, n_actions=n_actions, seed=seed)
    return _tabular(problem, seed, change_at, steps)


def lake_policy(seed: int, change_at: int | None, steps: int = 20_000) -> Stream:
    """Another random policy from `change_at` on, on the same lake."""
    return _tabular(frozen_lake((0.3,), ()), seed, change_at, steps, policy_changes=True)


def _rollout(env: gymnasium.Env[Any, Any], policies: list[Callable[..., Any]], change: Callable[[Any], Any],
             seed: int, change_at: int | None, steps: int) -> Stream:  # fmt: skip
    rng = np.random.default_rng([seed, 2])
    state, _ = env.reset(seed=seed)
    rows: list[tuple[Any, ...]] = []
    seen = lambda x: x  # noqa: E731
    policy = policies[0]
    for t in range(steps):
        if t == change_at:
            seen = change(env.unwrapped) or seen
            policy = policies[-1]
        action = policy(state, rng)
        following, reward, ended, cut, _ = env.step(action)
        following = seen(following)
        rows.append((state, np.atleast_1d(action), following, reward))
        state = seen(env.reset()[0]) if ended or cut else following
    s, a, n, r = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    return Stream(s, a, n, r, change_at)


def nothing(env: Any) -> None:
    """No change of the world."""


def torque_noise(state: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """A random torque."""
    return rng.uniform(-2.0, 2.0, 1)


def swing_up(state: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Pumps energy, then balances; with a little noise."""
    cos, sin, speed = (float(x) for x in state)
    energy = 0.5 * speed * speed / 3.0 + 5.0 * (cos - 1.0)
    torque = -10.0 * np.arctan2(sin, cos) - 2.0 * speed if cos > 0.9 else -1.5 * energy * np.sign(speed)
    return np.clip([torque + 0.2 * rng.standard_normal()], -2.0, 2.0)


def pendulum(seed: int, change_at: int | None, steps: int = 8_000, gravity: float = 14.0,
             policies: tuple[Callable[..., Any], ...] = (torque_noise,)) -> Stream:  # fmt: skip
    """Gymnasium's Pendulum; gravity 10 becomes another."""
    env = gymnasium.make("Pendulum-v1", g=10.0)
    return _rollout(env, list(policies), lambda e: setattr(e, "g", gravity), seed, change_at, steps)


def _balance(state: NDArray[np.float64], rng: np.random.Generator) -> int:
    x, x_dot, angle, angle_dot = state
    return int(angle + 0.3 * angle_dot + 0.02 * x + 0.05 * x_dot + 0.05 * rng.standard_normal() > 0.0)


def _coin(state: NDArray[np.float64], rng: np.random.Generator) -> int:
    return int(rng.random() < 0.5)


def cartpole(seed: int, change_at: int | None, steps: int = 8_000, noise: float = 0.0, half_length: float = 0.5,
             policies: tuple[Callable[..., Any], ...] = (_balance,)) -> Stream:  # fmt: skip
    """The cart and pole of `dqucb/CartPole-v0`, stepped here; noise on both velocities, or a pole of another length."""
    rng = np.random.default_rng([seed, 3])
    rows, age = [], 0
    state = rng.uniform(-0.05, 0.05, 4)
    for t in range(steps):
        changed = change_at is not None and t >= change_at
        action = policies[-1 if changed else 0](state, rng)
        force = np.array([10.0 if action else -10.0])
        following = advance(state[None], force, half_length=half_length if changed else HALF_LENGTH)[0]
        if changed and noise:
            following[1::2] += noise * rng.standard_normal(2)
        following = following.astype(np.float32).astype(np.float64)
        rows.append((state, [float(action)], following, 1.0))
        age += 1
        over = abs(following[0]) > 2.4 or abs(following[2]) > ANGLE_LIMIT or age >= 200
        if over:
            state, age = rng.uniform(-0.05, 0.05, 4).astype(np.float32).astype(np.float64), 0
        else:
            state = following
    s, a, n, r = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    return Stream(s, a, n, r, change_at)


def change_physics(base: Any, kind: str, factor: float) -> None:
    """Multiply gravity, all masses or all friction of a MuJoCo env; nothing for any other kind."""
    import mujoco as engine

    if kind == "gravity":
        base.model.opt.gravity[:] *= factor
    elif kind == "mass":
        base.model.body_mass[:] *= factor
        base.model.body_inertia[:] *= factor
        engine.mj_setConst(base.model, engine.MjData(base.model))
    elif kind == "friction":
        base.model.geom_friction[:] *= factor


def mujoco(seed: int, change_at: int | None, steps: int = 8_000, task: str = "half_cheetah", kind: str = "gravity",
           factor: float = 1.5, stages: tuple[str, ...] = ("final",), exploration: float = 0.1) -> Stream:  # fmt: skip
    """A learned policy with a little exploration; gravity, mass, friction or observation noise change."""
    ids = {"half_cheetah": "HalfCheetah-v5", "hopper": "Hopper-v5"}
    env = gymnasium.make(ids[task], disable_env_checker=True)

    def policy_of(stage: str) -> Callable[..., Any]:
        policy = load(task, stage)
        size = env.action_space.shape[0]  # type: ignore[index]
        return lambda state, rng: np.clip(policy(state) + exploration * rng.standard_normal(size), -1, 1)

    def change(base: Any) -> Any:
        if kind == "noise":
            rng = np.random.default_rng([seed, 4])
            return lambda x: x + factor * rng.standard_normal(x.shape)
        return change_physics(base, kind, factor)

    return _rollout(env, [policy_of(stage) for stage in stages], change, seed, change_at, steps)


def hospital(seed: int, change_at: int | None, steps: int = 8_000, longer: float = 0.04, hospitals: int = 8) -> Stream:
    """Each patient stays another day with probability beta, which grows by `longer`: the state is the census, the
    action the day's allocation; the arrivals follow the waves of the epidemic, over and over."""
    system = synthetic_hospitals(hospitals, change_at=(), seed=seed)
    rng = np.random.default_rng([seed, 5])
    beta, census = system.beta_at(0), system.initial.round()
    rows = []
    for t in range(steps):
        if t == change_at:
            beta = np.minimum(beta + longer, 0.99)
        patients = int(rng.poisson(system.arrivals[t % system.days]))
        amounts = by_largest_remainders(np.maximum(system.capacity + 20.0 * rng.random(hospitals), 1.0), patients)
        following = rng.binomial(census.astype(np.int64), beta) + amounts
        rows.append((census, amounts, following, -float(following.sum())))
        census = following.astype(np.float64)
    s, a, n, r = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    return Stream(s, a, n, r, change_at)


FAMILIES: dict[str, Callable[..., Stream]] = {
    "lake slip 0.1 to 0.3": frozen,
    "lake slip 0.2 to 0.25": partial(frozen, slips=(0.2, 0.25)),
    "lake slip 0 to 0.02": partial(frozen, slips=(0.0, 0.02)),
    "lake slip 0.3 to 0.1": partial(frozen, slips=(0.3, 0.1)),
    "random MDP, 10 states": random_chain,
    "random MDP, 1,000 states": partial(random_chain, n_states=1_000),
    "pendulum gravity, random torque": pendulum,
    "pendulum gravity, swing-up": partial(pendulum, policies=(swing_up,)),
    "cartpole noise": partial(cartpole, noise=0.15),
    "cartpole pole length": partial(cartpole, half_length=0.75),
    "cheetah gravity": mujoco,
    "cheetah mass": partial(mujoco, kind="mass"),
    "cheetah friction": partial(mujoco, kind="friction", factor=0.5),
    "cheetah noise": partial(mujoco, kind="noise", factor=0.05),
    "hopper gravity": partial(mujoco, task="hopper"),
    "hopper mass": partial(mujoco, task="hopper", kind="mass"),
    "hospital stays": hospital,
}
POLICIES: dict[str, Callable[..., Stream]] = {  # the policy changes, the world does not
    "lake, another policy": lake_policy,
    "pendulum, another policy": partial(pendulum, gravity=10.0, policies=(torque_noise, swing_up)),
    "cartpole, another policy": partial(cartpole, policies=(_balance, _coin)),
    "cheetah, another policy": partial(mujoco, kind="none", stages=("early", "final")),
    "hopper, another policy": partial(mujoco, task="hopper", kind="none", stages=("early", "final")),
}


def length_of(name: str) -> tuple[int, int]:
    """(steps, change) of a family."""
    return (20_000, 10_000) if "lake" in name or "MDP" in name else (8_000, 4_000)


def stored(name: str, seed: int, change_at: int | None, steps: int | None = None) -> Stream:
    """A stream from the cache in DRIFT_CACHE (a folder), or made and put there; without it, made."""
    family = {**FAMILIES, **POLICIES}[name]
    options = {} if steps is None else {"steps": steps}
    folder = os.environ.get("DRIFT_CACHE")
    if folder is None:
        return family(seed, change_at, **options)
    key = hashlib.sha1(repr((name, seed, change_at, steps)).encode()).hexdigest()[:16]
    path = Path(folder) / f"{key}.npz"
    if path.exists():
        with np.load(path) as file:
            return Stream(file["s"], file["a"], file["n"], file["r"], change_at, None, int(file["S"]), int(file["A"]))
    made = family(seed, change_at, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, s=made.states, a=made.actions, n=made.next_states, r=made.rewards, S=made.n_states, A=made.n_actions)
    return made
