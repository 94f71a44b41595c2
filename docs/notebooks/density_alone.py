# %% [markdown]
# # The density alone
#
# `SlidingKDE` is an exact kernel density estimate over the last n points of a stream. It gives what scikit-learn's
# `KernelDensity` gives when it is fitted on the same n points, without fitting.

# %%
import numpy as np

from dqucb import SlidingKDE

rng = np.random.default_rng(0)
stream = np.concatenate([rng.normal(0, 1, 500), rng.normal(4, 1, 500)])

kde = SlidingKDE(window=200, kernel="gaussian", bandwidth=0.4, dimension=1)
scores = []
for x in stream:
    scores.append(kde.score([x]) if len(kde) else 0.0)  # log density of a point before it is learned
    kde.push([x])
kde

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(scores, linewidth=0.6)
left.axvline(500, color="gray", linestyle=":")
left.set(xlabel="point", ylabel="log density before it was learned")
grid = np.linspace(-4, 8, 300)[:, None]
right.plot(grid, np.exp(kde.score_samples(grid)))
right.set(xlabel="x", ylabel="density of the last 200 points")
plt.show()

# %% [markdown]
# Is it exact? Here is the definition, over the points of the window.

# %%
points = kde.points[:, 0]
by_hand = np.mean(np.exp(-0.5 * ((grid - points) / 0.4) ** 2), axis=1) / (0.4 * np.sqrt(2 * np.pi))
worst = np.abs(np.exp(kde.score_samples(grid)) - by_hand).max()
print(f"largest difference: {worst:.1e}")
assert worst < 1e-12

# %% [markdown]
# ## Densities of transitions
#
# The agents use densities over (state, action, next state), which give the likelihood of a next state *given* the
# state and the action. `TransitionCounts` counts, `DiscreteTransitionKDE` smooths over neighbouring states,
# `TransitionKDE` takes vectors.

# %%
from dqucb import TransitionCounts, TransitionKDE

counts = TransitionCounts(n_states=3, n_actions=1)
for next_state in (1, 1, 1, 2):
    counts.push(0, 0, next_state)
print("after action 0 in state 0, state 1 has the likelihood", counts.likelihood(0, 0, 1))

walk = TransitionKDE(state_dim=2, window=100, bandwidth=0.5)
for _ in range(100):
    position = rng.normal(size=2)
    walk.push(position, 0, position + 0.1)
print("a usual step:", round(walk.likelihood(np.zeros(2), 0, np.full(2, 0.1)), 3))
print("a jump:      ", round(walk.likelihood(np.zeros(2), 0, np.full(2, 3.0)), 6))
