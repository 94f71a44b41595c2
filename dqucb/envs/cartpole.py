"""`dqucb/CartPole-v0`: Gymnasium's cart and pole, with noise or other physics from a given episode or step on.

The dynamics are those of Gymnasium's CartPole (Barto, Sutton and Anderson 1983; explicit Euler, 0.02 s); a reward of 1
for each step, the last one included; at most 200 steps. In a noisy phase a Gaussian is added to the cart velocity
and another to the pole's angular velocity after each transition, so that it affects the later states. Gravity, the
pole's length and the force can change at the same time.

`CartPoleVector` steps many carts at once, each with its own generator; `CartPoleEnv` is a single cart as a Gymnasium
env. With the same seed both are bit-identical.
"""

from collections.abc import Sequence
from operator import index
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from dqucb import _validate as check

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
SECONDS = 0.02
X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * np.pi / 360
START = 0.05  # each coordinate starts uniformly in (-START, START)
# Described only where they differ, so that runs of earlier versions stay the same runs.
_USUAL = {"unit": "episodes", "force": 1.0, "length": 1.0, "gravity": 1.0}


def advance(
    states: NDArray[np.float64],
    forces: NDArray[np.float64],
    gravity: float | NDArray[np.float64] = GRAVITY,
    half_length: float | NDArray[np.float64] = HALF_LENGTH,
) -> NDArray[np.float64]:
    """The next (x, x', angle, angle') of each row: one explicit Euler step of the cart and its pole."""
    x, x_dot, angle, angle_dot = states.T
    cos, sin = np.cos(angle), np.sin(angle)
    push = (forces + POLE_MASS * half_length * (angle_dot * angle_dot) * sin) / TOTAL_MASS
    angle_acc = (gravity * sin - cos * push) / (half_length * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS))
    x_acc = push - POLE_MASS * half_length * angle_acc * cos / TOTAL_MASS
    moved = np.empty_like(states)
    moved[:, 0] = x + SECONDS * x_dot
    moved[:, 1] = x_dot + SECONDS * x_acc
    moved[:, 2] = angle + SECONDS * angle_dot
    moved[:, 3] = angle_dot + SECONDS * angle_acc
    return moved


