"""`HasParameters`: parameters are the keywords of the constructor, stored under the same names.

A dataclass declares the range of a parameter with its type: `share: Annotated[float, Within(real, 0.0, 1.0)] = 0.5`.
"""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Self, get_args

import numpy as np

from dqucb import _html, _validate


class HasParameters:
    """Parameters as in scikit-learn; `sklearn.base.clone` works.

    Examples
    --------
    >>> class Coin(HasParameters):
    ...     def __init__(self, *, bias=0.5):
    ...         self.bias = bias
    >>> Coin(bias=0.7).clone(), Coin().set_params(bias=0.1), Coin().get_params()
    (Coin(bias=0.7), Coin(bias=0.1), {'bias': 0.5})
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The keywords of `__init__` and their values; `deep` exists for scikit-learn and is ignored."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def set_params(self, **changes: Any) -> Self:
        """Change parameters, validated as in `__init__`; what was learned is discarded."""
        changed = self.clone(**changes)
        vars(self).clear()
        vars(self).update(vars(changed))
        return self

    def clone(self, **changes: Any) -> Self:
        """A new, untrained object with the same parameters except for `changes`.

        Examples
        --------
        >>> from dqucb import QUCB
        >>> QUCB(bonus_scale=0.1).clone(delta=0.01)
        QUCB(bonus_scale=0.1, delta=0.01)
        """
        for name in changes:
            _validate.known(f"parameter of {self.name}", name, parameters_of(type(self)))
        own = {name: copy.deepcopy(value) for name, value in self.get_params().items() if name not in changes}
        return type(self)(**own, **changes)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON values, which name a run in files; 1 and 1.0 of a real parameter are the same."""
        reals = _real_parameters(type(self))
        return {
            name: float(value) if name in reals and type(value) is int else self._json_of(name, value)
            for name, value in self.get_params().items()
        }

    def _json_of(self, name: str, value: Any) -> Any:
        """One parameter as JSON values. ValueError if it cannot be."""
        return as_json(value)

    @property
    def name(self) -> str:
        """The name in tables, plots and files."""
        return type(self).__name__

    def __repr__(self) -> str:
        defaults = parameters_of(type(self))
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if isinstance(value, np.ndarray) or (value is not defaults[name] and value != defaults[name])
        ]
        return f"{self.name}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        return _html.card(repr(self), self.get_params())

    def _check_parameters(self) -> None:
        """Raise a ValueError for a parameter outside of the range that its annotation declares."""
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            for allowed in getattr(each.type, "__metadata__", ()):
                may_be_none = type(None) in get_args(getattr(each.type, "__origin__", None))
                if isinstance(allowed, Within) and not (value is None and may_be_none):
                    allowed.check(each.name, value)


class Within:
    """The range of a parameter, for its annotation: a function of `_validate` with its limits, and further words.

    None is allowed where it is part of the type.
    """

    def __init__(self, check: Callable[..., Any], *limits: Any, also: tuple[str, ...] = (), **options: Any) -> None:
        self._check, self._limits, self._also, self._options = check, limits, also, options

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError for a value that is not allowed."""
        if isinstance(value, str) and self._also:
            _validate.one_of(name, value, self._also)
        else:
            self._check(name, value, *self._limits, **self._options)


def parameters_of(kind: type) -> dict[str, Any]:
    """Parameter -> default."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }


def _real_parameters(kind: type) -> set[str]:
    """The parameters that are real numbers, by their annotation or, without one, by their default."""
    found = set()
    for name, parameter in inspect.signature(kind).parameters.items():
        annotation = parameter.annotation
        if hasattr(annotation, "__metadata__"):  # Annotated
            annotation = annotation.__origin__
        kinds = {annotation, *get_args(annotation)}
        if parameter.annotation is inspect.Parameter.empty:
            kinds = {type(parameter.default)}
        if float in kinds and int not in kinds:
            found.add(name)
    return found


def as_json(value: Any) -> Any:
    """A parameter as JSON values. ValueError if it cannot be."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): as_json(each) for key, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else _described(value)


def _described(value: Any) -> Any:
    """The description of a parameter that is an object with its own parameters, such as a density."""
    if callable(getattr(value, "describe", None)):
        return value.describe()
    raise ValueError(f"parameters must be numbers, words, lists, or objects with describe(), got {value!r}")
