"""`PhysicsShift`: MuJoCo tasks whose physics changes at given steps of a run; `locomotion` builds the usual three.

    gravity            the vector of gravity, times a factor
    mass               masses and inertias of all bodies, times a factor
    friction           all friction coefficients of all geometries, times a factor
    observation_noise  Gaussian noise of this standard deviation on every observed number; the state is not affected

Each value holds from its step on, and is relative to the original task, not to the previous phase.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit

from dqucb import _validate as check
from dqucb.envs.discretized import DiscretizedActions

# Two changes each, of different sizes. Noise is the default: it is the paper's shift on CartPole, and the only one of
# the four to which the likelihood responds. Under random actions on HalfCheetah (seeds 100 to 104, window 100,
# bandwidth 3.6) noise lowers it from 0.35 to 0.25 to 0.07. Gravity, mass and friction replace one deterministic
# dynamics by another; the window then refills within 100 steps, and the likelihood depends on how far the body moves in
# a step: more gravity or mass raises it, less lowers it, friction does not affect it.
SHIFTS: dict[str, tuple[float, ...]] = {
    "gravity": (1.5, 0.75),
    "mass": (1.5, 0.75),
    "friction": (0.5, 1.5),
    "observation_noise": (0.05, 0.15),
}
# Results of a simulation step that some tasks read before the next one, besides the integrated state.
_DERIVED = ("xpos", "xipos", "cinert", "cvel", "cfrc_ext", "qfrc_actuator", "qfrc_constraint", "site_xpos")


class PhysicsShift(gymnasium.Wrapper, RecordConstructorArgs):
    """Changes the physics of a MuJoCo env before given steps of a run, possibly in the middle of an episode.

    Parameters
    ----------
    env : gymnasium.Env
        A Gymnasium MuJoCo env, wrapped or not.
    kind : str
        What changes, one of SHIFTS.
    change_at : sequence of int
        The step, counted from 0 over all episodes, from which each value holds; () for no change.
    values : sequence of float, optional
        One for each of `change_at`; by default those of SHIFTS.

    Notes
    -----
    A run begins with `reset(seed=...)` or `reset(options={"restart": True})`, which restores the original physics; a
    plain `reset()` begins the next episode. `info["phase"]` is the number of changes so far. `checkpoint_state` and
    `restore_state` make a resumed run bit-identical.
    """

    unit = "steps"  # what `change_at` counts

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        kind: str = "observation_noise",
        change_at: Sequence[int] = (100_000, 133_333),
        values: Sequence[float] | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, kind=kind, change_at=change_at, values=values)
        gymnasium.Wrapper.__init__(self, env)
        if not hasattr(env.unwrapped, "model") or not hasattr(env.unwrapped, "data"):
            raise ValueError(f"env must be a MuJoCo env with a model and data, got {env}")
        self.kind = check.one_of("kind", kind, SHIFTS)
        self.change_at = check.increasing("change_at", change_at, 0)
        given = SHIFTS[kind][: len(self.change_at)] if values is None else values
        self.values = tuple(check.real("each of values", value, 0.0) for value in given)
        if len(self.values) != len(self.change_at):
            raise ValueError(f"values must be {len(self.change_at)}, one for each of change_at, got {self.values}")
        self._base: Any = env.unwrapped
        model = self._base.model
        self._own = {
            "gravity": {"gravity": model.opt.gravity.copy()},
            "mass": {"body_mass": model.body_mass.copy(), "body_inertia": model.body_inertia.copy()},
            "friction": {"geom_friction": model.geom_friction.copy()},
            "observation_noise": {},
        }[self.kind]
        self.phase = self._steps = 0
        self._noise = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, or a new run when a seed or the option {"restart": True} is given."""
        given = dict(options or {})
        if given.pop("restart", seed is not None):
            self._steps = 0
            self._enter(0)
        if seed is not None:
            self._noise = np.random.default_rng([seed, 1])  # apart from the env's own draws
        self._advance()
        observation, info = self.env.reset(seed=seed, options=given if options is not None else None)
        return self._seen(observation), {**info, "phase": self.phase}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step with the current physics."""
        self._advance()
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        return self._seen(observation), reward, terminated, truncated, {**info, "phase": self.phase}

    def _advance(self) -> None:
        if self.phase < len(self.change_at) and self._steps >= self.change_at[self.phase]:
            self._enter(sum(step <= self._steps for step in self.change_at))

    def _enter(self, phase: int) -> None:
        """Apply the physics of a phase; phase 0 is the original task."""
        if phase == self.phase:
            return
        self.phase = phase
        factor = self.values[phase - 1] if phase else 1.0
        model = self._base.model
        for name, own in self._own.items():
            getattr(model.opt if name == "gravity" else model, name)[...] = own * factor
        if self.kind == "mass":
            import mujoco

            # Constants that follow from the masses; a scratch state, since this overwrites the one it is given.
            mujoco.mj_setConst(model, mujoco.MjData(model))

    def _seen(self, observation: Any) -> Any:
        if self.kind != "observation_noise" or self.phase == 0:
            return observation
        noise = self.values[self.phase - 1] * self._noise.standard_normal(observation.shape)
        return (observation + noise).astype(observation.dtype)

    def checkpoint_state(self) -> dict[str, Any]:
        """The state needed to resume a run: arrays and JSON values."""
        import mujoco

        base = self._base
        size = mujoco.mj_stateSize(base.model, mujoco.mjtState.mjSTATE_INTEGRATION)
        state = np.empty(size)
        mujoco.mj_getState(base.model, base.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        limit = self._time_limit()
        return {
            "physics": state,
            **{name: getattr(base.data, name).copy() for name in _DERIVED},
            "steps": self._steps,
            "phase": self.phase,
            "elapsed": None if limit is None else limit._elapsed_steps,
            "rng": base.np_random.bit_generator.state,
            "noise": self._noise.bit_generator.state,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Resume exactly from `checkpoint_state()` of an env with the same settings; call it after a `reset`."""
        import mujoco

        base = self._base
        self._enter(state["phase"])
        mujoco.mj_setState(base.model, base.data, state["physics"], mujoco.mjtState.mjSTATE_INTEGRATION)
        for name in _DERIVED:
            getattr(base.data, name)[...] = state[name]
        self._steps = state["steps"]
        limit = self._time_limit()
        if limit is not None:
            limit._elapsed_steps = state["elapsed"]
        base.np_random.bit_generator.state = state["rng"]
        self._noise.bit_generator.state = state["noise"]

    def _time_limit(self) -> TimeLimit | None:
        env: Any = self.env
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, TimeLimit):
                return env
            env = env.env
        return None

    def __str__(self) -> str:
        return f"<PhysicsShift({self.kind}, {self.change_at}, {self.values}){self.env}>"


