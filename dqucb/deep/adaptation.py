"""What an agent does when it notices that the dynamics have changed: nothing, or what `DeepDQUCB` does.

`ModelAdaptation` runs one detector of `dqucb.drift` per seed. After an alarm the replay is full of transitions of
dynamics that no longer hold. The transitions since the change decide what is done about it:

    undo      If actions act later or earlier than before, and nothing else explains the transitions as well, the delay
              is undone (delays.py). What comes then is judged like the time after a change.
    keep      Else, as long as rewards do not fall short of the values (`became_worse`), the policy still works. It
              would only lose by being trained on a model or on little data.
    imagine   Else, if a model of the current dynamics (dynamics.py) predicts transitions since the change that were
              left out of its fit. Old transitions are replaced by imagined ones, short chains from real states under
              the current policy: as soon as a few transitions are known, and again later. The few real ones are all
              alike.
    forget    Else, if deviations from the old transitions depend on (s, a), so that these are wrong and not only less
              noisy. Only transitions since the change are replayed from then on.
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dqucb.deep.delays import MOST_STEPS, Delays, likeliest
from dqucb.deep.dynamics import CurrentDynamics, Ends, is_over
from dqucb.drift import ContinuousDriftDetector
from dqucb.running.files import below

if TYPE_CHECKING:
    from dqucb.deep.double_q import DoubleQ
    from dqucb.deep.head import Head
    from dqucb.deep.trainer import Trainer

MOST_FITTED = 5_000  # transitions before the change, to fit the old dynamics
IMAGINE_AGAIN = (500, 2_000, 5_000)  # transitions since the change; the first times are the model's `judged_from`
BLOCK = 50  # successive transitions whose errors are averaged: errors nearby are alike
BLOCKS = 4  # before values are judged
EXPLAINED = 0.95  # share of variance that the old model must explain, or nothing is imagined
ROUNDS, CHAINS, LENGTH, UPDATES = 20, 200, 5, 500  # each round imagines CHAINS x LENGTH transitions and learns

SMALLEST_LOSS = 0.1  # of the values: a policy that loses less is left alone
TARGET_FACTOR = 2.0  # how much faster the target network follows then


class NoAdaptation:
    """No reaction to a change."""

    gives_alarms: ClassVar[bool] = False  # whether it looks for changes itself

    def observe(self, rows: NDArray[np.int64], trainer: "Trainer") -> list[int]:
        """Process the transition that was added last to the replay; returns the seeds with an alarm."""
        return []

    def acting_states(self, trainer: "Trainer") -> NDArray[Any]:
        """The states in which the next actions will act, one per seed."""
        return trainer.observations

    def acted(self, trainer: "Trainer") -> NDArray[np.int64]:
        """The actions that acted in the present transition, one row per seed."""
        return trainer.choices

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
        judged_from = [MOST_STEPS + rows for rows in self.models[0].judged_from]
        self.times = sorted({*judged_from, BLOCK * BLOCKS, *IMAGINE_AGAIN})
        self.delays = Delays(n, head.n_choices, window)
        self.ends = Ends(n, dimension)
        self.since = np.full(n, -1)  # transitions since the change, -1 before any
        self.imagined = np.zeros(n, np.int64)  # how many of `times` are over since the change
        self.trusted = np.zeros(n, np.bool_)  # whether the replay holds transitions imagined since the change
        self.starts = np.zeros((n, MOST_FITTED, dimension), np.float32)  # states of the replay before the change
        self.residuals = np.zeros((n, MOST_FITTED, dimension + 1))  # what the old model leaves of their transitions
        self.usual = np.zeros((n, 3))  # `usual_errors` before the change
        self.worse = np.zeros(n, np.bool_)  # whether rewards have fallen short of the values since the change

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

    def acting_states(self, trainer: "Trainer") -> NDArray[Any]:
        if not self.delays.steps.any():
            return trainer.observations
        states, begun = trainer.observations.copy(), _begun(trainer)
        for i in np.flatnonzero(self.delays.steps).tolist():
            for action in self.head.coordinates(self.delays.coming(i, bool(begun[i]))):
                following = self.models[i].after(states[i : i + 1], action[None])
                states[i] = np.clip(following[0], *self.ends.box(i))
        return states

    def acted(self, trainer: "Trainer") -> NDArray[np.int64]:
        return self.delays.add(trainer.choices, _begun(trainer))

    def _find_delay(self, i: int, trainer: "Trainer") -> bool:
        """Whether actions of seed i act earlier or later than before; its transitions then get those that acted."""
        n = min(int(self.since[i]), self.window, int(self.delays.count[0]) - MOST_STEPS)
        if n < self.times[0]:  # of a file that holds no actions yet
            return False
        part = trainer.replay.part(i, n)
        acted = [self.delays.acted(i, part["ended"], steps) for steps in range(MOST_STEPS + 1)]
        candidates = [self._sides({name: column[MOST_STEPS:] for name, column in {**part, "choices": each}.items()})
                      for each in acted]  # fmt: skip
        present = int(self.delays.steps[i])
        found = likeliest(self.models[i], candidates, present)
        if found != present:
            self.delays.steps[i] = found
            states = trainer.learner.only(i).scale(part["observations"])
            part |= {"choices": acted[found], "cells": trainer.bonus.cells_of(i, states, acted[found])}
            trainer.replay.replace(i, 0, part)
        return found != present

    def _react(self, i: int, trainer: "Trainer") -> None:
        """Imagine transitions of seed i, forget those before the change, or do nothing."""
        model, since, replay = self.models[i], int(self.since[i]), trainer.replay
        if not model.noise.all():  # of a file of 0.2.0, until the next change
            return
        if self._find_delay(i, trainer):  # only what comes from now on says whether the policy still works
            self.since[i], self.imagined[i], self.trusted[i], self.worse[i] = 0, 0, False, False
            return
        if not self.worse[i]:
            errors, _ = value_errors(trainer, i, min(since, self.window))
            self.worse[i] = became_worse(errors, self.usual[i], trainer.learner.discount)
        if not self.worse[i]:
            return
        predicts = model.refresh(*self._sides(replay.part(i, min(since, self.window))))
        if predicts and model.explained[0] >= EXPLAINED:
            learn_from_imagined(trainer, i, model, self.ends, since, self.starts[i], self.residuals[i])
            self.trusted[i] = True
        elif self.trusted[i] or (model.is_systematic and since >= BLOCK * BLOCKS):
            replay.kept[i], self.trusted[i] = min(since, int(replay.kept[i])), False

    def _begin(self, i: int, since: int, trainer: "Trainer") -> None:
        """The dynamics of seed i changed `since` transitions ago."""
        before = trainer.replay.part(i, since + MOST_FITTED, since)
        if len(before["ended"]):
            self.models[i].begin(*self._sides(before))
            known = trainer.replay.part(i, trainer.replay.size, since)
            chosen = np.linspace(0, len(known["ended"]) - 1, MOST_FITTED).astype(np.int64)
            known = {name: column[chosen] for name, column in known.items()}
            self.starts[i], self.residuals[i] = known["observations"], self.models[i].residuals(*self._sides(known))
            self.usual[i] = usual_errors(*value_errors(trainer, i, since + self.window, since))
            self.since[i], self.imagined[i], self.trusted[i], self.worse[i] = since, 0, False, False

    def _sides(self, part: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(s, a) and (s' - s, r) of transitions."""
        states = part["observations"].astype(np.float64)
        changes = part["next_observations"] - states
        return np.hstack([states, self.head.coordinates(part["choices"])]), np.column_stack([changes, part["rewards"]])

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        names = ("since", "imagined", "trusted", "usual", "starts", "residuals", "worse")
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in names}
        for place, each in (("ends", self.ends.state()), ("delays", self.delays.state())):
            arrays |= {f"{place}.{name}": array for name, array in each.items()}
        settings = []
        for i, (detector, model) in enumerate(zip(self.detectors, self.models, strict=True)):
            state = detector.state
            settings.append(state["settings"])
            arrays |= {f"detector.{i}.{name}": array for name, array in state["arrays"].items()}
            arrays |= {f"model.{i}.{name}": array for name, array in model.state().items()}
        return settings, arrays

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.since[...], self.imagined[...] = arrays["since"], arrays["imagined"]
        self.trusted[...] = arrays.get("trusted", False)  # files of 0.2.0 did not hold these
        self.worse[...], self.usual[...] = arrays.get("worse", False), arrays.get("usual", np.inf)
        self.starts[...], self.residuals[...] = arrays.get("starts", 0.0), arrays.get("residuals", 0.0)
        self.ends.restore(below("ends.", arrays))
        if "delays.steps" in arrays:  # 0.2.0 knew no delays
            self.delays.restore(below("delays.", arrays))
        for i, (own, model) in enumerate(zip(settings, self.models, strict=True)):
            state = {"settings": own, "arrays": below(f"detector.{i}.", arrays)}
            self.detectors[i] = ContinuousDriftDetector.from_state(state)
            model.restore(below(f"model.{i}.", arrays))


