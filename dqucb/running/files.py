"""Files of agents: what was learned, the run in progress, and a digest of the code that wrote the file.

Agents of this package convert their learners to arrays themselves. An agent written in Python, or a subclass of one of
these with more to remember, defines `state()` and `restore(state)`; runs, envs and generators are saved by the library.
"""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage, _validate
from dqucb._fingerprint import UnidentifiedError, fingerprint, is_known_code
from dqucb._kernels.position import NOWHERE
from dqucb.run import CURVES, versions
from dqucb.running.observations import space_from_json, space_to_json
from dqucb.running.session import IDENTITY, Packed, Session

if TYPE_CHECKING:
    from dqucb.base import Agent

SAVED_CURVES = (*CURVES, "position")
_CALLBACK, _DETECTOR, _CURVE, _ENV, _STATE = "callback.", "watch.", "curve.", "env.", "state."  # prefixes of arrays


# ---- the whole file -----------------------------------------------------------------------------------------


def write(agent: "Agent", path: Path, compress: bool) -> None:
    """Write what an agent learned, and its run, to one file, atomically."""
    with agent._in_use():
        settings, arrays = agent._packed()
    settings["agent"] = {"name": agent.name, "parameters": agent.parameters(), "code": _code(agent)}
    if agent._has_state:
        settings["state"], own = split(agent.state(), f"{agent.name}.state()")
        arrays |= prefixed(_STATE, own)
    callback = agent._callback.state() if hasattr(agent._callback, "state") else {}
    settings["callback"], own = split(callback, "the state() of a callback")
    arrays |= prefixed(_CALLBACK, own)
    found = [
        session.saved_detector if session.detector is None else session.detector.packed() for session in agent._sessions
    ]
    settings["watch"] = {}
    if held := [each for each in found if each is not None]:
        settings["watch"] = {"identity": held[0][0]["identity"], "detectors": [each[0]["detector"] for each in held]}
    for i, (_, more) in enumerate(held):
        arrays |= {f"{_DETECTOR}{i}{':' if name == 'alarms' else '.'}{name}": array for name, array in more.items()}
    settings["options"] = [session.options for session in agent._sessions]
    _storage.write_atomically(path, _storage.pack("Agent", settings, arrays, compress=compress))


