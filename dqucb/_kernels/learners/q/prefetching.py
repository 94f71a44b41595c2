"""What a step needs from memory, asked for while the step before it is still being learned.

With more pairs than a cache holds a step waits for memory, and learning one transition is longer than what a processor
looks ahead. The next state is known before it: lines of the next step that depend on nothing else are on their way
meanwhile. In square grids of 225 to 10,000 states a step of DQUCB then takes 0.75 to 0.95 of the time, and in small
ones the same.
"""

import numpy as np
from numba.extending import overload

from dqucb._kernels._jit import INLINED_OPTIONS, by_type, kernel
from dqucb._kernels._numba_private import prefetched
from dqucb._kernels.learners.tables import QTables
from dqucb._kernels.window_pools import PairWindows


def ask_for(array, place):
    """Ask for the line of an item, counted from the start of the array; it need not exist. Without JIT nothing."""


@overload(ask_for, jit_options=INLINED_OPTIONS)
def _ask_for(array, place):
    return lambda array, place: prefetched(array, place)


@kernel
def nothing(table, place):
    """Too small, or laid out otherwise."""


@kernel
def ask_for_rows(q, place):
    """The values and visits of a step and state."""
    ask_for(q.Q, place)
    ask_for(q.visits, place)


@kernel
def ask_for_slots(windows, place):
    """Where the windows of a step and state are."""
    ask_for(windows.slot, place)


ask_tables = by_type(
    lambda kind: ask_for_rows if kind is QTables else nothing, "(q, place): tables whose pairs have places by step."
)
ask_windows = by_type(
    lambda kind: ask_for_slots if issubclass(kind, PairWindows) else nothing, "(windows, place): windows of such pairs."
)


@kernel
def ask(learner, seen):
    """What the next step of a learner with tables `q` and windows will need, whatever it does."""
    _, n_states, n_actions = learner.q.visits.shape
    place = np.int64(((seen.step + 1) * n_states + seen.next_state) * n_actions)
    ask_tables(learner.q, place)
    ask_windows(learner.windows, place)
