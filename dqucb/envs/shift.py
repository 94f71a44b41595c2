"""`ShiftWrapper`: a schedule of changes on any Gymnasium env."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from dqucb import _validate as check

Change = Callable[[Any], object] | Mapping[str, Any]


class ShiftWrapper(gymnasium.Wrapper, RecordConstructorArgs):
    """Changes `env.unwrapped` at set episodes or steps of a run, and reports the phase in `info`.

    Parameters
    ----------
    schedule : {index: change}. A change is a mapping of attributes to new values, or a function that is
        called with `env.unwrapped`. It takes effect in episode `index` before its reset, or before step
        `index`; both count from 0 at the start of the run. Changes stay until the run ends.
    count : what an index counts, "episodes" or "steps".
    restore : called with `env.unwrapped` when a run begins again. Attributes that a change has set anew are
        put back without it; it is needed only when a function changes an object in place.

    A run begins with `reset(seed=...)` or `reset(options={"restart": True})`, which undo all changes; the
    option {"restart": False} reseeds and goes on. A plain `reset()` begins the next episode, or the same one
    again if no step was taken. `info` holds "phase", the number of changes so far, and "episode".
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        schedule: Mapping[int, Change],
        count: str = "episodes",
        restore: Callable[[Any], object] | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, schedule=schedule, count=count, restore=restore)
        gymnasium.Wrapper.__init__(self, env)
        self.count = check.one_of("count", count, ["episodes", "steps"])
        self.restore = restore
        changes = {check.integer("each index of schedule", at, 0): what for at, what in schedule.items()}
        self.schedule = dict(sorted(changes.items()))
        for at, change in self.schedule.items():
            if isinstance(change, Mapping):
                missing = [name for name in change if not hasattr(env.unwrapped, name)]
                if missing:
                    raise ValueError(f"schedule[{at}] sets {missing[0]!r}, which {env.unwrapped} does not have")
            elif not callable(change):
                raise ValueError(f"schedule[{at}] must be a function or a dict of attributes, got {change!r}")
        self._indices = list(self.schedule)
        self._before: dict[str, Any] = {}  # attributes as they were before the first change
        self._added: set[str] = set()
        self._episode = self._step = self._total_steps = self._phase = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode, or a new run when a seed or the option {"restart": True} is given."""
        given = dict(options or {})
        if given.pop("restart", seed is not None):
            self._undo()
            self._episode = self._total_steps = 0
        elif self._step > 0:
            self._episode += 1
        self._step = 0
        self._apply(self._episode if self.count == "episodes" else self._total_steps)
        observation, info = self.env.reset(seed=seed, options=given if options is not None else None)
        return observation, {**info, "phase": self._phase, "episode": self._episode}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the env as it now is."""
        if self.count == "steps":
            self._apply(self._total_steps)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        self._total_steps += 1
        info = {**info, "phase": self._phase, "episode": self._episode}
        return observation, reward, terminated, truncated, info

    def _apply(self, index: int) -> None:
        """Make every change that is due at `index` and not yet made."""
        while self._phase < len(self._indices) and self._indices[self._phase] <= index:
            change = self.schedule[self._indices[self._phase]]
            base = self.env.unwrapped
            before = dict(vars(base))
            if isinstance(change, Mapping):
                for name, value in change.items():
                    # A class attribute or property is not in vars(): remember what reading it gave.
                    before.setdefault(name, getattr(base, name))
                    setattr(base, name, value)
            else:
                change(base)
            after = vars(base)
            touched = set(change) if isinstance(change, Mapping) else set()
            touched |= {name for name in after if name not in before or after[name] is not before[name]}
            for name in touched - self._before.keys() - self._added:
                if name in before:
                    self._before[name] = before[name]
                else:
                    self._added.add(name)
            self._phase += 1

    def _undo(self) -> None:
        base = self.env.unwrapped
        for name, value in self._before.items():
            setattr(base, name, value)
        for name in self._added:
            vars(base).pop(name, None)
        if self._phase > 0 and self.restore is not None:
            self.restore(base)
        self._before.clear()
        self._added.clear()
        self._phase = 0
