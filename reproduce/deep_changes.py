"""Deep agents through changes that are drawn from seeds: what is lost after a change, and how often they fall.

- A case is a task, a kind of change and a draw (`dqucb.envs.drawn_change`): size and pattern (once, several, returning)
  come from its seed. Each task also has a placebo, where nothing changes at the stated step. Rules are chosen on draws
  from FIRST_CHOOSING on, reported on those from FIRST_DRAW on.
- Agents: DeepDQUCB; DQN, which ignores changes; DQN with the value bound of DeepDQUCB, which separates the reaction
  from the base; and as an oracle, a new DQN that begins to learn at each change, in the env after it.
- "named" are fixed changes of CartPole's physics, for which the falls of DeepDQUCB are compared with those of DQN.
- Agents learn the task of a drawn change once. For each case a copy of them goes on in a new episode after its change.
- What is compared is the mean return of the episodes that ended after the first change. Its loss is the best mean of
  any agent in that case minus it. A fall is an episode that terminated (CartPole, Hopper).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import json
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from dqucb.deep import DQN, DeepAgent, DeepDQUCB
from dqucb.envs import CartPoleEnv, PhysicsShift, drawn_change
from dqucb.envs.drawn import TASKS, drawn_kinds, task_env
from dqucb.envs.physics import NEUTRAL
from dqucb.experiments import Aggregate
from dqucb.run import Run, code_digest
from reproduce._drawing import save
from reproduce._protocol import Claim, Figure, begin

CHANGE, AFTER, BURN_IN = 15_000, 7_000, 6_000  # steps before the first change, after each, and before alarms
NAMED, NAMED_AFTER = "named", 10_000
# Falls over those of DQN that are asked for.
NAMED_CHANGES: dict[str, tuple[dict[str, float], float]] = {
    "force x -1": ({"force": -1.0}, 0.3), "force x 0.5": ({"force": 0.5}, 0.8), "length x 1.6": ({"length": 1.6}, 1.0),
    "length x 2": ({"length": 2.0}, 1.0), "gravity x 1.5": ({"gravity": 1.5}, 1.0), "noise": ({"noise": 0.15}, 0.75),
}  # fmt: skip
FIRST_DRAW, FIRST_CHOOSING, DRAWS = 9_000, 100, 1
FALLING = ("cartpole", "hopper", NAMED)  # tasks in which episodes should not terminate
OURS, BASE, BOUNDED, ORACLE, PLACEBO = "DeepDQUCB", "DQN", "DQN, same bound", "restarted DQN", "placebo"
SAMPLES = 2_000  # of the bootstrap
WORSE = 1.1  # times the loss of DQN
Key = tuple[str, str, int]  # task, kind and draw of a case
QUICK_AGENT: dict[str, Any] = {"hidden": (16,), "learning_starts": 100, "batch_size": 8, "buffer_size": 2_000}
QUICK_TASKS, QUICK_KINDS = ("pendulum", NAMED), ("flip", "force x -1", PLACEBO)
SETTINGS = {"change": CHANGE, "after": AFTER, "named_after": NAMED_AFTER, "burn_in": BURN_IN, "first_draw": FIRST_DRAW,
            "first_choosing_draw": FIRST_CHOOSING, "bonus_scale": 0.01}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "--first-draw": {"type": int, "default": FIRST_DRAW, "help": f"seed of the first draw (default: {FIRST_DRAW})"},
    "--draws": {"type": int, "default": DRAWS, "help": f"draws of each kind of each task (default: {DRAWS})"},
    "--first-seed": {"type": int, "default": 0, "help": "the first seed of the runs (default: 0)"},
    "--kinds": {"default": None, "help": "some kinds of change, with commas (default: all of each task)"},
}


def agents(task: str, quick: bool) -> dict[str, DeepAgent]:
    """The agents that run through the change."""
    given = dict(QUICK_AGENT) if quick else {}
    if task in ("half-cheetah", "hopper"):
        given["explore_by"] = "dimension"
    found: dict[str, DeepAgent] = {
        OURS: DeepDQUCB(bonus_scale=0.01, burn_in=1_000 if quick else BURN_IN, **given),
        BASE: DQN(**given),
    }
    if task != NAMED:  # this env states its largest reward, so that all agents have the same bound
        found[BOUNDED] = DQN(value_bound="observed", **given)
    return found


def seeds_of(figure: Figure) -> list[int]:
    """The seeds of the runs."""
    return [figure.arguments.first_seed + number for number in figure.report_on]


def kinds_of(task: str) -> list[str]:
    """The kinds of change of a task, the placebo among them."""
    return [*(NAMED_CHANGES if task == NAMED else drawn_kinds(task)), PLACEBO]


class Branching(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A task; after `begin_case`, a new episode begins in the env of a case."""

    case: partial[Any] | None = None  # of all envs: those of a copied agent are not at hand
    seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, the first one of a case with the seed of the run."""
        if self.seed is None:
            self.seed = seed
        elif Branching.case is not None and not isinstance(self.env, PhysicsShift):
            self.env, seed = Branching.case(), self.seed
        return self.env.reset(seed=seed, options=options)


def task_before(task: str) -> Branching:
    """The env of a task until the change."""
    return Branching(task_env(task))


def learned(figure: Figure, task: str, change: int) -> dict[str, DeepAgent]:
    """The agents after the steps before a change."""
    found = agents(task, figure.quick)
    for agent in found.values():
        agent.train_seeds(partial(task_before, task), seeds=seeds_of(figure), steps=change)
    return found


def continued(agent: DeepAgent, case: partial[Any], steps: int) -> list[Run]:
    """The runs of a copy of an agent that goes on in the env of a case."""
    Branching.case = case
    try:
        return deepcopy(agent).extend(steps)
    finally:
        Branching.case = None


def drawn_case(task: str, kind: str, draw: int, after: int) -> partial[Any]:
    """The env of a drawn case, whose change comes at its first step; a placebo changes a kind to what it was."""
    if kind == PLACEBO:
        return drawn_change(draw, task, pattern=PLACEBO, change_at=0, every=after)
    return drawn_change(draw, task, kind, change_at=0, every=after)


def phases(make: partial[Any]) -> list[partial[Any]]:
    """The envs after each change of a case, without what was before."""
    return [partial(make.func, **{**make.keywords, "change_at": (0,), "values": (value,)})
            for value in make.keywords["values"]]  # fmt: skip


def returns_after(run: Run, change: int) -> tuple[float, int]:
    """(mean return, number) of the episodes that ended after a step; the last one may have been cut by the run."""
    chosen = run.ends > change
    chosen[-1] &= chosen.sum() == 1
    return float(run.returns[chosen].mean()), int(chosen.sum())


def falls_after(run: Run, change: int, limit: int) -> int:
    """Episodes that ended before their time limit after a step, without the last one, which the run may have cut."""
    return int(((run.ends > change) & (run.lengths < limit))[:-1].sum())


def counted(task: str, runs: list[Run], change: int) -> dict[str, list[float]]:
    """Returns, episodes, falls and alarms of each seed after the change."""
    limit = 200 if task == NAMED else TASKS[task][1]
    each = [returns_after(run, change) for run in runs]
    return {
        "returns": [value for value, _ in each],
        "episodes": [number for _, number in each],
        "falls": [falls_after(run, change, limit) if task in FALLING else 0 for run in runs],
        "alarms": [len(run.alarms) for run in runs],
    }


class Drawn:
    """The drawn cases of one task. Agents learn the task when the first case needs them."""

    def __init__(self, figure: Figure, task: str) -> None:
        self.figure, self.task = figure, task
        self.change, self.after = (1_500, 600) if figure.quick else (CHANGE, AFTER)
        self.learned: dict[str, DeepAgent] = {}
        self.restarted: dict[str, dict[str, list[float]]] = {}  # by env: a phase without a change is that of many cases

    def measured(self, kind: str, draw: int) -> dict[str, dict[str, list[float]]]:
        """Agent -> what was counted after the change. Finished cases of the same code and seeds are found again."""
        figure, make = self.figure, drawn_case(self.task, kind, draw, self.after)
        path = figure.out / ("quick_cases" if figure.quick else "cases") / f"{self.task}-{kind}-{draw}.json"
        identity = {"code": code_digest(), "seeds": seeds_of(figure), "settings": dict(figure.settings)}
        stored = json.loads(path.read_text()) if path.exists() else {}
        if stored.get("identity") == identity:
            return dict(stored["agents"])
        self.learned = self.learned or learned(figure, self.task, self.change)
        steps = make.keywords["change_at"][-1] + self.after
        found = {label: counted(self.task, continued(agent, make, steps), self.change)
                 for label, agent in self.learned.items()}  # fmt: skip
        parts = [self._from_nothing(env) for env in phases(make)]
        numbers = np.array([part["episodes"] for part in parts])
        found[ORACLE] = {name: np.sum([part[name] for part in parts], 0).tolist() for name in ("falls", "alarms")}
        found[ORACLE]["returns"] = np.average([part["returns"] for part in parts], 0, numbers).tolist()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"identity": identity, "values": make.keywords["values"], "agents": found}))
        return found

    def _from_nothing(self, env: partial[Any]) -> dict[str, list[float]]:
        name = str(env) if env.keywords["values"] != (NEUTRAL[env.keywords["kind"]],) else PLACEBO
        if name not in self.restarted:
            runs = agents(self.task, self.figure.quick)[BASE].train_seeds(
                env, seeds=seeds_of(self.figure), steps=self.after
            )
            self.restarted[name] = counted(self.task, runs, 0)
        return self.restarted[name]


def named(figure: Figure, kind: str) -> dict[str, dict[str, list[float]]]:
    """Agent -> what was counted after a named change. Finished runs are found again."""
    change, after = (1_500, 600) if figure.quick else (CHANGE, NAMED_AFTER)
    given = {} if kind == PLACEBO else NAMED_CHANGES[kind][0]
    make = partial(CartPoleEnv, **{"noise": 0.0, "unit": "steps", "change_at": (change,), **given})
    folder = f"{NAMED}/{kind.replace(' ', '-')}"
    runs = figure.compare(
        agents(NAMED, figure.quick), make, steps=change + after, seeds=seeds_of(figure), folder=folder, progress=False,
        regret="none",
    )  # fmt: skip
    found = {label: counted(NAMED, [runs.load_run(label, seed) for seed in runs.seeds_of(label)], change)
             for label in runs.labels}  # fmt: skip
    return {**found, BOUNDED: found[BASE]}


def losses(found: Mapping[str, Mapping[str, list[float]]]) -> dict[str, np.ndarray]:
    """Agent -> the loss of each seed, in units of the range of the agents' means."""
    means = [np.mean(each["returns"]) for each in found.values()]
    scale = max(means) - min(means) or 1.0
    return {label: (max(means) - np.array(each["returns"])) / scale for label, each in found.items()}


