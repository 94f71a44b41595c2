"""`ShiftWrapper`: changes any Gymnasium env at given episodes or steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from dqucb import _validate as check

Change = Callable[[Any], object] | Mapping[str, Any]


class ShiftWrapper(gymnasium.Wrapper, RecordConstructorArgs):
    """Changes `env.unwrapped` at given episodes or steps of a run, and reports the phase in `info`.

    Parameters
    ----------
    env : gymnasium.Env
        Any env.
    changes : sequence
        Mappings of attributes to new values, or functions that are called with `env.unwrapped`. Changes stay until
        the run ends.
    change_at : sequence of int
        When each change takes effect: before the reset of that episode, or before that step. Both count from 0 at the
        start of the run.
    unit : str
        What `change_at` counts, "episodes" or "steps".
    restore : callable, optional
        Called with `env.unwrapped` when a run restarts. Attributes that a change has assigned are restored without
        it; it is needed only when a function changes an object in place.

    Notes
    -----
    A run begins with `reset(seed=...)` or `reset(options={"restart": True})`, which undo all changes; the
    option {"restart": False} reseeds and continues the run. A plain `reset()` begins the next episode, or the same one
    again if no step was taken. `info` holds "phase", the number of changes so far, and "episode".

    Examples
    --------
    >>> import gymnasium
    >>> env = ShiftWrapper(gymnasium.make("CartPole-v1"), [{"gravity": 20.0}], change_at=[1])
    >>> for _ in range(2):
    ...     _, info = env.reset()
    ...     _ = env.step(0)
    ...     print(info["phase"], env.unwrapped.gravity)
    0 9.8
    1 20.0
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        changes: Sequence[Change],
        change_at: int | Sequence[int],
        unit: str = "episodes",
        restore: Callable[[Any], object] | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, changes=changes, change_at=change_at, unit=unit, restore=restore)
        gymnasium.Wrapper.__init__(self, env)
        self.unit = check.one_of("unit", unit, ["episodes", "steps"])
        self.change_at = check.increasing("change_at", change_at, 0)
        self.restore = restore
        if isinstance(changes, Mapping) or callable(changes):
            raise ValueError(f"changes must be a list with one change for each of change_at, got {changes!r}")
        self.changes = tuple(changes)
        if len(self.changes) != len(self.change_at):
            raise ValueError(
                f"changes must be {len(self.change_at)}, one for each of change_at, got {len(self.changes)} of them"
            )
        for i, change in enumerate(self.changes):
            if isinstance(change, Mapping):
                missing = [name for name in change if not hasattr(env.unwrapped, name)]
                if missing:
                    raise ValueError(f"changes[{i}] sets {missing[0]!r}, which {env.unwrapped} does not have")
            elif not callable(change):
                raise ValueError(f"changes[{i}] must be a function or a dict of attributes, got {change!r}")
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
        self._apply(self._episode if self.unit == "episodes" else self._total_steps)
        observation, info = self.env.reset(seed=seed, options=given if options is not None else None)
        return observation, {**info, "phase": self._phase, "episode_number": self._episode}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step of the env with the changes so far."""
        if self.unit == "steps":
            self._apply(self._total_steps)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        self._total_steps += 1
        info = {**info, "phase": self._phase, "episode_number": self._episode}
        return observation, reward, terminated, truncated, info

    def _apply(self, index: int) -> None:
        """Apply every change that is due at `index` and not yet applied."""
        while self._phase < len(self.change_at) and self.change_at[self._phase] <= index:
            change = self.changes[self._phase]
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
