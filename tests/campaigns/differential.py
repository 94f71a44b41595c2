"""A search for silent errors: `python -m tests.campaigns.differential --trials 10000`.

Each trial draws a small problem (terminal states, negative and large rewards, steps that differ, random starts,
discounts, changes; for allocation agents a hospital system) and an agent, and trains it by every way in. All ways must
give the same bits, and the records must be those of `differential_reference`, which shares no code with the library:

- first: the way that the others are compared with, the compiled loop of tabular agents;
- env, wrapped, factory: the same problem as a Gymnasium env, behind a wrapper that only looks, from a function;
- foreign, own loop: an env whose problem is hidden, and `start`, `act`, `observe` and `end_episode` by hand;
- resumed, saved: stopped at a random moment and continued, by the same agent and by one from a file;
- lockstep: three seeds by `train_seeds`;
- threads, processes, dask: through `compare`, all agents of a kind and two seeds each in one pool of workers;
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
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from dqucb.agents.confidence import NeedsHorizonError
from tests.campaigns.differential_trials import DisagreementError, TabularTrial, Trial, agent_names, new_trial
from tests.campaigns.differential_ways import PAIRED, TABULAR_WAYS, WAYS, Check, pooled

ERRORS = 4.0  # standard errors by which mean regrets may differ


class Tally:
    """What was checked, and what was found."""

    def __init__(self) -> None:
        self.done: collections.Counter[tuple[str, str]] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.differences: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
        self.problems: list[str] = []

    def table(self) -> str:
        """How often each agent went each way."""
        names, ways = (
            list(dict.fromkeys(name for name, _ in self.done)),
            list(dict.fromkeys(way for _, way in self.done)),
        )
        lines = [f"| agent | {' | '.join(ways)} |", f"|---|{'---|' * len(ways)}"]
        lines += [f"| {name} | {' | '.join(str(self.done[name, way] or '-') for way in ways)} |" for name in names]
        return "\n".join(lines)

    def unlike(self) -> Iterator[str]:
        """Agents whose mean regret changes with the form of the problem."""
        for (name, way), values in sorted(self.differences.items()):
            mean, error = np.mean(values), np.std(values) / np.sqrt(len(values)) + 1e-12
            if len(values) >= 20 and abs(mean) > ERRORS * error:
                size = f"{mean:.4f} of the possible, {mean / error:+.1f} standard errors of {len(values)} trials"
                yield f"{name}, {way}: mean regret differs by {size}"


def run_trial(
    number: int, seed: int, folder: Path, tally: Tally, ways: dict[str, Check], agent: str | None = None
) -> None:
    """All checks of one trial; what fails is noted."""
    trial = new_trial(number, seed, folder, agent)
    again = f"python -m tests.campaigns.differential --seed {seed} --trial {number}" + f" --agent {agent}" * bool(agent)
    try:
        for way, check in _checks(trial, ways).items():
            found = check(trial)
            if found is not False:
                tally.done.update((name, way) for name in (found or [trial.name]))
        for way, difference in PAIRED.items() if isinstance(trial, TabularTrial) else ():
            value = difference(trial)
            if value is not None:
                tally.differences[trial.name, way].append(value)
                tally.done[trial.name, way] += 1
    except NeedsHorizonError:
        tally.refused[trial.name] += 1  # its definition has no discount
    except DisagreementError as error:
        tally.problems.append(f"{error}\n  {trial}\n  {again}")
    except Exception:
        tally.problems.append(f"{traceback.format_exc()}\n  {trial}\n  {again}")


def _checks(trial: Trial, ways: dict[str, Check]) -> dict[str, Check]:
    return ways if isinstance(trial, TabularTrial) else {way: ways[way] for way in ways if way not in TABULAR_WAYS}


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
    tally, ways = Tally(), WAYS | TABULAR_WAYS
    began = time.process_time()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        add_dask(ways, stack)
        for count, number in enumerate(numbers, 1):
            known = len(tally.problems)
            run_trial(number, given.seed, folder, tally, ways, given.agent)
            for text in tally.problems[known : given.most_shown]:
                print(f"DISAGREEMENT {text}\n", flush=True)
            if count % 500 == 0:
                seconds = time.process_time() - began
                print(f"{count} trials, {len(tally.problems)} disagreements, {seconds:.0f} s CPU", flush=True)
    for text in tally.unlike():
        tally.problems.append(text)
        print("DISAGREEMENT", text)
    print(tally.table())
    print("no discount in their definition:", dict(tally.refused))
    agents = len(agent_names())
    print(f"{len(numbers)} trials, {agents} agents, {tally.done.total()} checks, {len(tally.problems)} disagreements")
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

    def way_dask(trial: Trial) -> bool | list[str]:
        return pooled(trial, "dask", backend="dask", scheduler=cluster.scheduler_address)

    ways["dask"] = way_dask


if __name__ == "__main__":
    sys.exit(main())
