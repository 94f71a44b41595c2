"""Many runs: tasks and their store, parallel execution, statistics, plots and reports.

`catalog` names problems and agents, `tasks` identifies a run, `store` keeps it, `execution` makes it (`lockstep` for
deep agents), `runner` brings these together; `comparison` is what a user holds, `statistics`, `plots` and `report` say
what it means. This room knows `agents` and `problems`; only the command line knows this room.
"""

from dqucb.experiments.catalog import PROBLEMS, make_agent, make_problem
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.execution import warmup
from dqucb.experiments.runner import compare, load_comparison, sweep
from dqucb.experiments.store import SettingsDifferError
from dqucb.experiments.tasks import Task

__all__ = [
    "PROBLEMS",
    "Comparison",
    "SettingsDifferError",
    "Task",
    "compare",
    "load_comparison",
    "make_agent",
    "make_problem",
    "sweep",
    "warmup",
]
