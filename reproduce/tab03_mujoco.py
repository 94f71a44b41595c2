"""Table 3: returns on Hopper, HalfCheetah and Walker2d under shift, each action dimension cut into 100 bins.

The paper does not say what shifts. Here noise joins the observations at T/2 and grows at 2T/3 (dqucb/envs/physics.py
says why; the setting "shift" has other kinds). Each number is the mean return of 20 episodes of the greedy policy after
t steps of training, just before the change that falls on t, in the phase that was in force. The JSON also has those
right after the change.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

try:
    import mujoco
    import torch  # noqa: F401
except ImportError as error:
    sys.exit(f'tab03_mujoco needs MuJoCo and torch: pip install "dqucb[deep,mujoco]" ({error})')

import matplotlib.pyplot as plt
import numpy as np

from dqucb import Run
from dqucb.experiments import statistics
from reproduce._drawing import save
from reproduce._mujoco import Cell, cells, changes, columns, random_returns
from reproduce._protocol import Claim, begin

SETTINGS: dict[str, Any] = {
    "steps": 200_000,
    "bins": 100,
    "shift": "observation_noise",
    "values": (0.05, 0.15),  # standard deviations, from T/2 and from 2T/3 on
    "episodes": 20,
    "episode_steps": 1_000,
    "checkpoint_every": 20_000,
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
    },
    "agents": {
        "DQN": {},
        # 200,000 steps times 3 or 6 dimensions need more counters than CartPole. The scale was not tuned.
        "DQNUCB": {"bonus_scale": 0.1, "hash_bits": 16, "table_bits": 20},
        # In 25 to 40 dimensions Scott's bandwidth of about 0.9 puts the likelihood under the floor at 97 % of the steps
        # of a learning agent, which makes the division a constant; four times as wide it lies at 0.3 to 0.5.
        "DeepDQUCB": {"bonus_scale": 0.1, "hash_bits": 16, "table_bits": 20, "bandwidth": 3.5},
    },
}
QUICK: dict[str, Any] = {"steps": 600, "episodes": 2, "episode_steps": 30, "checkpoint_every": 400, "bins": 9}
QUICK_AGENT = {"hidden": (16,), "learning_starts": 200, "freeze_after": 200, "epsilon_steps": 100, "capacity": 1_000}
PAPER = {  # at T/2, 2T/3, 3T/4 and T
    "Hopper": {"DQN": (179.4, 221.0, 295.3, 410.2), "DQNUCB": (211.0, 257.2, 331.1, 509.0),
               "DeepDQUCB": (211.8, 397.5, 516.4, 689.6)},
    "HalfCheetah": {"DQN": (1410.1, 1595.6, 1800.8, 1967.2), "DQNUCB": (1526.1, 1733.4, 1920.7, 2125.0),
                    "DeepDQUCB": (1526.7, 2017.6, 2293.6, 2694.9)},
    "Walker2d": {"DQN": (288.5, 319.1, 380.7, 477.0), "DQNUCB": (323.3, 367.0, 433.3, 595.0),
                 "DeepDQUCB": (323.8, 411.6, 631.6, 755.0)},
}  # fmt: skip
FEWEST_SEEDS = 5  # with fewer no order is said to hold
COLOURS = {"DeepDQUCB": "#0072B2", "DQNUCB": "#D55E00", "DQN": "#009E73"}
STYLES = {"DeepDQUCB": "-", "DQNUCB": "--", "DQN": "-."}


def at(cell: Cell, step: int, phase: int) -> np.ndarray:
    """The mean return of each seed's evaluation, (seeds,)."""
    return np.array([np.mean(cell.results(seed)["returns"][f"{step}.{phase}"]) for seed in cell.seeds])


def before_changes(cell: Cell) -> np.ndarray:
    """The four columns of the table, (4, seeds)."""
    return np.array([at(cell, step, phase) for step, phase in columns(cell.settings)])


