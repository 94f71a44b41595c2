"""Know when the environment changed: detectors over streams of transitions, with a stated rate of false alarms.

`FiniteDriftDetector` and `ContinuousDriftDetector` watch transitions; `RiverDetector` puts a detector of the library
river in their place. `DETECTORS` holds them by name, `check_detector` checks one of your own. `ShiftMonitor` and
`VectorShiftMonitor` wrap Gymnasium envs, `ShiftCallback` goes with Stable-Baselines3, `watch` reads files. Everything
but the detectors loads when it is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dqucb._lazy import no_attribute
from dqucb.drift.base import DETECTORS, DriftDetector, Suspect
from dqucb.drift.checks import check_detector

if TYPE_CHECKING:
    from dqucb.drift.adapters import RiverDetector
    from dqucb.drift.continuous import ContinuousDriftDetector
    from dqucb.drift.files import watch
    from dqucb.drift.finite import FiniteDriftDetector
    from dqucb.drift.monitor import ShiftMonitor, VectorShiftMonitor
    from dqucb.drift.sb3 import ShiftCallback
    from dqucb.drift.spaces import detector_for

_HOMES = {  # loaded when they are used: compiled code, and packages that are optional
    "ContinuousDriftDetector": "continuous",
    "FiniteDriftDetector": "finite",
    "RiverDetector": "adapters",
    "ShiftCallback": "sb3",
    "ShiftMonitor": "monitor",
    "VectorShiftMonitor": "monitor",
    "detector_for": "spaces",
    "watch": "files",
}

__all__ = [
    "DETECTORS",
    "ContinuousDriftDetector",
    "DriftDetector",
    "FiniteDriftDetector",
    "RiverDetector",
    "ShiftMonitor",
    "Suspect",
    "VectorShiftMonitor",
    "check_detector",
    "detector_for",
    "watch",
]
if find_spec("stable_baselines3") is not None:  # `import *` would fail without it
    __all__ += ["ShiftCallback"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"dqucb.drift.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