def summary(rows: Mapping[Key, Any]) -> dict[str, Any]:
    """Statistics over cases: probabilities of improvement, aggregates, and each kind by itself."""
    scores = {key: losses(found) for key, found in rows.items()}
    labels = [OURS, BASE, BOUNDED, ORACLE]

    def over(keys: list[Key]) -> Aggregate:
        there = [label for label in labels if all(label in scores[key] for key in keys)]  # no oracle of named changes
        return Aggregate({label: {str(key): scores[key][label] for key in keys} for label in there})

    drawn = [key for key in rows if key[0] != NAMED]
    real = [key for key in drawn if key[1] != PLACEBO]
    kinds: dict[str, list[Key]] = {}
    for key in drawn:
        kinds.setdefault(key[1], []).append(key)
    result: dict[str, Any] = {
        "cases": len(real),
        "named": {kind: _compared(over([key]), [key], rows) for key in rows if key[0] == NAMED for kind in (key[1],)},
        "by_kind": {kind: _compared(over(keys), keys, rows) for kind, keys in kinds.items()},
        "by_task": {task: _compared(over(keys), keys, rows) for task in TASKS
                    if (keys := [key for key in real if key[0] == task])},
    }  # fmt: skip
    if real:
        result["all"] = _compared(over(real), real, rows)
        table = over(real)
        result["interquartile_mean"] = {label: table.interquartile_mean(label)._asdict() for label in labels}
        result["worst_decile"] = {label: table.worst_decile(label)._asdict() for label in labels}
    return result


