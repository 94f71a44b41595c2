"""Everything that reads files: samples that are whole, how each is loaded, and what is then done with it."""

import csv
import io
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.campaigns import fuzz_mutations as mutations


class Target(NamedTuple):
    """A loader: whole samples, a function of a path that loads and uses the content, and how samples are changed."""

    samples: list[bytes]
    load: Callable[[Path], Any]
    mutate: mutations.Mutation = mutations.mutated_archive
    suffix: str = ".npz"


STEPS = [(0, 1, 0.5, 2, 0), (2, 0, 1.0, 1, 1), (1, 1, 0.0, 0, 2), (0, 0, 0.25, 0, 0)]


def targets(only: tuple[str, ...] = ()) -> dict[str, Target]:
    """Name -> target; the deep ones need SciPy."""
    return {name: make() for name, make in LOADERS.items() if not only or name in only}


def _saved(save: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        save(path)
        return path.read_bytes()


def _kde() -> Target:
    from dqucb import SlidingKDE

    samples = []
    for columns, kernel in ((1, "gaussian"), (3, "linear")):
        kde = SlidingKDE(5, kernel=kernel, bandwidth=0.7)
        for row in np.random.default_rng(0).random((8, columns)):
            kde.push(row)
        samples.append(_saved(kde.save))

    def load(path: Path) -> None:
        found = SlidingKDE.load(path)
        columns = 1
        try:
            found.score(np.zeros(columns))
            found.push(np.zeros(columns))
        except ValueError:  # of another dimension
            pass

    return Target(samples, load)


def _densities() -> Target:
    """The arrays of `state()`, in an archive: `restore` is what reads them."""
    from dqucb import _storage
    from dqucb.density import DENSITIES, make_density

    fresh = {}
    for name in DENSITIES:
        finite = DENSITIES.facts(name)["states"] == "finite"
        sizes: dict[str, Any] = {"n_states": 3, "n_actions": 2} if finite else {"state_dim": 2, "action_dim": 1}
        fresh[name] = lambda name=name, sizes=sizes: make_density({"name": name, "window": 5}, **sizes)
    transitions: dict[bool, list[Any]] = {
        True: [(0, 1, 2), (2, 0, 1), (1, 1, 0), (0, 0, 0)] * 3,
        False: [(np.array([0.1 * k, 0.5]), np.array([0.3]), np.array([0.2, 0.1 * k])) for k in range(9)],
    }
    samples = []
    for name, make in fresh.items():
        density = make()
        for transition in transitions[DENSITIES.facts(name)["states"] == "finite"]:
            density.push(*transition)
        samples.append(_storage.pack("Density", {"name": name}, density.state()))

    def load(path: Path) -> None:
        settings, arrays = _storage.load(path, "Density")
        name = settings.get("name")
        if not isinstance(name, str) or name not in fresh:
            return
        density = fresh[name]()
        density.restore(arrays)
        for transition in transitions[DENSITIES.facts(name)["states"] == "finite"][:4]:
            density.likelihood(*transition)
            density.push(*transition)

    return Target(samples, load)


def _detectors() -> Target:
    from dqucb.drift import ContinuousDriftDetector, FiniteDriftDetector

    finite = FiniteDriftDetector(n_states=3, n_actions=2)
    for state, action, _, reached, _ in STEPS * 10:
        finite.update(state, action, reached)
    vectors = ContinuousDriftDetector(burn_in=100)
    for k in range(60):
        vectors.update([0.1 * (k % 7), 0.5], [0.3], [0.2, 0.1 * (k % 5)])

    def load(path: Path) -> None:
        for kind, use in ((FiniteDriftDetector, (0, 1, 2)), (ContinuousDriftDetector, ([0.0, 0.5], [0.3], [0.2, 0.1]))):
            try:
                found = kind.load(path)
            except ValueError:
                if kind is ContinuousDriftDetector:
                    raise
                continue
            with suppress(ValueError):  # of other sizes
                found.update(*use)
            return

    return Target([_saved(finite.save), _saved(vectors.save)], load)


def _agents() -> Target:
    from dqucb import AGENTS, DQUCB, Agent, TabularAgent

    agents = [AGENTS[name]() for name in AGENTS if issubclass(AGENTS[name], TabularAgent)]
    agents += [DQUCB(scope="step", window=6), DQUCB(stage_dependent="auto", window=5)]
    samples = []
    for agent in agents:
        agent.start(3, 2, horizon=3, length=40)
        for number, step in enumerate(STEPS * 6):
            agent.observe(*step)
            if number % 3 == 2:
                agent.end_episode()
        samples.append(_saved(agent.save))

    def load(path: Path) -> None:
        found = Agent.load(path)
        assert isinstance(found, TabularAgent)
        for step in STEPS:
            try:
                found.act(step[0], step[4])
                found.observe(*step)
            except ValueError:  # of other sizes
                break
        found.end_episode()
        found.greedy_policy()

    return Target(samples, load)


def _deep() -> Target:
    from dqucb.deep import DQN, DeepAgent, DeepDQUCB

    samples = []
    for kind in (DQN, DeepDQUCB):
        agent = kind(hidden=(4,), learning_starts=10, buffer_size=30, batch_size=4)
        agent.train_seeds("cartpole", seeds=2, steps=60, stop_at=40)
        samples += [_saved(agent.save), _saved(agent._save_checkpoint)]

    def load(path: Path) -> None:
        found = DeepAgent.load(path)
        found.predict(np.zeros(4, np.float32))
        found.train_seeds("cartpole", seeds=2, steps=60, stop_at=42)

    return Target(samples, load)


def _small_run() -> Any:
    from dqucb import PlanningDQUCB, gridworld

    return PlanningDQUCB().train(gridworld((0.1, 0.4), change_at=(5,), rows=2, cols=2, horizon=4), episodes=12)


def _runs() -> Target:
    from dqucb import Run
    from dqucb.experiments.comparison import trace

    def load(path: Path) -> None:
        run = Run.load(path)
        if len(run):
            trace(run)
        repr(run)

    return Target([_small_run().to_bytes()], load)


def _folder(path: Path, **options: Any) -> None:
    from dqucb.experiments import compare
    from dqucb.problems import gridworld

    problem = gridworld((0.1, 0.4), change_at=(5,), rows=2, cols=2, horizon=4)
    compare(["qucb", "random"], problem, 12, seeds=3, jobs=1, out=path, **options)


def _manifests() -> Target:
    from dqucb.experiments import load_comparison
    from dqucb.experiments.report import write_report

    place = Path(tempfile.mkdtemp(prefix="dqucb-fuzz-"))
    _folder(place)

    def load(path: Path) -> None:
        (place / "manifest.json").write_bytes(path.read_bytes())
        loaded = load_comparison(place)
        loaded.summary()
        if loaded.labels and len(loaded.settings["seeds"]) < 10:
            write_report(loaded, place / "report.html")

    return Target([(place / "manifest.json").read_bytes()], load, mutations.mutated_manifest, ".json")


def _indices() -> Target:
    from dqucb.experiments.comparison import trace
    from dqucb.experiments.index import Index

    folder = Path(tempfile.mkdtemp(prefix="dqucb-fuzz-"))
    (folder / "runs").mkdir()
    keys = ["0" * 64, "a" * 64]
    for key in keys:
        _small_run().save(folder / "runs" / f"{key}.npz")
    index = Index(folder)
    index.add({key: trace(_small_run()) for key in keys})
    (part,) = index.folder.iterdir()
    data = part.read_bytes()

    def load(path: Path) -> None:
        part.write_bytes(path.read_bytes())
        index.traces()  # damage is a warning, not an error

    return Target([data], load)


def _evaluations() -> Target:
    from dqucb import _storage
    from dqucb.experiments.trials import EVALUATIONS, _read

    return Target([_storage.pack(EVALUATIONS, {}, {"0.end": np.arange(5.0), "1.end": np.ones(5)})], _read)


def _hospitals() -> Target:
    from dqucb.hospital import load_hospitals

    stems = (
        "all_adult_hospital_inpatient_beds_7_day",
        "all_adult_hospital_inpatient_bed_occupied_7_day",
        "total_adult_patients_hospitalized_confirmed_covid_7_day",
        "previous_day_admission_adult_covid_confirmed_7_day",
    )
    rows = []
    for i in range(3):
        for week in range(6):
            row: dict[str, Any] = {"hospital_pk": f"45000{i}", "hospital_name": f"HOSPITAL {i}", "state": "TX"}
            row |= {"fips_code": "48453", "collection_week": str(date(2020, 8, 2) + timedelta(days=7 * week))}
            for stem, day in zip(stems, (100 * (i + 1), 70 * (i + 1), 5 * (i + 1), i + 1), strict=True):
                row[f"{stem}_avg"], row[f"{stem}_sum"], row[f"{stem}_coverage"] = day, 7 * day, 7
            rows.append(row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)

    def load(path: Path) -> None:
        load_hospitals(path, days=42, change_at=(21,))

    return Target([text.getvalue().encode()], load, mutations.mutated_text, ".csv")


def _tomls() -> Target:
    from dqucb.experiments.options import Options
    from dqucb.running import catalog

    sample = """problem = "gridworld"
agents = ["qucb", "random"]
seeds = [1, 2]
episodes = 30
jobs = 1
bonus_scale = 0.3
regret = "realized"
out = "x"
[set.qucb]
delta = 0.1
[set.problem]
rows = 2
cols = 3
noise = [0.1, 0.3]
[vary]
bonus_scale = [0.1, 1]
"""

    def load(path: Path) -> None:
        options = Options.read({"config": path})
        options.check_sweep(bool(options.values))
        if options.problem in catalog.names():
            options._agents()

    return Target([sample.encode()], load, mutations.mutated_text, ".toml")


def _transitions() -> Target:
    from dqucb.drift import watch

    rng = np.random.default_rng(0)
    rows = ["time,state,action,next_state,reward"]
    rows += [f"{k},{rng.integers(3)},{rng.integers(2)},{rng.integers(3)},{rng.random():.3f}" for k in range(40)]
    vectors = ["state_a,state_b,action,next_state_a,next_state_b"]
    vectors += [",".join(f"{number:.4f}" for number in rng.random(5)) for _ in range(40)]

    def load(path: Path) -> None:
        json.loads(watch(path).to_json())

    return Target(["\n".join(lines).encode() for lines in (rows, vectors)], load, mutations.mutated_text, ".csv")


LOADERS: dict[str, Callable[[], Target]] = {
    "kde": _kde, "density": _densities, "detector": _detectors, "agent": _agents, "deep agent": _deep, "run": _runs,
    "manifest": _manifests, "index": _indices, "evaluations": _evaluations, "hospital CSV": _hospitals, "TOML": _tomls,
    "transition CSV": _transitions,
}  # fmt: skip
