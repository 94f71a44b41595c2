"""`Registry`: names of agents, problems, ...: one registry per kind, filled where objects are defined."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from dqucb import _validate

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Name -> object, with the facts given at registration.

    Parameters
    ----------
    kind : str
        What is registered, for messages.
    modules : tuple of str
        Modules that register objects; they are imported at the first look-up.

    Examples
    --------
    >>> colours = Registry("colour", ())
    >>> @colours.register("red", wavelength=700)
    ... def red():
    ...     "The colour of stop signs."
    >>> list(colours), colours.facts("red"), colours.about("red")
    (['red'], {'wavelength': 700}, 'The colour of stop signs.')
    >>> colours
    1 registered under the kind 'colour':
      red: The colour of stop signs.
    >>> colours.find("rde")
    Traceback (most recent call last):
    ValueError: unknown colour 'rde': did you mean red?
    """

    def __init__(self, kind: str, modules: tuple[str, ...]) -> None:
        self.kind = kind
        self._modules: list[str] = list(modules)
        self._things: dict[str, T] = {}
        self._facts: dict[str, dict[str, Any]] = {}

    def register(self, name: str, **facts: Any) -> Callable[[Any], Any]:
        """A decorator that registers a class or function under a name.

        Parameters
        ----------
        name : str
            The name.
        **facts
            Values that `facts(name)` returns.
        """

        def keep(thing: Any) -> Any:
            if name in self._things and _place(self._things[name]) != _place(thing):
                raise ValueError(f"the {self.kind} {name!r} is registered already: {self._things[name]!r}")
            self._things[name], self._facts[name] = thing, facts
            return thing

        return keep

    def find(self, name: str) -> T:
        """The object of this name or class name; the error for an unknown name lists the nearest ones."""
        asked = str(name).lower().replace("_", "-")
        if asked not in self:
            called = {getattr(thing, "__name__", "").lower(): known for known, thing in self._things.items()}
            asked = called.get(str(name).lower(), name)
        return self[_validate.known(self.kind, asked, self)]

    def facts(self, name: str) -> dict[str, Any]:
        """The facts given at registration."""
        self._load()
        return self._facts[name]

    def about(self, name: str) -> str:
        """The first line of the docstring of an object."""
        return (self[name].__doc__ or "").strip().split("\n")[0]

    def name_of(self, thing: object) -> str | None:
        """The name of a registered object, or None."""
        self._load()
        return next((name for name, other in self._things.items() if other is thing), None)

    def __repr__(self) -> str:
        rows = [f"  {name}: {self.about(name)}" for name in self]
        return "\n".join([f"{len(rows)} registered under the kind {self.kind!r}:", *rows])

    def _load(self) -> None:
        while self._modules:
            import_module(self._modules.pop(0))

    def __getitem__(self, name: str) -> T:
        self._load()
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._things)

    def __len__(self) -> int:
        self._load()
        return len(self._things)


def _place(thing: Any) -> tuple[str, str]:
    """Module and name of an object: a reloaded module may register its names again."""
    return thing.__module__, thing.__qualname__
