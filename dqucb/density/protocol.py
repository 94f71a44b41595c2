"""`TransitionDensity`: the methods that an agent needs of a density; `dqucb.check_density` tests an object."""

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray


@runtime_checkable
class TransitionDensity(Protocol):
    """A conditional density p(s' | s, a) over the most recent transitions.

    `step` is the time step within the episode; a density that treats all steps alike ignores it.

    Examples
    --------
    A minimal density; `@DENSITIES.register("half", states="finite")` before the class would register its name:

    >>> import numpy as np
    >>> from dqucb import TransitionDensity, check_density
    >>> from dqucb.density import Density
    >>> class Half(Density):
    ...     "Finds every transition that it has not just seen half as likely."
    ...     def __init__(self, n_states, n_actions, *, horizon=1):
    ...         self._params = {"n_states": n_states, "n_actions": n_actions, "horizon": horizon}
    ...         self.reset()
    ...     def push(self, state, action, next_state, step=0):
    ...         self.last = (int(state), int(action), int(next_state), int(step))
    ...     def likelihood(self, state, action, next_state, step=0):
    ...         return 1.0 if self.last in (None, (int(state), int(action), int(next_state), int(step))) else 0.5
    ...     def reset(self):
    ...         self.last = None
    ...     def state(self):
    ...         return {"last": np.array(self.last or (), np.int64)}
    ...     def restore(self, state):
    ...         if "last" not in state:
    ...             raise ValueError("state must hold 'last'")
    ...         self.last = tuple(state["last"].tolist()) or None
    >>> isinstance(Half(3, 2), TransitionDensity)
    True
    >>> check_density(Half(3, 2))
    """

    def likelihood(self, state: Any, action: Any, next_state: Any, step: int = 0) -> float:
        """p(s' | s, a) given the transitions pushed so far, 1 where nothing is known. Changes nothing."""

    def push(self, state: Any, action: Any, next_state: Any, step: int = 0) -> None:
        """Add a transition; a full window drops its oldest one."""

    def reset(self) -> None:
        """Forget every transition."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that was learned, as plain arrays."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from what `state` returned."""
