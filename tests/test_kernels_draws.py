"""Random streams in kernels: NumPy's own numbers, whatever happens while they are drawn."""

import copy
import pickle

import numpy as np
import pytest

from dqucb import DQUCB
from dqucb._kernels import draws as draws_module
from dqucb._kernels._jit import kernel
from dqucb._kernels.draws import PCG64Draws, draws_of, generator

OWN_LOOP = """
import signal
from dqucb import DQUCB
agent = DQUCB(window=5, likelihood_noise=0.1).start(n_states=4, n_actions=2, horizon=10, seed=0)

def step():
    agent.observe(0, agent.act(state=0, step=0), reward=0.0, next_state=1, step=0)

def interrupt(*_):
    raise KeyboardInterrupt

step()  # compiled before anything interrupts
signal.signal(signal.SIGALRM, interrupt)
for delay in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3 + 7e-6 * delay)
        while True:
            step()
    except KeyboardInterrupt:
        pass
print("alive")
"""


@kernel
def drawn(draws, numbers):
    rng = generator(draws)
    for i in range(numbers.shape[0]):
        numbers[i, 0] = rng.random()
        numbers[i, 1] = rng.standard_normal()


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937])
def test_kernels_go_on_in_the_stream_of_a_generator(bits):
    rng, twin = np.random.Generator(bits(3)), np.random.Generator(bits(3))
    numbers = np.empty((2_000, 2))  # enough for the tails of the normal distribution
    drawn(draws_of(rng), numbers)
    assert numbers.tolist() == [[twin.random(), twin.standard_normal()] for _ in numbers]
    assert rng.random() == twin.random()


def test_a_pcg64_is_drawn_from_without_a_call():
    """NumPy could keep its words elsewhere one day: then kernels would call it, and only be slower."""
    rng = np.random.default_rng(3)
    draws = draws_of(rng)
    assert isinstance(draws, PCG64Draws | np.random.Generator)  # the latter without the JIT


def test_words_that_are_not_those_of_the_generator_are_not_used(monkeypatch):
    rng, twin, numbers = np.random.default_rng(3), np.random.default_rng(3), np.empty((5, 2))
    monkeypatch.setattr(draws_module, "pcg64_words", lambda rng: (1, [0, 0, 0, 0]))
    drawn(draws_of(rng), numbers)
    assert numbers[:, 0].tolist() == [[twin.random(), twin.standard_normal()][0] for _ in numbers]


def test_a_signal_that_raises_between_two_steps_leaves_the_process_alive(run_python):
    assert run_python(OWN_LOOP).strip() == "alive"


def test_a_copied_agent_draws_from_its_own_generator():
    def played(agent):
        return [agent.observe(0, agent.act(state=0), reward=0.0, next_state=i % 3, step=0) for i in range(30)]

    agent = DQUCB(window=5, likelihood_noise=0.3).start(n_states=4, n_actions=2, horizon=10, seed=0)
    played(agent)
    copies = [copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    state = agent._started().rng.bit_generator.state
    told = [played(other) for other in copies]
    assert agent._started().rng.bit_generator.state == state, "the copies took numbers from the first generator"
    assert told == [played(agent)] * 2
