# %% [markdown]
# # Sweeps on a Dask cluster
#
# The same trials can run on the cores of one machine or on a cluster. Results do not depend on where, nor on how
# many workers there are. The extra is `pip install "dqucb[dask]"`.
#
# Here the cluster is two workers on this machine; on yours it is the address of a scheduler, `tcp://host:8786`.

# %%
from distributed import LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)

# %%
from dqucb import load_comparison, sweep
from dqucb.problems import combination_lock

lock = combination_lock(change_at=(500,))
values = {"bonus_scale": [0.01, 0.1, 1.0]}
options = {"seeds": 4, "out": "scales", "backend": "dask", "scheduler": cluster.scheduler_address}
made = sweep(["qucb", "dqucb"], lock, values, 1_000, **options)
print(made.computed, "runs were made")

# %% [markdown]
# Every finished run is one checked file in the folder. Stop the sweep as you like and repeat the command: only what
# is missing is made. So the same call again makes nothing, and more seeds make only the new ones.

# %%
again = sweep(["qucb", "dqucb"], lock, values, 1_000, **options)
more = sweep(["qucb", "dqucb"], lock, values, 1_000, **{**options, "seeds": 5})
print(again.computed, "and", more.computed, "runs were made")
assert (again.computed, more.computed) == (0, 6)

# %%
cluster.close()
load_comparison("scales").summary().round(2)

# %% [markdown]
# From the command line:
#
# ```
# dqucb sweep gridworld --agents qucb,dqucb --bonus-scale 0.01,0.1,1 --seeds 10 --out scales \
#     --backend dask --scheduler tcp://host:8786
# dqucb report scales
# ```
