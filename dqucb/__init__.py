"""Reinforcement learning in environments that change.

Density-QUCB, PlanningDQUCB, their baselines, problems that shift, drift detection and an exact sliding-window density.
`dqucb.NAME` is any public name of the modules in `_MODULES`, which load at first use, so that `import dqucb` stays
quick. Importing it registers the Gymnasium ids `dqucb/...-v0`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import dqucb.envs  # noqa: F401  (registers the Gymnasium ids)
from dqucb._lazy import no_attribute

if TYPE_CHECKING:  # what `__getattr__` finds, for editors and type checkers
    from dqucb._storage import *  # noqa: F403
    from dqucb.agents import *  # noqa: F403
    from dqucb.base import *  # noqa: F403
    from dqucb.checks import *  # noqa: F403
    from dqucb.density import *  # noqa: F403
    from dqucb.drift import *  # noqa: F403
    from dqucb.experiments import *  # noqa: F403
    from dqucb.problems import *  # noqa: F403
    from dqucb.run import *  # noqa: F403

__version__ = "0.2.0"

# Where public names are looked for, in this order: each module needs little more than those before it.
_MODULES = ("_storage", "drift", "density", "problems", "run", "base", "checks", "agents", "experiments")


_OPTIONAL = {"ShiftCallback"}  # loads Stable-Baselines3 and torch, which `from dqucb import *` must not


def _public(module: str) -> dict[str, Any]:
    """The public names of a module, with the module that holds them."""
    loaded = import_module(f"{__name__}.{module}")
    return {name: loaded for name in loaded.__all__ if name not in _OPTIONAL}


def __getattr__(name: str) -> Any:
    if find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    if name == "__all__":
        return sorted({"__version__"}.union(*map(_public, _MODULES)))
    if not name.startswith("_"):
        for names in map(_public, _MODULES):
            if name in names:
                value = globals()[name] = getattr(names[name], name)
                return value
    raise no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
