"""What a command line or a TOML file asks for, as arguments of `compare` and `sweep`."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dqucb import _validate
from dqucb.base import AGENTS, Agent, make_agent
from dqucb.experiments import runner
from dqucb.experiments.comparison import Comparison
from dqucb.running import catalog
from dqucb.running import options as declared

FLAGS = {name: option for name, option in declared.SHARED.items() if option.flag is not None}
NO_REGRET = "none"  # of `compare`: returns are compared where the best one is unknown
PROBLEM = "problem"  # the word before the dot that stands for the problem in `--set`


@dataclass
class Options:
    """The options of `dqucb run` and `dqucb sweep`; a TOML file has the same names, and `set` and `vary` as tables."""

    problem: str = ""
    agents: list[str] = field(default_factory=lambda: ["planning-dqucb", "dqucb", "qucb", "ucbvi"])
    seeds: int | list[int] | str = 10
    max_seeds: int = 30
    out: Path | None = None
    episodes: int | None = None
    steps: int | None = None
    jobs: int = -1
    bonus_scale: float | None = None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    backend: str = "processes"
    scheduler: str | None = None
    train: dict[str, Any] = field(default_factory=dict)  # options of `Agent.train`

    @classmethod
    def read(cls, flags: Mapping[str, Any]) -> "Options":
        """Options from flags (None: not given) over those of the file that the flag `config` names."""
        given = _file(flags["config"]) if flags.get("config") else {}
        settings = given.pop("settings", {})
        for name, entry in settings.items():
            if not isinstance(entry, dict):
                raise ValueError(f"set.{name} must be a table of parameters, got {entry!r}")
        for name, entry in assignments(flags.get("settings") or []).items():
            settings[name] = {**settings.get(name, {}), **entry}
        given |= {key: value for key, value in flags.items() if value is not None and key not in ("config", "settings")}
        if "agents" in given:
            listed = given["agents"].split(",") if isinstance(given["agents"], str) else given["agents"]
            if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed) or not listed:
                raise ValueError(f"agents must be a list of names, got {listed!r}")
            given["agents"] = [name.strip().lower() for name in listed]
        if isinstance(given.get("seeds"), str):
            given["seeds"] = seeds(given["seeds"])
        train = {name: _train_option(name, given.pop(name)) for name in [*given] if name in FLAGS}
        if given.get("out") is not None:
            given["out"] = folder("out", given["out"])
        options = cls(**given, train=train, settings=settings)
        options.check()
        return options

    def check(self) -> None:
        """Refuse values that no flag could have, as a TOML file may hold them."""
        for name, minimum in (("episodes", 1), ("steps", 1), ("jobs", -1)):
            if (value := getattr(self, name)) is not None:
                _validate.length(name, value, minimum)
        for name in ("problem", "backend", "scheduler"):
            if not isinstance(value := getattr(self, name), str | None):
                raise ValueError(f"{name} must be a word, got {value!r}")
        if self.bonus_scale is not None:
            _validate.real("bonus_scale", self.bonus_scale)
        if self.train.get("regret") != NO_REGRET:
            declared.checked(self.train)
        for name, values in self.values.items():
            if not isinstance(values, list):
                raise ValueError(f"vary.{name} must be a list of values, got {values!r}")
        _validate.length("max_seeds", self.max_seeds)
        if self.seeds != runner.AUTO:
            _validate.seeds(self.seeds)

    def check_sweep(self, sweeping: bool) -> None:
        """A sweep needs values, a run takes none."""
        if sweeping and not self.values:
            raise ValueError("nothing to sweep over: give --bonus-scale 0.05,0.2,1 or --vary PARAMETER=VALUE,VALUE")
        if self.values and not sweeping:
            raise ValueError("vary belongs to dqucb sweep, not to dqucb run")

    def start(self, progress: bool, command: str) -> Comparison:
        """Check every name, then run."""
        if not self.problem:
            raise ValueError(f"which problem? There is {', '.join(catalog.names())}")
        agents, problem = self._agents(), self._problem()
        arguments: dict[str, Any] = {
            "seeds": self.seeds,
            "max_seeds": self.max_seeds,
            "jobs": self.jobs,
            "out": self.out,
            "steps": self.steps,
        }
        arguments |= {"backend": self.backend, "scheduler": self.scheduler}
        arguments |= {"episodes": self.episodes, "progress": progress, "command": command, **self.train}
        if "on_alarm" in self.train:
            arguments["detector"] = "auto"
        if self.values:
            return runner.sweep(agents, problem, self.values, **arguments)
        return runner.compare(agents, problem, **arguments)

    def _problem(self) -> Any:
        """The problem, its change points in proportion to the length asked for."""
        if catalog.is_gymnasium_id(self.problem):
            if self.settings.get(PROBLEM):
                raise ValueError(f"--set problem.PARAMETER needs a name that dqucb list shows, got {self.problem!r}")
            return self.problem
        name = _validate.known("problem", self.problem.lower(), catalog.names())
        usual = catalog.usual_length(name)
        if self.episodes is None and self.steps is None and usual is not None:
            setattr(self, usual.unit, usual.number)
        length = None if usual is None else getattr(self, usual.unit)
        return catalog.make_problem(name, self.settings.get(PROBLEM), length)

    def _agents(self) -> list[Agent]:
        for name in self.agents:
            AGENTS.find(name)
        for name in self.settings:
            _validate.known("name before the dot in --set", name, [PROBLEM, *self.agents])
        made = []
        for name in self.agents:
            parameters = dict(self.settings.get(name, {}))
            if self.bonus_scale is not None and "bonus_scale" in catalog.parameters_of(AGENTS[name]):
                parameters.setdefault("bonus_scale", self.bonus_scale)
            made.append(make_agent(name, **parameters))
        return made


def folder(name: str, value: Any) -> Path:
    """A path; not an empty word, which would stand for the folder one happens to be in."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"{name} must be a path, got {value!r}")
    return Path(value)


