"""Gymnasium faces of problems, and wrappers that make any env change.

Importing this module registers the ids below; the classes load when they are used. Gymnasium 1.x loads no
plugins by itself, so write `import dqucb.envs` first, or `gymnasium.make("dqucb.envs:dqucb/GridWorld-v0")`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from dqucb.envs.cartpole import CartPoleEnv, CartPoleVector
    from dqucb.envs.discretized import DiscretizedActions
    from dqucb.envs.hospital import AllocationSpace, HospitalAllocationEnv
    from dqucb.envs.physics import PhysicsShift, locomotion
    from dqucb.envs.shift import ShiftWrapper
    from dqucb.envs.tabular import FrozenLakeEnv, GridWorldEnv, TabularEnv, TwoRoomsEnv

ENTRY_POINTS = {
    "dqucb/GridWorld-v0": "dqucb.envs.tabular:GridWorldEnv",
    "dqucb/TwoRooms-v0": "dqucb.envs.tabular:TwoRoomsEnv",
    "dqucb/FrozenLake-v0": "dqucb.envs.tabular:FrozenLakeEnv",
    "dqucb/CartPole-v0": "dqucb.envs.cartpole:CartPoleEnv",
    "dqucb/HospitalAllocation-v0": "dqucb.envs.hospital:HospitalAllocationEnv",
}
_HOMES = {
    "AllocationSpace": "dqucb.envs.hospital",
    "CartPoleEnv": "dqucb.envs.cartpole",
    "CartPoleVector": "dqucb.envs.cartpole",
    "DiscretizedActions": "dqucb.envs.discretized",
    "FrozenLakeEnv": "dqucb.envs.tabular",
    "GridWorldEnv": "dqucb.envs.tabular",
    "HospitalAllocationEnv": "dqucb.envs.hospital",
    "PhysicsShift": "dqucb.envs.physics",
    "ShiftWrapper": "dqucb.envs.shift",
    "TabularEnv": "dqucb.envs.tabular",
    "TwoRoomsEnv": "dqucb.envs.tabular",
    "locomotion": "dqucb.envs.physics",
}

__all__ = [
    "AllocationSpace",
    "CartPoleEnv",
    "CartPoleVector",
    "DiscretizedActions",
    "FrozenLakeEnv",
    "GridWorldEnv",
    "HospitalAllocationEnv",
    "PhysicsShift",
    "ShiftWrapper",
    "TabularEnv",
    "TwoRoomsEnv",
    "locomotion",
    "register_envs",
]


def register_envs() -> None:
    """Make the ids known to Gymnasium; calling it again changes nothing."""
    for name, entry_point in ENTRY_POINTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_envs()
