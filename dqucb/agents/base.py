"""What all agents share: training, stepping, saving and going on. A subclass says only which tables it learns."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _storage, _validate
from dqucb._kernels import stepping, window_pools
from dqucb._kernels.learners.rules import Seen
from dqucb._kernels.model import Model
from dqucb.agents import checkpoint, gym_loop, tables
from dqucb.agents.run import CURVES, Run, versions
from dqucb.agents.training import RECORDS, Sizes, Training, advance, new_training, sizes_of
from dqucb.problems.base import Problem

STEP_RESERVE = 4_096  # transitions for which a stepped agent reserves memory at a time


@dataclass(kw_only=True, eq=False)
class Agent(ABC):
    """A learning algorithm and its settings; it holds no tables before `train` or `start`."""

    def __post_init__(self) -> None:
        self._training: Training | None = None
        self._reserved = 0

    @abstractmethod
    def _new_learner(self, sizes: Sizes) -> Any:
        """Fresh tables for a problem of these sizes."""

    def _check_tables(self, learner: Any) -> None:
        """Raise a ValueError if tables that came from a file could lead a kernel astray."""
        tables.check_visits(learner)

    def _grown(self, learner: Any, pushes: int) -> Any:
        """The same learner with memory for `pushes` more transitions."""
        if getattr(learner, "windows", None) is not None:
            return learner._replace(windows=window_pools.enlarged(learner.windows, 2 * pushes))
        return learner

    # ---- training -------------------------------------------------------------------------------------

    def train(
        self,
        problem: Any,
        *,
        episodes: int | None = None,
        steps: int | None = None,
        seed: int = 0,
        progress: bool = False,
        regret: str = "realized",
        records: int = RECORDS,
        stop_at: int | None = None,
        resume: "Agent | None" = None,
        horizon: int | None = None,
        discount: float | None = None,
    ) -> Run:
        """Learn `problem` from scratch and return the curves.

        Parameters
        ----------
        problem : a `TabularMDP` or `ShiftingMDP`, or any Gymnasium env with Discrete spaces (stepped from Python; then
            give `horizon` or `discount`).
        episodes, steps : how long: episodes for a problem with a horizon, steps for a discounted one.
        seed : of the run's one random generator; the same seed gives the same bits.
        progress : show a progress bar.
        regret : "realized" (optimal value minus the return; with a discount the optimality gap of each action) or
            "expected" (optimal value minus the exact value of the policy followed).
        records : points of a discounted run's curves.
        stop_at : stop after this many episodes or steps (steps: at the end of their record); go on with `resume`.
        resume : an agent, this one or one just loaded, whose interrupted run goes on. Bits are those of a run that
            was never interrupted.
        """
        if not isinstance(problem, Problem):
            if regret != "realized" or stop_at is not None or resume is not None:
                raise ValueError(
                    f"regret={regret!r}, stop_at={stop_at!r}, resume={resume!r}: exact regret and interruption are for "
                    "problems; a Gymnasium env, whose state cannot be saved, runs in one piece with realized regret"
                )
            return gym_loop.train_on_env(
                self, problem, episodes=episodes, steps=steps, seed=seed, progress=progress,
                horizon=horizon, discount=discount, records=_validate.integer("records", records),
            )  # fmt: skip
        if horizon is not None or discount is not None:
            raise ValueError("horizon and discount are only for Gymnasium envs: this problem states its own")
        length = _length(problem.horizon is not None, episodes, steps)
        problem.check_run(length)
        _validate.one_of("regret", regret, ["realized", "expected"])
        seed = _validate.integer("seed", seed, 0)
        goal = length if stop_at is None else _validate.integer("stop_at", stop_at, 1, length)
        if resume is not None:
            if not isinstance(resume, Agent):
                raise ValueError(f"resume must be an agent with an unfinished run, got {resume!r}")
            self._hold(resume._resumable(self, problem, length, seed, regret))
        else:
            sizes = sizes_of(problem, length)
            rng = np.random.default_rng(seed)
            records = _validate.integer("records", records)
            self._hold(
                new_training(
                    self._new_learner(sizes), sizes, rng, seed, regret, problem.description, problem.change_at, records
                )
            )
        training = self._started()
        with checkpoint.progress_bar(self.name, length, training.units_done, progress) as report:
            advance(training, problem, self._grown, goal, report)
        return self._run(training, problem.change_at)

    def _hold(self, training: Training) -> None:
        """Take over the tables of a run; what was known of another one is forgotten."""
        self._training = training
        self._reserved = 0

    def _resumable(self, by: "Agent", problem: Problem, length: int, seed: int, regret: str) -> Training:
        training = self._training
        if training is None:
            raise ValueError(f"resume must be an agent with an unfinished run, got {self!r}")
        sizes = sizes_of(problem, length)
        for what, ours, theirs in (
            ("agent", self.name, by.name),
            ("parameters", self.parameters(), by.parameters()),
            ("problem", training.problem, problem.description),
            ("length", training.length, length),
            ("sizes", _comparable(training.sizes), _comparable(sizes)),
            ("seed", training.seed, seed),
            ("regret", training.regret_form, regret),
        ):
            if ours != theirs:
                raise ValueError(
                    f"resume must have the same {what} as the run it goes on with: {ours!r}, not {theirs!r}"
                )
        return training

    def _run(self, training: Training, change_at: tuple[int, ...]) -> Run:
        # A finished run shares its curves with the agent, which writes no more; a million episodes are 40 MB of them.
        done = slice(0, training.done)
        finished = training.done == len(training.ends)
        curves = {name: getattr(training, name)[done] for name in CURVES}
        return Run(
            **(curves if finished else {name: curve.copy() for name, curve in curves.items()}),
            seconds=training.seconds,
            seed=training.seed,
            agent=self.name,
            parameters=self.parameters(),
            problem=training.problem,
            unit="steps" if training.sizes.horizon is None else "episodes",
            change_at=change_at,
            regret_form=training.regret_form,
            versions=versions(),
        )

    # ---- one step at a time ---------------------------------------------------------------------------

    def start(
        self,
        n_states: int,
        n_actions: int,
        *,
        horizon: int | None = None,
        discount: float | None = None,
        seed: int = 0,
        length: int = 1_000_000,
        return_bound: float | None = None,
    ) -> "Agent":
        """Make fresh tables for a loop of your own; `length` is how many episodes or steps it will have."""
        n_states = _validate.integer("n_states", n_states)
        n_actions = _validate.integer("n_actions", n_actions)
        if (horizon is None) == (discount is None):
            raise ValueError(
                f"give exactly one of horizon and discount, got horizon={horizon!r}, discount={discount!r}"
            )
        if horizon is not None:
            horizon = _validate.integer("horizon", horizon)
            bounds = np.arange(horizon, -1, -1, dtype=np.float64)
        else:
            discount = _validate.real("discount", discount, 0.0, 1.0 - 1e-12, open_left=True)
            bounds = np.array([1.0 / (1.0 - discount)])
        if return_bound is not None:
            bounds = np.minimum(bounds, _validate.positive("return_bound", return_bound))
        seed = _validate.integer("seed", seed, 0)
        sizes = Sizes(n_states, n_actions, horizon, discount, bounds, _validate.integer("length", length), n_states, 1)
        self._begin(sizes, np.random.default_rng(seed), seed, {"problem": "stepped"}, records=0)
        return self

    def _begin(
        self,
        sizes: Sizes,
        rng: np.random.Generator,
        seed: int,
        problem: dict[str, Any],
        change_at: tuple[int, ...] = (),
        records: int = RECORDS,
    ) -> Training:
        """Fresh tables for a loop that lives in Python."""
        self._hold(new_training(self._new_learner(sizes), sizes, rng, seed, "realized", problem, change_at, records))
        return self._started()

    def act(self, state: int, step: int = 0) -> int:
        """The action to take in `state` at `step` of the episode."""
        training = self._started()
        self._check_place(state, step)
        return int(stepping.act(training.learner, int(step), int(state), training.draws))

    def observe(
        self, state: int, action: int, reward: float, next_state: int, step: int = 0, terminated: bool = False
    ) -> tuple[float, float]:
        """Learn from one transition; returns the bonus that it got and its likelihood."""
        training = self._started()
        self._check_place(state, step)
        _validate.state_id("action", action, training.sizes.n_actions)
        _validate.state_id("next_state", next_state, training.sizes.n_states)
        reward = _validate.real("reward", reward)
        if self._reserved == 0:
            training.learner = self._grown(training.learner, STEP_RESERVE)
            self._reserved = STEP_RESERVE
        self._reserved -= 1
        seen = Seen(int(step), int(state), int(action), reward, int(next_state), bool(terminated))
        return self._learned(training, seen)

    def _show_phase(self, model: Model, phase: int) -> None:
        """Called before `observe` where the true model is known; oracles look at it."""

    def _learned(self, training: Training, seen: Seen) -> tuple[float, float]:
        bonus, p = stepping.learn(training.learner, seen, training.draws)
        return float(bonus), float(p)

    def end_episode(self) -> None:
        """Say that the episode is over; some agents plan now."""
        training = self._started()
        stepping.finish_episode(training.learner, training.draws)

    def _check_place(self, state: int, step: int) -> None:
        sizes = self._started().sizes
        _validate.state_id("state", state, sizes.n_states)
        if sizes.horizon is not None:
            _validate.state_id("step", step, sizes.horizon)

    # ---- what was learned -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name in tables, plots and commands."""
        return type(self).__name__

    @property
    def q_(self) -> NDArray[np.float64]:
        """The learned action values, (H, S, A) or (S, A)."""
        return tables.q_of(self._started().learner)

    @property
    def visits_(self) -> NDArray[np.integer[Any]]:
        """How often each pair was taken, (H, S, A); (S, A) with a discount, or with `stage_dependent=False`."""
        return tables.visits_of(self._started().learner)

    def greedy_policy(self) -> NDArray[np.int64]:
        """The action believed best, (H, S) or (S,)."""
        training = self._started()
        policy = np.zeros((training.sizes.horizon or 1, training.sizes.n_states), np.int64)
        stepping.greedy_table(training.learner, policy)
        return policy[0] if training.sizes.horizon is None else policy

    def parameters(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {
            field.name: value.tolist() if isinstance(value := getattr(self, field.name), np.ndarray) else value
            for field in fields(self)
        }

    def __repr__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if not _is_default(getattr(self, field.name), field.default)
        ]
        return f"{self.name}({', '.join(changed)})"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write settings, tables, generator and curves to one .npz file; training can go on from it."""
        settings, arrays = checkpoint.packed(self._started())
        settings["agent"] = {"name": self.name, "parameters": self.parameters()}
        return _storage.save(path, "Agent", settings, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Agent":
        """Read an agent that `save` wrote; anything else is a `SavedFileError`."""
        from dqucb.agents.registry import load_agent

        agent = load_agent(path)
        if not isinstance(agent, cls):
            raise _storage.SavedFileError(f"{os.fspath(path)}: holds a {agent.name}, expected a {cls.__name__}")
        return agent

    def _started(self) -> Training:
        if self._training is None:
            raise ValueError(f"{self.name} has learned nothing yet: call train or start first")
        return self._training


def _length(episodic: bool, episodes: int | None, steps: int | None) -> int:
    wanted, value, other = ("episodes", episodes, steps) if episodic else ("steps", steps, episodes)
    if value is None or other is not None:
        kind = "a problem with a horizon" if episodic else "a discounted problem"
        raise ValueError(f"{kind} takes {wanted}=, got episodes={episodes!r}, steps={steps!r}")
    return _validate.integer(wanted, value)


def _comparable(sizes: Sizes) -> dict[str, Any]:
    """Sizes for ==. How many successors a pair has says only how wide UCBVI's tables are."""
    return {**sizes._asdict(), "bounds": sizes.bounds.tolist(), "max_successors": None}


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, np.ndarray) and value == default)
