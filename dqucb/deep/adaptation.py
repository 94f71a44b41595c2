"""What an agent does when it notices that the dynamics have changed: nothing, or what `DeepDQUCB` does.

`ModelAdaptation` runs one detector of `dqucb.drift` per seed. After an alarm the replay is full of transitions of
dynamics that no longer hold. Discarding them costs more than it helps (docs/deep.md), since the few new ones are all
alike. So they are replaced by imagined transitions, drawn from a model of the current dynamics (dynamics.py) under the
current policy, and learned from like real ones: as soon as a few transitions are known, and again later. Before
each time the model must predict transitions since the change that were left out of its fit. If it does not, nothing is
imagined, what was imagined before is forgotten, and the agent goes on learning from real transitions alone. Nor is
anything imagined where the present policy has no smaller return in the current dynamics than in the old ones: a policy
that still works only loses by being trained on a model.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dqucb.deep.dynamics import CurrentDynamics, Ends, is_over
from dqucb.drift import ContinuousDriftDetector

if TYPE_CHECKING:
    from dqucb.deep.double_q import DoubleQ
    from dqucb.deep.head import Head
    from dqucb.deep.trainer import Trainer

MOST_FITTED = 5_000  # transitions before the change, to fit the old dynamics
IMAGINE_AGAIN = (500, 2_000)  # transitions since the change; the first times are the model's `judged_from`
EXPLAINED = 0.95  # share of variance that the old model must explain, or nothing is imagined
ROUNDS, CHAINS, LENGTH, UPDATES = 20, 10, 100, 500  # each round imagines CHAINS x LENGTH transitions and learns

JUDGED = 100  # episodes of at most LENGTH steps in which the policy is judged, in the old and the current dynamics
SMALLEST_LOSS = 0.01  # of the return in the old dynamics
TARGET_FACTOR = 2.0  # how much faster the target network follows then


class NoAdaptation:
    """No reaction to a change."""

    gives_alarms: ClassVar[bool] = False  # whether it looks for changes itself

    def observe(self, rows: NDArray[np.int64], trainer: "Trainer") -> list[int]:
        """Process the transition that was added last to the replay; returns the seeds with an alarm."""
        return []

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) of which `restore` makes the same object."""
        return [], {}

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from `state()`."""


class ModelAdaptation(NoAdaptation):
    """One detector per seed, and imagined transitions after its alarms.

    Parameters
    ----------
    n, dimension : int
        Seeds, and numbers in an observation.
    head : Head
        Reads actions.
    window : int
        How many of the last transitions since a change the model of the current dynamics uses.
    detector : ContinuousDriftDetector
        Each seed has an empty copy.
    """

    gives_alarms = True

    def __init__(self, n: int, dimension: int, head: "Head", window: int, detector: ContinuousDriftDetector) -> None:
        self.head = head
        self.detectors = [detector.clone() for _ in range(n)]
        self.window = window
        self.models = [CurrentDynamics(dimension + head.action_dim, dimension + 1) for _ in range(n)]
        self.times = sorted({*self.models[0].judged_from, *IMAGINE_AGAIN})
        self.ends = Ends(n, dimension)
        self.since = np.full(n, -1)  # transitions since the change, -1 before any
        self.imagined = np.zeros(n, np.int64)  # how many of `times` are over since the change
        self.trusted = np.zeros(n, np.bool_)  # whether the replay holds transitions imagined since the change

    def observe(self, rows: NDArray[np.int64], trainer: "Trainer") -> list[int]:
        alarmed, replay = [], trainer.replay
        last = {name: column[:, replay.next - 1] for name, column in replay.store.items()}
        actions = self.head.coordinates(last["choices"])
        self.ends.observe(rows, last["next_observations"][rows], last["terminated"][rows] > 0)
        for i in rows.tolist():
            if self.since[i] >= 0:
                self.since[i] += 1
            detector = self.detectors[i].update(last["observations"][i], actions[i], last["next_observations"][i])
            if detector.drift_detected:
                assert detector.changed_at is not None
                self._begin(i, detector.n_updates - detector.changed_at, trainer)
                alarmed.append(i)
            done = self.imagined[i]
            if self.since[i] >= 0 and done < len(self.times) and self.since[i] >= self.times[done]:
                self.imagined[i] = np.searchsorted(self.times, self.since[i], side="right")
                self._react(i, trainer)
        return alarmed

    def _react(self, i: int, trainer: "Trainer") -> None:
        """Imagine transitions of seed i if the model of its current dynamics predicts, else forget those imagined."""
        model, since, replay = self.models[i], int(self.since[i]), trainer.replay
        if model.explained[0] < EXPLAINED:
            return
        if model.refresh(*self._sides(replay.part(i, min(since, self.window)))):
            if is_worse_now(trainer, i, model, self.ends):
                learn_from_imagined(trainer, i, model, self.ends, since)
                self.trusted[i] = True
        elif self.trusted[i]:
            replay.kept[i], self.trusted[i] = since, False

    def _begin(self, i: int, since: int, trainer: "Trainer") -> None:
        """The dynamics of seed i changed `since` transitions ago."""
        before = trainer.replay.part(i, since + MOST_FITTED, since)
        if len(before["ended"]):
            self.models[i].begin(*self._sides(before))
            self.since[i], self.imagined[i], self.trusted[i] = since, 0, False

    def _sides(self, part: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(s, a) and (s' - s, r) of transitions."""
        states = part["observations"].astype(np.float64)
        changes = part["next_observations"] - states
        return np.hstack([states, self.head.coordinates(part["choices"])]), np.column_stack([changes, part["rewards"]])

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        arrays: dict[str, NDArray[Any]] = {"since": self.since, "imagined": self.imagined, "trusted": self.trusted}
        arrays |= {f"ends.{name}": array for name, array in self.ends.state().items()}
        settings = []
        for i, (detector, model) in enumerate(zip(self.detectors, self.models, strict=True)):
            state = detector.state
            settings.append(state["settings"])
            arrays |= {f"detector.{i}.{name}": array for name, array in state["arrays"].items()}
            arrays |= {f"model.{i}.{name}": array for name, array in model.state().items()}
        return settings, arrays

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.since[...], self.imagined[...] = arrays["since"], arrays["imagined"]
        self.trusted[...] = arrays.get("trusted", False)  # 0.2.0 did not know
        self.ends.restore({name.removeprefix("ends."): arrays[name] for name in arrays if name.startswith("ends.")})
        for i, (own, model) in enumerate(zip(settings, self.models, strict=True)):
            below = {kind: {name.removeprefix(f"{kind}.{i}."): array for name, array in arrays.items()
                            if name.startswith(f"{kind}.{i}.")} for kind in ("detector", "model")}  # fmt: skip
            self.detectors[i] = ContinuousDriftDetector.from_state({"settings": own, "arrays": below["detector"]})
            model.restore(below["model"])