def _file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"config file {path} does not exist") from None
    except OSError as error:
        raise ValueError(f"config file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, UnicodeDecodeError, a number of 5,000 digits
        raise ValueError(f"config file {path} is not TOML: {error}") from None
    names = {"set": "settings", "vary": "values"}
    own = [item.name for item in fields(Options) if item.name not in (*names.values(), "train")]
    allowed = [*own, *FLAGS, *names]
    for key, value in content.items():
        _validate.known(f"option in {path}", key, allowed)
        if key in names and not isinstance(value, dict):
            raise ValueError(f"{key} in {path} must be a table, got {value!r}")
    return {names.get(key, key): value for key, value in content.items()}


def _train_option(name: str, value: Any) -> Any:
    """An option of `Agent.train` as a flag gives it: a list may be words with commas between them."""
    if FLAGS[name].flag is not str:
        return value
    if name == "change_at" and isinstance(value, str):
        return [literal(part) for part in value.split(",")]
    if name != "change_at" and not isinstance(value, str):
        raise ValueError(f"{name} must be a word, got {value!r}")
    return value


def assignments(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`["dqucb.window=50"]` as `{"dqucb": {"window": 50}}`."""
    result: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, parameter = place.strip().partition(".")
        if not (equals and dot and name and parameter):
            raise ValueError(f"--set must be AGENT.PARAMETER=VALUE or problem.PARAMETER=VALUE, got {text!r}")
        result.setdefault(name.lower(), {})[parameter] = literal(value)
    return result


def grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`["window=20,100"]` as `{"window": [20, 100]}`."""
    result = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (equals and name.strip() and values.strip()):
            raise ValueError(f"values must be PARAMETER=VALUE,VALUE,..., got {text!r}")
        result[name.strip().replace("-", "_")] = [literal(value) for value in values.split(",")]
    return result


def literal(text: str) -> Any:
    """A number, true, false, a list (`[1, 2]` or `1,2`); anything else is a word."""
    text = text.strip()
    if text.lower() in ("none", "null"):
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return json.loads(f"[{text}]") if "," in text else text
    except json.JSONDecodeError:
        return text


def seeds(text: str) -> int | list[int] | str:
    """`10` is how many; `3,5,7` and `10-19` are which; `auto` leaves it to a sequential test."""
    if text.strip().lower() == runner.AUTO:
        return runner.AUTO
    try:
        if "," not in text and "-" not in text:
            return int(text)
        spans = []
        for part in text.split(","):
            first, dash, last = part.partition("-")
            spans.append(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        raise ValueError(f"seeds must be a number, seeds as in 3,5,7 or 10-19, or auto, got {text!r}") from None
    if (many := sum(map(len, spans))) > _validate.MAX_SEEDS:
        raise ValueError(f"seeds must be at most {_validate.MAX_SEEDS:,}, got {many:,} in {text!r}")
    return [seed for span in spans for seed in span]