def spread(values: np.ndarray) -> float:
    """Standard deviation over seeds; 0 for one."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def order_claim(task: str, group: dict[str, Cell]) -> Claim:
    """Whether the agents end in the paper's order, by means and seed by seed."""
    final = {agent: before_changes(cell)[-1] for agent, cell in group.items()}
    measured: dict[str, Any] = {agent: values.round(1).tolist() for agent, values in final.items()}
    holds = len(final["DQN"]) >= FEWEST_SEEDS
    for ours, theirs in (("DeepDQUCB", "DQNUCB"), ("DQNUCB", "DQN")):
        higher = statistics.probability_lower(final[theirs], final[ours])
        measured[f"P({ours} > {theirs})"] = [round(value, 2) if np.isfinite(value) else None for value in higher]
        holds = holds and bool(final[ours].mean() > final[theirs].mean() and higher[1] > 0.5)
    return Claim(f"{task}: deep DQUCB > DQN-UCB > DQN in return at T", holds, measured)


def learning_claim(cell: Cell, random: np.ndarray) -> Claim:
    """Whether DQN beats random actions on every seed in the last evaluations of a run without a shift."""
    values = np.mean([at(cell, step, phase) for step, phase in cell.moments()], 0)
    bar = float(random.mean() + 5 * random.std())
    measured = {"DQN": values.round(1).tolist(), "random_mean": round(float(random.mean()), 1), "bar": round(bar, 1)}
    text = f"{cell.task} without a shift: DQN beats random actions by five of their deviations on every seed"
    return Claim(text, bool((values > bar).all()), measured)


def likelihood_claim(task: str, cell: Cell) -> Claim:
    """Whether the likelihood falls at both changes."""
    few = cell.settings["steps"] // 20  # longer than an episode, so that some end in it
    runs = [Run.load(cell.file(seed, "npz")) for seed in cell.seeds]
    measured, holds = {}, True
    for name, change in zip(("first", "second"), changes(cell.settings), strict=True):
        before = [_likelihood(run, change - few, change) for run in runs]
        after = [_likelihood(run, change, change + few) for run in runs]
        measured |= {f"before the {name}": before, f"after the {name}": after}
        holds = holds and all(a < b for a, b in zip(after, before, strict=True))
    return Claim(f"{task}: the mean likelihood falls at both changes on every seed", holds, measured)


def _likelihood(run: Run, first: int, last: int) -> float:
    """The mean likelihood of the steps of the episodes that ended in (first, last]."""
    chosen = (run.ends > first) & (run.ends <= last)
    return round(float(np.average(run.likelihood[chosen], weights=run.lengths[chosen])), 4)


def table(groups: dict[str, dict[str, Cell]], random: dict[str, list[np.ndarray]]) -> str:
    """The paper's table with our numbers beside its own, in Markdown."""
    lines = []
    for task, group in groups.items():
        lines += [
            f"| {task} | T/2 (shift) | 2T/3 (shift) | 3T/4 | T | paper: T/2 | 2T/3 | 3T/4 | T |",
            "|---" * 9 + "|",
        ]
        for agent, cell in group.items():
            ours = [f"{values.mean():,.1f}" + (f" ± {spread(values):,.1f}" if len(values) > 1 else "")
                    for values in before_changes(cell)]  # fmt: skip
            lines.append(f"| {' | '.join([agent, *ours, *(f'{value:,.1f}' for value in PAPER[task][agent])])} |")
        floor = [f"{random[task][phase].mean():,.1f}" for phase in (0, 1, 2, 2)]
        lines += [f"| {' | '.join(['random actions', *floor])} | | | | |", ""]
    return "\n".join(lines)


def curve(run: Run, name: str, edges: np.ndarray) -> np.ndarray:
    """The mean of an episode's quantity over the episodes that ended between edges, NaN where none did."""
    place = np.searchsorted(edges, run.ends) - 1
    sums, counts = (np.bincount(place, w, len(edges) - 1) for w in (getattr(run, name), np.ones(len(run))))
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


