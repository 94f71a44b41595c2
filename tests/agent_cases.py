"""Every agent in every setting that reaches other code, and a small task for it."""

import numpy as np

from dqucb import (
    BORL,
    DQUCB,
    NSNAC,
    QUCB,
    RLCD,
    SWUCRL2CW,
    UCBB,
    UCBMQ,
    UCBVI,
    DetectReset,
    DiscountedQUCB,
    PlanningDQUCB,
    QLearning,
    Random,
    RestartQUCB,
    ShiftingMDP,
    SlidingWindowQUCB,
    TabularMDP,
)

EPISODIC = [
    QUCB(bonus="simplified"),
    DQUCB(window=6),
    DQUCB(window=9, scope="step", likelihood="density", bonus="theory", state_features=np.arange(8)[:, None] // 2),
    DQUCB(window=9, scope="shared", kernel="linear", bandwidth=2.0),
    DQUCB(window=8, likelihood="oracle"),
    DQUCB(window=5, likelihood_noise=0.1),
    UCBVI(),
    UCBVI(planning="real_time"),
    UCBVI(transition_noise=0.05),
    UCBVI(planning="real_time", transition_noise=0.05),
    UCBMQ(),
    PlanningDQUCB(false_alarms=1.0),
    PlanningDQUCB(stage_dependent=False),
    PlanningDQUCB(stage_dependent=True),
    QLearning(epsilon=0.3),
    Random(),
    SWUCRL2CW(window=40, bonus_scale=0.05),
    BORL(bonus_scale=0.05),
    RLCD(memory=10, min_quality=0.05),
    NSNAC(learning_rate=0.2, policy_rate=0.3),
]
SHARED = [
    QUCB(stage_dependent=False),
    QUCB(stage_dependent="auto"),
    DQUCB(stage_dependent=False, window=6),
    DQUCB(stage_dependent="auto", window=6),
    DQUCB(stage_dependent="auto", window=8, likelihood="oracle"),
    UCBVI(stage_dependent=False),
    UCBVI(stage_dependent="auto"),
    UCBB(stage_dependent=False),
    SlidingWindowQUCB(stage_dependent="auto", window=20),
    DiscountedQUCB(stage_dependent=False, memory=0.9),
    RestartQUCB(stage_dependent="auto", epochs=3),
    DetectReset(stage_dependent="auto", threshold=1.5),
    QLearning(stage_dependent=False, epsilon=0.3),
    SWUCRL2CW(stage_dependent=True, window=40, bonus_scale=0.05),
    RLCD(stage_dependent=True, memory=10, min_quality=0.05),
    NSNAC(stage_dependent=True, learning_rate=0.2, policy_rate=0.3),
]
WITHOUT_EPISODES = QUCB | PlanningDQUCB | QLearning | Random | SWUCRL2CW | BORL | NSNAC
DISCOUNTED = [agent for agent in EPISODIC if isinstance(agent, WITHOUT_EPISODES)] + [QUCB(act_on="q")]
CASES = [(agent, "horizon") for agent in EPISODIC + SHARED] + [(agent, "discount") for agent in DISCOUNTED]
IDS = [f"{agent!r:.60}-{kind}" for agent, kind in CASES]
S, A = 8, 3
SIZE = {"horizon": {"episodes": 90}, "discount": {"steps": 700}}


def copy(agent):
    return agent.clone()


def task(kind, **ends):
    """Two phases, some episodes that end early, a random start in the second phase; with a horizon P_h depends on h."""
    ends = ends or ({"horizon": 6} if kind == "horizon" else {"discount": 0.9})
    steps = [ends["horizon"]] if "horizon" in ends else []
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.full(S, 0.3), size=(2, *steps, S, A))
    R = rng.random((2, S, A))
    starts = (3, np.append(np.full(S - 1, 1 / (S - 1)), 0.0))
    phases = [TabularMDP(P[i], R[i], terminal=[S - 1], initial=starts[i], **ends) for i in range(2)]
    return ShiftingMDP(phases, [20 if kind == "horizon" else 100])


def assert_same(run, agent, other_run, other_agent, generator=True):
    for name in ("returns", "gaps", "likelihood", "lengths", "ends"):
        assert getattr(run, name).tobytes() == getattr(other_run, name).tobytes(), name
    assert agent.q_.tobytes() == other_agent.q_.tobytes()
    assert agent.visits_.tobytes() == other_agent.visits_.tobytes()
    if generator:
        states = [a._started().rng.bit_generator.state for a in (agent, other_agent)]
        assert states[0] == states[1]
