"""What was compared for bit identity: short runs of every agent under other conditions, as a table.

    python -m tests.campaigns.bits --write docs/bits.md
    python -m tests.campaigns.bits --write docs/bits.md --only "JIT off"      # the other rows stay

Each condition is a process of its own that trains every tabular agent (realized regret) and some deep ones, and prints
the SHA-256 of each run's curves. A condition is identical if every digest is that of the plain process.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEEDS = (0, 1)
SHORT = 12  # episodes without the JIT, which is far slower
CURVES = ("ends", "returns", "gaps", "likelihood", "lengths", "alarms")
TEXT = """# The same bits

Written by `python -m tests.campaigns.bits --write docs/bits.md`; do not edit. Short runs of {n} agents, {seeds} seeds
each: SHA-256 of every curve, against one plain process ({where}).

{names}.

| condition | runs compared | identical | differ |
|---|---|---|---|
{rows}

Without the JIT a step takes far longer, so that those runs have 12 episodes; all others have 60, deep ones 150 steps.

Deep agents depend on SciPy's matrix products: the bits hold on one machine with one version of SciPy and one thread
(which `dqucb` sets), and may differ between CPUs, as the library behind SciPy chooses other instructions there.
Their committed digests (`tests/golden_deep.json`) are therefore rounded. Tabular runs have no such part: without
`fastmath` and with `-ffp-contract=off` no sum is reordered and nothing contracted.
"""


def problem(change_at: int = 30) -> Any:
    """A small problem that changes once."""
    from dqucb.problems import gridworld

    return gridworld(noise=(0.05, 0.3), change_at=(change_at,), rows=2, cols=3, horizon=8)


def digest(run: Any) -> str:
    """SHA-256 of the curves."""
    import numpy as np

    return hashlib.sha256(b"".join(np.ascontiguousarray(getattr(run, name)).tobytes() for name in CURVES)).hexdigest()


def tabular(episodes: int = 60, **options: Any) -> dict[str, str]:
    """The digests of all tabular agents, by `compare` with these options."""
    from dqucb import AGENTS, TabularAgent, compare

    names = [name for name in AGENTS if issubclass(AGENTS[name], TabularAgent)]
    found = compare(names, problem(episodes // 2), episodes, seeds=SEEDS, **{"jobs": 1, **options})
    return {f"{label} {seed}": digest(found.load_run(label, seed)) for label, seed in found.traces}


def agent_names() -> list[str]:
    """The agents of the table, as their runs are labelled."""
    from dqucb import AGENTS, TabularAgent

    known = [AGENTS[name]() for name in AGENTS if issubclass(AGENTS[name], TabularAgent)] + deep_agents()
    return sorted(agent.name for agent in known)


def deep_agents() -> list[Any]:
    """Small ones."""
    from dqucb.deep import DQN, DQNUCB, DeepDQUCB

    return [kind(hidden=(8,), learning_starts=20, buffer_size=200, batch_size=8) for kind in (DQN, DQNUCB, DeepDQUCB)]


def deep(**options: Any) -> dict[str, str]:
    """The digests of deep agents, their seeds in lockstep."""
    from dqucb import compare

    found = compare(deep_agents(), "cartpole", steps=150, seeds=SEEDS, regret="none", **{"jobs": 1, **options})
    return {f"{label} {seed}": digest(found.load_run(label, seed)) for label, seed in found.traces}


def alone() -> dict[str, str]:
    """Each seed in a training of its own, or in a lockstep of ten."""
    found = {}
    for agent in deep_agents():
        single = {seed: agent.clone().train("cartpole", steps=150, seed=seed) for seed in SEEDS}
        ten = dict(zip(range(10), agent.clone().train_seeds("cartpole", seeds=10, steps=150), strict=True))
        for seed in SEEDS:
            if digest(single[seed]) != digest(ten[seed]):
                raise SystemExit(f"{agent.name}: seed {seed} alone differs from a lockstep of ten")
            found[f"{agent.name} {seed}"] = digest(single[seed])
    return found


def stopped() -> dict[str, str]:
    """Stopped half way, saved, loaded in the same process, and finished."""
    import tempfile

    from dqucb import AGENTS, Agent, TabularAgent

    found = {}
    for name in AGENTS:
        if not issubclass(AGENTS[name], TabularAgent):
            continue
        for seed in SEEDS:
            agent = AGENTS[name]()
            agent.train(problem(), episodes=60, seed=seed, stop_at=25)
            with tempfile.TemporaryDirectory() as folder:
                loaded = Agent.load(agent.save(Path(folder) / "agent"))
            found[f"{agent.name} {seed}"] = digest(loaded.train(problem(), episodes=60, seed=seed))
    return found


def in_threads() -> dict[str, str]:
    """Four agents at a time, in threads of one process."""
    from concurrent.futures import ThreadPoolExecutor

    from dqucb import AGENTS, TabularAgent

    agents = [(AGENTS[name], seed) for name in AGENTS if issubclass(AGENTS[name], TabularAgent) for seed in SEEDS]

    def train(work: Any) -> tuple[str, str]:
        kind, seed = work
        agent = kind()
        return f"{agent.name} {seed}", digest(agent.train(problem(), episodes=60, seed=seed))

    train(agents[0])  # kernels are compiled by one thread
    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(train, agents))


def on_dask(run: Callable[..., dict[str, str]]) -> dict[str, str]:
    """On a cluster of two worker processes."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        return run(backend="dask", scheduler=cluster.scheduler_address)


