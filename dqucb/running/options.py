"""The options of `Agent.train`, each declared once: its type, check, help text, and whether it changes results.

Everything else is derived from `SharedOptions` and `TrainOptions`: the signature and documentation of `train`, the
options of `compare` and `sweep`, the flags of the command line, the identity of a trial, and what must be equal for a
run to be resumed. By default an option changes results, so that a run with it is never mistaken for one without it.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_type_hints

from dqucb import _validate
from dqucb._fingerprint import fingerprint, is_known_code
from dqucb.run import REGRETS

ON_ALARM = ("restart", "note")  # the reaction of an agent to an alarm of its run's detector
RECORDS = 1_000  # points of the curves of a run counted in steps


Check = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Option:
    """One option of `train`.

    Parameters
    ----------
    help : str
        Description for documentation and the command line.
    check : callable
        (name, value) -> the validated value; raises a ValueError. It is not called for the default.
    default : object
        The value if the option is not given.
    changes_results : bool
        Whether runs with different values can differ. If so, a value that is not the default is part of the identity.
    flag : type, optional
        The type of its command-line flag (`str`, `int` or `float`); None for no flag.
    describe : callable, optional
        (value, options) -> JSON for the identity; by default the value itself.
    key : str, optional
        Its name in the identity; "" if it is identified elsewhere. By default the name of the option.
    """

    help: str
    check: Check
    default: Any = None
    changes_results: bool = True
    flag: type | None = None
    describe: Callable[[Any, Mapping[str, Any]], Any] | None = None
    key: str | None = None


def _integer(minimum: int) -> Check:
    return lambda name, value: _validate.integer(name, value, minimum)


def _one_of(words: tuple[str, ...]) -> Check:
    return lambda name, value: _validate.one_of(name, value, words)


def _truth(name: str, value: Any) -> bool:
    return bool(value)


def _discount(name: str, value: Any) -> float:
    return _validate.real(name, value, 0.0, 1.0 - 1e-12)


def _callback(name: str, value: Any) -> Any:
    if not callable(value):
        raise ValueError(f"{name} must be a function of a `Progress`, got {value!r}")
    return value


def _path(name: str, value: Any) -> Path:
    return Path(value)


def _detector(name: str, value: Any) -> Any:
    from dqucb.drift.base import checked_detector  # late: the command line reads this module for its help

    return _validate.one_of(name, value, ("auto",)) if isinstance(value, str) else checked_detector(value, "clone")


def _detector_identity(detector: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """JSON of a run's detector and of the reaction to its alarms, with a hash for detectors of other packages."""
    found = {"detector": repr(detector), "on_alarm": options.get("on_alarm", ON_ALARM[0])}
    if isinstance(detector, str):
        return found
    from dqucb.drift.base import DriftDetector

    own = isinstance(detector, DriftDetector) and is_known_code(type(detector))
    if not own or not all(isinstance(each, str | bool | int | float | None) for each in detector.get_params().values()):
        found["sha256"] = fingerprint(detector.clone())  # without what it has learned
    return found


# fmt: off
class SharedOptions(TypedDict, total=False):
    """The options that `compare`, `sweep` and the command line accept too, for all runs."""

    change_at: Annotated[Iterable[int] | int | None, Option(
        "The episodes or steps at which an env changes, such as 400,800, if the env does not state them.",
        _validate.increasing, flag=str)]
    max_return: Annotated[float | None, Option(
        "The largest return of an episode, if the env does not state it; without it, regret is unknown. A value above "
        "the horizon also tells tabular agents that rewards exceed 1.",
        _validate.real, flag=float)]
    regret: Annotated[str, Option(
        '"realized", the optimal value minus the return (with a discount the optimality gap of each action). For '
        'finite problems: "expected", the optimal value minus the exact value of the policy followed; "pseudo", the '
        "sum of V* - Q* over the actions taken, exploration included, which has little noise.",
        _one_of(REGRETS), default=REGRETS[0], flag=str, key="")]
    records: Annotated[int, Option(
        "The approximate number of points in the curves of a run of steps.", _integer(1), default=RECORDS, flag=int)]
    horizon: Annotated[int | None, Option(
        "The length of an episode for tabular agents on an env; by default the env's own limit.",
        _integer(1), flag=int)]
    discount: Annotated[float | None, Option(
        "A discount for tabular agents on an env, in place of a horizon.", _discount, flag=float)]
    detector: Annotated[Any, Option(
        'A drift detector, or "auto" for one that suits the spaces. A clone of it sees every transition of a seed. Its '
        "alarms are `agent.detector_alarms_`, and `run.alarms` unless the agent detects changes itself. Such a run is "
        "stepped from Python.", _detector, describe=_detector_identity, key="watch")]
    on_alarm: Annotated[str, Option(
        '"restart": the agent restarts learning after an alarm of the detector, if it can. "note": alarms are only '
        "recorded. An agent that detects changes itself reacts to its own alarms only.",
        _one_of(ON_ALARM), default=ON_ALARM[0], flag=str, key="")]


