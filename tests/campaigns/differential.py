"""A search for silent errors: `python -m tests.campaigns.differential --trials 10000`.

Each trial draws a small problem (terminal states, negative and large rewards, steps that differ, random starts,
discounts, changes) and an agent, and trains it by every way in. All ways must give the same bits, and the records must
be those of `differential_reference`, which shares no code with the library:

- table: the compiled loop, which the others are compared with;
- env, wrapped, factory: the same problem as a Gymnasium env, behind a wrapper that only looks, from a function;
- foreign, own loop: an env whose problem is hidden, and `start`, `act`, `observe` and `end_episode` by hand;
- resumed, saved: stopped at a random moment and continued, by the same agent and by one from a file;
- threads, processes, dask: through `compare` (some trials only, they are slow); lockstep: deep agents;
- metamorphic: rewards times a power of two, states renumbered, a state added that nothing leads to, a constant added to
  rewards, actions permuted. Where an agent's definition makes it so, runs must correspond exactly; else the mean regret
  over all trials must be the same up to four standard errors.

A disagreement is printed with the command that repeats it, and the exit code is 1.
"""

import argparse
import collections
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import RecordEpisodeStatistics

from dqucb import AGENTS, Agent, TabularAgent, compare
from dqucb.agents.confidence import BonusAgent, NeedsHorizonError
from dqucb.envs.tabular import TabularEnv
from dqucb.run import CURVES, Run
from tests.campaigns.differential_reference import Drawn, draw_problem, episode_values, optimum, policy_value

RARELY = {"threads": 10, "processes": 100, "dask": 100, "lockstep": 100}  # one trial in so many
ERRORS = 4.0  # standard errors by which mean regrets may differ
EXPLORING = ("q-learning", "dyna-q-plus", "random")  # act otherwise than `greedy_policy`
Check = Callable[["Trial"], bool | None]  # False: it does not apply to this problem or agent


class DisagreementError(AssertionError):
    """Two ways in that differ."""


