"""What an agent does when it notices that the law of motion has changed: nothing, or what `DeepDQUCB` does.

`Following` runs one detector of `dqucb.drift` per seed. After an alarm the replay is full of transitions of a law that
no longer holds. To throw them away costs more than it helps (docs/deep.md has the figures), since the few new ones are
all alike. So they are replaced by imagined ones, drawn from the law of now (law.py) under the policy of now, and
learned from in the same way as real ones: as soon as a few transitions are known, and twice again when there are more.
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dqucb.deep.law import Bound, Ends, RecentLaw, is_over
from dqucb.drift import ContinuousDriftDetector

if TYPE_CHECKING:
    from dqucb.deep.double_q import DoubleQ
    from dqucb.deep.head import Head, HeadWithLaw
    from dqucb.deep.trainer import Trainer

MOST_FITTED = 5_000  # transitions before the change, for the law of before
IMAGINE_AT = (10, 500, 2_000)  # transitions since the change
EXPLAINED = 0.95  # the share of what happened before that its law must explain, or nothing is imagined
ROUNDS, CHAINS, LENGTH, UPDATES = 20, 10, 100, 500  # each round imagines CHAINS x LENGTH transitions and learns

TARGET_FACTOR = 2.0  # how much faster the target network moves then


class Unmoved:
    """No reaction to a change."""

    gives_alarms: ClassVar[bool] = False  # whether it looks for changes itself

    def observe(self, rows: NDArray[np.int64], trainer: "Trainer") -> list[int]:
        """Take in the transition that was added last to the replay; the seeds whose law is seen to have changed."""
        return []

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """(JSON, arrays) from which `restore` goes on."""
        return [], {}

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on exactly from `state()`."""


