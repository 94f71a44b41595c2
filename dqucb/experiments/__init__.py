"""Experiments with many runs: trials, their store, parallel execution, statistics, plots and reports.

`catalog` finds problems by name, `design` validates the request, `trials` identifies and runs each trial, `execution`
distributes trials over processes, `store` keeps the runs, `health` verifies and repairs a store, and `runner` combines
these. `comparison` holds the results of one problem, `aggregate` those of several, `logs` those that other libraries
made; `sequential` decides how many seeds are enough; `statistics`, `plots`, `tables` and `report` present them.
Of this library only the command line imports this package.
"""

from dqucb.experiments.aggregate import Aggregate, aggregate
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.execution import warmup
from dqucb.experiments.health import Health, repair, verify
from dqucb.experiments.logs import load_logs
from dqucb.experiments.manifest import SettingsDifferError
from dqucb.experiments.runner import compare, load_comparison, sweep
from dqucb.experiments.trials import Evaluation, Trial
from dqucb.running.catalog import make_problem

__all__ = [
    "Aggregate",
    "Comparison",
    "Evaluation",
    "Health",
    "SettingsDifferError",
    "Trial",
    "aggregate",
    "compare",
    "load_comparison",
    "load_logs",
    "make_problem",
    "repair",
    "sweep",
    "verify",
    "warmup",
]
