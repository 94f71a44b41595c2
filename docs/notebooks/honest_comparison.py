# %% [markdown]
# # Comparing agents with honest statistics
#
# Two agents with two seeds each tell nothing. This page shows the habits that keep a comparison honest: enough
# seeds, intervals, one question asked beforehand, and parameters chosen on other seeds than those reported.

# %%
from dqucb import compare, sweep
from dqucb.problems import combination_lock

lock = combination_lock(change_at=(1_000,))
comparison = compare(["planning-dqucb", "qucb", "ucbvi"], lock, 2_000, seeds=20)
comparison.summary().round(2)

# %% [markdown]
# Every figure has an interval. The number to look at is not the mean alone: on some problems a few unlucky seeds
# decide it. `finals` has every run, so that outliers are seen.

# %%
finals = comparison.finals()
finals.head()

# %% [markdown]
# ## Does one agent beat the other?
#
# `beats` estimates the probability that a run of the first agent ends with less regret than a run of the second,
# with a bootstrap interval over seeds. If one half lies inside the interval, the seeds cannot tell the two apart,
# whatever the means say.

# %%
for rival in ("QUCB", "UCBVI"):
    chance = comparison.probability_of_improvement("PlanningDQUCB", rival)
    says = "tells them apart" if chance.low > 0.5 or chance.high < 0.5 else "cannot tell them apart"
    print(f"PlanningDQUCB against {rival}: {chance.value:.2f} [{chance.low:.2f}, {chance.high:.2f}]: {says}")

# %% [markdown]
# ## Parameters are chosen on other seeds
#
# A rival deserves its best parameters. But the best of many values on the same seeds on which it is reported is a
# number that flatters. `best` chooses on some seeds and reports on the others.

# %%
scales = sweep(["qucb"], lock, {"bonus_scale": [0.01, 0.1, 1.0]}, 2_000, seeds=20)
for name, choice in scales.best(choose_on=range(10), report_on=range(10, 20)).items():
    print(name, choice)

# %% [markdown]
# ## A placebo
#
# An agent that gives alarms should be tried where nothing changes. There every alarm is false.

# %%
still = compare(["planning-dqucb"], combination_lock(change_at=()), 2_000, seeds=20)
alarms = sum(len(times) for times in still.alarms_of("PlanningDQUCB").values())
print(f"{alarms} alarms in 20 runs of 2,000 episodes without a change")
