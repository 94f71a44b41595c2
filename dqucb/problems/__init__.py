"""What is to be learned: finite decision problems that change, as pure data, and their exact solutions.

`agents`, `envs` and `experiments` call this room; it knows none of them. mdp.py and shifting.py hold the
two classes, base.py what they share, planning.py solves them; one file per problem family.
"""

from dqucb.problems.base import Problem
from dqucb.problems.frozen_lake import frozen_lake
from dqucb.problems.gridworld import gridworld, two_rooms
from dqucb.problems.mdp import TabularMDP
from dqucb.problems.shifting import ShiftingMDP

from_gymnasium = TabularMDP.from_gymnasium

__all__ = ["Problem", "ShiftingMDP", "TabularMDP", "from_gymnasium", "frozen_lake", "gridworld", "two_rooms"]