class TrainOptions(SharedOptions, total=False):
    """The options of `Agent.train`."""

    episodes: Annotated[int | None, Option(
        "The length of the run in episodes; give this or steps. A problem with a horizon takes episodes, one with a "
        "discount steps.", _validate.length, key="")]
    steps: Annotated[int | None, Option("The length of the run in steps.", _validate.length, key="")]
    seed: Annotated[int, Option(
        "The random seed; runs with the same seed are bit-identical.", _integer(0), default=0, key="")]
    progress: Annotated[bool | None, Option(
        "Show a progress bar; by default, after five seconds on a terminal or in a notebook.",
        _truth, changes_results=False)]
    callback: Annotated[Callable[[Any], object] | None, Option(
        "Called with a `Progress` after each block of the run; training stops when it returns False.",
        _callback, changes_results=False)]
    checkpoint: Annotated[str | os.PathLike[str] | None, Option(
        "A file that is written every minute and when training stops. If it exists when training starts, the run is "
        "resumed from it, bit-identically.", _path, changes_results=False)]
    stop_at: Annotated[int | None, Option(
        "Stop after this many episodes or steps. Calling `train` again with the same arguments continues the run.",
        _integer(1), changes_results=False)]
# fmt: on


def _declared(kind: type) -> dict[str, Option]:
    return {
        name: next(each for each in hint.__metadata__ if isinstance(each, Option))
        for name, hint in get_type_hints(kind, include_extras=True).items()
    }


SHARED = _declared(SharedOptions)
OPTIONS = {name: option for name, option in _declared(TrainOptions).items() if name not in SHARED} | SHARED


def checked(given: Mapping[str, Any], where: str = "train") -> dict[str, Any]:
    """Validate options; None counts as not given.

    Parameters
    ----------
    given : mapping
        Options by name.
    where : str
        The name of the function in errors.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For an invalid value.
    """
    for name in given:
        if name not in OPTIONS:
            try:
                _validate.known(f"option of {where}", name, OPTIONS)
            except ValueError as error:
                raise TypeError(str(error)) from None
    return {
        name: OPTIONS[name].check(name, value)
        for name, value in given.items()
        if value is not None and not (isinstance(value, str) and value == OPTIONS[name].default)
    }


def identity(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON of validated options: those not at their default, except for options that do not change results."""
    found = {}
    for name, value in options.items():
        option = OPTIONS[name]
        if option.changes_results and option.key != "" and not _is_default(value, option.default):
            found[option.key or name] = value if option.describe is None else option.describe(value, options)
    return found


def default_of(key: str) -> Any:
    """Return the value of an option that is missing in an identity."""
    return OPTIONS[key].default if key in OPTIONS else None


def signature(first: Iterable[inspect.Parameter], names: Iterable[str] = tuple(OPTIONS)) -> inspect.Signature:
    """Return a signature with keyword options."""
    hints = get_type_hints(TrainOptions)
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=OPTIONS[name].default,
                              annotation=hints[name]) for name in names]  # fmt: skip
    return inspect.Signature([*first, *more])


def documentation(names: Iterable[str] = tuple(OPTIONS), indent: str = "        ") -> str:
    """Return options as entries of a numpydoc Parameters section."""
    hints = get_type_hints(TrainOptions)
    entries = (f"{name} : {_words(hints[name])}\n{indent}    {OPTIONS[name].help}" for name in names)
    return f"\n{indent}".join(entries)


def _words(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "").replace("collections.abc.", "")


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | bool | int | float) and value == default)
