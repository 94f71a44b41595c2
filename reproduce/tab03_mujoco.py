"""Table 3: returns on Hopper, HalfCheetah and Walker2d under shift, each action dimension cut into 100 bins.

The paper does not say what shifts. Here noise joins the observations at T/2 and grows at 2T/3 (dqucb/envs/physics.py
says why; the setting "shift" has other kinds). Each number is the mean return of 20 episodes of the greedy policy after
t steps of training, just before the change that falls on t, in the phase that was in force. The JSON also has those
right after the change.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

try:
    import mujoco
    import scipy  # noqa: F401
except ImportError as error:
    sys.exit(f'tab03_mujoco needs MuJoCo and SciPy: pip install "dqucb[deep,mujoco]" ({error})')

import matplotlib.pyplot as plt
import numpy as np

from dqucb import Run, make_agent
from dqucb.deep import evaluation_returns, random_policy
from dqucb.envs import locomotion
from dqucb.experiments import Comparison, Evaluation, statistics
from reproduce._drawing import COLOURS, look, save
from reproduce._protocol import Claim, Figure, begin, spread

SETTINGS: dict[str, Any] = {
    "steps": 200_000,
    "bins": 100,
    "shift": "observation_noise",
    "values": (0.05, 0.15),  # standard deviations, from T/2 and from 2T/3 on
    "episodes": 20,
    "episode_steps": 1_000,
    "training_steps": {},  # of an episode in training, where they are others
    "tasks": ("Hopper", "HalfCheetah", "Walker2d"),
    "unshifted": ("Hopper", "HalfCheetah"),  # DQN also learns these without any change
    # Common to all agents; chosen for DQN on seeds 100 to 104 of HalfCheetah and Hopper in 20,000 to 60,000 steps. With
    # a discount of 0.99 and a target rate of 0.01 Hopper's evaluations stood at 60 and 1 after 30,000 steps; with these
    # at 163 and 258 after 40,000. After 60,000 steps of HalfCheetah the worst of five seeds stood at -292 with a
    # learning rate of 1e-3 and hidden layers of 64, at 446 (mean 691) with 5e-4, at 543 (mean 921) with layers of 128.
    "agent": {
        "hidden": (128, 128),
        "discount": 0.98,
        "learning_rate": 5e-4,
        "target_rate": 0.005,
        "capacity": 100_000,
        "learning_starts": 2_000,
        "freeze_after": 2_000,
        "epsilon": 0.1,
        "epsilon_steps": 10_000,
        "train_every": 2,
        "largest_error": 1.0,
    },
    # What is recommended in place of 100 bins: chosen on seeds 100 to 115 of HalfCheetah in 30,000 to 50,000 steps, see
    # reproduce/results/tab03_mujoco.md.
    "recommended_bins": 3,
    # Where an episode does not end when a body falls on its back, short ones in training put it on its feet again.
    "recommended_training_steps": {"HalfCheetah": 200},
    "recommended": {"discount": 0.99, "train_every": 1, "epsilon": 0.05, "epsilon_steps": 5_000,
                    "learning_starts": 1_000, "largest_error": 10.0, "explore_by": "dimension"},
    "agents": {
        "DQN": {},
        # 200,000 steps times 3 or 6 dimensions need more counters than CartPole. The scale was not tuned.
        "DQNUCB": {"bonus_scale": 0.1, "hash_bits": 16, "table_bits": 20},
        # In 25 to 40 dimensions Scott's bandwidth of about 0.9 puts the likelihood under the floor at 97 % of the steps
        # of a learning agent, which makes the division a constant; four times as wide it lies at 0.3 to 0.5.
        "DeepDQUCB": {"variant": "paper", "bonus_scale": 0.1, "hash_bits": 16, "table_bits": 20, "bandwidth": 3.5},
    },
}  # fmt: skip
QUICK: dict[str, Any] = {"steps": 600, "episodes": 2, "episode_steps": 30, "bins": 9}
QUICK_AGENT = {"hidden": (16,), "learning_starts": 200, "freeze_after": 200, "epsilon_steps": 100, "capacity": 1_000}
PAPER = {  # at T/2, 2T/3, 3T/4 and T
    "Hopper": {"DQN": (179.4, 221.0, 295.3, 410.2), "DQNUCB": (211.0, 257.2, 331.1, 509.0),
               "DeepDQUCB": (211.8, 397.5, 516.4, 689.6)},
    "HalfCheetah": {"DQN": (1410.1, 1595.6, 1800.8, 1967.2), "DQNUCB": (1526.1, 1733.4, 1920.7, 2125.0),
                    "DeepDQUCB": (1526.7, 2017.6, 2293.6, 2694.9)},
    "Walker2d": {"DQN": (288.5, 319.1, 380.7, 477.0), "DQNUCB": (323.3, 367.0, 433.3, 595.0),
                 "DeepDQUCB": (323.8, 411.6, 631.6, 755.0)},
}  # fmt: skip
# Not the paper's: the mean and the least return of any seed that are asked for without a shift.
WANTED = {"HalfCheetah": (4_000, 2_000), "Hopper": (1_000, 0), "Walker2d": (800, 0)}
FEWEST_SEEDS = 5  # with fewer no order is said to hold
PARTS = ("shift", "unshifted", "recommended")
OPTIONS: dict[str, dict[str, Any]] = {
    "--steps": {"type": int, "default": SETTINGS["steps"], "help": "of each run (default: 200,000)"},
}
NAMES = {"DQN": "dqn", "DQNUCB": "dqn-ucb", "DeepDQUCB": "deep-dqucb"}
Moment = tuple[int, int]  # steps trained, and the phase of the evaluation


def changes(settings: dict[str, Any]) -> tuple[int, int]:
    """The steps before which the physics changes: T/2 and 2T/3."""
    return settings["steps"] // 2, 2 * settings["steps"] // 3


def columns(settings: dict[str, Any]) -> list[Moment]:
    """The table's moments, each in the phase that was in force before the change that falls on it."""
    steps, (first, second) = settings["steps"], changes(settings)
    return [(first, 0), (second, 1), (3 * steps // 4, 2), (steps, 2)]


def last_moments(settings: dict[str, Any]) -> list[Moment]:
    """The last three evaluations of a run without a shift, T/10 apart."""
    return [(settings["steps"] - back * settings["steps"] // 10, 0) for back in (2, 1, 0)]


def task_env(task: str, settings: dict[str, Any], change_at: tuple[int, ...], values: tuple[float, ...],
             episode_steps: int) -> Any:  # fmt: skip
    """A function that makes the task with these changes."""
    return partial(locomotion, task, bins=settings["bins"], kind=settings["shift"], change_at=change_at, values=values,
                   max_episode_steps=episode_steps)  # fmt: skip


def training_env(task: str, settings: dict[str, Any], change_at: tuple[int, ...], values: tuple[float, ...]) -> Any:
    """The same with episodes as they are in training."""
    return task_env(task, settings, change_at, values, settings["training_steps"].get(task, settings["episode_steps"]))


def phase_env(task: str, settings: dict[str, Any], phase: int) -> Any:
    """The task under the physics of one phase, from the first step on."""
    values = settings["values"][phase - 1 : phase] if phase else ()
    return task_env(task, settings, (0,) * len(values), values, settings["episode_steps"])


def trained(figure: Figure, settings: dict[str, Any], task: str, part: str = "shift") -> Comparison:
    """The agents on a task, or DQN alone on the task without any change, with their evaluations."""
    first, second = changes(settings)
    moments, env, chosen = last_moments(settings), training_env(task, settings, (), ()), {"DQN": {}}
    if part == "shift":
        moments, chosen = sorted({*columns(settings), (first, 1), (second, 2)}), settings["agents"]
        env = training_env(task, settings, (first, second), settings["values"])
    return figure.compare(
        {agent: make_agent(NAMES[agent], **settings["agent"], **given) for agent, given in chosen.items()},
        env,
        steps=settings["steps"],
        folder=task if part == "shift" else f"{task}-{part}",
        regret="none",
        evaluations=[Evaluation(f"{step}.{phase}", step, phase_env(task, settings, phase), settings["episodes"])
                     for step, phase in moments],
    )  # fmt: skip


def at(runs: Comparison, agent: str, moment: Moment) -> np.ndarray:
    """The mean return of each seed's evaluation, (seeds,)."""
    step, phase = moment
    return np.array([run.extras[f"{step}.{phase}"].mean() for run in runs_of(runs, agent)])


def runs_of(runs: Comparison, agent: str) -> list[Run]:
    """The runs of all seeds."""
    return [runs.load_run(agent, seed) for seed in runs.seeds_of(agent)]


def before_changes(runs: Comparison, agent: str, settings: dict[str, Any]) -> np.ndarray:
    """The four columns of the table, (4, seeds)."""
    return np.array([at(runs, agent, moment) for moment in columns(settings)])


def random_returns(task: str, settings: dict[str, Any], phase: int) -> np.ndarray:
    """Evaluation returns of uniformly random actions in one phase."""
    make = phase_env(task, settings, phase)
    act = random_policy(make().action_space, seed=0)
    return evaluation_returns(act, make, episodes=settings["episodes"], seed=1_000)


def in_order(returns: dict[str, np.ndarray]) -> tuple[bool, dict[str, Any]]:
    """Whether the agents are in the paper's order, by means and seed by seed, and the probabilities of it."""
    holds, measured = len(returns["DQN"]) >= FEWEST_SEEDS, {}
    for ours, theirs in (("DeepDQUCB", "DQNUCB"), ("DQNUCB", "DQN")):
        higher = statistics.probability_of_improvement(returns[theirs], returns[ours])
        measured[f"P({ours} > {theirs})"] = higher.rounded(2)
        holds = holds and bool(returns[ours].mean() > returns[theirs].mean() and higher.low > 0.5)
    return holds, measured


def order_claim(task: str, runs: Comparison, settings: dict[str, Any]) -> Claim:
    """Whether the agents end in the paper's order."""
    final = {agent: before_changes(runs, agent, settings)[-1] for agent in runs.labels}
    holds, order = in_order(final)
    measured = {agent: values.round(1).tolist() for agent, values in final.items()}
    return Claim(f"{task}: deep DQUCB > DQN-UCB > DQN in return at T", holds, measured | order)


def learning_claim(task: str, runs: Comparison, settings: dict[str, Any], random: np.ndarray, bins: str) -> Claim:
    """Whether DQN beats random actions on every seed in the last evaluations of a run without a shift."""
    values = np.mean([at(runs, "DQN", moment) for moment in last_moments(settings)], 0)
    bar = float(random.mean() + 5 * random.std())
    measured = {"DQN": values.round(1).tolist(), "mean": round(float(values.mean()), 1),
                "random_mean": round(float(random.mean()), 1), "bar": round(bar, 1)}  # fmt: skip
    text = f"{task} without a shift, {bins}: DQN beats random actions by five of their deviations on every seed"
    return Claim(text, bool((values > bar).all()), measured)


def return_claim(task: str, runs: Comparison, settings: dict[str, Any]) -> Claim:
    """Whether DQN as recommended has the return that is asked for at the end of a run without a shift."""
    values = np.mean([at(runs, "DQN", moment) for moment in last_moments(settings)], 0)
    mean, worst = WANTED[task]
    steps = f"{settings['steps']:,} steps"
    text = f"{task} without a shift, as recommended: a mean of {mean:,} and {worst:,} on every seed after {steps}"
    measured = {"mean": round(float(values.mean()), 1), "by_seed": values.round(1).tolist()}
    return Claim(text, bool(values.mean() >= mean and values.min() >= worst), measured)


def likelihood_claim(task: str, runs: Comparison, settings: dict[str, Any]) -> Claim:
    """Whether the likelihood falls at both changes."""
    few = settings["steps"] // 20  # longer than an episode, so that some end in it
    measured, holds = {}, True
    for name, change in zip(("first", "second"), changes(settings), strict=True):
        before = [_likelihood(run, change - few, change) for run in runs_of(runs, "DeepDQUCB")]
        after = [_likelihood(run, change, change + few) for run in runs_of(runs, "DeepDQUCB")]
        measured |= {f"before the {name}": before, f"after the {name}": after}
        holds = holds and all(a < b for a, b in zip(after, before, strict=True))
    return Claim(f"{task}: the mean likelihood falls at both changes on every seed", holds, measured)


def _likelihood(run: Run, first: int, last: int) -> float:
    """The mean likelihood of the steps of the episodes that ended in (first, last]."""
    chosen = (run.ends > first) & (run.ends <= last)
    return round(float(np.average(run.likelihood[chosen], weights=run.lengths[chosen])), 4)


def table(tasks: dict[str, Comparison], settings: dict[str, Any], random: dict[str, list[np.ndarray]]) -> str:
    """The paper's table with our numbers beside its own, in Markdown."""
    lines = []
    for task, runs in tasks.items():
        lines += [
            f"| {task} | T/2 (shift) | 2T/3 (shift) | 3T/4 | T | paper: T/2 | 2T/3 | 3T/4 | T |",
            "|---" * 9 + "|",
        ]
        for agent in runs.labels:
            ours = [f"{values.mean():,.1f}" + (f" ± {spread(values):,.1f}" if len(values) > 1 else "")
                    for values in before_changes(runs, agent, settings)]  # fmt: skip
            lines.append(f"| {' | '.join([agent, *ours, *(f'{value:,.1f}' for value in PAPER[task][agent])])} |")
        floor = [f"{random[task][phase].mean():,.1f}" for phase in (0, 1, 2, 2)]
        lines += [f"| {' | '.join(['random actions', *floor])} | | | | |", ""]
    return "\n".join(lines)


def curve(run: Run, name: str, edges: np.ndarray) -> np.ndarray:
    """The mean of an episode's quantity over the episodes that ended between edges, NaN where none did."""
    place = np.searchsorted(edges, run.ends) - 1
    sums, counts = (np.bincount(place, w, len(edges) - 1) for w in (getattr(run, name), np.ones(len(run))))
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


def draw(tasks: dict[str, Comparison], settings: dict[str, Any], random: dict[str, list[np.ndarray]],
         path: Path) -> None:  # fmt: skip
    """Returns in training with the evaluations on top, and deep DQUCB's likelihood."""
    figure, axes = plt.subplots(2, len(tasks), figsize=(4.0 * len(tasks), 6.4), layout="constrained", squeeze=False)
    steps = settings["steps"]
    edges = np.linspace(0, steps, 41)
    middle = (edges[1:] + edges[:-1]) / 2
    for (task, runs), column in zip(tasks.items(), axes.T, strict=True):
        for place, agent in enumerate(runs.labels, start=-1):
            returns = np.mean([curve(run, "returns", edges) for run in runs_of(runs, agent)], 0)
            column[0].plot(middle, returns, label=agent, marker=".", markersize=3, **look(agent))
            aside = place * steps // 80  # or the three bars of a moment would hide each other
            when = [step + aside for step, _ in columns(settings)]
            dots = before_changes(runs, agent, settings)
            column[0].errorbar(when, dots.mean(1), [spread(dot) for dot in dots], fmt="o", markersize=4, capsize=2,
                               color=COLOURS[agent])  # fmt: skip
        column[0].axhline(random[task][0].mean(), color="0.6", linewidth=0.8, label="random actions")
        column[0].set(title=task, ylabel="return: training (lines), evaluation (dots)")
        likelihood = np.mean([curve(run, "likelihood", edges) for run in runs_of(runs, "DeepDQUCB")], 0)
        column[1].plot(middle, likelihood, color=COLOURS["DeepDQUCB"], marker=".", markersize=3)
        column[1].set(ylabel="mean likelihood (DeepDQUCB)", ylim=(0, 1))
        for axis in column:
            for change in changes(settings):
                axis.axvline(change, color="0.5", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
            axis.set(xlabel="step", xlim=(0, steps * 1.03))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    values = " then ".join(f"{value:g}" for value in settings["values"])
    what = settings["shift"].replace("_", " ")
    seeds = len(runs.settings["seeds"])
    figure.suptitle(f"{what} {values} from the dashed lines on; seeds: {seeds}", fontsize=11)
    save(figure, path)


def as_recommended(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with few bins and what goes with them."""
    agent = {**settings["agent"], **settings["recommended"]}
    bins, steps = settings["recommended_bins"], settings["recommended_training_steps"]
    return {**settings, "bins": bins, "training_steps": steps, "agent": agent}


def main() -> None:
    choices = {"parts": PARTS, "tasks": SETTINGS["tasks"]}
    figure = begin("tab03_mujoco", __doc__, SETTINGS, choices, more=OPTIONS)
    given, settings = figure.arguments, {**SETTINGS, "steps": figure.arguments.steps}
    if figure.quick:
        small = {name: value for name, value in QUICK_AGENT.items() if name in settings["recommended"]}
        settings = {**settings, **QUICK, "agent": {**SETTINGS["agent"], **QUICK_AGENT},
                    "recommended": {**SETTINGS["recommended"], **small}}  # fmt: skip
    figure.settings = settings
    few = as_recommended(settings)
    still = [task for task in settings["unshifted"] if task in given.tasks]
    tasks = {task: trained(figure, settings, task) for task in given.tasks if "shift" in given.parts}
    plain = {task: trained(figure, settings, task, "unshifted") for task in still if "unshifted" in given.parts}
    better = {task: trained(figure, few, task, "recommended") for task in given.tasks if "recommended" in given.parts}
    random = {task: [random_returns(task, settings, phase) for phase in range(3)] for task in given.tasks}
    claims = [order_claim(task, runs, settings) for task, runs in tasks.items()]
    for group, bins in ((plain, f"{settings['bins']} bins"), (better, f"{few['bins']} bins as recommended")):
        claims += [learning_claim(task, runs, settings, random[task][0], bins) for task, runs in group.items()]
    claims += [return_claim(task, runs, settings) for task, runs in better.items()]
    claims += [likelihood_claim(task, runs, settings) for task, runs in tasks.items()]
    if tasks:
        draw(tasks, settings, random, figure.out / figure.name)
        text = table(tasks, settings, random)
        (figure.out / f"{figure.name}.md").write_text(text)
        print(text)
    groups = (("", tasks), ("-unshifted", plain), ("-recommended", better))
    cells = {(f"{task}-{agent}" + end): (runs, agent) for end, group in groups
             for task, runs in group.items() for agent in runs.labels}  # fmt: skip
    returns = {
        name: {f"{moment.replace('.', ' in phase ')}": [round(float(run.extras[moment].mean()), 1)
                                                        for run in runs_of(runs, agent)]
               for moment in runs.settings["options"]["evaluations"]}
        for name, (runs, agent) in cells.items()
    }  # fmt: skip
    seconds = {name: [round(run.seconds, 1) for run in runs_of(*cell)] for name, cell in cells.items()}
    floors = {task: [round(float(values.mean()), 1) for values in each] for task, each in random.items()}
    figure.write(claims, {"evaluation_returns": returns, "random_actions": floors, "paper": PAPER,
                          "seconds_per_seed": seconds, "mujoco": mujoco.__version__})  # fmt: skip


if __name__ == "__main__":
    main()
