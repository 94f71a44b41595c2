"""A benchmark of change detectors: `python -m dqucb.drift.benchmark`.

`FAMILIES` holds distributions over streams of transitions; `draw` gives the stream of a seed. `false_alarms` and
`delays` measure any detector, given as an `Adapter`: ours, those of river and others. Families are drawn, not
chosen: a rule is tuned on some seeds and reported on others.
"""

from dqucb.drift.benchmark import control as control
from dqucb.drift.benchmark import processes as processes
from dqucb.drift.benchmark import simulation as simulation
from dqucb.drift.benchmark import tables as tables
from dqucb.drift.benchmark.adapters import ADAPTERS, Adapter
from dqucb.drift.benchmark.measure import delays, false_alarms
from dqucb.drift.benchmark.streams import FAMILIES, Family, Stream, draw, register

__all__ = ["ADAPTERS", "FAMILIES", "Adapter", "Family", "Stream", "delays", "draw", "false_alarms", "register"]
