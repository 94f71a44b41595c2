"""Density-QUCB: QUCB whose bonus is divided by the likelihood of the transition (Bui et al. 2026)."""

import os
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb._kernels import stepping
from dqucb._kernels.learners.rules import Seen
from dqucb.agents.confidence import AUTO
from dqucb.agents.qucb import QUCB, q_learner
from dqucb.agents.tabular import NO_MODEL, TabularAgent
from dqucb.agents.training import Sizes, Training
from dqucb.base import AGENTS
from dqucb.density import TransitionDensity, WindowSettings

ORACLE_WORD = "oracle"


@AGENTS.register("dqucb")
@dataclass(kw_only=True, eq=False, repr=False)
class DQUCB(QUCB):
    """Optimistic Q-learning that explores again when transitions become unlikely.

    The defaults are those that `reproduce/study_defaults.py` found best over four problems and three bonus scales;
    `variant="paper"` is the published algorithm. Beside a QUCB give both the same learning rate, or part of what you
    see is the learning rate's.

    Parameters, besides those of `QUCB`
    -----------------------------------
    variant : "studied", or "paper": where no learning_rate_horizon is given, it is then the problem's own horizon.
    window : the density remembers this many transitions (per window).
    kernel, bandwidth : of the density; see `DiscreteTransitionKDE`.
    scope : which transitions share a window: "pair" those of one (step, state, action), "step" those of one step,
        "shared" all.
    likelihood : "normalized" joint/marginal in [0, 1]; "density" the ratio of two densities; "oracle" the true
        probability under what fills the window over that now in force, for studies.
    likelihood_floor : the smallest likelihood, so the largest factor on a bonus is its inverse.
    likelihood_noise : standard deviation of a Gaussian error on the likelihood, for studies.
    state_features : (S, axes) integer coordinates by which states are near or far; None takes their numbers.
    density : a function (n_states, n_actions, horizon) -> `TransitionDensity` to use instead; such a run is
        stepped from Python, so train on a Gymnasium env or step the agent yourself.
    """

    window: int = 100
    kernel: str = "gaussian"
    bandwidth: float = 1.0
    scope: str = "pair"
    likelihood: str = "normalized"
    likelihood_floor: float = 0.3
    learning_rate_horizon: float | str | None = AUTO
    variant: InitVar[str] = "studied"
    likelihood_noise: float = 0.0
    state_features: NDArray[Any] | None = None
    density: Callable[[int, int, int], TransitionDensity] | None = None

    def __post_init__(self, variant: str) -> None:
        _validate.one_of("variant", variant, ["studied", "paper"])
        if variant == "paper" and self.learning_rate_horizon == AUTO:
            self.learning_rate_horizon = None
        super().__post_init__()
        _validate.one_of("likelihood", self.likelihood, ["normalized", "density", ORACLE_WORD])
        self.likelihood_floor = _validate.real("likelihood_floor", self.likelihood_floor, 0.0, 1.0, open_left=True)
        self.likelihood_noise = _validate.real("likelihood_noise", self.likelihood_noise, 0.0)
        self.window = _validate.integer("window", self.window)
        self.bandwidth = _validate.positive("bandwidth", self.bandwidth)
        if self.state_features is not None:
            self.state_features = np.asarray(self.state_features)
        if self.density is not None and not callable(self.density):
            raise ValueError(f"density must be a function (n_states, n_actions, horizon), got {self.density!r}")
        self._own_density: TransitionDensity | None = None
        self._window_settings()  # so that a bad word is refused now, not in the middle of a sweep

    def _window_settings(self) -> WindowSettings:
        return WindowSettings(
            window=self.window,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            scope=self.scope,
            likelihood="normalized" if self.likelihood == ORACLE_WORD else self.likelihood,
            likelihood_floor=self.likelihood_floor,
            state_features=self.state_features,
        )

    def _new_learner(self, sizes: Sizes) -> Any:
        steps = sizes.horizon or 1
        if self.density is not None:
            self._own_density = self.density(sizes.n_states, sizes.n_actions, steps)
            windows = None
        else:
            windows = self._window_settings().windows(
                sizes.n_states, sizes.n_actions, steps, of_phases=self.likelihood == ORACLE_WORD
            )
        return q_learner(
            sizes,
            bonus=self.bonus,
            scale=self.bonus_scale,
            delta=self.delta,
            rate_horizon=self._rate_horizon(sizes),
            act_on_qhat=self.act_on == "qhat",
            windows=windows,
            noise=self.likelihood_noise,
        )

    @property
    def _is_compiled(self) -> bool:
        return self.density is None and super()._is_compiled

    def start(self, *sizes: Any, **options: Any) -> TabularAgent:
        if self.likelihood == ORACLE_WORD:
            raise ValueError('likelihood="oracle" must know the true transitions: use train(problem)')
        return super().start(*sizes, **options)

    def _learned(self, training: Training, seen: Seen) -> tuple[float, float]:
        if self.likelihood == ORACLE_WORD and seen.model is NO_MODEL:
            raise ValueError('likelihood="oracle" must know the true transitions: use train(problem)')
        if self._own_density is None:
            return super()._learned(training, seen)
        transition = (seen.state, seen.action, seen.next_state, seen.step)
        p = max(self.likelihood_floor, float(self._own_density.likelihood(*transition)))
        bonus = float(stepping.update(training.learner, seen, p))
        self._own_density.push(*transition)
        return bonus, p

    def save(self, path: str | os.PathLike[str]) -> Path:
        if self.density is not None:
            raise ValueError(f"an agent with a density of its own cannot be saved, got density={self.density!r}")
        return super().save(path)

    def parameters(self) -> dict[str, Any]:
        settings = super().parameters()
        if self.density is not None:
            settings["density"] = getattr(self.density, "__qualname__", repr(self.density))
        return settings


DQUCB.start.__doc__ = TabularAgent.start.__doc__
