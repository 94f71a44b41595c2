"""What each part of PlanningDQUCB is worth: the agent without it, on generated problems.

    python -m benchmarks.ablations [--seeds 6] [--first-seed 9700] [--families chain,garnet] [--only NAME] [--write]

A part is a kernel or a constant that is replaced before kernels are compiled, in a process with a cache of its own.
Problems, lengths and regret (`regret="pseudo"`, with a floor) are those of `reproduce/generated_arena.py`; each problem
has one run. The table has the geometric mean of the regret without a part over that with all parts, its 95 % interval
over problems (bootstrap), and the share of problems on which the regret more than doubles. `--write` puts it into
docs/ablations.md.
"""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).parent.parent / "docs" / "ablations.md"
KERNELS = "dqucb._kernels.learners.planning"
STEPS, MOST_EPISODES, FLOOR = 60_000, 20_000, 0.1  # as in the generated arena
NEVER = 1 << 62


class Ablation(NamedTuple):
    """What is replaced: (module, name, value), with a value or the name of a function here; parameters of the agent."""

    title: str
    patches: tuple[tuple[str, str, Any], ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()


ABLATIONS = {
    "all": Ablation("all parts"),
    "looks": Ablation("without looks", ((f"{KERNELS}.exploration", "look_again", "no_looks"),)),
    "worth": Ablation("without the learned worth of unseen outcomes (the bound counts instead)",
                      ((f"{KERNELS}.exploration", "learned_worth", "any_worth"),)),
    "unmet": Ablation("without the share for states never met",
                      ((f"{KERNELS}.exploration", "unmet_share", "no_share"),)),
    "bold": Ablation("without bold episodes", ((f"{KERNELS}.planning_dqucb", "FIRST_BOLD", NEVER),)),
    "uncertainty": Ablation("without optimism by variance (c = 0)",
                            ((f"{KERNELS}.optimistic_plan", "CONFIDENCE", 0.0),)),
    "models": Ablation("without the library of models", (("dqucb.agents.planning_dqucb", "N_WORLDS", 0),)),
    "kept": Ablation("forgetting everything at an alarm", ((f"{KERNELS}.change_test", "LEAST_KEPT", NEVER),)),
    "alarms": Ablation("without alarms", (), (("false_alarms", 1e-290),)),
    "steps": Ablation("steps of an episode always alike", (), (("stage_dependent", False),)),
}  # fmt: skip


def replacements() -> dict[str, Callable[..., Any]]:
    """Kernels that stand for a part that is left out."""
    from dqucb._kernels._jit import kernel

    @kernel
    def no_looks(work, values, planned, looked_at, cap, new):
        for state in range(values.shape[0]):
            looked_at[state] = planned[state]

    @kernel
    def any_worth(number, squares, bound):
        return math.inf

    @kernel
    def no_share(plan):
        return 0.0

    return {"no_looks": no_looks, "any_worth": any_worth, "no_share": no_share}


def regrets_without(name: str, families: list[str], seeds: range, steps: int) -> dict[str, float]:
    """Final regret by problem, in this process: nothing of the library may be compiled before."""
    ablation = ABLATIONS[name]
    for module, attribute, value in ablation.patches:
        part = importlib.import_module(module)
        if not hasattr(part, attribute):
            raise AttributeError(f"{module} has no {attribute}: the ablation {name!r} must follow the code")
        setattr(part, attribute, replacements()[value] if isinstance(value, str) else value)
    from dqucb import PlanningDQUCB
    from dqucb.experiments import make_problem

    found = {}
    for family in families:
        for seed in seeds:
            given = {"family": family, "seed": seed}
            horizon = make_problem("generated", given).horizon or 1
            episodes = min(MOST_EPISODES, max(60, steps // horizon))
            problem = make_problem("generated", given, length=episodes)
            agent = PlanningDQUCB(**dict(ablation.parameters))
            run = agent.train(problem, episodes=episodes, seed=1, regret="pseudo")
            values = [problem.optimal_values(i)[0, problem.model.initial_state[i]] for i in range(problem.n_phases)]
            least = 1e-9 + FLOOR * float(np.abs(values).max())
            still = "still" if problem.n_phases == 1 else "changing"
            found[f"{family} {seed} {still}"] = max(float(run.regret[-1]), least)
    return found


def in_a_process(name: str, arguments: list[str]) -> dict[str, float]:
    """The same in a new process with an empty cache of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.ablations", "--only", name, *arguments]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "DQUCB_QUIET": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return {problem: float(regret) for problem, regret in json.loads(done.stdout.splitlines()[-1]).items()}


def row(name: str, without: dict[str, float], whole: dict[str, float]) -> str:
    """A row of the table."""
    logs = {problem: math.log(without[problem] / whole[problem]) for problem in whole}
    cells = []
    for kind in ("", " still", " changing"):
        values = np.array([value for problem, value in logs.items() if problem.endswith(kind)])
        if not len(values):
            cells.append("-")
            continue
        draws = np.random.default_rng(0).choice(values, (2_000, len(values))).mean(axis=1)
        low, high = np.exp(np.quantile(draws, [0.025, 0.975]))
        cells.append(f"{math.exp(values.mean()):.2f} [{low:.2f}, {high:.2f}]")
    worse = np.mean([value > math.log(2.0) for value in logs.values()])
    return f"| {ABLATIONS[name].title} | {' | '.join(cells)} | {worse:.0%} |"


def main() -> None:
    """Measure, print, and write the page if asked for."""
    from dqucb.problems import FAMILIES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="problems of each family")
    parser.add_argument("--first-seed", type=int, default=9_700)
    parser.add_argument("--families", help="names, separated by commas")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a run")
    parser.add_argument("--parts", help=f"some of {', '.join(ABLATIONS)}")
    parser.add_argument("--only", choices=ABLATIONS, help="print the regrets of one as JSON, in this process")
    parser.add_argument("--write", action="store_true", help="put the table into docs/ablations.md")
    given = parser.parse_args()
    families = given.families.split(",") if given.families else list(FAMILIES)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    if given.only:
        print(json.dumps(regrets_without(given.only, families, seeds, given.steps)))
        return
    arguments = [f"--seeds={given.seeds}", f"--first-seed={given.first_seed}", f"--steps={given.steps}",
                 f"--families={','.join(families)}"]  # fmt: skip
    whole = in_a_process("all", arguments)
    still = sum(problem.endswith(" still") for problem in whole)
    lines = [f"| {len(whole)} problems, {still} still | all | still | changing | regret more than twice |",
             "|---|---|---|---|---|"]  # fmt: skip
    for name in given.parts.split(",") if given.parts else list(ABLATIONS)[1:]:
        lines.append(row(name, in_a_process(name, arguments), whole))
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(table)
    if given.write:
        before, _, rest = PAGE.read_text().partition("<!-- table -->\n")
        _, _, after = rest.partition("<!-- end -->\n")
        PAGE.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->\n{after}")


if __name__ == "__main__":
    main()