def starts_of(trainer: "Trainer", i: int) -> NDArray[np.float32]:
    """States in which remembered episodes of seed i began, or all states if none did."""
    remembered = trainer.replay.part(i, trainer.replay.size)
    begun = remembered["observations"][1:][remembered["ended"][:-1]]
    return np.asarray(begun if len(begun) else remembered["observations"], np.float32)


def is_worse_now(trainer: "Trainer", i: int, model: CurrentDynamics, ends: Ends) -> bool:
    """Whether the policy of seed i has a smaller return in the current dynamics than in the old ones.

    By more than two standard errors of the difference, and by more than SMALLEST_LOSS.
    """
    rng, starts = trainer.generators["replay"][i], starts_of(trainer, i)
    begun = starts[rng.integers(len(starts), size=JUDGED)]
    old = returns_in(trainer, i, model.before, ends, begun)
    now = returns_in(trainer, i, lambda inputs: model.draw(rng, inputs), ends, begun)
    loss, error = old.mean() - now.mean(), np.sqrt((old.var() + now.var()) / JUDGED)
    return bool(loss > max(2.0 * error, SMALLEST_LOSS * abs(old.mean())))


def returns_in(trainer: "Trainer", i: int, law: Callable[[NDArray[np.float64]], NDArray[np.float64]], ends: Ends,
               states: NDArray[np.float32]) -> NDArray[np.float64]:  # fmt: skip
    """Sums of at most LENGTH rewards of the greedy policy of seed i from each of `states`, where `law` draws."""
    head, learner, bounds, box = trainer.head, trainer.learner.only(i), ends.bounds(i), ends.box(i)
    returns, alive = np.zeros(len(states)), np.ones(len(states), np.bool_)
    for _ in range(LENGTH):
        choices = head.best(learner.q(states[None]), states[None])[0]
        drawn = law(np.hstack([states, head.coordinates(choices)]))
        returns += np.where(alive, drawn[:, -1], 0.0)
        states = np.clip(states + drawn[:, :-1], *box).astype(np.float32)
        alive &= ~is_over(bounds, states)
    return returns


