# %% [markdown]
# # Deep agents
#
# Where states are numbers, a network takes the place of the table: `DQN`, `DQNUCB` (a bonus from counts of hashed
# states) and `DeepDQUCB` (that bonus divided by the likelihood of the transition). They are in the extra `deep`:
# `pip install "dqucb[deep]"`.
#
# All seeds of an agent are trained in lockstep, as one stack of networks; ten seeds take far less than ten times as
# long as one.

# %%
from dqucb.deep import DeepDQUCB

agent = DeepDQUCB(hidden=(32, 32))
runs = agent.train_seeds("cartpole", seeds=2, episodes=60)
for run in runs:
    print(run)

# %% [markdown]
# `"cartpole"` is a cart and a pole whose velocities become noisy at episode 400. The run above is much too short to
# learn anything; `dqucb run cartpole --agents dqn,dqn-ucb,deep-dqucb --seeds 10 --out cartpole` takes a while and
# draws the whole comparison. Here we look at the density alone: does the likelihood fall when the noise comes? We
# let it come early, at episode 30.

# %%
import functools

from dqucb.envs import CartPoleEnv

make = functools.partial(CartPoleEnv, change_at=(30,))
run = DeepDQUCB(hidden=(32, 32)).train(make, episodes=60, seed=0)
before, after = run.likelihood[10:30].mean(), run.likelihood[30:].mean()
print(f"mean likelihood before the change {before:.2f}, after it {after:.2f}")
assert after < before

# %%
import matplotlib.pyplot as plt

plt.figure(figsize=(7, 3), layout="constrained")
plt.plot(run.ends, run.likelihood, label="mean likelihood of an episode")
plt.axvline(30, color="gray", linestyle=":", label="noise on the velocities")
plt.xlabel("episode")
plt.ylim(0, 1.05)
plt.legend()
plt.show()

# %% [markdown]
# Do not expect too much: in our runs on CartPole ten seeds cannot tell the three agents apart ([Figure
# 3c](../reproduction/fig03c_cartpole.md)). The likelihood notices the change in the very first episode.
#
# A trained agent acts, is saved and loaded like any other; files hold arrays and JSON, no pickle.

# %%
import numpy as np

from dqucb.deep import DeepDQUCB as Same

agent = DeepDQUCB(hidden=(32, 32))
agent.train("cartpole", episodes=20, seed=0)
agent.save("cartpole.agent")
observation = np.zeros(4, np.float32)
agent.predict(observation), Same.load("cartpole.agent").predict(observation)
