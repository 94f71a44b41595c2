"""Shared by all optimistic Q learners with a horizon: the tables Q and V in three forms, and the bonus.

- `QTables`: the paper's. A transition at step h belongs to step h alone.
- `SharedTables`: transitions and rewards are the same at every step. A transition updates Q_h(s, a) for every h, so h
  is last in memory and the loop over it vectorises.
- `AutoTables`: shared until a test finds that the outcomes of a pair depend on the step (`step_test.py`).

Everything else that a learner counts has one row per step, one row in all, or one row for the pairs that are shared and
one per step for those that are split: `row_of` says which row a transition belongs to, `steps_of` which h it updates.
One body of code serves the three forms; the form is known when a kernel is compiled.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dqucb._kernels import formulas
from dqucb._kernels._jit import by_type, kernel
from dqucb._kernels.learners import step_test
from dqucb._kernels.rows import best_action, best_action_from, largest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class QTables(NamedTuple):
    """Tables per step: `row_of` is the step."""

    Q: Floats  # (H, S, A)
    V: Floats  # (H + 1, S)
    visits: NDArray[np.int32]  # (H, S, A) all of them, whatever was forgotten since
    bounds: Floats  # (H + 1,) v_h
    rate_horizon: float  # H in the learning rate


class SharedTables(NamedTuple):
    """Tables shared by all steps: one row."""

    Q: Floats  # (S, A, H)
    V: Floats  # (S, H + 1)
    visits: Integers  # (1, S, A)
    bounds: Floats  # (H + 1,)
    rate_horizon: float


class AutoTables(NamedTuple):
    """Tables shared by all steps until a pair is split: row 0 is shared, row h + 1 belongs to step h."""

    Q: Floats  # (S, A, H)
    V: Floats  # (S, H + 1)
    visits: Integers  # (H + 1, S, A)
    bounds: Floats  # (H + 1,)
    rate_horizon: float
    test: step_test.StepTest


class BonusSettings(NamedTuple):
    """Form and scale of a bonus."""

    form: int
    scale: float  # c
    horizon: float  # H
    iota: float


@kernel
def bonus_of(bonus, t, v_h):
    """The bonus after t visits at a step whose return is at most v_h."""
    return formulas.episodic_bonus(bonus.form, bonus.scale, t, v_h, bonus.horizon, bonus.iota)


# ---- where a transition belongs ---------------------------------------------------------------------------


@kernel
def step_row(q, step, state, action):
    return step


@kernel
def only_row(q, step, state, action):
    return 0


@kernel
def auto_row(q, step, state, action):
    return step + 1 if q.test.split[state, action] else 0


@kernel
def one_step(q, step, state, action):
    return step, step + 1


@kernel
def all_steps(q, step, state, action):
    return 0, q.bounds.shape[0] - 1


@kernel
def auto_steps(q, step, state, action):
    if q.test.split[state, action]:
        return step, step + 1
    return 0, q.bounds.shape[0] - 1


@kernel
def n_states(q):
    return q.visits.shape[1]


@kernel
def n_actions(q):
    return q.visits.shape[2]


@kernel
def nothing_to_test(q, seen):
    pass


@kernel
def test_steps(q, seen):
    """Compare the outcome with those of its step and of all steps; count the visit in the row of its step too."""
    step_test.observe(q.test, seen)
    if not q.test.split[seen.state, seen.action]:
        q.visits[seen.step + 1, seen.state, seen.action] += 1


# ---- elements of tables that are laid out as Q and V are --------------------------------------------------


@kernel
def steps_first(q, table, h, state, action):
    return table[h, state, action]


@kernel
def steps_last(q, table, h, state, action):
    return table[state, action, h]


@kernel
def put_steps_first(q, table, h, state, action, value):
    table[h, state, action] = value


@kernel
def put_steps_last(q, table, h, state, action, value):
    table[state, action, h] = value


@kernel
def value_steps_first(q, h, state):
    return q.V[h, state]


@kernel
def value_steps_last(q, h, state):
    return q.V[state, h]


@kernel
def act_steps_first(q, step, state):
    return best_action(q.Q[np.uint64(step), np.uint64(state)])


@kernel
def act_steps_last(q, step, state):
    return best_action(q.Q[np.uint64(state), :, np.uint64(step)])


@kernel
def greedy_steps_first(q, step, state, first):
    return best_action_from(q.Q[step, state], first)


@kernel
def greedy_steps_last(q, step, state, first):
    return best_action_from(q.Q[state, :, step], first)


@kernel
def refresh_steps_first(q, first, last, state):
    for h in range(np.uint64(first), np.uint64(last)):
        q.V[h, state] = formulas.capped_value(largest(q.Q[h, state]), q.bounds[h])


@kernel
def refresh_steps_last(q, first, last, state):
    # Loops over h are contiguous, so that they vectorise; four actions at a time save three passes over V.
    start, stop = np.uint64(first), np.uint64(last)
    values, rows = q.V[state], q.Q[state]
    done = 1
    if rows.shape[0] >= 4:
        done = 4
        best_of_four(rows[0], rows[1], rows[2], rows[3], q.bounds, start, stop, values)
    else:
        row = rows[0]
        for h in range(start, stop):
            values[h] = formulas.capped_value(row[h], q.bounds[h])
    for action in range(done, rows.shape[0]):
        row = rows[action]
        for h in range(start, stop):
            values[h] = max(values[h], formulas.capped_value(row[h], q.bounds[h]))


@kernel
def best_of_four(row, second, third, fourth, bounds, start, stop, values):
    for h in range(start, stop):
        best = max(max(row[h], second[h]), max(third[h], fourth[h]))
        values[h] = formulas.capped_value(best, bounds[h])


@kernel
def forget_steps_first(q):
    for h in range(q.Q.shape[0]):
        q.Q[h] = q.bounds[h]
        q.V[h] = q.bounds[h]


@kernel
def forget_steps_last(q):
    for state in range(q.Q.shape[0]):
        for h in range(q.Q.shape[2]):
            q.V[state, h] = q.bounds[h]
            for action in range(q.Q.shape[1]):
                q.Q[state, action, h] = q.bounds[h]


_STEPS_LAST = {
    "get": steps_last,
    "put": put_steps_last,
    "value": value_steps_last,
    "act": act_steps_last,
    "greedy": greedy_steps_last,
    "refresh": refresh_steps_last,
    "forget_all": forget_steps_last,
}
_FORMS: dict[type, dict[str, Any]] = {
    QTables: {
        "row_of": step_row,
        "steps_of": one_step,
        "look": nothing_to_test,
        "get": steps_first,
        "put": put_steps_first,
        "value": value_steps_first,
        "act": act_steps_first,
        "greedy": greedy_steps_first,
        "refresh": refresh_steps_first,
        "forget_all": forget_steps_first,
    },
    SharedTables: {"row_of": only_row, "steps_of": all_steps, "look": nothing_to_test, **_STEPS_LAST},
    AutoTables: {"row_of": auto_row, "steps_of": auto_steps, "look": test_steps, **_STEPS_LAST},
}


def _of_form(name: str, summary: str) -> Any:
    return by_type(lambda form: _FORMS[form][name], summary)


row_of = _of_form("row_of", "(q, step, state, action): the row of the pair in tables of counts.")
steps_of = _of_form("steps_of", "(q, step, state, action): the first h that a transition updates, and the end.")
look = _of_form("look", "(q, seen): with `AutoTables`, test whether the steps of the pair differ. Changes the test.")
get = _of_form("get", "(q, table, h, state, action): an element of a table that is laid out as Q.")
put = _of_form("put", "(q, table, h, state, action, value): write it.")
value = _of_form("value", "(q, h, state): V_h(s).")
act = _of_form("act", "(q, step, state): argmax_a Q_h(s, a), the lowest action on ties.")
greedy = _of_form("greedy", "(q, step, state, first): the same, ties going to the first one from `first` on.")
refresh = _of_form("refresh", "(q, first, last, state): V_h(s) = min(v_h, max_a Q_h(s, a)) for these h.")
forget_all = _of_form("forget_all", "(q): Q and V as new, the bounds on the return; terminal states are never read.")


# ---- the update -------------------------------------------------------------------------------------------


@kernel
def visit(q, seen):
    """Test and count a transition; return the row of its pair."""
    look(q, seen)
    row = row_of(q, seen.step, seen.state, seen.action)
    q.visits[np.uint64(row), np.uint64(seen.state), np.uint64(seen.action)] += 1
    return row


@kernel
def rate(q, t):
    """The learning rate of a pair that counts as visited t times."""
    return formulas.learning_rate(t, q.rate_horizon)


@kernel
def learn_as(q, bonus, seen, t):
    """QUCB's update of a pair that counts as visited t times; returns the bonus."""
    return update(q, bonus, seen, t, 1.0, rate(q, t))


@kernel
def update(q, bonus, seen, t, p, alpha):
    """Move Q of the visited pair towards r + V_{h+1}(s') + b_t / p, and V with it; returns the bonus of its step."""
    state = np.uint64(seen.state)
    action = np.uint64(seen.action)
    after = np.uint64(seen.next_state)
    first, last = steps_of(q, seen.step, seen.state, seen.action)
    for h in range(np.uint64(first), np.uint64(last)):
        target = seen.reward + divided(bonus_of(bonus, t, q.bounds[h]), p)
        if not seen.terminated:  # the value of a terminal state is 0
            target += value(q, np.uint64(h) + np.uint64(1), after)
        put(q, q.Q, h, state, action, formulas.blend(get(q, q.Q, h, state, action), target, alpha))
    refresh(q, first, last, state)
    return divided(bonus_of(bonus, t, q.bounds[np.uint64(seen.step)]), p)


@kernel
def divided(bonus, p):
    """The bonus over the likelihood; no division where p = 1, as in QUCB."""
    if p != 1.0:
        return formulas.shift_aware(bonus, p)
    return bonus
