"""Ways in that must agree, and forms of one problem whose runs must correspond: checks of the differential campaign.

A check returns False where it does not apply, and the names of all agents that it checked where those are several.
"""

import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from dqucb import Agent, compare
from dqucb.agents.confidence import BonusAgent, NeedsHorizonError
from tests.campaigns.differential_reference import (
    Drawn,
    episode_values,
    exploring_policy,
    optimum,
    policy_value,
)
from tests.campaigns.differential_trials import AllocationTrial, DisagreementError, TabularTrial, Trial

Check = Callable[[Any], bool | list[str] | None]


class Hidden(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An env of which the library cannot know that it changes nothing."""


class Recorder(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An env that notes its transitions (episode, step, state, action, reward, next state)."""

    changes_transitions = False

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.rows: list[tuple[int, int, Any, Any, float, Any]] = []
        self.episode, self.step_number, self.state = -1, 0, None

    def reset(self, **options: Any) -> Any:
        self.state, info = self.env.reset(**options)
        self.episode, self.step_number = self.episode + 1, 0
        return self.state, info

    def step(self, action: Any) -> Any:
        after, reward, *rest = self.env.step(action)
        self.rows.append((self.episode, self.step_number, self.state, action, float(reward), after))
        self.state, self.step_number = after, self.step_number + 1
        return (after, reward, *rest)


# ---- ways in of every agent -------------------------------------------------------------------------------


def way_first(trial: Trial) -> None:
    """The run that all others are compared with: of a tabular agent the compiled loop."""
    agent, run = trial.trained()
    trial.table = run
    if hasattr(agent, "q_") and not np.isfinite(agent.q_).all():
        raise DisagreementError("q_ is not finite")
    if run.steps != run.lengths.sum() or ("steps" in trial.length and run.steps != trial.units):
        raise DisagreementError("steps are not the sum of lengths")


def way_env(trial: Trial) -> None:
    """The problem as an env object."""
    trial.same("env", trial.run(trial.env()))


def way_factory(trial: Trial) -> None:
    """A function that makes the env."""
    trial.same("factory", trial.run(lambda: trial.env()))


def way_resumed(trial: Trial) -> None:
    """Stopped at a random moment, and continued."""
    agent, _ = trial.trained(stop_at=trial.cut)
    trial.same("resumed", trial.trained(agent=agent)[1])


def way_saved(trial: Trial) -> None:
    """Stopped, saved, loaded and continued; and a checkpoint."""
    agent, _ = trial.trained(stop_at=trial.cut)
    path = agent.save(trial.folder / "agent.npz")
    trial.same("saved and loaded", trial.trained(agent=Agent.load(path))[1])
    checkpoint = trial.folder / f"{trial.number}.checkpoint"
    trial.run(stop_at=trial.cut, checkpoint=checkpoint)
    trial.same("checkpoint", trial.run(checkpoint=checkpoint))
    checkpoint.unlink()


def way_lockstep(trial: Trial) -> None:
    """Three seeds by `train_seeds`, which deep agents train in one batch, and each alone."""
    seeds = [trial.seed, trial.seed + 1, trial.seed + 5]
    together = trial.agent.clone().train_seeds(trial.problem, seeds, **trial.length)
    trial.same("lockstep", together[0])
    for seed, run in zip(seeds[1:], together[1:], strict=True):
        trial.same(f"lockstep, seed {seed}", run, trial.agent.clone().train(trial.problem, seed=seed, **trial.length))


def way_wrapped(trial: Trial) -> None:
    """The env behind a wrapper that only looks; what it saw adds up to what the run holds."""
    env = Recorder(trial.env())
    run = trial.run(env)
    trial.same("wrapped", run)
    if not isinstance(trial, AllocationTrial):
        rewards = np.array([row[4] for row in env.rows])
        trial.close("returns", run.returns, np.add.reduceat(rewards, np.cumsum(run.lengths) - run.lengths))
    if isinstance(trial, TabularTrial):
        _regret_of_transitions(trial, env.rows)


def _regret_of_transitions(trial: TabularTrial, rows: list[Any]) -> None:
    """Realized regret from the transitions, and whether the problem allows them."""
    drawn, best = trial.drawn, [optimum(trial.drawn, phase) for phase in range(len(trial.drawn.P))]
    gaps = []
    for count, (episode, step, state, action, reward, after) in enumerate(rows):
        phase = drawn.phase_at(episode if drawn.horizon is not None else count)
        place = (step if len(drawn.P[phase]) > 1 else 0, state, action, after)
        if drawn.P[phase][place] == 0.0 or reward != drawn.R[phase][place]:
            raise DisagreementError(f"transition {state, action, reward, after} is not one of the problem")
        values, q_values = best[phase]
        if drawn.horizon is None:
            gaps.append(values[state] - q_values[state, action])
        elif step == 0:
            gaps.append(values[0, state] - reward)
        else:
            gaps[-1] -= reward
    trial.close("realized regret", trial.table.gaps, np.array(gaps))


def pooled(trial: Trial, what: str, **options: Any) -> bool | list[str]:
    """All agents of a kind on one problem through `compare`, two seeds each, and each run alone."""
    agents, alone = {}, {}
    for name in trial.mates():
        agent = trial.new_agent(name)
        try:
            for seed in (trial.seed, trial.seed + 1):
                alone[name, seed] = agent.clone().train(trial.problem, seed=seed, **trial.length)
        except NeedsHorizonError:
            continue
        agents[name] = agent
    if not agents:
        return False
    seeds = [trial.seed, trial.seed + 1]
    made = compare(agents, trial.problem, seeds=seeds, version="1", **trial.length, **trial.compared, **options)
    for (name, seed), run in alone.items():
        trial.same(f"{what}: {name}, seed {seed}", made.load_run(name, seed), run)
    return list(agents)


def way_threads(trial: Trial) -> bool | list[str]:
    """Through `compare`, in threads, with a folder that is read again."""
    with tempfile.TemporaryDirectory(dir=trial.folder) as folder:
        pooled(trial, "threads", backend="threads", jobs=2, out=folder)
        return pooled(trial, "read again", jobs=1, out=folder)


def way_processes(trial: Trial) -> bool | list[str]:
    """Through `compare`, in processes."""
    return pooled(trial, "processes", jobs=2)


# ---- ways in of tabular agents ----------------------------------------------------------------------------


def way_values(trial: TabularTrial) -> None:
    """Optimal values against the reference."""
    for phase in range(len(trial.drawn.P)):
        values, q_values = optimum(trial.drawn, phase)
        trial.close("optimal values", trial.problem.optimal_values(phase), values)
        trial.close("optimal Q", trial.problem.optimal_q(phase), q_values)


def way_expected(trial: TabularTrial) -> None:
    """Expected regret: the same run, and the value of the policy that is followed after a random moment."""
    drawn = trial.drawn
    run = trial.run(regret="expected")
    trial.same("regret='expected'", run, names=("returns", "lengths", "likelihood"))
    agent: Any = trial.trained(stop_at=trial.cut)[0]
    phase = drawn.phase_at(trial.cut)
    epsilon = 1.0 if trial.name == "random" else agent.get_params().get("epsilon", 0.0)
    policy = exploring_policy(agent.q_, epsilon) if epsilon else np.eye(drawn.n_actions)[agent.greedy_policy()]
    policy = getattr(agent, "policy_", policy)
    lost = optimum(drawn, phase)[0] - policy_value(drawn, phase, policy)
    lost = lost if drawn.horizon is None else lost[0]
    recorder = Recorder(trial.env())
    trial.run(recorder)
    states = [row[2] for row in recorder.rows if drawn.horizon is None or row[1] == 0]
    trial.close("expected regret", run.gaps[trial.cut], lost[states[trial.cut]])
    if run.gaps.min() < -1e-9 * (1 + np.abs(run.gaps).max()):
        raise DisagreementError(f"expected regret {run.gaps.min()} is negative")


def way_foreign(trial: TabularTrial) -> None:
    """An env whose problem is hidden, and the same by hand."""
    drawn = trial.drawn
    ends: dict[str, Any] = {"horizon": drawn.horizon, "discount": drawn.discount}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        agent, run = trial.trained(lambda: Hidden(trial.env()), **ends)
        by_hand: Any = trial.agent.clone()
        by_hand.start(drawn.n_states, drawn.n_actions, **ends, length=drawn.length)
        generator = np.random.default_rng([trial.seed, 1])
        by_hand._started().rng.bit_generator.state = generator.bit_generator.state
        returns = _by_hand(by_hand, trial.env(), trial)
    trial.close("returns of a loop by hand", returns, float(run.returns.sum()))
    for name in ("q_", "visits_"):
        if hasattr(agent, name):
            trial.close(f"{name} of a loop by hand", getattr(by_hand, name), getattr(agent, name))
    if not np.isnan(run.gaps).all():
        raise DisagreementError("regret of an env that does not state it must be unknown")


def _by_hand(agent: Any, env: Any, trial: TabularTrial) -> float:
    """The loop that the documentation shows; the sum of all rewards."""
    state, _ = env.reset(seed=trial.seed)
    total, episodes, steps, step = 0.0, 0, 0, 0
    horizon = trial.drawn.horizon
    while (episodes if horizon is not None else steps) < trial.drawn.length:
        action = agent.act(state, step if horizon is not None else 0)
        after, reward, terminated, truncated, _ = env.step(action)
        agent.observe(state, action, reward, after, step if horizon is not None else 0, terminated)
        state, total, steps, step = after, total + reward, steps + 1, step + 1
        if terminated or truncated or step == horizon:
            agent.end_episode()
            state, step, episodes = env.reset()[0], 0, episodes + 1
    return total


# ---- metamorphic checks -----------------------------------------------------------------------------------

# Agents that another form of a problem changes by their definition, which docs/reliability.md repeats with the source.
READ_STATE_NUMBERS = {"dqucb": "its density is a kernel over the numbers of states"}
DRAW_BY_STATE = {"psrl": "one model is drawn state by state, so that single runs differ"}
SCALED = {"psrl", "sw-ucrl2-cw", "borl"}  # their `bonus_scale` is a factor, not a size in units of rewards
COUNT_STATES = {
    "borl": "the widths of its confidence sets and its blocks follow from the number of states",
    "master": "rho(t) holds the number of pairs",
    "partial-restart": "the number of restarts follows from that of the pairs",
    "planning-dqucb": "an outcome not seen yet may lead to any state, and the false-alarm rate is shared by all pairs",
    "probe-restart": "the false-alarm rate is shared by all pairs",
    "psrl": "its prior gives every state a share of each outcome",
    "r-bocpd-ucrl2": "the false-alarm rate is shared by all pairs",
    "restart-qucb": "the number of restarts follows from that of the pairs",
    "rlcd": "a pair that a model has not met leads to all states alike",
    "sw-ucrl2-cw": "the widths of its confidence sets and its window follow from the number of states",
}


def changed_scale(trial: TabularTrial) -> bool | None:
    """Rewards times 8, with a bonus 8 times as large: every return is, and every length is the same."""
    if trial.drawn.largest_reward < 1.0:  # bounds allow for rewards of 1 at least, as published ones do
        return False
    scale = trial.agent.get_params().get("bonus_scale")
    options = {} if scale is None or trial.name in SCALED else {"bonus_scale": 8.0 * scale}
    agent: Any = trial.agent.clone(**options)
    run = agent.train(trial.drawn.times(8.0).problem(), seed=trial.seed, **trial.length)
    _correspond(trial, "rewards times 8", run, 8.0)
    return None


def renumbers_exactly(trial: TabularTrial) -> bool:
    """Whether the random numbers of a run mean the same with states under other numbers."""
    return trial.name not in DRAW_BY_STATE and np.ndim(trial.drawn.initial) == 0 and trial.drawn.distinct


def renumbered(trial: TabularTrial) -> bool | None:
    """States under other numbers."""
    if trial.name in READ_STATE_NUMBERS or not renumbers_exactly(trial):
        return False
    order = trial.rng.permutation(trial.drawn.n_states)
    _correspond(trial, "states renumbered", trial.run(trial.drawn.renumbered(order).problem()))
    return None


def with_idle_state(trial: TabularTrial) -> bool | None:
    """A state that nothing leads to, numbered last."""
    counts = trial.drawn.horizon is None and isinstance(trial.agent, BonusAgent)  # iota counts pairs
    if counts or trial.name in COUNT_STATES:
        return False
    _correspond(trial, "an idle state", trial.run(trial.drawn.with_idle_state().problem()))
    return None


def _correspond(trial: Trial, what: str, run: Any, factor: float = 1.0) -> None:
    if not np.array_equal(run.lengths, trial.table.lengths):
        raise DisagreementError(f"{what}: lengths differ")
    trial.close(f"{what}: returns", run.returns, factor * trial.table.returns)
    trial.close(f"{what}: regret", run.gaps, factor * trial.table.gaps)


def shifted(trial: TabularTrial) -> float | None:
    """A constant added to all rewards: regret stays the same, where no episode ends early.

    QLearning and DynaQPlus start at zero, which is high for negative rewards and low for others: with
    `optimistic=True`, as all others do, they start at the bound.
    """
    drawn = trial.drawn
    if drawn.terminal.any():
        return None
    options = {"optimistic": True} if "optimistic" in trial.agent.get_params() else {}
    return _more_regret(trial, drawn.plus(float(trial.rng.choice([-2.0, 1.0, 5.0]))), **options)


def permuted(trial: TabularTrial) -> float | None:
    """Actions under other numbers; ties go to the lowest, so that single runs differ."""
    return _more_regret(trial, trial.drawn.permuted(trial.rng.permutation(trial.drawn.n_actions)))


def renumbered_mean(trial: TabularTrial) -> float | None:
    """States under other numbers, where single runs differ."""
    if trial.name in READ_STATE_NUMBERS or renumbers_exactly(trial):
        return None
    return _more_regret(trial, trial.drawn.renumbered(trial.rng.permutation(trial.drawn.n_states)))


def _more_regret(trial: TabularTrial, drawn: Drawn, **options: Any) -> float:
    """By how much expected regret is larger on another form of the problem, in units of the largest possible one."""
    regrets = []
    for form in (trial.drawn, drawn):
        agent: Any = trial.agent.clone(**options)
        run = agent.train(form.problem(), seed=trial.seed, regret="expected", **trial.length)
        regrets.append(float(run.gaps.sum()))
    phases = [trial.drawn.phase_at(k) for k in range(trial.drawn.length)]
    possible = sum(phases.count(phase) * float(np.ptp(episode_values(trial.drawn, phase))) for phase in set(phases))
    return (regrets[1] - regrets[0]) / possible if possible > 1e-9 else 0.0


WAYS: dict[str, Check] = {
    "first": way_first,
    "env": way_env,
    "wrapped": way_wrapped,
    "factory": way_factory,
    "resumed": way_resumed,
    "saved": way_saved,
    "lockstep": way_lockstep,
    "threads": way_threads,
    "processes": way_processes,
}
TABULAR_WAYS: dict[str, Check] = {
    "values": way_values,
    "expected": way_expected,
    "foreign, own loop": way_foreign,
    "rewards x 8": changed_scale,
    "renumbered": renumbered,
    "idle state": with_idle_state,
}
PAIRED: dict[str, Callable[[Any], float | None]] = {
    "rewards + constant": shifted,
    "actions permuted": permuted,
    "renumbered, mean": renumbered_mean,
}
