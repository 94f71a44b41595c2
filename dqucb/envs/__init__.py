"""Gymnasium envs of the problems, and wrappers that change any env during a run.

Each env is registered once, below, with its short name (in `ENVS`, for commands and for `train("cartpole", ...)`), its
Gymnasium id and the usual length of a run. The classes load at first use. Gymnasium 1.x loads no plugins by itself, so
write `import dqucb.envs` first, or `gymnasium.make("dqucb.envs:dqucb/GridWorld-v0")`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

from dqucb._lazy import no_attribute
from dqucb._registry import Registry

if TYPE_CHECKING:
    from dqucb.envs.cartpole import CartPoleEnv, CartPoleVector
    from dqucb.envs.discretized import DiscretizedActions
    from dqucb.envs.drawn import changing_env, drawn_change
    from dqucb.envs.ns_gym import NSGymEnv, from_ns_gym
    from dqucb.envs.ns_gym_entry import LakePlanner, PolePlanner, ns_gym_scores, write_ns_gym_entry
    from dqucb.envs.physics import PhysicsShift, kinds_of, locomotion
    from dqucb.envs.pixels import PixelFrozenLakeEnv
    from dqucb.envs.shift import ShiftWrapper
    from dqucb.envs.tabular import FrozenLakeEnv, GridWorldEnv, TabularEnv, TwoRoomsEnv

__all__ = [
    "ENVS",
    "CartPoleEnv",
    "CartPoleVector",
    "DiscretizedActions",
    "FrozenLakeEnv",
    "GridWorldEnv",
    "LakePlanner",
    "NSGymEnv",
    "PhysicsShift",
    "PixelFrozenLakeEnv",
    "PolePlanner",
    "ShiftWrapper",
    "TabularEnv",
    "TwoRoomsEnv",
    "changing_env",
    "drawn_change",
    "from_ns_gym",
    "kinds_of",
    "locomotion",
    "ns_gym_scores",
    "register_envs",
    "write_ns_gym_entry",
]

# Short name -> factory of the env. The facts are `id` (None: not known to Gymnasium) and the usual length of a run,
# `episodes` or `steps`.
ENVS: Registry[Callable[..., gymnasium.Env[Any, Any]]] = Registry("env", ())

_MODULES = {  # where the public names of this package are defined
    "cartpole": ("CartPoleEnv", "CartPoleVector"),
    "discretized": ("DiscretizedActions",),
    "drawn": ("changing_env", "drawn_change"),
    "ns_gym": ("NSGymEnv", "from_ns_gym"),
    "ns_gym_entry": ("LakePlanner", "PolePlanner", "ns_gym_scores", "write_ns_gym_entry"),
    "physics": ("PhysicsShift", "kinds_of", "locomotion"),
    "pixels": ("PixelFrozenLakeEnv",),
    "shift": ("ShiftWrapper",),
    "tabular": ("FrozenLakeEnv", "GridWorldEnv", "TabularEnv", "TwoRoomsEnv"),
}
_IDS = {  # of the finite problems, whose short names and lengths are in `dqucb.problems.PROBLEMS`
    "dqucb/GridWorld-v0": "dqucb.envs.tabular:GridWorldEnv",
    "dqucb/TwoRooms-v0": "dqucb.envs.tabular:TwoRoomsEnv",
    "dqucb/FrozenLake-v0": "dqucb.envs.tabular:FrozenLakeEnv",
}


class _Env:
    """A factory of an env whose module loads at the first call."""

    def __init__(self, about: str, entry_point: str, options: dict[str, Any]) -> None:
        self.__doc__ = about
        self.entry_point, self.options = entry_point, options
        self.__module__, self.__qualname__ = entry_point.split(":")

    def __call__(self, **options: Any) -> gymnasium.Env[Any, Any]:
        env: gymnasium.Env[Any, Any] = getattr(import_module(self.__module__), self.__qualname__)(
            **{**self.options, **options}
        )
        return env

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"<env {self.entry_point}{given}>"


def _register(
    name: str, about: str, entry_point: str, *, id: str | None = None, options: Any = None, **length: int
) -> None:
    ENVS.register(name, id=id, **length)(_Env(about, entry_point, options or {}))
    if id is not None:
        _IDS[id] = entry_point


_register("cartpole", "A cart and a pole whose velocities become noisy at episode 400.",
          "dqucb.envs.cartpole:CartPoleEnv", id="dqucb/CartPole-v0", episodes=800)  # fmt: skip
_register("pixel-frozen-lake", "FrozenLake as an image, whose ice becomes more slippery.",
          "dqucb.envs.pixels:PixelFrozenLakeEnv", id="dqucb/PixelFrozenLake-v0", episodes=60_000)  # fmt: skip
_register("hospital", "Allocation of patients to 40 hospitals, whose lengths of stay change on day 637.",
          "dqucb.hospital.env:HospitalAllocationEnv", id="dqucb/HospitalAllocation-v0", steps=1_274)  # fmt: skip
for _name, _task in (("hopper", "Hopper"), ("half-cheetah", "HalfCheetah"), ("walker2d", "Walker2d")):
    _register(_name, f"MuJoCo's {_task} in 100 bins; noise on what it sees from step 100,000, more from 133,333.",
              "dqucb.envs.physics:locomotion", options={"name": _task, "change_at": (100_000, 133_333)},
              steps=200_000)  # fmt: skip
_register("drawn-change", "An env whose physics, sensors, actuators or rewards change as a seed draws it.",
          "dqucb.envs.drawn:drawn_env", steps=40_000)  # fmt: skip


def register_envs() -> None:
    """Register the ids with Gymnasium; calling it again changes nothing.

    Examples
    --------
    >>> import gymnasium
    >>> register_envs()
    >>> gymnasium.make("dqucb/CartPole-v0").get_wrapper_attr("change_at")
    (400,)
    """
    for name, entry_point in _IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point)


def __getattr__(name: str) -> Any:
    if name in ("AllocationSpace", "HospitalAllocationEnv"):  # until 0.2.0 they were defined here
        return getattr(import_module("dqucb.hospital"), name)
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_envs()
