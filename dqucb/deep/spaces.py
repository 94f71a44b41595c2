"""What deep agents ask of the spaces of an env."""

from typing import Any

import gymnasium
import numpy as np

from dqucb.deep.head import HEADS, Head
from dqucb.deep.heads import BranchingHead, DiscreteHead

Env = gymnasium.Env[Any, Any]


def observation_dim(env: Env) -> int:
    """The numbers in an observation. ValueError unless they are a vector that a network of this package takes."""
    space = env.observation_space
    if not isinstance(space, gymnasium.spaces.Box):
        raise ValueError(f"env must have Box observations, got {space}; finite ones are for the tabular agents")
    if len(space.shape) > 1 and space.dtype == np.uint8:
        raise ValueError(
            f"env must have vectors as observations, got images of shape {space.shape}: the networks here are fully "
            "connected; wrap the env so that it gives features"
        )
    return int(np.prod(space.shape))


def head_of(env: Env) -> Head:
    """The head that an env asks for (`deep_head`, or its name and settings), or one for its (Multi)Discrete actions."""
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