# Name -> (what runs, environment)
CONDITIONS: dict[str, tuple[Callable[[], dict[str, str]], dict[str, str]]] = {
    "tabular: the same again": (tabular, {}),
    "tabular: 2 processes": (lambda: tabular(jobs=2), {}),
    "tabular: 4 threads of one process": (in_threads, {}),
    "tabular: Dask, 2 workers": (lambda: on_dask(tabular), {}),
    "tabular: PYTHONHASHSEED=1": (tabular, {"PYTHONHASHSEED": "1"}),
    "tabular: PYTHONHASHSEED=4242": (tabular, {"PYTHONHASHSEED": "4242"}),
    "tabular: stopped, saved, loaded, finished": (stopped, {}),
    "tabular: kernels for any x86-64 (no AVX)": (tabular, {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"}),
    "tabular, 12 episodes: the same again": (lambda: tabular(SHORT), {}),
    "tabular, 12 episodes: JIT off": (lambda: tabular(SHORT), {"NUMBA_DISABLE_JIT": "1"}),
    "deep: the same again": (deep, {}),
    "deep: 2 processes": (lambda: deep(jobs=2), {}),
    "deep: Dask, 2 workers": (lambda: on_dask(deep), {}),
    "deep: 4 compute threads": (lambda: deep(threads=4), {}),
    "deep: PYTHONHASHSEED=1": (deep, {"PYTHONHASHSEED": "1"}),
    "deep: one seed alone, and a lockstep of ten": (alone, {}),
}
PLAIN = {kind: f"{kind}: the same again" for kind in ("tabular", "tabular, 12 episodes", "deep")}


def measured(condition: str) -> dict[str, str]:
    """The digests of a condition, from a process of its own."""
    environment = {**os.environ, **CONDITIONS[condition][1]}
    if "NUMBA_CPU_NAME" in environment:
        environment["NUMBA_CACHE_DIR"] = str(Path(".numba_cache_cpu").absolute())
    command = [sys.executable, "-m", "tests.campaigns.bits", "--condition", condition]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{condition}: {answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def rows_of(page: str) -> dict[str, str]:
    """The rows of a page, by condition."""
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    return {row.split(" | ")[0].removeprefix("| "): row for row in rows}


def table(only: str = "", skip: str = "", kept: dict[str, str] | None = None) -> tuple[str, bool]:
    """The page, and whether everything is identical; rows that are not measured are those `kept`."""
    wanted = [name for name in CONDITIONS if only in name and not (skip and skip in name)]
    kinds = {name.partition(":")[0] for name in wanted}
    plain = {kind: measured(name) for kind, name in PLAIN.items() if kind in kinds}
    rows, fine = dict(kept or {}), True
    for condition in wanted:
        kind = condition.partition(":")[0]
        found = measured(condition)
        differ = sorted(name for name in plain[kind] if found.get(name) != plain[kind][name])
        fine = fine and not differ
        differ_words = ", ".join(differ) or "-"
        rows[condition] = f"| {condition} | {len(found)} | {'yes' if not differ else 'NO'} | {differ_words} |"
        print(rows[condition], flush=True)
    where = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    shown = "\n".join(rows[condition] for condition in CONDITIONS if condition in rows)
    names = agent_names()
    page = TEXT.format(n=len(names), names=", ".join(names), seeds=len(SEEDS), where=where, rows=shown)
    return page, fine


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="The page to write.")
    parser.add_argument("--only", default="", help="Part of a condition's name.")
    parser.add_argument("--skip", default="", help="Part of a condition's name.")
    parser.add_argument("--condition", help="Print the digests of one condition (used by the command itself).")
    given = parser.parse_args()
    if given.condition:
        print(json.dumps(CONDITIONS[given.condition][0]()))
        return
    kept = rows_of(given.write.read_text(encoding="utf-8")) if given.write and given.write.exists() else {}
    page, fine = table(given.only, given.skip, kept)
    if given.write:
        given.write.write_text(page, encoding="utf-8")
    raise SystemExit(0 if fine else 1)


if __name__ == "__main__":
    main()
