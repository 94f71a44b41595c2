# %% [markdown]
# # Writing an agent
#
# An agent is a class with `act` and `observe`. It then trains on any problem whose spaces it can handle, runs in
# `compare` beside the built-in ones, and appears in reports.

# %%
import dqucb


class ForgetfulQ(dqucb.Agent):
    """Q-learning with a constant rate, which forgets; random with probability epsilon."""

    def __init__(self, *, rate=0.2, epsilon=0.1):
        self.rate, self.epsilon = rate, epsilon  # parameters are kept under the names of the keywords

    def begin(self, observation_space, action_space, *, rng, **facts):
        self.rng = rng  # the only source of random numbers: then the same seed gives the same run
        self.Q = [[1.0] * int(action_space.n) for _ in range(int(observation_space.n))]

    def act(self, observation, step=0):
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(len(self.Q[observation])))
        return self.Q[observation].index(max(self.Q[observation]))

    def observe(self, state, action, reward, next_state, step=0, terminated=False):
        target = reward + (0.0 if terminated else 0.99 * max(self.Q[next_state]))
        self.Q[state][action] += self.rate * (target - self.Q[state][action])


# %% [markdown]
# `check_agent` is a battery of checks: same seed, same run; stopping and going on changes nothing; saving and
# loading too; parameters can be read and cloned. It raises with a sentence if something is wrong.

# %%
dqucb.check_agent(ForgetfulQ())
ForgetfulQ().clone(epsilon=0.0)

# %% [markdown]
# Beside the built-in agents, on a problem whose goal moves:

# %%
lock = dqucb.combination_lock(change_at=(500,))
comparison = dqucb.compare([ForgetfulQ(), dqucb.QUCB(), dqucb.PlanningDQUCB()], lock, 1_000, seeds=5, jobs=1)
comparison.summary().round(2)

# %% [markdown]
# Registered under a name, it can be used on the command line of a program that imports your module:

# %%
dqucb.AGENTS.register("forgetful-q")(ForgetfulQ)
dqucb.make_agent("forgetful-q", rate=0.5)

# %% [markdown]
# An agent written in Python takes some microseconds for a step; the built-in ones run in compiled loops at tens of
# nanoseconds. `CONTRIBUTING.md` says what a built-in agent needs.
