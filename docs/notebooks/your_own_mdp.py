# %% [markdown]
# # Your own MDP that changes
#
# A finite problem is data: probabilities `P[s, a, s']`, mean rewards `R[s, a]`, and a horizon or a discount. A
# problem that changes is a list of them and the episodes at which one takes the place of another.
#
# As an example, a machine that wears out. State 0 is new, 1 worn, 2 broken. Each day we run it or repair it.

# %%
import numpy as np

from dqucb import PlanningDQUCB, ShiftingMDP, TabularMDP, check_problem

RUN, REPAIR = 0, 1


def machine(wear):
    P = np.zeros((3, 2, 3))
    P[0, RUN] = [1 - wear, wear, 0]
    P[1, RUN] = [0, 1 - wear, wear]
    P[2, RUN] = [0, 0, 1]
    P[:, REPAIR] = [1, 0, 0]
    R = np.array([[1.0, 0.4], [0.9, 0.4], [0.0, 0.4]])  # a day of repair costs most of the earnings
    return TabularMDP(P, R, initial=0, horizon=30)


# %% [markdown]
# After episode 400 a bad batch of parts makes the machine wear out in a day or two.

# %%
problem = ShiftingMDP([machine(wear=0.05), machine(wear=0.7)], change_at=[400], name="machine")
check_problem(problem)
for phase in (0, 1):
    best = problem.optimal_q(phase)[0].argmax(axis=1)  # on the first of 30 days
    print(f"phase {phase}: new, worn, broken:", [("run", "repair")[action] for action in best])

# %% [markdown]
# The best policy changes: with good parts a worn machine is repaired at once; with bad ones that is not worth a day,
# and it runs until it breaks. Does the agent find out?

# %%
agent = PlanningDQUCB()
run = agent.train(problem, episodes=800, seed=0, regret="expected")
print("alarms:", run.alarms.tolist(), "regret by phase:", np.round(run.phase_regret(), 1).tolist())
print("what it does with a new, a worn and a broken machine:", [agent.predict(state) for state in range(3)])

# %% [markdown]
# With `regret="expected"` the regret of an episode is the exact value of the best policy minus that of the policy
# followed, without the luck of single episodes.

# %%
import matplotlib.pyplot as plt

plt.figure(figsize=(7, 3), layout="constrained")
plt.plot(run.ends, run.regret)
plt.axvline(400, color="gray", linestyle=":", label="change")
plt.plot(run.alarms, np.interp(run.alarms, run.ends, run.regret), "^", color="tab:red", label="alarm")
plt.xlabel("episode")
plt.ylabel("cumulative expected regret")
plt.legend()
plt.show()

# %% [markdown]
# Register the problem to use it by name, in `compare` and on the command line: see [Your own agent, problem or
# density](../extending.md). A Gymnasium env with a table of transitions (`env.unwrapped.P`) becomes a problem with
# `dqucb.from_gymnasium`.
