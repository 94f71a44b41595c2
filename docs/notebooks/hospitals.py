# %% [markdown]
# # Hospitals
#
# Patients arrive in a region and have to be placed in hospitals. Placing too many in one of them leaves patients
# without a bed. On day 637 the lengths of stay change. This is the paper's largest experiment; here are its parts.

# %%
from dqucb.hospital import synthetic_hospitals

system = synthetic_hospitals(10)
system

# %% [markdown]
# Synthetic hospitals need no download. `load_hospitals` reads the file that the U.S. government publishes and gives
# a report of its quality (how many values were imputed, how many suppressed).
#
# Rules of thumb, bandits and deep agents all run in the same env. A run has one record for each day; regret is
# counted in patient-days above a clairvoyant that knows today's outcome.

# %%
import functools

from dqucb import compare
from dqucb.hospital import CUCBRA, GreedyByFreeBeds, HospitalAllocationEnv, ProportionalToFreeBeds, RandomAllocation

make = functools.partial(HospitalAllocationEnv, system)
agents = [GreedyByFreeBeds(), ProportionalToFreeBeds(), CUCBRA(), RandomAllocation()]
comparison = compare(agents, make, steps=1_274, seeds=3, jobs=1)
comparison.summary().round(1)

# %%
figure = comparison.plot()
figure

# %% [markdown]
# Rules that look at free beds are hard to beat: in our runs they beat every learner, on synthetic and on real
# hospitals ([Figure 6](../reproduction/fig06_hospital.md)). A study of learning agents should always include them.
#
# One day in a loop of your own:

# %%
env = make()
state, _ = env.reset(seed=0)
agent = GreedyByFreeBeds().start(env, seed=0)
allocation = agent.act(state, 0)
state, reward, _, _, info = env.step(allocation)
print("patients placed in each hospital:", allocation.tolist())
print("reward:", reward, " regret of the day:", info["gap"])
