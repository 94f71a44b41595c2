"""The manifest of an experiment's folder: settings, versions of the code, and a log of the calls.

Format 1 is JSON: kind, format, settings, command, versions, created, sessions, and the SHA-256 of everything else in
canonical form (sorted keys, no spaces). An invalid manifest is a `SavedFileError` that names the file.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from dqucb import _storage, _validate
from dqucb._storage import SavedFileError
from dqucb.experiments.trials import as_json, canonical
from dqucb.run import REGRETS, versions

NAME = "manifest.json"
KIND = "dqucb experiment"
FORMAT = 1
AGENT_IDENTITY = ("agent", "parameters", "watch", "code")  # of the settings of an agent, what decides its runs
_SEAL = "sha256"
_PARTS = {"kind", "format", "settings", "command", "versions", "created", "sessions"}


class SettingsDifferError(ValueError):
    """The folder belongs to a sweep with other settings.

    Examples
    --------
    >>> raise SettingsDifferError("runs/ belongs to a sweep with other settings")
    Traceback (most recent call last):
    dqucb.experiments.manifest.SettingsDifferError: runs/ belongs to a sweep with other settings
    """


def new(settings: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The manifest of a new experiment."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "settings": as_json(settings),
        "command": command,
        "versions": versions(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sessions": [],
    }


def to_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The content of the file, with its checksum."""
    return json.dumps({**manifest, _SEAL: _seal(manifest)}, indent=1, allow_nan=False).encode()


def from_bytes(data: bytes, name: str) -> dict[str, Any]:
    """The manifest from the content of a file; invalid content is a `SavedFileError` that calls it `name`."""
    try:
        manifest = _storage.parsed_json(data)
        if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
            raise ValueError(f"kind is not {KIND!r}")
        if manifest.get("format") != FORMAT:
            found = manifest.get("format", "none")
            raise ValueError(f"format {found!r:.40} is not known here: this dqucb reads format {FORMAT}")
        seal = manifest.pop(_SEAL, None)
        if seal != _seal(manifest):
            raise ValueError("damaged: the checksum does not agree with the content")
        _check(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SavedFileError(f"{name}: not a readable manifest ({error or type(error).__name__})") from error
    return manifest


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(manifest).encode()).hexdigest()


def _check(manifest: dict[str, Any]) -> None:
    """Raise a ValueError or KeyError unless every part that is read later has the right type."""
    if set(manifest) != _PARTS:
        raise ValueError(f"it must hold {', '.join(sorted(_PARTS))}, got {', '.join(sorted(manifest))[:200]}")
    for name in ("command", "created"):
        _is(name, manifest[name], str)
    _check_versions("versions", manifest["versions"])
    for session in _is("sessions", manifest["sessions"], list):
        _validate.integer("runs of a session", session["runs"], 0)
        _validate.real("seconds of a session", session["seconds"], 0.0)
        _is("workers of a session", session["workers"], str)
        _is("note of a session", session.get("note", ""), str)
        _check_versions("versions of a session", session["versions"])
    check_settings(manifest["settings"])


def check_settings(settings: Any) -> None:
    """Raise a ValueError or KeyError unless these are valid settings of an experiment."""
    _is("settings", settings, dict)
    _is("problem in problem", _is("problem", settings["problem"], dict)["problem"], str)
    _validate.integer("length", settings["length"])
    _validate.one_of("unit", settings["unit"], ["episodes", "steps"])
    _validate.one_of("regret", settings["regret"], [*REGRETS, "none"])
    _validate.increasing("change_at", _is("change_at", settings["change_at"], list))
    _is("options", settings.get("options", {}), dict)
    _validate.seeds(_is("seeds", settings["seeds"], list))
    known = set(settings["seeds"])
    for label, agent in _is("agents", settings["agents"], dict).items():
        _is(f"agent of {label!r}", agent["agent"], str)
        for part in ("parameters", "varied", "watch"):
            _is(f"{part} of {label!r}", agent.get(part, {}), dict)
        _is(f"parameters of {label!r}", agent["parameters"], dict)
        _is(f"group of {label!r}", agent.get("group", label), str)
        _is(f"code of {label!r}", agent.get("code", ""), str)
        if not known.issuperset(_validate.seeds(_is(f"seeds of {label!r}", agent["seeds"], list))):
            raise ValueError(f"seeds must hold those of {label!r}")


def _check_versions(name: str, found: Any) -> None:
    for value in _is(name, found, dict).values():
        _is(f"each of {name}", value, str)


def _is(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {_WORDS[kind]}, got {short(value)}")
    return value


_WORDS: dict[type, str] = {str: "word", list: "list", dict: "mapping"}


# ---- settings of several calls ---------------------------------------------------------------------------


def merged(found: dict[str, Any], asked: dict[str, Any], where: Any) -> dict[str, Any]:
    """The settings of a folder with new ones added; a `SettingsDifferError` if they contradict each other."""
    differing = list(differences("", _meaning(found, asked), _meaning(asked, found)))
    if differing:
        shown = "; ".join(differing[:5]) + ("; ..." if len(differing) > 5 else "")
        raise SettingsDifferError(f"{where} was made with other settings: {shown}. Choose another folder")
    agents = {**found["agents"], **asked["agents"]}
    for label, agent in agents.items():
        each = [side["agents"][label]["seeds"] for side in (found, asked) if label in side["agents"]]
        agents[label] = {**agent, "seeds": list(dict.fromkeys(seed for seeds in each for seed in seeds))}
    return {**found, "seeds": list(dict.fromkeys([*found["seeds"], *asked["seeds"]])), "agents": agents}


def _meaning(settings: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The settings that two calls on one folder must share: all but the seeds, for the agents that both have."""
    agents = {
        label: {name: agent[name] for name in AGENT_IDENTITY if name in agent}
        for label, agent in settings["agents"].items()
        if label in other["agents"]
    }
    return {**settings, "seeds": None, "agents": agents}


def differences(where: str, there: Any, here: Any) -> Iterator[str]:
    """Each setting that differs, as 'name is X there, Y here'."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in [*there, *(key for key in here if key not in there)]:
            name = f"{where}.{key}" if where else key
            if key not in here:
                yield f"{name} is only there"
            elif key not in there:
                yield f"{name} is only here"
            else:
                yield from differences(name, there[key], here[key])
    elif there != here:
        yield f"{where} is {short(there)} there, {short(here)} here"


def short(value: Any) -> str:
    """A value as JSON, truncated to one line."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
