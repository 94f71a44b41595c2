# %% [markdown]
# # Your own Gymnasium env
#
# Any env with finitely many states and actions can be learned by the tabular agents, and any env with finitely many
# actions by the deep ones. An env need not know that it changes.

# %%
import gymnasium
from gymnasium.spaces import Discrete

from dqucb import PlanningDQUCB


class Bandit(gymnasium.Env):
    """Ten pulls at three levers; after 200 episodes another lever is the best one."""

    observation_space, action_space = Discrete(1), Discrete(3)

    def __init__(self):
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.pulls = 0
        return 0, {}

    def step(self, action):
        self.pulls += 1
        best = 0 if self.episode < 200 else 2
        win = self.np_random.random() < (0.9 if action == best else 0.3)
        return 0, float(win), False, self.pulls == 10, {}


# %% [markdown]
# `horizon` is the length of an episode. `change_at` and `max_return` are for the bookkeeping alone: with them the
# run has detection delays and a regret (against 10 wins in 10 pulls). The agent does not see them.

# %%
run = PlanningDQUCB().train(Bandit(), episodes=400, horizon=10, seed=1, change_at=200, max_return=10)
print("alarms:", run.alarms.tolist())
print("wins per episode in the last 50 episodes before the change:", run.returns[150:200].mean())
print("and at the end:", run.returns[350:].mean())
assert run.returns[350:].mean() > 8

# %% [markdown]
# ## Make any env change
#
# `ShiftWrapper` changes the attributes of an env at set episodes or steps: the gravity of CartPole, the slip of a
# lake, the price of a good.

# %%
from dqucb.envs import ShiftWrapper

env = ShiftWrapper(gymnasium.make("CartPole-v1"), [{"gravity": 30.0}], change_at=[2])
for episode in range(4):
    _, info = env.reset()
    env.step(0)
    print(f"episode {episode}: phase {info['phase']}, gravity {env.unwrapped.gravity}")

# %% [markdown]
# ## In a loop of your own
#
# Without `train`: start the agent, ask it to act, tell it what came of it.

# %%
env = Bandit()
agent = PlanningDQUCB().start(n_states=1, n_actions=3, horizon=10, seed=1)
for _ in range(250):
    state, _ = env.reset(seed=None)
    for step in range(10):
        action = agent.act(state, step=step)
        next_state, reward, terminated, truncated, _ = env.step(action)
        agent.observe(state, action, reward=reward, next_state=next_state, step=step, terminated=terminated)
        state = next_state
    agent.end_episode()
agent.alarms_