class CartPoleVector:
    """Several carts stepped in lockstep, each with its own generator.

    Parameters
    ----------
    seeds : sequence of int
        One for each cart; cart i is bit-identical to a `CartPoleEnv` after `reset(seed=seeds[i])`.
    change_at : int or sequence of int
        The first changed episode or step, counted from 0 for each cart; () for no change at all.
    noise, noise_is : float, str
        The standard deviation of the noise after the change ("std") or its variance ("variance").
    max_steps : int
        Steps after which an episode is truncated.
    unit : str
        What `change_at` counts, "episodes" or "steps"; a change at a step may come in the middle of an episode.
    force, length, gravity : float
        Factors after the change: of the force (negative: the actions swap their directions), the pole's length and
        gravity.

    Examples
    --------
    >>> import numpy as np
    >>> carts = CartPoleVector([0, 1, 2], change_at=(5,))
    >>> observations = [carts.reset(i) for i in range(3)]
    >>> moved, rewards, terminated, truncated = carts.step(np.array([0, 1, 1]), np.arange(3))
    >>> rewards
    array([1., 1., 1.])
    """

    observation_dim = 4
    n_actions = 2
    max_reward = 1.0
    gaps = None  # regret is known for whole episodes only
    reward_parts = None
    checkpointable = True

    def __init__(
        self,
        seeds: Sequence[int],
        change_at: int | Sequence[int] = (400,),
        noise: float = 0.15,
        noise_is: str = "std",
        max_steps: int = 200,
        unit: str = "episodes",
        force: float = 1.0,
        length: float = 1.0,
        gravity: float = 1.0,
    ) -> None:
        self.seeds = [check.integer("each of seeds", seed, 0) for seed in seeds]
        self.change_at = check.increasing("change_at", change_at, 0)
        if len(self.change_at) > 1:
            raise ValueError(f"change_at must hold at most one change, got {self.change_at}")
        self.noise = check.real("noise", noise, 0.0)
        self.noise_is = check.one_of("noise_is", noise_is, ["std", "variance"])
        self.max_steps = check.integer("max_steps", max_steps)
        self.unit = check.one_of("unit", unit, ["episodes", "steps"])
        self.force = check.real("force", force)
        self.length = check.real("length", length, 0.0, open_left=True)
        self.gravity = check.real("gravity", gravity, 0.0)
        self._first_changed = self.change_at[0] if self.change_at else np.inf
        self._sigma = self.noise if noise_is == "std" else self.noise**0.5
        self.generators = [np.random.default_rng(seed) for seed in self.seeds]
        self.states = np.zeros((len(self.seeds), 4))
        self.episodes = np.zeros(len(self.seeds), np.int64)
        self.steps = np.zeros(len(self.seeds), np.int64)
        self.ran = np.zeros(len(self.seeds), np.int64)  # steps of the run

    @property
    def max_return(self) -> float:
        """The largest return of an episode."""
        return float(self.max_steps)

    def describe(self) -> dict[str, Any]:
        """The parameters as JSON values."""
        names = ["noise", "noise_is", "max_steps"]
        names += [name for name, usual in _USUAL.items() if getattr(self, name) != usual]
        return {"change_at": list(self.change_at), **{name: getattr(self, name) for name in names}}

    @property
    def _clock(self) -> NDArray[np.int64]:
        return self.episodes if self.unit == "episodes" else self.ran

    def phase(self, i: int) -> int:
        """1 for cart i after the change, else 0."""
        return int(self._clock[i] >= self._first_changed)

    def reset(self, i: int) -> NDArray[np.float32]:
        """Begin the next episode of cart i, or the same one again if it took no step; its observation."""
        if self.steps[i] > 0:
            self.episodes[i] += 1
        self.steps[i] = 0
        self.states[i] = self.generators[i].uniform(-START, START, 4)
        return self.states[i].astype(np.float32)

    def step(
        self, actions: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """One transition of each cart in `rows`, with one action each: observations, rewards, terminated, truncated.

        The other carts do not move and draw nothing.
        """
        changed = self._clock[rows] >= self._first_changed
        forces = np.where(actions == 1, FORCE, -FORCE) * np.where(changed, self.force, 1.0)
        gravity, half_length = (
            usual * np.where(changed, factor, 1.0)
            for usual, factor in ((GRAVITY, self.gravity), (HALF_LENGTH, self.length))
        )
        moved = advance(self.states[rows], forces, gravity, half_length)
        if self._sigma > 0.0:
            for place in np.flatnonzero(changed):
                moved[place, 1::2] += self._sigma * self.generators[rows[place]].standard_normal(2)
        self.states[rows] = moved
        self.steps[rows] += 1
        self.ran[rows] += 1
        terminated = (np.abs(moved[:, 0]) > X_LIMIT) | (np.abs(moved[:, 2]) > ANGLE_LIMIT)
        truncated = (self.steps[rows] >= self.max_steps) & ~terminated
        return moved.astype(np.float32), np.ones(len(rows)), terminated, truncated

    def state(self) -> dict[str, Any]:
        """The state needed to resume a run: arrays, and the generators as JSON values."""
        return {
            "states": self.states.copy(),
            "episodes": self.episodes.copy(),
            "steps": self.steps.copy(),
            **({"ran": self.ran.copy()} if self.unit == "steps" else {}),
            "generators": [rng.bit_generator.state for rng in self.generators],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume exactly from `state()` of carts with the same settings."""
        for name in ("states", "episodes", "steps", *(["ran"] if self.unit == "steps" else [])):
            getattr(self, name)[...] = state[name]
        for rng, saved in zip(self.generators, state["generators"], strict=True):
            rng.bit_generator.state = saved


class CartPoleEnv(gymnasium.Env[NDArray[np.float32], int]):
    """`dqucb/CartPole-v0`: balance a pole on a cart; at `change_at` its velocities become noisy or its physics changes.

    Observation: cart position and velocity, pole angle and angular velocity, Box(4). Actions: push left (0) or right
    (1). Reward: 1 for each step. Start: each coordinate uniform in (-0.05, 0.05). End: terminated beyond 2.4 or 12
    degrees, truncated at `max_steps`.

    Parameters
    ----------
    render_mode : str, optional
        "ansi" for a line of text.
    **parameters
        Those of `CartPoleVector` but `seeds`. A pole of twice the length without noise: `noise=0.0, length=2.0`.

    Notes
    -----
    A run begins with `reset(seed=...)` or `reset(options={"restart": True})`, so seed it once. A plain `reset()` begins
    the next episode, or the same one again if no step was taken. `info` holds the phase and the episode's number.
    Version history: v0, the first.

    Examples
    --------
    >>> env = CartPoleEnv(change_at=(1,))
    >>> phases = []
    >>> for _ in range(2):
    ...     _, info = env.reset()
    ...     _ = env.step(0)
    ...     phases.append(info["phase"])
    >>> phases
    [0, 1]
    """

    restarts_with_seed = True  # an env object may have several runs
    # Gymnasium declares it as an instance variable.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 50}  # noqa: RUF012
    max_reward = CartPoleVector.max_reward

    def __init__(self, render_mode: str | None = None, **parameters: Any) -> None:
        if render_mode is not None:
            check.one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        self._cart = CartPoleVector([0], **parameters)
        self._parameters = self._cart.describe()
        self._running = False
        high = np.array([2 * X_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]

    @property
    def change_at(self) -> tuple[int, ...]:
        """The first changed episode or step, if there is one."""
        return self._cart.change_at

    @property
    def unit(self) -> str:
        """What `change_at` counts, "episodes" or "steps"."""
        return self._cart.unit

    @property
    def max_return(self) -> float:
        """The largest return of an episode."""
        return self._cart.max_return

    def describe(self) -> dict[str, Any]:
        """The parameters as JSON values."""
        return dict(self._parameters)

    def lockstep(self, seeds: Sequence[int]) -> CartPoleVector:
        """The same task for several seeds at once."""
        return CartPoleVector(seeds, **self._parameters)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin the next episode, or a new run when a seed or the option {"restart": True} is given."""
        super().reset(seed=seed)
        if seed is not None or (options or {}).get("restart", False):
            self._cart.episodes[0] = self._cart.steps[0] = self._cart.ran[0] = 0
        self._cart.generators[0] = self.np_random
        self._running = True
        observation = self._cart.reset(0)
        return observation, self._info()

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One transition in the current phase."""
        choice = index(action)
        if choice not in (0, 1):
            raise ValueError(f"action must be 0 or 1, got {action!r}")
        if not self._running:
            raise ResetNeeded("the episode is over or has not begun: call reset() first")
        observations, rewards, terminated, truncated = self._cart.step(np.array([choice]), np.array([0]))
        self._running = not (terminated[0] or truncated[0])
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), self._info()

    def _info(self) -> dict[str, Any]:
        return {"phase": self._cart.phase(0), "episode_number": int(self._cart.episodes[0])}

    def render(self) -> Any:
        """The state as a line of text; None without a mode."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() needs a render_mode: make the env with render_mode='ansi'")
            return None
        x, x_dot, angle, angle_dot = self._cart.states[0]
        where = f"episode {self._cart.episodes[0]}  step {self._cart.steps[0]}  phase {self._cart.phase(0)}"
        return f"{where}  x {x:+.3f} ({x_dot:+.3f}/s)  angle {angle:+.4f} ({angle_dot:+.3f}/s)\n"

    def __repr__(self) -> str:
        return f"CartPoleEnv({', '.join(f'{name}={value!r}' for name, value in self._parameters.items())})"