def unpack(agent: "Agent", settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Restore an agent from the content of a file; entries are removed from `settings` and `arrays` as they are read.

    Raises
    ------
    ValueError, KeyError, TypeError
        For content that does not fit.
    """
    agent._saved_code = settings["agent"].get("code")
    agent._saved_callback = dict(settings.pop("callback")), taken(arrays, _CALLBACK)
    detectors, arrays_of_detectors, options = (
        settings.pop("watch"),
        taken(arrays, _DETECTOR),
        settings.pop("options", None),
    )
    state = {**settings.pop("state"), **taken(arrays, _STATE)} if agent._has_state else None
    agent._unpack(settings, arrays)
    if state is not None:
        agent.restore(state)
    if detectors and len(detectors["detectors"]) != len(agent._sessions):
        raise ValueError(f"there must be {len(agent._sessions)} detectors, got {len(detectors['detectors'])}")
    if options is not None and [each for each in options if not isinstance(each, dict | None)]:
        raise ValueError(f"options must be a mapping for each seed, got {options!r}")
    for i, session in enumerate(agent._sessions):
        session.options = None if options is None else options[i]
        session.parameters = agent.parameters()
        if detectors:
            own = {"alarms": arrays_of_detectors[f"{i}:alarms"], **taken(arrays_of_detectors, f"{i}.")}
            session.saved_detector = {"identity": detectors["identity"], "detector": detectors["detectors"][i]}, own


# ---- digests of code ---------------------------------------------------------------------------------------------


def code_of(agent: "Agent") -> str | None:
    """Return a digest of the user's code of an agent and its parameters; None if all of it is in installed packages."""
    unknown = [value for value in agent.get_params().values() if not is_known_code(type(value))]
    if is_known_code(type(agent)) and not unknown:
        return None
    return fingerprint([type(agent), unknown])


def _code(agent: "Agent") -> dict[str, str | None]:
    try:
        own = code_of(agent)
    except UnidentifiedError:
        own = None
    return {"agent": own, "dqucb": versions()["code"]}


def warn_of_other_code(agent: "Agent") -> None:
    """Warn if the file of a loaded agent was written by other code than the present one."""
    now = _code(agent)
    # Files of earlier versions hold no digests.
    saved = {name: digest for name, digest in (agent._saved_code or {}).items() if digest is not None}
    different = [name for name, digest in saved.items() if now[name] not in (None, digest)]
    if different:
        which = " and of ".join(agent.name if name == "agent" else name for name in different)
        warnings.warn(
            f"this run of {agent.name} was saved by other code of {which}: it continues with the present code, and its "
            "results may belong to neither; a clone() trains from scratch",
            UserWarning,
            stacklevel=5,
        )
    agent._saved_code = None


# ---- agents with `state` and `restore` ----------------------------------------------------------------------


def packed(agent: "Agent") -> Packed:
    """Return (JSON, arrays) of the run of an agent written in Python."""
    session, opened = agent._started(), agent._started().env
    env, place = session.saved_env, session.saved_place
    observation_space, action_space, horizon, discount = agent._begun
    if opened is not None:
        env, place = opened.state(), (opened.step, opened.observation)
    arrays = {f"{_CURVE}{name}": getattr(session, name) for name in SAVED_CURVES}
    settings: dict[str, Any] = {
        "spaces": [space_to_json(observation_space), space_to_json(action_space)],
        "horizon": horizon,
        "discount": discount,
        "run": {name: getattr(session, name) for name in IDENTITY} | {"change_at": list(session.change_at)},
        "seconds": session.seconds,
        "rng": session.rng.bit_generator.state,
        "env": None,
    }
    if env is not None and place is not None:
        settings["env"], own = split(env, "checkpoint_state()")
        settings["place"] = [place[0], observation_space.to_jsonable([place[1]])]
        arrays |= prefixed(_ENV, own)
    return settings, arrays


def unpacked(agent: "Agent", settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Restore the run of an agent written in Python from the result of `packed`; its state comes afterwards."""
    run, rng = dict(settings["run"]), np.random.default_rng(0)
    rng.bit_generator.state = settings["rng"]
    length, unit = _validate.integer("length", run["length"]), _validate.one_of("unit", run["unit"], _UNITS)
    run["change_at"] = _validate.increasing("change_at", run["change_at"])
    curves = checked_curves({name: arrays[f"{_CURVE}{name}"] for name in SAVED_CURVES}, length, unit)
    observation_space, action_space = (space_from_json(each) for each in settings["spaces"])
    agent._begin_run((observation_space, action_space), settings["horizon"], settings["discount"], length, rng)
    session = Session(**run, rng=rng, seconds=_validate.real("seconds", settings["seconds"], 0.0), **curves)
    if settings["env"] is not None:
        session.saved_env = {**settings["env"], **taken(arrays, _ENV)}
        step, observations = settings["place"]
        session.saved_place = _validate.integer("step", step, 0), observation_space.from_jsonable(observations)[0]
    agent._sessions = [session]


_UNITS = ("episodes", "steps")


def checked_curves(curves: dict[str, NDArray[Any]], length: int, unit: str, n_states: int = 0) -> dict[str, Any]:
    """Return the curves of a file. ValueError if they are inconsistent; `n_states` bounds the position."""
    ends, position = curves["ends"], curves["position"]
    for name, array in curves.items():
        dtype = np.dtype(np.int64 if name in ("ends", "lengths", "position") else np.float64)
        shape = (2,) if name == "position" else (len(ends),)
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} must be {dtype}{shape}, got {array.dtype}{array.shape}")
    if len(ends) and (ends[-1] != length or (np.diff(ends, prepend=0) < 1).any()):
        raise ValueError(f"ends must increase to {length}")
    if unit == "episodes" and len(ends) not in (0, length):
        raise ValueError(f"ends must have one place for each of {length} episodes, got {len(ends)}")
    if unit == "steps" and not np.array_equal(curves["lengths"], np.diff(ends, prepend=0)):
        raise ValueError("lengths must be the distances between ends")
    if not (NOWHERE <= position[0] < max(n_states, NOWHERE + 1) and 0 <= position[1] <= len(ends)):
        raise ValueError(f"position must be a state and a number of records, got {position.tolist()}")
    return {name: np.ascontiguousarray(array) for name, array in curves.items()}


# ---- mappings and arrays ------------------------------------------------------------------------------------


def split(state: Mapping[str, Any], what: str) -> Packed:
    """Split a mapping into (JSON values, arrays). ValueError for values that JSON would change or lose.

    Parameters
    ----------
    state : mapping
        Arrays and JSON values by name.
    what : str
        Name of the mapping in errors.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"{what} must be a dict of arrays and JSON values, got {state!r}")
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in state.items() if name not in arrays}
    for name, value in plain.items():
        try:
            same = isinstance(name, str) and json.loads(json.dumps(value, allow_nan=False)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise ValueError(
                f"{what} must hold arrays and JSON values (str, int, float, bool, None, lists, and dicts with str "
                f"keys), got {name!r}: {value!r}"
            )
    return plain, arrays


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays with `prefix` before their names."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def below(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Remove the arrays whose names begin with `prefix`, and return them without it."""
    found = below(prefix, arrays)
    for name in found:
        del arrays[f"{prefix}{name}"]
    return found