def _begun(trainer: "Trainer") -> NDArray[np.bool_]:
    """Whether the present transition of each seed is the first of an episode."""
    replay = trainer.replay
    return replay.store["ended"][:, replay.next - 1] | (replay.size == 0)


def value_errors(trainer: "Trainer", i: int, newest: int,
                 without: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """(r + discount V(s') - V(s), V(s)) of the newest transitions of seed i but the last `without`."""
    part, learner, head = trainer.replay.part(i, newest, without), trainer.learner.only(i), trainer.head
    bounds = trainer.value_bounds()
    bound = learner.value_bound * head.n_parts if bounds is None else bounds[i]

    def value(states: NDArray[Any]) -> NDArray[np.float64]:
        q = learner.q(states[None])
        best = head.values(q, head.best(q, states[None]))[0].sum(1)
        return np.minimum(best, bound).astype(np.float64)

    later = np.where(part["terminated"] > 0, 0.0, value(part["next_observations"]))
    rewards = part["rewards"].reshape(len(later), -1).sum(1)
    now = value(part["observations"])
    return rewards + learner.discount * later - now, now


def usual_errors(errors: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Of transitions before a change: the mean error, its standard deviation over blocks, and the mean |V(s)|.

    The deviation is infinite with fewer than BLOCKS blocks.
    """
    n = len(errors) // BLOCK
    if n < BLOCKS:
        return 0.0, np.inf, 0.0
    means = errors[len(errors) - n * BLOCK :].reshape(n, BLOCK).mean(1)
    return float(means.mean()), float(means.std(ddof=1)), float(np.abs(values).mean())


def became_worse(errors: NDArray[np.float64], usual: NDArray[np.float64], discount: float) -> bool:
    """Whether rewards since a change fall short of the values.

    The mean error divided by 1 - discount is the value that is missing in a continuing task. It must be below the usual
    one by three of its standard deviations and by SMALLEST_LOSS of the values.
    """
    mean, deviation, value = usual
    least = max(3.0 * deviation * np.sqrt(BLOCK / len(errors)), SMALLEST_LOSS * (1.0 - discount) * value)
    return bool(mean - errors.mean() > least)


def learn_from_imagined(trainer: "Trainer", i: int, model: CurrentDynamics, ends: Ends, since: int,
                        starts: NDArray[np.float32], residuals: NDArray[np.float64]) -> None:  # fmt: skip
    """Replace old transitions of seed i by imagined ones and learn from these and from those since the change."""
    replay, plan, rng = trainer.replay, trainer.schedule, trainer.generators["replay"][i]
    learner = trainer.learner.only(i)
    learner.tau = min(1.0, TARGET_FACTOR * learner.tau)
    every = trainer.value_bounds()
    bounds = None if every is None else every[i : i + 1]
    for done in range(min(ROUNDS, (replay.size - since) // (CHAINS * LENGTH))):
        imagined = chains(trainer, learner, i, model, ends, starts, residuals)
        replay.replace(i, since + done * CHAINS * LENGTH, imagined)
        replay.kept[i] = since + (done + 1) * CHAINS * LENGTH
        for _ in range(UPDATES):
            batch = replay.sample_one(i, rng, plan.batch_size, plan.n_steps)
            learner.update(batch, trainer.bonus.at(batch.cells, batch.likelihood, i), bounds)


def chains(trainer: "Trainer", learner: "DoubleQ", i: int, model: CurrentDynamics, ends: Ends,
           starts: NDArray[np.float32], residuals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:  # fmt: skip
    """CHAINS x LENGTH imagined transitions of seed i under its policy from some of `starts`, in the order of chains."""
    head, rng, epsilon = trainer.head, trainer.generators["replay"][i], trainer.schedule.epsilon
    bounds, box = ends.bounds(i), ends.box(i)
    begun = rng.integers(len(starts), size=CHAINS)
    states = starts[begun]
    steps = []
    for t in range(LENGTH):
        choices = head.best(learner.q(states[None]), states[None])[0]
        for k in np.flatnonzero(rng.random(CHAINS) < epsilon):
            choices[k] = head.random(rng.random(head.n_choices), states[k])
        drawn = model.draw(rng, np.hstack([states, head.coordinates(choices)]), residuals[begun])
        free = states + drawn[:, :-1]
        over = is_over(bounds, free)
        next_states = np.where(over[:, None], free, np.clip(free, *box)).astype(np.float32)
        steps.append({"observations": states, "choices": choices, "rewards": drawn[:, -1],
                      "next_observations": next_states, "terminated": over, "ended": over | (t == LENGTH - 1),
                      "cells": trainer.bonus.cells_of(i, learner.scale(states), choices),
                      "likelihood": np.ones(CHAINS)})  # fmt: skip
        begun = np.where(over, rng.integers(len(starts), size=CHAINS), begun)
        states = np.where(over[:, None], starts[begun], next_states)
    columns = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}
    return {name: column.reshape(CHAINS * LENGTH, *column.shape[2:]) for name, column in columns.items()}
