"""An entry for the competition of ns-gym (AAMAS 2026), and the scores that its evaluator computes.

The competition's agents see observations, notifications and a planning env, but neither rewards nor ends of episodes,
and a new episode starts in the unchanged env. What is known therefore is the model of the planning env: the present
one if changes are notified in full, else the first one. `LakePlanner` plans in its table, with probabilities that it
estimates from the transitions that it sees where they are not notified; `PolePlanner` is a linear-quadratic regulator
for its physics, estimated in the same way.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dqucb import _validate
from dqucb.problems.mdp import TabularMDP

# Name -> (change_notification, delta_change_notification), as in the evaluator.
NOTIFICATIONS = {"notify-full": (True, True), "notify-change": (True, False), "notify-none": (False, False)}
Planner = Callable[[Any, Any], int]


def ns_gym_scores(
    make: Callable[..., Any], new_agent: Callable[[], Planner], *, episodes: int = 10, first_seed: int = 42
) -> dict[str, dict[str, float]]:
    """The scores of an agent at each notification level, as the evaluator of the ns-gym competition computes them.

    Parameters
    ----------
    make : callable
        Returns a new env of ns-gym; called with `change_notification` and `delta_change_notification`.
    new_agent : callable
        Returns a new agent for a notification level: a function of the observation and the planning env that returns
        the action.
    episodes : int
        Episodes for each level, with the seeds `first_seed`, `first_seed` + 1, ...
    first_seed : int
        Seed of the first episode.

    Returns
    -------
    dict
        For each level: mean and standard deviation of the total reward, mean length, mean decision time in seconds and
        mean number of changes of an episode.

    Examples
    --------
    >>> from dqucb.envs import LakePlanner, ns_gym_scores
    >>> ns_gym_scores(make_lake, LakePlanner)["notify-none"]["mean_total_reward"]  # doctest: +SKIP
    0.6
    """
    episodes = _validate.integer("episodes", episodes)
    scores = {}
    for level, (change, delta) in NOTIFICATIONS.items():
        env, agent = make(change_notification=change, delta_change_notification=delta), new_agent()
        played = [_episode(env, agent, first_seed + number) for number in range(episodes)]
        rewards, lengths, times, changes = zip(*played, strict=True)
        scores[level] = {
            "mean_total_reward": statistics.fmean(rewards),
            "std_total_reward": statistics.pstdev(rewards),
            "mean_episode_steps": statistics.fmean(lengths),
            "mean_decision_time": statistics.fmean(times),
            "mean_transition_fn_changes": statistics.fmean(changes),
        }
        env.close()
    return scores


def _episode(env: Any, agent: Planner, seed: int) -> tuple[float, int, float, int]:
    """(total reward, steps, mean decision time, changes)."""
    observation, _ = env.reset(seed=seed)
    total, times, changes, over = 0.0, [], 0, False
    while not over:
        planning_env = env.get_planning_env()
        began = time.perf_counter()
        action = agent(observation, planning_env)
        times.append(time.perf_counter() - began)
        observation, reward, terminated, truncated, info = env.step(action)
        total += float(getattr(reward, "reward", reward))
        changes += int(max(info["Ground Truth Env Change"].values()))
        over = terminated or truncated
    return total, len(times), statistics.fmean(times), changes


class LakePlanner:
    """Plans in the table of a grid of ns-gym, such as FrozenLake, over the rest of the episode.

    All pairs share the probabilities of the kinds of outcome: the intended move, and slips to either side. If they may
    have changed in ways that are not notified, they are means of the outcomes seen at about the same time of this and
    earlier episodes, and of one outcome drawn as in the planning env.

    Parameters
    ----------
    horizon : int
        Steps of an episode.
    memory : float
        The time scale, in steps, over which what was seen is used.

    Examples
    --------
    >>> from dqucb.envs import LakePlanner
    >>> LakePlanner(memory=0)
    Traceback (most recent call last):
    ValueError: memory must be > 0, got 0
    """

    def __init__(self, horizon: int = 100, memory: float = 5.0) -> None:
        self.horizon, self.memory = _validate.integer("horizon", horizon), _validate.positive("memory", memory)
        self.times: list[int] = []
        self.kinds: list[NDArray[np.float64]] = []  # how likely each kind of outcome is for what was seen
        self.last: tuple[int, list[Any]] | None = None
        self.may_have_changed = False

    def __call__(self, observation: Any, planning_env: Any) -> int:
        """The best action in the model, the lowest on ties."""
        state, now = int(observation["state"]), int(observation["relative_time"])
        if now == 0:
            self.last, self.may_have_changed = None, False
        exact = planning_env.delta_change_notification
        self.may_have_changed |= _may_have_changed(observation, planning_env)
        table = planning_env.unwrapped.P
        first = np.array(planning_env.transition_prob, float)
        if self.last is not None and not exact:
            then, outcomes = self.last
            fits = np.array([outcome[1] == state for outcome in outcomes], float)
            if len(outcomes) == len(first) and fits.any():
                likely = fits * self.probabilities(first, then)
                self.times.append(then)
                self.kinds.append(likely / likely.sum() if likely.sum() > 0.0 else fits / fits.sum())
        if self.may_have_changed:
            chances = self.probabilities(first, now)
            table = {
                s: {a: _with_chances(outcomes, chances) for a, outcomes in actions.items()}
                for s, actions in table.items()
            }
        steps = max(1, self.horizon - now)
        action = int(np.argmax(TabularMDP(table, horizon=steps).optimal_q()[0, state]))
        self.last = (now, planning_env.unwrapped.P[state][action])
        return action

    def probabilities(self, first: NDArray[np.float64], now: int) -> NDArray[np.float64]:
        """The probability of each kind of outcome at a time, `first` being that of the planning env."""
        counts = first.copy()
        if self.times:
            weights = np.exp(-np.abs(np.array(self.times) - now) / self.memory)
            counts = counts + weights @ np.array(self.kinds)
        return counts / counts.sum()


def _with_chances(outcomes: list[Any], chances: NDArray[np.float64]) -> list[Any]:
    """The outcomes of a pair with other probabilities; a pair that ends the episode stays as it is."""
    if len(outcomes) != len(chances):
        return outcomes
    return [(float(chance), *outcome[1:]) for chance, outcome in zip(chances, outcomes, strict=True)]


class PolePlanner:
    """A linear-quadratic regulator for CartPole, with the physics of the planning env.

    The force that the regulator asks for is rounded to the nearer of the two that there are. If the physics may have
    changed in ways that are not notified, the accelerations of cart and pole are regressed on the angle and the force
    over the last steps, with those of the planning env as the prior.

    Parameters
    ----------
    memory : float
        The time scale of the regression, in steps.

    Examples
    --------
    >>> from dqucb.envs import PolePlanner
    >>> PolePlanner(memory=0)
    Traceback (most recent call last):
    ValueError: memory must be > 0, got 0
    """

    def __init__(self, memory: float = 20.0) -> None:
        self.memory = _validate.positive("memory", memory)
        self.value = _COST  # of the last Riccati equation, from which the next one starts
        self._begin()

    def _begin(self) -> None:
        self.squares, self.products = np.zeros((2, 2)), np.zeros((2, 2))
        self.last: tuple[NDArray[np.float64], float] | None = None
        self.may_have_changed = False

    def __call__(self, observation: Any, planning_env: Any) -> int:
        """1 (push to the right) or 0."""
        if int(observation["relative_time"]) == 0:
            self._begin()
        env, state = planning_env.unwrapped, np.asarray(observation["state"], float)
        self.may_have_changed |= _may_have_changed(observation, planning_env)
        motion = self.linear_motion(env.gravity, env.masscart, env.masspole, env.length, env.force_mag)
        if self.last is not None:
            before, push = self.last
            seen = np.array([before[2], push])
            keep = np.exp(-1.0 / self.memory)
            self.squares = keep * self.squares + np.outer(seen, seen)
            self.products = keep * self.products + np.outer(seen, (state - before)[[1, 3]] / env.tau)
        if self.may_have_changed:
            prior = np.diag(_PRIOR)
            motion = np.asarray(np.linalg.solve(self.squares + prior, self.products + prior @ motion), np.float64)
        action = int(self.gain(motion, env.tau) @ state > 0.0)
        self.last = (state, 2.0 * action - 1.0)
        return action

    @staticmethod
    def linear_motion(
        gravity: float, masscart: float, masspole: float, length: float, force: float
    ) -> NDArray[np.float64]:
        """Accelerations of cart and pole (columns) by the angle and by a push to the right (rows).

        The equations of motion are those of Barto, Sutton and Anderson (1983), linear about the upright pole.
        """
        total = masscart + masspole
        tilt = length * (4.0 / 3.0 - masspole / total)
        share = masspole * length / total  # of the pole's angular acceleration that the cart takes up
        pole = np.array([gravity / tilt, -force / (total * tilt)])
        return np.column_stack([np.array([0.0, force / total]) - share * pole, pole])

    def gain(self, motion: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
        """The gains on position, velocity, angle and angular velocity, by value iteration of the Riccati equation."""
        A, B = np.eye(4), np.zeros(4)
        A[0, 1] = A[2, 3] = tau
        A[[1, 3], 2], B[[1, 3]] = tau * motion
        value, gain = self.value, B
        for _ in range(2_000):
            gain = (B @ value @ A) / (_EFFORT + B @ value @ B)
            after = _COST + A.T @ value @ (A - np.outer(B, gain))
            if np.abs(after - value).max() <= 1e-6 * np.abs(after).max():
                break
            value = after
        self.value = value
        return -gain


_COST = np.diag([1.0 / 2.4**2, 0.0, 1.0 / 0.2095**2, 0.0])  # of position and angle, in units of their limits
_EFFORT = 0.01  # cost of a push
_PRIOR = np.array([0.05**2, 1.0])  # the weight of one step with an angle of 0.05


def _may_have_changed(observation: Any, planning_env: Any) -> bool:
    """Whether the present env may differ from the planning env: it is not exact, and no notification rules it out."""
    if planning_env.delta_change_notification:
        return False
    return not planning_env.change_notification or any(observation["env_change"].values())


_AGENT = '''"""Planners of dqucb (pip install dqucb) as agents of the competition."""

from AAMAS_Comp.base_agent import ModelBasedAgent, ModelFreeAgent


class MyModelBasedAgent(ModelBasedAgent):
    """Acts as a planner of dqucb does."""

    def __init__(self, planner=None):
        super().__init__()
        self.planner = planner

    def get_action(self, obs, planning_env):
        return int(self.planner(obs, planning_env))

    def set_seed(self, seed):
        """Nothing is drawn."""


class MyModelFreeAgent(ModelFreeAgent):
    """Not used."""
'''
_SUBMISSION = '''"""The entry of dqucb for FrozenLake and CartPole; there is none for Ant."""

from AAMAS_Comp.agent import MyModelBasedAgent
from dqucb.envs import LakePlanner, PolePlanner

PLANNERS = {"FrozenLake-v1": LakePlanner, "CartPole-v1": PolePlanner}


def get_agent(env_id: str):
    """A new agent for an env of the competition."""
    if env_id not in PLANNERS:
        raise ValueError(f"{env_id} not in: {', '.join(PLANNERS)}")
    return MyModelBasedAgent(PLANNERS[env_id]())
'''


def write_ns_gym_entry(folder: str | Path) -> list[Path]:
    """Write the two files of an entry into a copy of the competition's template.

    Parameters
    ----------
    folder : str or Path
        A clone of `ns-gym-comp-template`; `submission.py` and `src/AAMAS_Comp/agent.py` are replaced.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile
    >>> from dqucb.envs import write_ns_gym_entry
    >>> [path.name for path in write_ns_gym_entry(tempfile.mkdtemp())]
    ['submission.py', 'agent.py']
    """
    folder = Path(folder)
    files = {folder / "submission.py": _SUBMISSION, folder / "src" / "AAMAS_Comp" / "agent.py": _AGENT}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(files)