def learn_from_imagined(trainer: "Trainer", i: int, model: CurrentDynamics, ends: Ends, since: int) -> None:
    """Replace old transitions of seed i by imagined ones and learn from these and from those since the change."""
    replay, plan, rng = trainer.replay, trainer.schedule, trainer.generators["replay"][i]
    starts = starts_of(trainer, i)
    learner = trainer.learner.only(i)
    learner.tau = min(1.0, TARGET_FACTOR * learner.tau)
    for done in range(min(ROUNDS, (replay.size - since) // (CHAINS * LENGTH))):
        imagined = chains(trainer, learner, i, model, ends, starts)
        replay.replace(i, since + done * CHAINS * LENGTH, imagined)
        replay.kept[i] = since + (done + 1) * CHAINS * LENGTH
        for _ in range(UPDATES):
            batch = replay.sample_one(i, rng, plan.batch_size, plan.n_steps)
            learner.update(batch, trainer.bonus.at(batch.cells, batch.likelihood, i))


def chains(trainer: "Trainer", learner: "DoubleQ", i: int, model: CurrentDynamics, ends: Ends,
           starts: NDArray[np.float32]) -> dict[str, NDArray[Any]]:  # fmt: skip
    """CHAINS x LENGTH imagined transitions of seed i under its policy, in the order of the chains.

    A chain that leaves the box of `Ends` is cut there, as by a time limit, and begins anew.
    """
    head, rng, epsilon = trainer.head, trainer.generators["replay"][i], trainer.schedule.epsilon
    bounds, (lowest, highest) = ends.bounds(i), ends.box(i)
    states = starts[rng.integers(len(starts), size=CHAINS)]
    steps = []
    for t in range(LENGTH):
        choices = head.best(learner.q(states[None]), states[None])[0]
        for k in np.flatnonzero(rng.random(CHAINS) < epsilon):
            choices[k] = head.random(rng.random(head.n_choices), states[k])
        drawn = model.draw(rng, np.hstack([states, head.coordinates(choices)]))
        free = (states + drawn[:, :-1]).astype(np.float32)
        next_states = np.clip(free, lowest, highest).astype(np.float32)
        over, left = is_over(bounds, next_states), (next_states != free).any(1)
        steps.append({"observations": states, "choices": choices, "rewards": drawn[:, -1],
                      "next_observations": next_states, "terminated": over, "ended": over | left | (t == LENGTH - 1),
                      "cells": trainer.bonus.cells_of(i, learner.scale(states), choices),
                      "likelihood": np.ones(CHAINS)})  # fmt: skip
        states = np.where((over | left)[:, None], starts[rng.integers(len(starts), size=CHAINS)], next_states)
    columns = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}
    return {name: column.reshape(CHAINS * LENGTH, *column.shape[2:]) for name, column in columns.items()}
