"""`HasParameters`: parameters are the keywords of the constructor, stored under the same names."""

import copy
import inspect
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
            name: float(value) if name in reals and type(value) is int else _as_json(value)
            for name, value in self.get_params().items()
        }

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
        kinds = {parameter.annotation, *get_args(parameter.annotation)}
        if parameter.annotation is inspect.Parameter.empty:
            kinds = {type(parameter.default)}
        if float in kinds and int not in kinds:
            found.add(name)
    return found


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _as_json(each) for key, each in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else _described(value)


def _described(value: Any) -> Any:
    """The description of a parameter that is an object with its own parameters, such as a density."""
    if callable(getattr(value, "describe", None)):
        return value.describe()
    raise ValueError(f"parameters must be numbers, words, lists, or objects with describe(), got {value!r}")
