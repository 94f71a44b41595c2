"""Density-QUCB: QUCB whose bonus is divided by the likelihood of the transition (Bui et al. 2026)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import NDArray

from dqucb import _storage
from dqucb._kernels import stepping, window_pools
from dqucb._kernels.learners.rules import Transition
from dqucb._parameters import Within
from dqucb._validate import one_of, real
from dqucb.agents.confidence import AUTO, RateHorizon
from dqucb.agents.qucb import QUCB
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.density import TransitionDensity, WindowSettings, check_density_spec, make_density
from dqucb.running.compiled import Sizes, Training

ORACLE_WORD = "oracle"
FLOORS = {"studied": 0.3, "paper": 0.1}  # of the likelihood, by variant


@AGENTS.register("dqucb")
@dataclass(kw_only=True, eq=False, repr=False)
class DQUCB(QUCB):
    """Optimistic Q-learning that explores again when transitions become unlikely.

    The defaults are those that `reproduce/study_defaults.py` found best over four problems and three bonus scales;
    `variant="paper"` is the published algorithm. In a comparison with QUCB give both the same learning rate, or part of
    the difference is due to the learning rate.

    Parameters
    ----------
    variant : str
        "studied" or "paper". With "paper" the defaults of likelihood_floor and learning_rate_horizon are the paper's,
        0.1 and the horizon of the problem.
    window : int
        Number of transitions in each window of the density.
    kernel : str
        Kernel of the density; see `DiscreteTransitionKDE`.
    bandwidth : float
        Bandwidth of the kernel.
    scope : str
        Which transitions share a window: "pair" those of one (step, state, action), "step" those of one step, "shared"
        all. Where all steps share their tables (`stage_dependent`) they also share windows.
    likelihood : str
        "normalized" joint/marginal in [0, 1]; "density" the ratio of two densities; "oracle" the ratio of the true
        probability in the phases of the window to that in the current phase, for studies.
    likelihood_floor : float or None
        The smallest likelihood by which a bonus is divided; `run.likelihood` is not floored. None uses the default of
        the variant, 0.3 or 0.1.
    likelihood_noise : float
        Standard deviation of a Gaussian error on the likelihood, for studies.
    state_features : array or None
        (S, axes) integer coordinates of the states, for distances; None uses the state ids.
    density : str, mapping, TransitionDensity or None
        A density to use in place of the one described by `window` to `state_features`: a registered name
        (`dqucb.DENSITIES`), a mapping with its name and parameters, or an object. Runs with it are stepped from Python
        and therefore slower.
    **others
        As in `QUCB`.

    Examples
    --------
    >>> from dqucb import DQUCB
    >>> from dqucb.problems import frozen_lake
    >>> agent = DQUCB(bonus_scale=0.2, window=50)
    >>> run = agent.train(frozen_lake(change_at=(100, 200)), episodes=300)
    >>> bool(0 < run.likelihood.min() <= run.likelihood.max() <= 1)
    True
    """

    window: int = 100
    kernel: str = "gaussian"
    bandwidth: float = 1.0
    scope: str = "pair"
    likelihood: Annotated[str, Within(one_of, ["normalized", "density", ORACLE_WORD])] = "normalized"
    likelihood_floor: Annotated[float | None, Within(real, 0.0, 1.0, open_left=True)] = None
    learning_rate_horizon: RateHorizon = AUTO
    variant: Annotated[str, Within(one_of, FLOORS)] = "studied"
    likelihood_noise: Annotated[float, Within(real, 0.0)] = 0.0
    state_features: NDArray[Any] | None = None
    density: str | Mapping[str, Any] | TransitionDensity | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.density is not None:
            check_density_spec(self.density)
        self._own_density: TransitionDensity | None = None
        self._window_settings()  # an invalid value is refused here, not in the middle of a sweep

    def _floor(self) -> float:
        """The smallest likelihood: the given one, or the default of the variant."""
        return FLOORS[self.variant] if self.likelihood_floor is None else self.likelihood_floor

    def _rate_horizon(self, sizes: Sizes) -> float | None:
        if self.variant == "paper" and self.learning_rate_horizon == AUTO:
            return None  # the problem's own
        return super()._rate_horizon(sizes)

    def _window_settings(self) -> WindowSettings:
        return WindowSettings(
            window=self.window,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            scope=self.scope,
            likelihood="normalized" if self.likelihood == ORACLE_WORD else self.likelihood,
            likelihood_floor=0.0,  # `run.likelihood` is not floored; the learner floors its divisor
            state_features=self.state_features,
        )

    def _new_learner(self, sizes: Sizes) -> Any:  # type: ignore[override]
        steps = sizes.horizon or 1
        if self.density is not None:
            horizon = steps if self.stage_dependent is True else 1
            self._own_density = make_density(
                self.density, n_states=sizes.n_states, n_actions=sizes.n_actions, horizon=horizon
            )
            return super()._new_learner(sizes, floor=self._floor())
        # Windows per step, shared by all steps, or both where a pair may be split.
        rows = {True: steps, False: 1, AUTO: steps + 1}[self.stage_dependent] if sizes.horizon is not None else 1
        windows: Any = self._window_settings().windows(
            sizes.n_states, sizes.n_actions, rows, of_phases=self.likelihood == ORACLE_WORD
        )
        if self.likelihood_noise > 0:
            windows = window_pools.NoisyWindows(windows, float(self.likelihood_noise), float(self._floor()))
        return super()._new_learner(sizes, windows, self._floor())

    @property
    def _is_compiled(self) -> bool:
        return self.density is None and super()._is_compiled

    def start(self, *sizes: Any, **options: Any) -> TabularAgent:
        if self.likelihood == ORACLE_WORD:
            raise ValueError('likelihood="oracle" must know the true transitions: use train(problem)')
        return super().start(*sizes, **options)

    def _learned(self, training: Training, seen: Transition) -> tuple[float, float]:
        if self.likelihood == ORACLE_WORD:
            world = training.env
            if world is None or world.finite is None:
                raise ValueError('likelihood="oracle" must know the true transitions: use train(problem)')
            bonus, p = stepping.learn_with_model(
                training.learner, world.finite.model, world.phase, seen, training.draws
            )
            return float(bonus), float(p)
        if self._own_density is None:
            return super()._learned(training, seen)
        step = seen.step if self.stage_dependent is True else 0
        transition = (seen.state, seen.action, seen.next_state, step)
        p = real("the likelihood that density gives", self._own_density.likelihood(*transition), 0.0)
        bonus = float(stepping.update(training.learner, seen, p))
        self._own_density.push(*transition)
        return bonus, p

    def _packed(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        settings, arrays = super()._packed()
        if self._own_density is not None:
            arrays |= _storage.prefixed("density.", self._own_density.state())
        return settings, arrays

    def _unpack(self, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._unpack(settings, arrays)
        if self._own_density is not None:
            self._own_density.restore(_storage.below("density.", arrays))


DQUCB.start.__doc__ = TabularAgent.start.__doc__