def improvement(over: Aggregate, keys: list[Key], label: str) -> list[float]:
    """The probability that a run of DeepDQUCB has a smaller loss than one of another agent, and its 95 % interval.

    The cases of a task continue the same trained agents. So a bootstrap sample draws seeds for all of them together,
    and cases.
    """
    rng, tasks = np.random.default_rng(0), {key[0]: [other for other in keys if other[0] == key[0]] for key in keys}
    ours, theirs = over.scores[OURS], over.scores[label]
    wins = [np.array([0.5 + 0.5 * np.sign(theirs[str(key)] - ours[str(key)][:, None]) for key in own])
            for own in tasks.values()]  # fmt: skip
    means = [
        sum(each[np.ix_(*(rng.integers(n, size=n) for n in each.shape))].mean((1, 2)).sum() for each in wins)
        / len(keys)
        for _ in range(SAMPLES)
    ]
    value = sum(each.mean((1, 2)).sum() for each in wins) / len(keys)
    return [round(float(each), 3) for each in (value, *np.quantile(means, [0.025, 0.975]))]


def _compared(over: Aggregate, keys: list[Key], rows: Mapping[Key, Any]) -> dict[str, Any]:
    """DeepDQUCB beside the others in some cases."""
    means = {label: np.mean([runs.mean() for runs in over.scores[label].values()]) for label in over.labels}
    return {
        "improvement_over": {label: improvement(over, keys, label) for label in over.labels if label != OURS},
        "loss": {label: round(float(mean), 3) for label, mean in means.items()},
        "worse_than_dqn": round(float(means[OURS] - WORSE * means[BASE]), 3) > 0,
        "loss_over_dqn": round(float(means[OURS] / means[BASE]), 3) if means[BASE] > 0 else None,
        "falls": {
            label: round(float(np.mean([rows[key][label]["falls"] for key in keys])), 2) for label in over.labels
        },
        "alarms": round(float(np.mean([rows[key][OURS]["alarms"] for key in keys])), 2),
    }


