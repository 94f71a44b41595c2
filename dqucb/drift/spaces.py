"""What a detector needs to know of an env: its spaces, and transitions in the form that detectors take."""

from typing import Any

import numpy as np
from gymnasium import spaces

from dqucb.drift.base import DriftDetector, checked_detector
from dqucb.drift.continuous import LEARNING_BURN_IN, ContinuousDriftDetector
from dqucb.drift.finite import FiniteDriftDetector


def detector_for(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any], *, learning: bool = False, **options: Any
) -> DriftDetector:
    """The detector that fits two spaces.

    Parameters
    ----------
    observation_space, action_space : gymnasium.spaces.Space
        Discrete observations give a `FiniteDriftDetector`; Box ones a `ContinuousDriftDetector`, with actions that are
        Discrete, Box, MultiDiscrete or MultiBinary.
    learning : bool
        Whether the stream is that of an agent that learns from nothing: a `ContinuousDriftDetector` then has a burn-in
        of 20,000 updates, unless `burn_in` is given.
    **options
        Go to the detector.

    Returns
    -------
    DriftDetector
        A new detector.

    Examples
    --------
    >>> from gymnasium.spaces import Box, Discrete
    >>> from dqucb.drift import detector_for
    >>> type(detector_for(Discrete(16), Discrete(4))).__name__
    'FiniteDriftDetector'
    >>> detector_for(Box(-1, 1, (3,)), Discrete(2)).get_params()["n_actions"]
    2
    """
    finite_actions = isinstance(action_space, spaces.Discrete)
    if isinstance(observation_space, spaces.Discrete) and finite_actions:
        return FiniteDriftDetector(int(observation_space.n), int(action_space.n), **options)  # type: ignore[attr-defined]
    if isinstance(observation_space, spaces.Box):
        if learning:
            options = {"burn_in": LEARNING_BURN_IN, **options}
        if finite_actions:
            return ContinuousDriftDetector(n_actions=int(action_space.n), **options)  # type: ignore[attr-defined]
        if isinstance(action_space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
            return ContinuousDriftDetector(**options)
    raise ValueError(
        f"no detector fits observations {observation_space} with actions {action_space}: wrap the env so that "
        "observations are Box or Discrete, or pass detector="
    )


class SpaceReader:
    """Observations and actions in the form that the detector takes; ids of Discrete spaces begin at 0.

    Parameters
    ----------
    observation_space, action_space : gymnasium.spaces.Space
        Of the env.
    """

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.first_state = int(getattr(observation_space, "start", 0))
        self.first_action = int(getattr(action_space, "start", 0)) if isinstance(action_space, spaces.Discrete) else 0
        self.finite_states = isinstance(observation_space, spaces.Discrete)
        self.finite_actions = isinstance(action_space, spaces.Discrete)

    def state(self, observation: Any) -> Any:
        if self.finite_states:
            return int(observation) - self.first_state
        return np.array(observation, np.float64).ravel()  # a copy: some envs write into the same array

    def action(self, action: Any) -> Any:
        return int(action) - self.first_action if self.finite_actions else np.array(action, np.float64).ravel()


def detector_or_chosen(
    given: Any,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    options: dict[str, Any],
    *,
    learning: bool = False,
) -> Any:
    """The detector that was given, or one that fits the spaces.

    Parameters
    ----------
    given : object or None
        A detector; None chooses one.
    observation_space, action_space : gymnasium.spaces.Space
        Of the env.
    options : dict
        Of the detector that is chosen.
    learning : bool
        Whether an agent learns meanwhile, which needs a longer burn-in.
    """
    if given is None:
        return detector_for(observation_space, action_space, learning=learning, **options)
    if isinstance(given, str):
        raise ValueError(f"detector must be a detector, or None for the one that fits the spaces, got {given!r}")
    if options:
        raise ValueError(f"options are for the detector that is chosen: detector= is given, and also {sorted(options)}")
    check_fits(checked_detector(given), observation_space, action_space)
    return given


def check_fits(detector: Any, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Raise a ValueError for a finite detector that would meet a state or action that it has no place for.

    Parameters
    ----------
    detector : DriftDetector
        What is checked.
    observation_space, action_space : gymnasium.spaces.Space
        Of the env.
    """
    if isinstance(detector, FiniteDriftDetector):
        for role, space in (("states", observation_space), ("actions", action_space)):
            size = detector.get_params()[f"n_{role}"]
            if not isinstance(space, spaces.Discrete):
                raise ValueError(f"detector must be for {role} in {space}, got {detector!r}: see detector_for")
            if int(space.n) > size:
                raise ValueError(f"detector must be for at least {space.n} {role}, got n_{role}={size}")
