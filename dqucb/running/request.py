"""`Request`: the validated arguments of `train`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dqucb import _validate
from dqucb.problems.base import PROBLEMS
from dqucb.running import catalog
from dqucb.running import options as declared


@dataclass(frozen=True)
class Request:
    """The arguments of `train`; every option is also an attribute.

    Parameters
    ----------
    problem : Problem, gymnasium.Env, str or callable
        As in `Agent.train`.
    seeds : tuple of int
        One, or several that are trained in lockstep.
    unit : str
        "episodes" or "steps".
    length : int
        Of the run.
    options : mapping
        The given options, validated.
    """

    problem: Any
    seeds: tuple[int, ...]
    unit: str
    length: int
    options: Mapping[str, Any]

    @classmethod
    def checked(cls, problem: Any, seeds: Any, given: Mapping[str, Any]) -> "Request":
        """Validate the arguments of `train`. Errors name the option, the value and what is allowed."""
        options = declared.checked(given)
        lengths = [unit for unit in ("episodes", "steps") if unit in options]
        if len(lengths) != 1:
            raise ValueError(
                "give exactly one of episodes and steps, "
                f"got episodes={options.get('episodes')!r}, steps={options.get('steps')!r}"
            )
        if "horizon" in options and "discount" in options:
            raise ValueError(
                "give at most one of horizon and discount, "
                f"got horizon={options['horizon']!r}, discount={options['discount']!r}"
            )
        detector = options.get("detector")
        if "checkpoint" in options and detector is not None and not savable(detector):
            raise ValueError(f"checkpoint must be None with {detector!r}: its state cannot be saved")
        (unit,) = lengths
        length = options[unit]
        if options.get("change_at") and options["change_at"][-1] >= length:
            latest = options["change_at"][-1]
            raise ValueError(f"change_at must lie before the end of a run of {unit}={length}, got {latest}")
        if isinstance(problem, str) and not catalog.is_gymnasium_id(problem):
            problem = catalog.registered(problem)
            if problem in PROBLEMS:
                usual = catalog.usual_length(problem)
                problem = catalog.make_problem(problem, length=length if usual and usual.unit == unit else None)
        options["stop_at"] = _validate.integer("stop_at", options.get("stop_at", length), 1, length)
        return cls(problem, tuple(_validate.seeds(seeds)), unit, length, options)

    def __getattr__(self, name: str) -> Any:
        if name not in declared.OPTIONS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.options.get(name, declared.OPTIONS[name].default)

    @property
    def identity(self) -> dict[str, Any]:
        """JSON of the options that change results, except for length, seed, regret and change points."""
        return {name: value for name, value in declared.identity(self.options).items() if name != "change_at"}

    def for_seed(self, seed: int) -> "Request":
        """Return the request for one of the seeds; each of several has its own checkpoint file."""
        options = dict(self.options)
        if self.checkpoint is not None and len(self.seeds) > 1:
            options["checkpoint"] = self.checkpoint.with_name(f"{self.checkpoint.name}-{seed}")
        return replace(self, seeds=(seed,), options=options)

    @property
    def seed(self) -> int:
        """The seed of a request with one seed."""
        (seed,) = self.seeds
        return seed


def savable(detector: Any) -> bool:
    """Whether a detector can be saved in a checkpoint."""
    return isinstance(detector, str) or hasattr(detector, "from_state")