def draw(groups: dict[str, dict[str, Cell]], random: dict[str, list[np.ndarray]], path: Path) -> None:
    """Returns in training with the evaluations on top, and deep DQUCB's likelihood."""
    figure, axes = plt.subplots(2, len(groups), figsize=(4.0 * len(groups), 6.4), layout="constrained", squeeze=False)
    for (task, group), column in zip(groups.items(), axes.T, strict=True):
        for place, (agent, cell) in enumerate(group.items(), start=-1):
            steps = cell.settings["steps"]
            edges = np.linspace(0, steps, 41)
            runs = [Run.load(cell.file(seed, "npz")) for seed in cell.seeds]
            look = {"color": COLOURS[agent], "linestyle": STYLES[agent], "marker": ".", "markersize": 3}
            middle = (edges[1:] + edges[:-1]) / 2
            column[0].plot(middle, np.mean([curve(run, "returns", edges) for run in runs], 0), label=agent, **look)
            aside = place * steps // 80  # or the three bars of a moment would hide each other
            when = [step + aside for step, _ in columns(cell.settings)]
            dots = before_changes(cell)
            column[0].errorbar(when, dots.mean(1), [spread(dot) for dot in dots], fmt="o", markersize=4, capsize=2,
                               color=COLOURS[agent])  # fmt: skip
        column[0].axhline(random[task][0].mean(), color="0.6", linewidth=0.8, label="random actions")
        column[0].set(title=task, ylabel="return: training (lines), evaluation (dots)")
        likelihood = np.mean([curve(run, "likelihood", edges) for run in runs], 0)
        column[1].plot(middle, likelihood, color=COLOURS["DeepDQUCB"], marker=".", markersize=3)
        column[1].set(ylabel="mean likelihood (DeepDQUCB)", ylim=(0, 1))
        for axis in column:
            for change in changes(cell.settings):
                axis.axvline(change, color="0.5", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
            axis.set(xlabel="step", xlim=(0, steps * 1.03))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    settings = next(iter(groups.values()))["DQN"].settings
    values = " then ".join(f"{value:g}" for value in settings["values"])
    what = settings["shift"].replace("_", " ")
    figure.suptitle(f"{what} {values} from the dashed lines on; seeds: {len(runs)}", fontsize=11)
    save(figure, path)


def main() -> None:
    figure = begin("tab03_mujoco", __doc__, SETTINGS)
    settings = SETTINGS
    if figure.quick:
        settings = {**SETTINGS, **QUICK, "agent": {**SETTINGS["agent"], **QUICK_AGENT}}
    whole = cells(figure, settings, figure.out / ("runs_quick" if figure.quick else "runs"))
    groups = {task: {cell.agent: cell for cell in whole if cell.shifted and cell.task == task}
              for task in settings["tasks"]}  # fmt: skip
    random = {task: [random_returns(group["DQN"], phase) for phase in range(3)] for task, group in groups.items()}
    draw(groups, random, figure.out / figure.name)
    claims = [order_claim(task, group) for task, group in groups.items()]
    claims += [learning_claim(cell, random[cell.task][0]) for cell in whole if not cell.shifted]
    claims += [likelihood_claim(task, group["DeepDQUCB"]) for task, group in groups.items()]
    text = table(groups, random)
    (figure.out / f"{figure.name}.md").write_text(text)
    print(text)
    returns = {
        cell.name: {f"{step} in phase {phase}": at(cell, step, phase).round(1).tolist()
                    for step, phase in cell.moments()} for cell in whole
    }  # fmt: skip
    walls = {cell.name: [round(cell.results(seed)["wall_seconds"], 1) for seed in cell.seeds] for cell in whole}
    floors = {task: [round(float(values.mean()), 1) for values in each] for task, each in random.items()}
    figure.write(claims, {"evaluation_returns": returns, "random_actions": floors, "paper": PAPER,
                          "wall_seconds_per_seed": walls, "mujoco": mujoco.__version__})  # fmt: skip


if __name__ == "__main__":
    main()
