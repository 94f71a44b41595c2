"""Many runs: trials and their store, parallel execution, statistics, plots and reports.

`catalog` finds problems by name, `design` checks what is asked for, `trials` identifies and runs it, `execution`
spreads trials over processes, `store` keeps the runs, `health` verifies and repairs
it, `runner` brings these together. `comparison` is what a user
holds; `statistics`, `plots`, `tables` and `report` say what it means. Only the command line imports this package.
"""

from dqucb.experiments.catalog import make_problem
from dqucb.experiments.comparison import Comparison
from dqucb.experiments.execution import warmup
from dqucb.experiments.health import Health, repair, verify
from dqucb.experiments.manifest import SettingsDifferError
from dqucb.experiments.runner import compare, load_comparison, sweep
from dqucb.experiments.trials import Evaluation, Trial

__all__ = [
    "Comparison",
    "Evaluation",
    "Health",
    "SettingsDifferError",
    "Trial",
    "compare",
    "load_comparison",
    "make_problem",
    "repair",
    "sweep",
    "verify",
    "warmup",
]
