# %% [markdown]
# # First run
#
# An agent learns a frozen lake that becomes slippery twice. We look at its regret, at the likelihood of what it
# sees, and at the moments when it noticed the changes.

# %%
from dqucb import PlanningDQUCB, compare, frozen_lake

lake = frozen_lake(slip=(0, 1 / 2, 2 / 3), change_at=(3_000, 6_000), horizon=100)
run = PlanningDQUCB().train(lake, episodes=9_000, seed=0)
run

# %% [markdown]
# **Return** is the sum of rewards of an episode: here 1 if the goal was reached, else 0. **Regret** is what the best
# policy of the phase would have got on average, minus what the agent got, summed over all episodes. A flat curve
# means that the agent does as well as it can.

# %%
for phase, regret in enumerate(run.phase_regret()):
    print(f"phase {phase}: regret {regret:.0f}, {regret / 3_000:.3f} per episode")

# %% [markdown]
# The agent did not know when the lake would change. It found out by itself: an **alarm** is the moment when what it
# sees no longer fits what it has seen before.

# %%
print("alarms in episodes ", run.alarms.tolist())
print("after the changes, ", run.detection_delays(), "episodes; false alarms:", run.false_alarms)
assert run.detection_delays()[0] < 100

# %% [markdown]
# The **likelihood** of a transition is its probability under a density over the transitions seen lately. It is 1
# while the lake does exactly what was asked of it, and falls when moves begin to slip.

# %%
import matplotlib.pyplot as plt

figure, (above, below) = plt.subplots(2, sharex=True, figsize=(7, 4.5), layout="constrained")
above.plot(run.ends, run.regret)
above.set_ylabel("cumulative regret")
below.plot(run.ends, run.likelihood, linewidth=0.3)
below.plot(run.alarms, [0.05] * len(run.alarms), "^", color="tab:red", label="alarms")
below.set(ylabel="likelihood", xlabel="episode", ylim=(0, 1.05))
below.legend(loc="lower left")
plt.show()

# %% [markdown]
# ## Several agents, several seeds
#
# One run proves little. `compare` trains several agents with several seeds, on all cores, and `out=` keeps every
# finished run in a folder.

# %%
comparison = compare(["planning-dqucb", "dqucb", "qucb"], lake, 9_000, seeds=5)
comparison.summary().round(2)

# %%
figure = comparison.plot()
figure

# %% [markdown]
# From the command line, with the full length of 60,000 episodes and a report as one HTML page:
#
# ```
# dqucb run frozen-lake --agents planning-dqucb,dqucb,qucb --seeds 5 --out results
# dqucb report results
# ```
