"""CliffWalking and Taxi with a shift, read from Gymnasium's own tables.

Their rewards are negative and large. They are divided by the largest magnitude, which keeps the optimal policies and
puts rewards within [-1, 1]; no return exceeds 1.
"""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from dqucb import _validate as check
from dqucb.problems import builders
from dqucb.problems.base import PROBLEMS, Problem
from dqucb.problems.mdp import TabularMDP


@PROBLEMS.register("cliff-walking", episodes=20_000)
def cliff_walking(
    slippery: bool | Sequence[bool] = (False, True),
    change_at: Iterable[int] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """Gymnasium's CliffWalking, in which moves become slippery.

    48 cells, actions up, right, down, left. Each move costs 1/100, and the cliff costs 1 and leads back to the start.
    The goal ends the episode. In a slippery phase a move goes to each side with probability 1/3.

    Parameters
    ----------
    slippery : bool or sequence of bool
        Whether moves are slippery, for each phase.
    change_at : iterable of int, optional
        The first index of each later phase; (10_000,) by default for two phases.
    horizon, discount
        Exactly one, or neither: then the horizon is 100.

    Examples
    --------
    >>> round(float(cliff_walking().optimal_values()[0, 36]), 6)
    -0.13
    """
    return _shifting(
        "cliff-walking", "cliffwalking", "CliffWalkingEnv", "slippery", "is_slippery", 100.0, 100,
        slippery, change_at, horizon, discount,
    )  # fmt: skip


@PROBLEMS.register("taxi", episodes=20_000)
def taxi(
    rainy: bool | Sequence[bool] = (False, True),
    change_at: Iterable[int] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Problem:
    """Gymnasium's Taxi, in which moves become noisy when it starts to rain.

    500 states, actions down, up, right, left, pick up, drop off. Each step costs 1/20, a wrong pick-up or drop-off 1/2;
    the right drop-off is paid 1 and ends the episode. In the rain a move goes to each side with probability 0.1.

    Parameters
    ----------
    rainy : bool or sequence of bool
        Whether it rains, for each phase.
    change_at : iterable of int, optional
        The first index of each later phase; (10_000,) by default for two phases.
    horizon, discount
        Exactly one, or neither: then the horizon is 50.

    Examples
    --------
    >>> taxi(rainy=False).n_actions
    6
    """
    return _shifting(
        "taxi", "taxi", "TaxiEnv", "rainy", "is_rainy", 20.0, 50, rainy, change_at, horizon, discount
    )  # fmt: skip


def _shifting(
    name: str,
    module: str,
    cls: str,
    word: str,
    option: str,
    scale: float,
    usual_horizon: int,
    given: bool | Sequence[bool],
    change_at: Iterable[int] | None,
    horizon: int | None,
    discount: float | None,
) -> Problem:
    """One phase for each value of an option of a Gymnasium env; rewards divided by `scale`."""
    values = [check.flag(f"{word} in each phase", value) for value in builders.as_tuple(given)]
    if not values:
        raise ValueError(f"{word} must be True or False, or one of them for each phase, got {given!r}")
    points = builders.change_points(word, len(values), change_at, (10_000,))
    horizon, discount = builders.horizon_or_discount(horizon, discount, usual_horizon)
    description = {"problem": name, word: values, "horizon": horizon, "discount": discount}
    # By name, because problems are pure data: only these two builders need Gymnasium.
    env = getattr(importlib.import_module(f"gymnasium.envs.toy_text.{module}"), cls)

    def phase(number: int, identity: dict[str, Any]) -> TabularMDP:
        try:
            made = env(**{option: values[number]})
        except TypeError as error:
            raise ValueError(f"{name} needs a newer Gymnasium, in which {cls} takes {option}") from error
        table = {
            state: {
                action: [(p, there, reward / scale, over) for p, there, reward, over in outcomes]
                for action, outcomes in actions.items()
            }
            for state, actions in made.P.items()
        }
        initial = made.initial_state_distrib
        mdp = TabularMDP(table, horizon=horizon, discount=discount, initial=initial, return_bound=1.0, name=name)
        return builders.renamed(mdp, identity).phases[0]

    return builders.in_phases(phase, len(values), points, description)
