"""`PhysicsShift`: envs whose physics, sensors, actuators or rewards change at given steps of a run.

    gravity, mass, length   times a factor
    force                   of the actions, times a factor; a negative one reverses the actions
    friction                all friction coefficients, times a factor (MuJoCo)
    damping                 the share of each velocity that is lost in a step (classic control)
    process_noise           standard deviation of noise on the velocities, which affects later states (classic control)
    observation_noise       standard deviation of noise on every observed number; the state is not affected
    sensor_bias             is added to one observed number
    stuck_sensor            1: one observed number keeps the last value before the change; 0: it does not
    delay                   steps by which actions are delayed; at the start of an episode the first action is repeated
    reward                  times one observed number, is added to the reward

Each value holds from its step on, and is relative to the original task, not to the previous phase. Noise, bias and
reward are in the units of `UNITS`, one for each observed number. Which kinds an env has depends on what it lets one
change: see `kinds_of`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from dqucb import _validate as check
from dqucb.envs.discretized import DiscretizedActions

# The values of the kinds that were there first, two changes each. Noise is the default: it is the paper's shift on
# CartPole, and the only one of the four to which the likelihood responds. Under random actions on HalfCheetah (seeds
# 100 to 104, window 100, bandwidth 3.6) noise lowers it from 0.35 to 0.25 to 0.07. Gravity, mass and friction replace
# one deterministic dynamics by another; the window then refills within 100 steps, and the likelihood depends on how far
# the body moves in a step: more gravity or mass raises it, less lowers it, friction does not affect it.
SHIFTS: dict[str, tuple[float, ...]] = {
    "gravity": (1.5, 0.75),
    "mass": (1.5, 0.75),
    "friction": (0.5, 1.5),
    "observation_noise": (0.05, 0.15),
}
NEUTRAL = {  # the value of each kind that changes nothing
    "gravity": 1.0, "mass": 1.0, "length": 1.0, "force": 1.0, "friction": 1.0,
    "damping": 0.0, "process_noise": 0.0, "observation_noise": 0.0, "sensor_bias": 0.0, "stuck_sensor": 0.0,
    "delay": 0.0, "reward": 0.0,
}  # fmt: skip
SIGNED = ("force", "sensor_bias", "reward")  # may be negative
OF_ANY_ENV = ("observation_noise", "sensor_bias", "stuck_sensor", "delay", "reward")
# Classic control: the attributes that each factor multiplies.
FACTORS: dict[str, dict[str, tuple[str, ...]]] = {
    "CartPoleEnv": {"gravity": ("gravity",), "mass": ("masspole",), "length": ("length",), "force": ("force_mag",)},
    "AcrobotEnv": {"mass": ("LINK_MASS_1", "LINK_MASS_2"), "force": ("AVAIL_TORQUE",),
                   "length": ("LINK_LENGTH_1", "LINK_LENGTH_2", "LINK_COM_POS_1", "LINK_COM_POS_2")},
    "MountainCarEnv": {"gravity": ("gravity",), "force": ("force",)},
    "PendulumEnv": {"gravity": ("g",), "mass": ("m",), "length": ("l",), "force": ("max_torque",)},
}  # fmt: skip
# Classic control: the places of velocities in `state`, with the unit of process noise, and units of observed numbers.
VELOCITIES: dict[str, dict[int, float]] = {
    "CartPoleEnv": {1: 1.0, 3: 1.0}, "AcrobotEnv": {2: 1.0, 3: 1.0}, "MountainCarEnv": {1: 0.01},
    "PendulumEnv": {1: 1.0},
}  # fmt: skip
UNITS: dict[str, tuple[float, ...]] = {
    "CartPoleEnv": (1.0, 1.0, 0.1, 1.0), "AcrobotEnv": (1.0, 1.0, 1.0, 1.0, 3.0, 5.0), "MountainCarEnv": (0.5, 0.03),
    "PendulumEnv": (1.0, 1.0, 3.0),
}  # fmt: skip
# Results of a simulation step that some tasks read before the next one, besides the integrated state.
_DERIVED = ("xpos", "xipos", "cinert", "cvel", "cfrc_ext", "qfrc_actuator", "qfrc_constraint", "site_xpos")
_OF_MUJOCO = {"gravity": ("gravity",), "mass": ("body_mass", "body_inertia"), "force": ("actuator_gear",),
              "friction": ("geom_friction",)}  # fmt: skip


def _is_mujoco(base: Any) -> bool:
    return hasattr(base, "model") and hasattr(base, "data")


def _classic(base: Any) -> str:
    """The name of a classic control env of Gymnasium; "" for others."""
    kind = type(base)
    return kind.__name__ if kind.__module__.startswith("gymnasium.envs.classic_control") else ""


def kinds_of(env: gymnasium.Env[Any, Any]) -> list[str]:
    """Return the kinds of change that an env can have.

    Parameters
    ----------
    env : gymnasium.Env
        Any env, wrapped or not. MuJoCo and classic control have kinds of their own.

    Examples
    --------
    >>> import gymnasium
    >>> from dqucb.envs import kinds_of
    >>> kinds_of(gymnasium.make("MountainCar-v0"))[:4]
    ['gravity', 'force', 'damping', 'process_noise']
    """
    base = env.unwrapped
    own: list[str] = list(_OF_MUJOCO) if _is_mujoco(base) else list(FACTORS.get(_classic(base), ()))
    if _classic(base) in VELOCITIES:
        own += ["damping", "process_noise"]
    if not isinstance(env.observation_space, gymnasium.spaces.Box) or len(env.observation_space.shape) != 1:
        return [*own, "delay"]
    return [*own, *OF_ANY_ENV]


class PhysicsShift(gymnasium.Wrapper, RecordConstructorArgs):
    """Changes an env before given steps of a run, possibly in the middle of an episode.

    Parameters
    ----------
    env : gymnasium.Env
        Any env, wrapped or not; what can change is `kinds_of(env)`.
    kind : str
        What changes; see the module's table.
    change_at : sequence of int
        The step, counted from 0 over all episodes, from which each value holds; () for no change.
    values : sequence of float, optional
        One for each of `change_at`; by default those of SHIFTS.
    coordinate : int
        The observed number of "sensor_bias", "stuck_sensor" and "reward".

    Notes
    -----
    A run begins with `reset(seed=...)` or `reset(options={"restart": True})`, which restores the original task; a
    plain `reset()` begins the next episode. `info["phase"]` is the number of changes so far. For MuJoCo and classic
    control, `checkpoint_state` and `restore_state` make a resumed run bit-identical.

    Examples
    --------
    >>> import gymnasium
    >>> from dqucb.envs import PhysicsShift
    >>> env = PhysicsShift(gymnasium.make("Pendulum-v1"), "gravity", change_at=(2,), values=(2.0,))
    >>> _ = env.reset(seed=0)
    >>> for _ in range(3):
    ...     *_, info = env.step(env.action_space.sample())
    >>> info["phase"], env.unwrapped.g
    (1, 20.0)
    """

    unit = "steps"  # what `change_at` counts

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        kind: str = "observation_noise",
        change_at: Sequence[int] = (100_000, 133_333),
        values: Sequence[float] | None = None,
        coordinate: int = 0,
    ) -> None:
        RecordConstructorArgs.__init__(self, kind=kind, change_at=change_at, values=values, coordinate=coordinate)
        gymnasium.Wrapper.__init__(self, env)
        self.kind = check.one_of("kind", kind, NEUTRAL)
        if kind not in kinds_of(env):
            raise ValueError(f"kind must be one of {kinds_of(env)} for {env}, got {kind!r}")
        self.change_at = check.increasing("change_at", change_at, 0)
        given = SHIFTS.get(kind, ())[: len(self.change_at)] if values is None else values
        lowest = -np.inf if kind in SIGNED else 0.0
        self.values = tuple(check.real("each of values", value, lowest) for value in given)
        if len(self.values) != len(self.change_at):
            raise ValueError(f"values must be {len(self.change_at)}, one for each of change_at, got {self.values}")
        if kind == "delay" and any(value % 1 for value in self.values):
            raise ValueError(f"values must be whole steps for a delay, got {self.values}")
        space = env.observation_space
        last = space.shape[0] - 1 if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1 else 0
        self.coordinate = check.integer("coordinate", coordinate, 0, last)
        self._base: Any = env.unwrapped
        self._classic = _classic(self._base)
        self._units = np.array(UNITS.get(self._classic, (1.0,) * (last + 1)))
        self._atoms = _find(env, DiscretizedActions) if kind == "force" and self._classic == "PendulumEnv" else None
        names = _OF_MUJOCO if _is_mujoco(self._base) else FACTORS.get(self._classic, {})
        self._own = {name: np.copy(getattr(self._holder(name), name)) for name in names.get(kind, ())}
        if self._atoms is not None:
            self._own_atoms = self._atoms.atoms.copy()
        self.phase = self._steps = 0
        self._noise = np.random.default_rng(0)
        self._queue: list[Any] = []  # the actions of this episode that are not yet forgotten
        self._seen_last: float | None = None  # of the coordinate, before a change
        self._held: float | None = None

    @property
    def value(self) -> float:
        """The value of the current phase."""
        return self.values[self.phase - 1] if self.phase else NEUTRAL[self.kind]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, or a new run when a seed or the option {"restart": True} is given."""
        given = dict(options or {})
        if given.pop("restart", seed is not None):
            self._steps, self._seen_last, self._held = 0, None, None
            self._enter(0)
        if seed is not None:
            self._noise = np.random.default_rng([seed, 1])  # apart from the env's own draws
        self._queue.clear()
        self._advance()
        observation, info = self.env.reset(seed=seed, options=given if options is not None else None)
        return self._seen(observation), {**info, "phase": self.phase}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the env in its current phase."""
        self._advance()
        value = self.value
        if self.kind == "delay":
            self._queue = [*self._queue, action][-1 - int(max(self.values, default=0)) :]
            action = self._queue[max(0, len(self._queue) - 1 - int(value))]
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if value != 0.0 and self.kind in ("damping", "process_noise"):
            observation = self._moved(value)
        if value != 0.0 and self.kind == "reward":
            reward = float(reward) + value * float(observation[self.coordinate] / self._units[self.coordinate])
        return self._seen(observation), reward, terminated, truncated, {**info, "phase": self.phase}

    def _moved(self, value: float) -> Any:
        """Change the velocities after a transition; returns the observation of the new state."""
        base = self._base
        state = np.array(base.state)
        for place, unit in VELOCITIES[self._classic].items():
            if self.kind == "damping":
                state[place] *= 1.0 - value
            else:
                state[place] += value * unit * self._noise.standard_normal()
        base.state = state
        for name in ("_get_ob", "_get_obs"):
            if hasattr(base, name):
                return getattr(base, name)()
        return state.astype(np.float32)

    def _advance(self) -> None:
        if self.phase < len(self.change_at) and self._steps >= self.change_at[self.phase]:
            self._enter(sum(step <= self._steps for step in self.change_at))

    def _holder(self, name: str) -> Any:
        """The object that has an attribute of the physics."""
        if not _is_mujoco(self._base):
            return self._base
        return self._base.model.opt if name == "gravity" else self._base.model

    def _enter(self, phase: int) -> None:
        """Apply the values of a phase; phase 0 is the original task."""
        if phase == self.phase:
            return
        self._held, self.phase = self._seen_last if self.phase == 0 else self._held, phase
        factor, base = self.value, self._base
        if self._atoms is not None:
            self._atoms.atoms = (self._own_atoms * factor).astype(self._own_atoms.dtype)
            factor = max(1.0, abs(factor))  # the env clips torques
        for name, own in self._own.items():
            if _is_mujoco(base):
                getattr(self._holder(name), name)[...] = own * factor
            else:
                setattr(base, name, (own * factor).tolist())  # numbers of Python, as they were
        if self._classic == "CartPoleEnv":
            base.total_mass, base.polemass_length = base.masspole + base.masscart, base.masspole * base.length
        if self.kind == "mass" and _is_mujoco(base):
            import mujoco

            # Constants that follow from the masses; a scratch state, since this overwrites the one it is given.
            mujoco.mj_setConst(base.model, mujoco.MjData(base.model))

    def _seen(self, observation: Any) -> Any:
        """The observation that the sensors give."""
        value, c = self.value, self.coordinate
        if self.kind == "stuck_sensor":
            if value != 0.0:
                observation = np.array(observation)
                self._held = float(observation[c]) if self._held is None else self._held
                observation[c] = self._held
            elif self.phase == 0:
                self._seen_last = float(observation[c])
            return observation
        if value == 0.0 or self.kind not in ("observation_noise", "sensor_bias"):
            return observation
        if self.kind == "observation_noise":
            off = value * self._units * self._noise.standard_normal(observation.shape)
        else:
            off = np.where(np.arange(len(observation)) == c, value * self._units, 0.0)
        space = self.observation_space  # a sensor does not read beyond its range
        assert isinstance(space, gymnasium.spaces.Box)
        seen: NDArray[Any] = np.clip(observation + off, space.low, space.high).astype(observation.dtype)
        return seen

    def checkpoint_state(self) -> dict[str, Any]:
        """The state needed to resume a run: arrays and JSON values."""
        base, limit = self._base, _find(self.env, TimeLimit)
        return {
            **_physics_of(base),
            "steps": self._steps,
            "phase": self.phase,
            "elapsed": None if limit is None else limit._elapsed_steps,
            "rng": base.np_random.bit_generator.state,
            "noise": self._noise.bit_generator.state,
            "queue": np.array(self._queue, np.float64),
            "sensor": [self._seen_last, self._held],
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Resume exactly from `checkpoint_state()` of an env with the same settings; call it after a `reset`."""
        base, limit = self._base, _find(self.env, TimeLimit)
        self._enter(state["phase"])
        if _is_mujoco(base):
            import mujoco

            mujoco.mj_setState(base.model, base.data, state["physics"], mujoco.mjtState.mjSTATE_INTEGRATION)
            for name in _DERIVED:
                getattr(base.data, name)[...] = state[name]
        else:
            base.state = np.array(state["physics"])
        self._steps = state["steps"]
        if limit is not None:
            limit._elapsed_steps = state["elapsed"]
        base.np_random.bit_generator.state = state["rng"]
        self._noise.bit_generator.state = state["noise"]
        dtype = self.action_space.dtype
        self._queue = [action.astype(dtype)[()] for action in state.get("queue", ())]  # 0.2.0 had no delays
        self._seen_last, self._held = state.get("sensor", (None, None))

    def __str__(self) -> str:
        which = f", coordinate {self.coordinate}" if self.coordinate else ""
        return f"<PhysicsShift({self.kind}, {self.change_at}, {self.values}{which}){self.env}>"