def claims(result: Mapping[str, Any]) -> list[Claim]:
    """What DeepDQUCB is to show."""
    found = []
    if "all" in result:
        value, low, _ = result["all"]["improvement_over"][BASE]
        text = "over the drawn changes a run of DeepDQUCB has a larger return after the change than one of DQN with "
        text += "probability 0.65, interval above one half"
        found.append(Claim(text, value >= 0.65 and low > 0.5, result["all"]))
        kinds = {kind: each for kind, each in result["by_kind"].items() if kind != PLACEBO}
        worse = [kind for kind, each in kinds.items() if each["worse_than_dqn"]]
        ratios = {kind: each["loss_over_dqn"] for kind, each in kinds.items()}
        text = "its loss is more than a tenth above that of DQN on at most one kind of change in ten"
        found.append(Claim(text, 10 * len(worse) <= len(kinds), {"worse": worse, "loss_over_dqn": ratios}))
    for where, still in (("drawn tasks", result["by_kind"].get(PLACEBO)), (NAMED, result["named"].get(PLACEBO))):
        if still is not None:
            _, low, high = still["improvement_over"][BOUNDED]
            text = f"without a change ({where}) it is as good as DQN with the same bound, without alarms"
            found.append(Claim(text, low <= 0.5 <= high and still["alarms"] == 0.0, still))
    for kind, (_, most) in NAMED_CHANGES.items():
        if kind in result["named"]:
            falls = result["named"][kind]["falls"]
            text = f"CartPole, {kind}: at most {most} of the falls of DQN"
            found.append(Claim(text, falls[OURS] <= most * falls[BASE], falls))
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """The probability of improvement over DQN for each kind of change."""
    rows = {**result["by_kind"], **{f"named: {kind}": each for kind, each in result["named"].items()}}
    kinds = list(rows)
    figure, axis = plt.subplots(figsize=(6, 1.2 + 0.3 * len(kinds)), layout="constrained")
    for label, offset, colour in ((BASE, 0.12, "#0072B2"), (BOUNDED, -0.12, "#D55E00")):
        table = np.array([rows[kind]["improvement_over"][label] for kind in kinds])
        ends = np.abs(table[:, 1:] - table[:, :1]).T
        places = np.arange(len(kinds)) + offset
        axis.errorbar(table[:, 0], places, xerr=ends, fmt="o", color=colour, label=f"over {label}")
    axis.axvline(0.5, color="0.6", linewidth=1)
    axis.set(yticks=np.arange(len(kinds)), yticklabels=kinds, xlim=(-0.03, 1.03), xlabel="probability of improvement")
    axis.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    save(figure, path)


def main() -> None:
    figure = begin("deep_changes", __doc__, SETTINGS, {"tasks": [*TASKS, NAMED]}, OPTIONS, seeds=4)
    given, rows = figure.arguments, {}
    wanted = QUICK_KINDS if figure.quick else given.kinds and given.kinds.split(",")
    for task in [task for task in given.tasks if not figure.quick or task in QUICK_TASKS]:
        drawn = Drawn(figure, task)
        for kind in [kind for kind in kinds_of(task) if not wanted or kind in wanted]:
            for number in range(1 if task == NAMED else given.draws):
                seed = given.first_draw + number
                found = named(figure, kind) if task == NAMED else drawn.measured(kind, seed)
                rows[task, kind, seed] = found
                means = ", ".join(f"{label} {np.mean(each['returns']):.1f}" for label, each in found.items())
                print(f"{task}, {kind}, draw {seed}: {means}", flush=True)
    result = summary(rows)
    draw(result, figure.out / figure.name)
    cases = [{"task": task, "kind": kind, "draw": seed, "agents": found} for (task, kind, seed), found in rows.items()]
    figure.write(claims(result), {**result, "cases_measured": cases})


if __name__ == "__main__":
    main()