class Hidden(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An env of which the library cannot know that it changes nothing."""


class Trial:
    """One problem, one agent, one seed; what one trial needs more than once is kept here."""

    def __init__(self, number: int, seed: int, folder: Path, agent: str | None = None) -> None:
        self.number, self.folder = number, folder
        self.rng = np.random.default_rng([seed, number])
        names = tabular_names()
        self.name = names[number % len(names)] if agent is None else agent
        self.drawn = draw_problem(self.rng)
        self.seed = int(self.rng.integers(1_000))
        self.options: dict[str, Any] = {}
        kind: Any = AGENTS[self.name]
        if issubclass(kind, BonusAgent):
            self.options["bonus_scale"] = float(self.rng.choice([0.0625, 0.25, 1.0]))
        self.agent: Agent = kind(**self.options)
        self.problem = self.drawn.problem()
        self.length = {self.drawn.unit: self.drawn.length}
        self.cut = int(self.rng.integers(1, self.drawn.length))
        self.table: Any = None  # the run of the compiled loop

    def run(self, problem: Any = None, **options: Any) -> Run:
        """A run of a new agent."""
        return self.trained(problem, **options)[1]

    def trained(self, problem: Any = None, agent: Agent | None = None, **options: Any) -> tuple[Agent, Run]:
        """A new agent and its run."""
        agent = self.agent.clone() if agent is None else agent
        problem = self.problem if problem is None else problem
        return agent, agent.train(problem, seed=self.seed, **self.length, **options)

    def same(self, what: str, found: Run, wanted: Run, names: tuple[str, ...] = (*CURVES, "alarms")) -> None:
        """Raise unless two runs agree bit for bit."""
        for name in names:
            if getattr(found, name).tobytes() != getattr(wanted, name).tobytes():
                raise DisagreementError(f"{what}: {name} differ from those of the compiled loop")

    def close(self, what: str, found: Any, wanted: Any) -> None:
        """Raise unless numbers agree up to rounding."""
        scale = 1e-9 * (1.0 + float(np.abs(wanted).max(initial=0.0)))
        if np.shape(found) != np.shape(wanted) or not np.allclose(found, wanted, rtol=1e-9, atol=scale):
            raise DisagreementError(f"{what}: {np.ravel(found)[:6]} is not {np.ravel(wanted)[:6]}")

    def __str__(self) -> str:
        return f"{self.agent!r} on {self.drawn}, seed {self.seed}"


def tabular_names() -> list[str]:
    """The agents that learn finite problems by themselves."""
    return [name for name, kind in AGENTS.items() if issubclass(kind, TabularAgent) and _is_general(kind)]


def _is_general(kind: Any) -> bool:
    return not kind.__module__.split(".")[1].startswith("hospital") and "allocation" not in kind.__module__


# ---- ways in ----------------------------------------------------------------------------------------------


def way_table(trial: Trial) -> None:
    """Curves, values and visits of the compiled loop against the reference."""
    agent, run = trial.trained()
    trial.table = run
    drawn = trial.drawn
    for phase in range(len(drawn.P)):
        values, q_values = optimum(drawn, phase)
        trial.close("optimal values", trial.problem.optimal_values(phase), values)
        trial.close("optimal Q", trial.problem.optimal_q(phase), q_values)
    if drawn.horizon is not None and np.ndim(drawn.initial) == 0:
        best = np.array([optimum(drawn, drawn.phase_at(k))[0][0][drawn.initial] for k in range(drawn.length)])
        trial.close("realized regret", run.gaps, best - run.returns)
    if hasattr(agent, "q_") and not np.isfinite(agent.q_).all():
        raise DisagreementError("q_ is not finite")
    if run.steps != run.lengths.sum() or (drawn.horizon is None and run.steps != drawn.length):
        raise DisagreementError("steps are not the sum of lengths")


def way_expected(trial: Trial) -> bool | None:
    """Expected regret: the same run, and the value of the policy that is followed after a random episode."""
    drawn = trial.drawn
    if drawn.horizon is None:
        return False
    run = trial.run(regret="expected")
    trial.same("regret='expected'", run, trial.table, ("returns", "lengths", "likelihood"))
    if np.ndim(drawn.initial) == 0 and trial.name not in EXPLORING:
        agent, _ = trial.trained(stop_at=trial.cut)
        phase = drawn.phase_at(trial.cut)
        best = optimum(drawn, phase)[0][0][drawn.initial]
        value = policy_value(drawn, phase, agent.greedy_policy())[0][drawn.initial]
        trial.close("expected regret", run.gaps[trial.cut], best - value)
    if run.gaps.min() < -1e-9 * (1 + np.abs(run.gaps).max()):
        raise DisagreementError(f"expected regret {run.gaps.min()} is negative")
    return None


def way_env(trial: Trial) -> None:
    """The problem as an env object."""
    trial.same("env", trial.run(TabularEnv(trial.problem)), trial.table)


def way_wrapped(trial: Trial) -> None:
    """The env behind a wrapper that only looks."""
    env = RecordEpisodeStatistics(TabularEnv(trial.problem))
    trial.same("wrapped", trial.run(env), trial.table)


def way_factory(trial: Trial) -> None:
    """A function that makes the env."""
    trial.same("factory", trial.run(lambda: TabularEnv(trial.problem)), trial.table)


def way_foreign(trial: Trial) -> None:
    """An env whose problem is hidden, and the same by hand."""
    drawn = trial.drawn
    ends: dict[str, Any] = {"horizon": drawn.horizon, "discount": drawn.discount}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        agent, run = trial.trained(lambda: Hidden(TabularEnv(trial.problem)), **ends)
        by_hand = trial.agent.clone()
        by_hand.start(drawn.n_states, drawn.n_actions, **ends, length=drawn.length)
        generator = np.random.default_rng([trial.seed, 1])
        by_hand._started().rng.bit_generator.state = generator.bit_generator.state
        returns = _by_hand(by_hand, TabularEnv(trial.problem), trial)
    trial.close("returns of a loop by hand", returns, float(run.returns.sum()))
    for name in ("q_", "visits_"):
        if hasattr(agent, name):
            trial.close(f"{name} of a loop by hand", getattr(by_hand, name), getattr(agent, name))
    if not np.isnan(run.gaps).all():
        raise DisagreementError("regret of an env that does not state it must be unknown")


def _by_hand(agent: Any, env: TabularEnv, trial: Trial) -> float:
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


def way_resumed(trial: Trial) -> None:
    """Stopped at a random moment, and continued."""
    agent, _ = trial.trained(stop_at=trial.cut)
    trial.same("resumed", trial.trained(agent=agent)[1], trial.table)


def way_saved(trial: Trial) -> None:
    """Stopped, saved, loaded and continued; and a checkpoint."""
    agent, _ = trial.trained(stop_at=trial.cut)
    path = agent.save(trial.folder / "agent.npz")
    trial.same("saved and loaded", trial.trained(agent=Agent.load(path))[1], trial.table)
    checkpoint = trial.folder / f"{trial.number}.checkpoint"
    trial.run(stop_at=trial.cut, checkpoint=checkpoint)
    trial.same("checkpoint", trial.run(checkpoint=checkpoint), trial.table)
    checkpoint.unlink()


def _compared(trial: Trial, what: str, **options: Any) -> None:
    made = compare({"it": trial.agent}, trial.problem, seeds=[trial.seed, trial.seed + 1], **trial.length, **options)
    trial.same(what, made.load_run("it", trial.seed), trial.table)
    alone = trial.agent.clone().train(trial.problem, seed=trial.seed + 1, **trial.length)
    trial.same(f"{what}, second seed", made.load_run("it", trial.seed + 1), alone)


def way_threads(trial: Trial) -> None:
    """Through `compare`, in threads, with a folder that is read again."""
    with tempfile.TemporaryDirectory(dir=trial.folder) as folder:
        _compared(trial, "threads", backend="threads", jobs=2, out=folder)
        _compared(trial, "read again", jobs=1, out=folder)


def way_processes(trial: Trial) -> None:
    """Through `compare`, in processes."""
    _compared(trial, "processes", jobs=2)


def way_lockstep(trial: Trial) -> None:
    """Seeds of a deep agent in one batch and alone."""
    from dqucb.deep import DQN, DeepDQUCB
    from dqucb.envs import CartPoleEnv

    kind = (DQN, DeepDQUCB)[trial.number % 2]
    settings: dict[str, Any] = {"hidden": (8,), "batch": 8, "learning_starts": 20, "epsilon_steps": 100}
    seeds = [trial.seed, trial.seed + 1, trial.seed + 5]
    change = int(trial.rng.integers(1, 5))
    together = kind(**settings).train_seeds(lambda: CartPoleEnv(change_at=change), seeds, episodes=5)
    for run in together[:: 2 if trial.number % 3 else 1]:
        alone = kind(**settings).train(lambda: CartPoleEnv(change_at=change), seed=run.seed, episodes=5)
        if not np.array_equal(alone.lengths, run.lengths):
            raise DisagreementError(f"{kind.__name__} in lockstep: lengths differ from those of the seed alone")


# ---- metamorphic checks -----------------------------------------------------------------------------------


def changed_scale(trial: Trial) -> bool | None:
    """Rewards times 8, with a bonus 8 times as large: every return is, and every length is the same."""
    if trial.drawn.largest_reward < 1.0:  # bounds allow for rewards of 1 at least
        return False
    scale = trial.agent.get_params().get("bonus_scale")
    options = {} if scale is None or trial.name == "psrl" else {"bonus_scale": 8.0 * scale}  # PSRL's is a factor
    agent: Any = trial.agent.clone(**options)
    run = agent.train(trial.drawn.times(8.0).problem(), seed=trial.seed, **trial.length)
    _correspond(trial, "rewards times 8", run, 8.0)
    return None


def renumbered(trial: Trial) -> bool | None:
    """States under other numbers."""
    if trial.name in READ_STATE_NUMBERS or np.ndim(trial.drawn.initial) != 0 or not trial.drawn.distinct:
        return False
    order = trial.rng.permutation(trial.drawn.n_states)
    run = trial.run(trial.drawn.renumbered(order).problem())
    _correspond(trial, "states renumbered", run)
    return None


def with_idle_state(trial: Trial) -> bool | None:
    """A state that nothing leads to, numbered last."""
    counts = trial.drawn.horizon is None and isinstance(trial.agent, BonusAgent)  # iota counts pairs
    if counts or trial.name in COUNT_STATES:
        return False
    _correspond(trial, "an idle state", trial.run(trial.drawn.with_idle_state().problem()))
    return None


def _correspond(trial: Trial, what: str, run: Run, factor: float = 1.0) -> None:
    table: Run = trial.table
    if not np.array_equal(run.lengths, table.lengths):
        raise DisagreementError(f"{what}: lengths differ")
    trial.close(f"{what}: returns", run.returns, factor * table.returns)
    trial.close(f"{what}: regret", run.gaps, factor * table.gaps)


def shifted(trial: Trial) -> float | None:
    """A constant added to all rewards: regret stays the same, where no episode ends early."""
    drawn = trial.drawn
    if drawn.horizon is None or drawn.terminal.any():
        return None
    constant = float(trial.rng.choice([-2.0, 1.0, 5.0]))
    return _more_regret(trial, drawn.plus(constant))


def permuted(trial: Trial) -> float | None:
    """Actions under other numbers; ties go to the lowest, so that single runs differ."""
    if trial.drawn.horizon is None:
        return None
    return _more_regret(trial, trial.drawn.permuted(trial.rng.permutation(trial.drawn.n_actions)))


def _more_regret(trial: Trial, drawn: Drawn) -> float:
    """By how much expected regret is larger on another form of the problem, in units of the largest possible one."""
    regrets = []
    for form in (trial.drawn, drawn):
        run = trial.agent.clone().train(form.problem(), seed=trial.seed, regret="expected", **trial.length)
        regrets.append(float(run.gaps.sum()))
    spread = sum(float(np.ptp(episode_values(trial.drawn, trial.drawn.phase_at(k)))) for k in range(trial.drawn.length))
    return (regrets[1] - regrets[0]) / spread if spread > 1e-9 else 0.0


# Agents that a change of form changes, by their definition.
READ_STATE_NUMBERS = {
    "dqucb": "its kernel measures distances between the numbers of states",
    "psrl": "draws are made for one state after the other",
}
COUNT_STATES = {
    "master": "rho counts pairs",
    "planning-dqucb": "the false-alarm rate is that of all pairs together",
    "probe-restart": "the number of probes follows from that of the states",
    "psrl": "an outcome never seen leads to a state that is drawn",
    "r-bocpd-ucrl2": "the false-alarm rate is that of all pairs together",
    "restart-qucb": "the number of restarts follows from that of the states",
}
SHIFT_MATTERS = {
    ("q-learning", "rewards + constant"): "its values start at zero, high for negative rewards and low for others"
}

WAYS: dict[str, Check] = {
    "table": way_table,
    "expected": way_expected,
    "env": way_env,
    "wrapped": way_wrapped,
    "factory": way_factory,
    "foreign, own loop": way_foreign,
    "resumed": way_resumed,
    "saved": way_saved,
    "threads": way_threads,
    "processes": way_processes,
    "lockstep": way_lockstep,
    "rewards x 8": changed_scale,
    "renumbered": renumbered,
    "idle state": with_idle_state,
}
PAIRED: dict[str, Callable[[Trial], float | None]] = {"rewards + constant": shifted, "actions permuted": permuted}


# ---- running ----------------------------------------------------------------------------------------------


class Tally:
    """What was checked, and what was found."""

    def __init__(self) -> None:
        self.done: collections.Counter[tuple[str, str]] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.differences: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
        self.problems: list[str] = []

    def table(self) -> str:
        """How often each agent went each way."""
        names, ways = sorted({name for name, _ in self.done}), list(dict.fromkeys(way for _, way in self.done))
        lines = [f"| agent | {' | '.join(ways)} |", f"|---|{'---|' * len(ways)}"]
        lines += [f"| {name} | {' | '.join(str(self.done[name, way]) for way in ways)} |" for name in names]
        return "\n".join(lines)

    def unlike(self) -> Iterator[str]:
        """Agents whose mean regret changes with the form of the problem."""
        for (name, way), values in sorted(self.differences.items()):
            mean, error = np.mean(values), np.std(values) / np.sqrt(len(values)) + 1e-12
            if len(values) >= 20 and abs(mean) > ERRORS * error and (name, way) not in SHIFT_MATTERS:
                size = f"{mean:.4f} of the possible, {mean / error:+.1f} standard errors"
                yield f"{name}, {way}: mean regret differs by {size}"


def run_trial(
    number: int, seed: int, folder: Path, tally: Tally, ways: dict[str, Check], agent: str | None = None
) -> None:
    """All checks of one trial; what fails is noted."""
    trial = Trial(number, seed, folder, agent)
    again = f"python -m tests.campaigns.differential --seed {seed} --trial {number}" + f" --agent {agent}" * bool(agent)
    try:
        for way, check in ways.items():
            turn = (number // len(tabular_names()) + number) % RARELY.get(way, 1)
            if (turn == 0 or way not in RARELY) and check(trial) is not False:
                tally.done[trial.name, way] += 1
        for way, difference in PAIRED.items():
            found = difference(trial)
            if found is not None:
                tally.differences[trial.name, way].append(found)
                tally.done[trial.name, way] += 1
    except NeedsHorizonError:
        tally.refused[trial.name] += 1  # its definition has no discount
    except DisagreementError as error:
        tally.problems.append(f"{error}\n  {trial}\n  {again}")
    except Exception:
        tally.problems.append(f"{traceback.format_exc()}\n  {trial}\n  {again}")


def main() -> int:
    """Run the trials; 1 if anything disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="only this one")
    parser.add_argument("--agent", help="only this one")
    parser.add_argument("--most-shown", type=int, default=20)
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.trials) if given.trial is None else [given.trial]
    tally, ways = Tally(), dict(WAYS)
    began = time.process_time()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if len(numbers) >= RARELY["dask"]:
            add_dask(ways, stack)
        for count, number in enumerate(numbers, 1):
            known = len(tally.problems)
            run_trial(number, given.seed, folder, tally, ways, given.agent)
            for text in tally.problems[known : given.most_shown]:
                print(f"DISAGREEMENT {text}\n", flush=True)
            if count % 500 == 0:
                seconds = time.process_time() - began
                print(f"{count} trials, {len(tally.problems)} disagreements, {seconds:.0f} s CPU", flush=True)
    tally.problems += tally.unlike()
    print(tally.table())
    print("no discount in their definition:", dict(tally.refused))
    for text in list(tally.unlike()):
        print("DISAGREEMENT", text)
    print(f"{len(numbers)} trials, {sum(tally.done.values())} checks, {len(tally.problems)} disagreements")
    return 1 if tally.problems else 0


def add_dask(ways: dict[str, Check], stack: ExitStack) -> None:
    """The way through a Dask cluster of two workers, where the package is installed."""
    try:
        import distributed
    except ImportError:
        return
    cluster = stack.enter_context(
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    )

    def way_dask(trial: Trial) -> None:
        _compared(trial, "dask", backend="dask", scheduler=cluster.scheduler_address)

    ways["dask"] = way_dask


if __name__ == "__main__":
    sys.exit(main())
