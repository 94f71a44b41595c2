"""What an agent asks of a density: any object with these methods will do."""

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

LIKELIHOODS = ("normalized", "density")  # p as a share of kernel mass, or as the ratio of two densities


@runtime_checkable
class TransitionDensity(Protocol):
    """A conditional density p(s' | s, a) over the most recent transitions.

    `step` is the time step within the episode; densities that do not tell steps apart ignore it.
    """

    def likelihood(self, next_state: Any, state: Any, action: Any, step: int = 0) -> float:
        """p(s' | s, a) under what was pushed so far, 1 where nothing is known. Changes nothing."""

    def push(self, next_state: Any, state: Any, action: Any, step: int = 0) -> None:
        """Add a transition; the oldest one leaves a full window."""

    def reset(self) -> None:
        """Forget every transition."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that was learned, as plain arrays."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from what `state` returned."""
