"""Ahead-of-time compilation of kernels: which ones, and the command that a build runs.

`python -m dqucb.aot` fills the folder that `dqucb._kernels._cache` looks into first. Every variant of every
agent is used once on a small problem, in processes that compile for the baseline CPU, and what they leave in their
cache is shipped, so that no list of kernels or signatures is needed.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dqucb import _validate
from dqucb._kernels import _cache
from dqucb.agents.tabular import TabularAgent
from dqucb.base import AGENTS
from dqucb.density import TransitionCounts
from dqucb.problems import Problem, gridworld
from dqucb.problems.planning import evaluate_policy, policy_return, solve

# Options other than `stage_dependent` that choose a kernel, among those that are worth a second of every build; most
# options only go into a kernel's arguments.
_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "dqucb": [{"scope": "step"}],
}
_FORMS = (True, False, "auto")


def usual_agents() -> Iterator[tuple[str, TabularAgent]]:
    """(name, agent) for every tabular agent at its defaults."""
    return ((name, kind()) for name, kind in AGENTS.items() if issubclass(kind, TabularAgent))


def variants() -> Iterator[tuple[str, TabularAgent]]:
    """The same for every setting that has kernels of its own."""
    yield from usual_agents()
    for name, agent in usual_agents():
        usual = getattr(agent, "stage_dependent", None)
        yield from ((f"{name} {options}", agent.clone(**options)) for options in _OPTIONS.get(name, []))
        for form in _FORMS if usual is not None else ():
            if form != usual:
                with suppress(ValueError):  # an agent that does not come in this form
                    yield f"{name} {form}", agent.clone(stage_dependent=form)


def exercise(agent: TabularAgent, steps: bool = True) -> None:
    """Train with a horizon, and with a discount where the agent takes one; if `steps`, also one step at a time."""
    for problem, unit in ((_small(horizon=4), "episodes"), (_small(discount=0.5), "steps")):
        length: dict[str, Any] = {unit: 4}
        try:
            for regret in ("realized", "expected"):
                agent.clone().train(problem, regret=regret, **length)
        except ValueError:
            continue  # it does not take such a problem
        if steps:
            _step(agent.clone(), problem)


def _small(**kind: Any) -> Problem:
    return gridworld(noise=(0.1, 0.2), change_at=(2,), rows=2, cols=2, **kind)


def _step(agent: TabularAgent, problem: Problem) -> None:
    try:
        agent.start(problem.n_states, problem.n_actions, horizon=problem.horizon, discount=problem.discount)
        agent.observe(0, agent.act(0), 0.5, 1)
    except ValueError:
        return  # an agent that looks at the true problem
    agent.end_episode()
    agent.predict(0)
    agent.greedy_policy()
    _ = agent.q_


def exercise_the_rest() -> None:
    """Kernels that do not belong to a tabular agent: planning, densities, allocation, networks."""
    for tabular in (_small(horizon=4), _small(discount=0.5)):
        policy = solve(tabular).policy
        evaluate_policy(tabular, policy)
        policy_return(tabular, policy)
    density = TransitionCounts(3, 2)
    density.push(0, 0, 1)
    density.likelihood(0, 0, 1)
    density.restore(density.state())
    for name in ("cucb-ra", "greedy-by-free-beds"):
        AGENTS.find(name)().train("hospital", steps=2)
    with suppress(ImportError):  # a build without SciPy
        small: dict[str, Any] = {"hidden": (4,), "learning_starts": 1, "batch_size": 2}
        for problem in ("cartpole", "hospital"):
            AGENTS.find("dqn")(**small).train(problem, steps=4)


def _environment(folder: str) -> dict[str, str]:
    """The environment of processes that compile for the baseline CPU into `folder`."""
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    target = {"NUMBA_CPU_NAME": _cache.BASELINE.cpu if _cache.BASELINE else "", "NUMBA_CPU_FEATURES": ""}
    # Intel's library of vector functions is on few machines, and has other bits.
    return {**os.environ, **target, "NUMBA_DISABLE_INTEL_SVML": "1", "NUMBA_CACHE_DIR": folder, "PYTHONPATH": path}


def _package_digest() -> str:
    """A digest of the code that decides which kernels are used."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _manifest() -> dict[str, str]:
    return {**_cache.facts(), "package": _package_digest()}


def _is_current(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / _cache.MANIFEST).read_text(encoding="utf-8")) == _manifest())
    except (OSError, ValueError):
        return False


def build(folder: Path, commands: list[list[str]]) -> None:
    """Run these commands in parallel and fill `folder` with the kernels that they compile, unless it is up to date."""
    if _cache.BASELINE is None:
        print(f"dqucb: no baseline CPU is known for {platform.machine()}; kernels are compiled when first used")
        return
    if _is_current(folder):
        return
    print(f"dqucb: compiling kernels for {_cache.BASELINE.cpu}: some minutes of CPU time", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        processes = [subprocess.Popen(command, env=_environment(scratch)) for command in commands]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise RuntimeError("the kernels were not compiled: see above")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(scratch, "dqucb"), folder)
    # The list comes last: without it nothing in the folder is used.
    (folder / _cache.MANIFEST).write_text(json.dumps(_manifest(), indent=1), encoding="utf-8")


def compile_part(part: int, parts: int) -> None:
    """Compile one of `parts` shares of all variants; share 0 also has all other kernels."""
    for number, (name, agent) in enumerate(variants()):
        if number % parts == part:
            print(f"dqucb: compiling kernels of {name}", flush=True)
            exercise(agent, steps=name in AGENTS)
    if part == 0:
        exercise_the_rest()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="compile the kernels that are shipped with a wheel")
    parser.add_argument("--folder", type=Path, default=_cache.SHIPPED)
    parser.add_argument("--jobs", type=int, default=_cores())
    parser.add_argument("--part", help="i/n: of the processes that compile, the i-th of n")
    arguments = parser.parse_args()
    if arguments.part:
        compile_part(*(int(number) for number in arguments.part.split("/")))
    else:
        jobs = _validate.integer("jobs", arguments.jobs)
        command = [sys.executable, "-m", "dqucb.aot", "--part"]
        build(arguments.folder, [[*command, f"{i}/{jobs}"] for i in range(jobs)])


if __name__ == "__main__":
    main()