def _find(env: Any, wrapper: Callable[..., Any]) -> Any:
    """The wrapper of this class, or None."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, wrapper):  # type: ignore[arg-type]
            return env
        env = env.env
    return None


def _physics_of(base: Any) -> dict[str, Any]:
    """The state of the simulation. Raises a ValueError for an env that is neither MuJoCo nor classic control."""
    if not _is_mujoco(base):
        if not _classic(base):
            raise ValueError(f"only MuJoCo and classic control envs can be saved, got {base}")
        return {"physics": np.array(base.state)}
    import mujoco

    state = np.empty(mujoco.mj_stateSize(base.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(base.model, base.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return {"physics": state, **{name: getattr(base.data, name).copy() for name in _DERIVED}}


def locomotion(
    name: str = "HalfCheetah",
    *,
    bins: int = 100,
    kind: str = "observation_noise",
    change_at: Sequence[int] = (),
    values: Sequence[float] | None = None,
    coordinate: int = 0,
    **options: Any,
) -> PhysicsShift:
    """A MuJoCo task of Gymnasium (v5) with discretised actions and physics that changes at `change_at`.

    Parameters
    ----------
    name : str
        "Hopper", "HalfCheetah", "Walker2d" or another task of Gymnasium.
    bins : int
        Values of each action dimension; see `DiscretizedActions`.
    kind, change_at, values, coordinate : str, sequence of int, sequence of float, int
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
    return PhysicsShift(DiscretizedActions(env, bins), kind, change_at, values, coordinate)


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
