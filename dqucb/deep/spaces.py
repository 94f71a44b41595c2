"""The head of an env, chosen by its action space."""

from typing import Any

import gymnasium

from dqucb.deep.head import HEADS, Head
from dqucb.deep.heads import BranchingHead, DiscreteHead

Env = gymnasium.Env[Any, Any]


def head_of(env: Env) -> Head:
    """Return the head that an env defines as `deep_head`, or one for its Discrete or MultiDiscrete actions."""
    if env.has_wrapper_attr("deep_head"):
        head = env.get_wrapper_attr("deep_head")
        return HEADS.find(head["kind"])(**head["settings"]) if isinstance(head, dict) else head
    space = env.action_space
    if isinstance(space, gymnasium.spaces.Box):
        raise ValueError(f"env must have Discrete actions, got {space}: wrap it in dqucb.envs.DiscretizedActions")
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        if space.nvec.ndim != 1 or (space.nvec != space.nvec[0]).any() or space.start.any():
            raise ValueError(f"env must have as many choices in each action dimension, from 0 on, got {space}")
        return BranchingHead(len(space.nvec), int(space.nvec[0]))
    if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
        raise ValueError(f"env must have Discrete actions that start at 0, got {space}")
    return DiscreteHead(int(space.n))
