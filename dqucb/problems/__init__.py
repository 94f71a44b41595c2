"""What is to be learned: finite decision problems that change, as pure data, and their exact solutions.

`agents`, `envs` and `experiments` call this room; it knows none of them. mdp.py and shifting.py hold the
two classes, base.py what they share, planning.py solves them; one file per problem family.
"""

from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.chains import combination_lock, river_swim
from dqucb.problems.frozen_lake import frozen_lake
from dqucb.problems.generated import FAMILIES, garnet, generated
from dqucb.problems.gridworld import gridworld, two_rooms
from dqucb.problems.mdp import TabularMDP
from dqucb.problems.random_mdp import random_mdp
from dqucb.problems.seasons import (
    drifting_lake,
    frozen_lake_8x8,
    moving_goal,
    periodic_lake,
    still_grid,
    still_lake,
)
from dqucb.problems.shifting import ShiftingMDP
from dqucb.problems.toy_text import cliff_walking, taxi
from dqucb.problems.worlds import endless_river, large_rooms, new_prize, returning_rooms, tidal_river

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
