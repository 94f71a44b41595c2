"""A digest of any Python value that changes whenever its behaviour can: arguments, state, closures and code.

Values of this package, of the standard library and of installed packages are named by their class and its version.
Code of the user's own (a script, a notebook, a module beside it) is hashed function by function, with the defaults,
closures and globals that it uses. A value with state that Python cannot read raises `UnidentifiedError`, so that it is
not mistaken for another one of the same name.
"""

import contextlib
import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
# What a class holds besides its behaviour.
_NOT_BEHAVIOUR = frozenset(
    [
        "__dict__",
        "__weakref__",
        "__module__",
        "__doc__",
        "__annotations__",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__abstractmethods__",
        "_abc_impl",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__orig_bases__",
        "__parameters__",
        "__slots__",
        "__slotnames__",
    ]
)


class UnidentifiedError(ValueError):
    """A value whose behaviour cannot be identified completely."""


def fingerprint(value: Any) -> str:
    """SHA-256, in 16 hexadecimal digits, of all that decides how `value` behaves.

    Examples
    --------
    >>> from functools import partial
    >>> fingerprint(partial(max, 2)) == fingerprint(partial(max, 2)), fingerprint(max) == fingerprint(min)
    (True, False)
    """
    return _Reader().digest(value).hex()[:16]


def is_known_code(kind: Any) -> bool:
    """Whether a class, function or module belongs to this package, the standard library or an installed package."""
    name = kind.__name__ if isinstance(kind, types.ModuleType) else getattr(kind, "__module__", None)
    return isinstance(name, str) and _is_installed(name.partition(".")[0])


@functools.cache
def _is_installed(root: str) -> bool:
    if root == "__main__":
        return False
    if root == "dqucb" or root in sys.builtin_module_names or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None)
    if file is None:
        return False
    folders = [Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")]
    return any(folder in Path(file).resolve().parents for folder in folders)


class _Reader:
    """Traverses a value. Equal values have equal digests, whatever objects they share."""

    def __init__(self) -> None:
        self.under_way: dict[int, int] = {}  # object -> how deep it lies
        self.finished: dict[int, bytes] = {}
        self.kept: list[Any] = []  # so that no id is used twice

    def digest(self, value: Any) -> bytes:
        if isinstance(value, _PLAIN):
            return _hash(type(value).__name__, repr(value))
        place = id(value)
        if place in self.under_way:
            return _hash("within itself", str(len(self.under_way) - self.under_way[place]))
        if place not in self.finished:
            self.under_way[place] = len(self.under_way)
            self.kept.append(value)
            self.finished[place] = self._parts(value)
            del self.under_way[place]
        return self.finished[place]

    def _parts(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.dtype != object:
            return _hash("array", value.dtype.str, repr(value.shape), np.ascontiguousarray(value).tobytes())
        if isinstance(value, np.generic):
            return _hash("number", value.dtype.str, value.tobytes())
        if type(value) in (tuple, list):
            return _hash(type(value).__name__, *(self.digest(each) for each in value))
        if type(value) in (set, frozenset):
            return _hash("set", *sorted(_Reader().digest(each) for each in value))
        if isinstance(value, dict) and type(value) is dict:
            return _hash("dict", *(self.digest(side) for pair in value.items() for side in pair))
        if isinstance(value, types.ModuleType):
            return _hash("module", value.__name__, str(getattr(value, "__version__", "")))
        if isinstance(value, functools.partial):
            return _hash("partial", *(self.digest(each) for each in (value.func, value.args, value.keywords)))
        if isinstance(value, types.MethodType):
            return _hash("method", self.digest(value.__self__), self.digest(value.__func__))
        if callable(value) and hasattr(value, "__qualname__") and is_known_code(value):
            return _named(value)  # a class or a function, compiled or not
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
            return _hash("builtin", str(getattr(value, "__module__", "")), value.__qualname__)
        if isinstance(value, property):
            return _hash("property", *(self.digest(each) for each in (value.fget, value.fset, value.fdel)))
        if isinstance(value, staticmethod | classmethod):
            return _hash(type(value).__name__, self.digest(value.__func__))
        if isinstance(value, functools.cached_property):
            return _hash("cached_property", self.digest(value.func))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.CodeType):
            return self._code(value)
        return self._object(value)

    def _function(self, function: types.FunctionType) -> bytes:
        cells = []
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # a cell that is still empty
                cells.append(self.digest(cell.cell_contents))
        used = {name: function.__globals__[name] for name in _global_names(function.__code__)
                if name in function.__globals__}  # fmt: skip
        return _hash(
            "function", self._code(function.__code__), self.digest(function.__defaults__),
            self.digest(function.__kwdefaults__), self.digest(used), *cells,
        )  # fmt: skip

    def _code(self, code: types.CodeType) -> bytes:
        consts = [self._code(each) if isinstance(each, types.CodeType) else _Reader().digest(each)
                  for each in code.co_consts]  # fmt: skip
        names = repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_kwonlyargcount))
        return _hash("code", code.co_code, names, *consts)

    def _class(self, kind: type) -> bytes:
        parts = [_hash("class", kind.__qualname__), *(self.digest(base) for base in kind.__bases__)]
        for name, value in sorted(vars(kind).items()):
            if name not in _NOT_BEHAVIOUR and not isinstance(
                value, types.MemberDescriptorType | types.GetSetDescriptorType
            ):
                parts += [name.encode(), self.digest(value)]
        return _hash(*parts)

    def _object(self, value: Any) -> bytes:
        kind = self.digest(type(value))
        if hasattr(type(value), "_fingerprint_"):
            return _hash("object", kind, self.digest(value._fingerprint_()))
        if isinstance(value, Mapping) and type(value).__module__ == "builtins":  # a mappingproxy
            return _hash("mapping", self.digest(dict(value)))
        try:
            found = value.__reduce_ex__(4)
        except Exception as error:
            raise UnidentifiedError(
                f"{type(value).__module__}.{type(value).__qualname__} has state that cannot be read ({error})"
            ) from error
        if isinstance(found, str):
            return _hash("global", str(type(value).__module__), found)
        maker, arguments, state, *more = (*found, None, None, None, None)[:5]
        if isinstance(state, dict):
            state = dict(sorted(self._relevant(value, state).items(), key=lambda pair: str(pair[0])))
        return _hash("object", kind, self.digest(maker), self.digest(arguments), self.digest(state),
                     *(self.digest(list(each)) for each in more if each is not None))  # fmt: skip

    def _relevant(self, value: Any, state: dict[Any, Any]) -> dict[Any, Any]:
        """The state without attributes that do not affect behaviour."""
        names = [_MEMORY.get(f"{base.__module__}.{base.__qualname__}", set()) for base in type(value).__mro__]
        return {name: each for name, each in state.items() if name not in set().union(*names)}


# Attributes of other packages that say nothing of behaviour after `reset(seed=...)`, or that appear when first read.
_MEMORY = {
    "gymnasium.core.Wrapper": {"_cached_spec"},
    "gymnasium.core.Env": {"spec", "_np_random_seed"},
    "gymnasium.spaces.space.Space": {"_np_random"},
}


def _global_names(code: types.CodeType) -> list[str]:
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found |= set(_global_names(each))
    return sorted(found)


def _named(kind: Any) -> bytes:
    root = kind.__module__.partition(".")[0]
    version = "" if root == "dqucb" else str(getattr(sys.modules.get(root), "__version__", ""))
    return _hash("known", kind.__module__, kind.__qualname__, version)


def _hash(*parts: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