class Following(Unmoved):
    """Alarms of one detector per seed, and imagined transitions after them.

    Parameters
    ----------
    n, dimension : int
        Seeds, and numbers in an observation.
    head : Head
        For the actions.
    window : int
        The last transitions since a change from which the law of now is drawn.
    detector : ContinuousDriftDetector
        Each seed has an empty copy.
    """

    gives_alarms = True

    def __init__(self, n: int, dimension: int, head: "Head", window: int, detector: ContinuousDriftDetector) -> None:
        self.head = head
        self.detectors = [detector.clone() for _ in range(n)]
        self.window = window
        self.laws = [RecentLaw(dimension + head.action_dim, dimension + 1) for _ in range(n)]
        self.ends = Ends(n, dimension)
        self.since = np.full(n, -1)  # transitions since the change, -1 before any
        self.imagined = np.zeros(n, np.int64)  # how often since the change

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
            if self.since[i] >= 0 and done < len(IMAGINE_AT) and self.since[i] >= IMAGINE_AT[done]:
                self.imagined[i] = np.searchsorted(IMAGINE_AT, self.since[i], side="right")
                if self.laws[i].explained[0] >= EXPLAINED:
                    self.laws[i].renew(*self._sides(replay.part(i, min(int(self.since[i]), self.window))))
                    learn_from_imagined(trainer, i, self.laws[i], self.ends.bounds(i), int(self.since[i]))
        return alarmed

    def _begin(self, i: int, since: int, trainer: "Trainer") -> None:
        """The law of seed i has changed `since` transitions ago."""
        before = trainer.replay.part(i, since + MOST_FITTED, since)
        if len(before["ended"]):
            self.laws[i].begin(*self._sides(before))
            self.since[i], self.imagined[i] = since, 0

    def _sides(self, part: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(s, a) and (s' - s, r) of transitions."""
        states = part["observations"].astype(np.float64)
        changes = part["next_observations"] - states
        return np.hstack([states, self.head.coordinates(part["choices"])]), np.column_stack([changes, part["rewards"]])

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        arrays: dict[str, NDArray[Any]] = {"since": self.since, "imagined": self.imagined}
        arrays |= {f"ends.{name}": array for name, array in self.ends.state().items()}
        settings = []
        for i, (detector, law) in enumerate(zip(self.detectors, self.laws, strict=True)):
            state = detector.state
            settings.append(state["settings"])
            arrays |= {f"detector.{i}.{name}": array for name, array in state["arrays"].items()}
            arrays |= {f"law.{i}.{name}": array for name, array in law.state().items()}
        return settings, arrays

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.since[...], self.imagined[...] = arrays["since"], arrays["imagined"]
        self.ends.restore({name.removeprefix("ends."): arrays[name] for name in arrays if name.startswith("ends.")})
        for i, (own, law) in enumerate(zip(settings, self.laws, strict=True)):
            below = {kind: {name.removeprefix(f"{kind}.{i}."): array for name, array in arrays.items()
                            if name.startswith(f"{kind}.{i}.")} for kind in ("detector", "law")}  # fmt: skip
            self.detectors[i] = ContinuousDriftDetector.from_state({"settings": own, "arrays": below["detector"]})
            law.restore(below["law"])


class FollowingHead(Unmoved):
    """The known part of a head's values follows what happens."""

    def __init__(self, n: int, head: "HeadWithLaw") -> None:
        self.head, self.law = head, head.begin_following(n)

    def observe(self, rows: NDArray[np.int64], trainer: "Trainer") -> list[int]:
        store, place = trainer.replay.store, trainer.replay.next - 1
        for i in rows.tolist():
            columns = (store[name][i, place] for name in ("observations", "choices", "next_observations"))
            self.head.follow(i, *columns)
        return []

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        return [], {"law": self.law}

    def restore(self, settings: list[Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.law[...] = arrays["law"]


def learn_from_imagined(trainer: "Trainer", i: int, law: RecentLaw, bounds: list[Bound], since: int) -> None:
    """Replace old transitions of seed i by imagined ones and learn from these and from those since the change."""
    replay, plan, rng = trainer.replay, trainer.schedule, trainer.generators["replay"][i]
    remembered = replay.part(i, replay.size)
    begun = remembered["observations"][1:][remembered["ended"][:-1]]
    starts = begun if len(begun) else remembered["observations"]
    learner = trainer.learner.only(i)
    learner.target_rate = min(1.0, TARGET_FACTOR * learner.target_rate)
    for done in range(min(ROUNDS, (replay.size - since) // (CHAINS * LENGTH))):
        imagined = chains(trainer, learner, i, law, bounds, starts)
        replay.replace(i, since + done * CHAINS * LENGTH, imagined)
        replay.kept[i] = since + (done + 1) * CHAINS * LENGTH
        for _ in range(UPDATES):
            batch = replay.sample_one(i, rng, plan.batch, plan.n_steps)
            learner.update(batch, trainer.bonus.at(batch.cells, batch.likelihood, i))


def chains(trainer: "Trainer", learner: "DoubleQ", i: int, law: RecentLaw, bounds: list[Bound],
           starts: NDArray[np.float32]) -> dict[str, NDArray[Any]]:  # fmt: skip
    """CHAINS x LENGTH imagined transitions of seed i under its policy, in the order of the chains."""
    head, rng, epsilon = trainer.head, trainer.generators["replay"][i], trainer.schedule.epsilon
    states = starts[rng.integers(len(starts), size=CHAINS)]
    steps = []
    for t in range(LENGTH):
        choices = head.best(learner.q(states[None]), states[None])[0]
        for k in np.flatnonzero(rng.random(CHAINS) < epsilon):
            choices[k] = head.random(rng.random(head.n_choices), states[k])
        drawn = law.draw(rng, np.hstack([states, head.coordinates(choices)]))
        following = (states + drawn[:, :-1]).astype(np.float32)
        over = is_over(bounds, following)
        steps.append({"observations": states, "choices": choices, "rewards": drawn[:, -1],
                      "next_observations": following, "terminated": over, "ended": over | (t == LENGTH - 1),
                      "cells": trainer.bonus.cells_of(i, learner.scale(states), choices),
                      "likelihood": np.ones(CHAINS)})  # fmt: skip
        states = np.where(over[:, None], starts[rng.integers(len(starts), size=CHAINS)], following)
    columns = {name: np.stack([step[name] for step in steps], 1) for name in steps[0]}
    return {name: column.reshape(CHAINS * LENGTH, *column.shape[2:]) for name, column in columns.items()}