def locomotion(
    name: str = "HalfCheetah",
    *,
    bins: int = 100,
    kind: str = "observation_noise",
    change_at: Sequence[int] = (),
    values: Sequence[float] | None = None,
    **options: Any,
) -> PhysicsShift:
    """A MuJoCo task of Gymnasium (v5) with discretised actions and physics that changes at `change_at`.

    Parameters
    ----------
    name : str
        "Hopper", "HalfCheetah", "Walker2d" or another task of Gymnasium.
    bins : int
        Values of each action dimension; see `DiscretizedActions`.
    kind, change_at, values : str, sequence of int, sequence of float
        See `PhysicsShift`.
    **options
        For `gymnasium.make`. Without the extra `mujoco` an ImportError says what to install.

    Returns
    -------
    PhysicsShift
    """
    try:
        with _silent_loading():
            env = gymnasium.make(f"{name}-v5", disable_env_checker=True, **options)
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise ImportError(f'{name} needs MuJoCo: pip install "dqucb[mujoco]" ({error})') from error
    return PhysicsShift(DiscretizedActions(env, bins), kind, change_at, values)


@contextmanager
def _silent_loading() -> Iterator[None]:
    """Suppress MuJoCo's warnings about Gymnasium's model files, which would fill a log in the user's folder."""
    import mujoco

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
