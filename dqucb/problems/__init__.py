"""Finite decision problems that change, as pure data, and their exact solutions.

mdp.py and shifting.py define the two classes, base.py their common interface, planning.py the exact solutions; the
builders are in one module per problem family. This package imports nothing from the layers above it, Gymnasium
included: only the builders of toy_text.py load it, when they are called.
"""

from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.chains import combination_lock, endless_river, gradual_lock, river_swim, tidal_river
from dqucb.problems.frozen_lake import frozen_lake
from dqucb.problems.generated import FAMILIES, garnet, generated
from dqucb.problems.grids import large_rooms, moving_goal, new_prize, returning_rooms, still_grid
from dqucb.problems.gridworld import gridworld, two_rooms
from dqucb.problems.lakes import drifting_lake, frozen_lake_8x8, periodic_lake, still_lake
from dqucb.problems.mdp import TabularMDP
from dqucb.problems.random_mdp import random_mdp
from dqucb.problems.shifting import ShiftingMDP
from dqucb.problems.toy_text import cliff_walking, taxi

from_gymnasium = TabularMDP.from_gymnasium

__all__ = [
    "FAMILIES",
    "PROBLEMS",
    "Problem",
    "ShiftingMDP",
    "TabularMDP",
    "cliff_walking",
    "combination_lock",
    "drifting_lake",
    "endless_river",
    "from_gymnasium",
    "frozen_lake",
    "frozen_lake_8x8",
    "garnet",
    "generated",
    "gradual_lock",
    "gridworld",
    "large_rooms",
    "moving_goal",
    "new_prize",
    "periodic_lake",
    "random_mdp",
    "returning_rooms",
    "river_swim",
    "still_grid",
    "still_lake",
    "taxi",
    "tidal_river",
    "two_rooms",
]
