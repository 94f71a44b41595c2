"""Networks in torch: the same algorithm as with the compiled ones, any module, images, devices, files, export."""

import subprocess
import sys
from functools import partial
from itertools import pairwise

import gymnasium
import numpy as np
import pytest

pytest.importorskip("torch", reason='torch is missing: pip install "dqucb[deep]"')

import torch
from deep_cases import CARTPOLE, SMALL, curves, stop_after, weights
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.utils.env_checker import check_env
from torch import nn

from dqucb import Agent, SavedFileError
from dqucb.deep import DQN, DQNUCB, NETWORKS, DeepDQUCB, DiscreteHead, Replay, StackedMLP
from dqucb.deep.double_q import DoubleQ
from dqucb.deep.scaling import RunningScale
from dqucb.deep.torch_modules import checked_module, device_of, mlp
from dqucb.deep.torch_network import StackedTorch
from dqucb.running.observations import Observations, space_from_json, space_to_json, vector_space


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads of torch wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def generators(n):
    return [np.random.default_rng(seed) for seed in range(n)]


def compiled(sizes, n):
    return StackedMLP(sizes, generators(n), learning_rate=1e-3, max_grad_norm=0.5)


def in_torch(sizes, n, make=None, **options):
    make = make or partial(mlp, hidden=sizes[1:-1])
    settings = {"device": "cpu", "learning_rate": 1e-3, "max_grad_norm": 0.5} | options
    return StackedTorch(make, vector_space(sizes[0]), sizes[-1], generators(n), **settings)


def learner(network, sizes, n):
    return DoubleQ(network, RunningScale(n, sizes[0], 0), DiscreteHead(sizes[-1]), discount=0.9, huber_delta=1.0,
                   tau=0.05, target_every=2, act_on="target", value_bound=np.inf)  # fmt: skip


def replay(sizes, n):
    rng, kept = np.random.default_rng(5), Replay(n, 500, sizes[0], 1)
    for _ in range(500):
        kept.add(rng.standard_normal((n, sizes[0])), rng.integers(sizes[-1], size=(n, 1)), rng.normal(0, 3, n),
                 rng.standard_normal((n, sizes[0])), rng.random(n) < 0.1, rng.random(n) < 0.2, np.zeros((n, 1)),
                 np.ones(n))  # fmt: skip
    return kept


def torch_rows(sizes, rows):
    """Rows of a compiled network's weights in torch's order."""
    parts = []
    for n_in, n_out in pairwise(sizes):
        matrix, bias, rows = np.split(rows, [n_in * n_out, (n_in + 1) * n_out], axis=1)
        parts += [matrix.reshape(-1, n_in, n_out).transpose(0, 2, 1).reshape(len(rows), -1), bias]
    return np.concatenate(parts, 1)


class Residual(nn.Module):
    """LayerNorm, a skip connection, a constant buffer, tied and frozen weights."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(n_inputs, 8), nn.LayerNorm(8), nn.Linear(8, n_outputs)
        self.again = nn.Linear(8, 8)
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.again.weight
        self.frozen = nn.Parameter(torch.randn(8), requires_grad=False)
        self.register_buffer("places", torch.arange(8.0))

    def forward(self, x):
        h = torch.relu(self.norm(self.first(x))) + 0.1 * self.frozen + 0.01 * self.places
        return self.last(h + torch.tanh(self.tied(torch.tanh(self.again(h)))))


class Branching(Residual):
    """Python control flow on the data, which vmap cannot run."""

    def forward(self, x):
        return super().forward(x) if float(x.detach().sum()) > -1e9 else x


def residual(space, n_outputs):
    return Residual(space.shape[0], n_outputs)


def branching(space, n_outputs):
    return Branching(space.shape[0], n_outputs)


# ---- one algorithm, two implementations ---------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [1, 3])
def test_both_backends_have_the_same_loss_gradient_and_weights_over_100_updates(seeds):
    sizes = (4, 24, 16, 3)
    ours, theirs = (learner(kind(sizes, seeds), sizes, seeds) for kind in (compiled, in_torch))
    theirs.online.load_weights(torch_rows(sizes, ours.online.weights))
    theirs.target.load_weights(torch_rows(sizes, ours.target.weights))
    kept, draws = replay(sizes, seeds), [generators(seeds) for _ in range(2)]
    clipped = 0
    for _ in range(100):
        for one, rngs in ((ours, draws[0]), (theirs, draws[1])):
            batch = kept.sample(rngs, 32, 3)
            one.update(batch, np.full(batch.alive.shape, 0.1))
        np.testing.assert_allclose(theirs.loss, ours.loss, rtol=2e-5)
        np.testing.assert_allclose(theirs.gradient_norm, ours.gradient_norm, rtol=2e-4)
        clipped += (ours.gradient_norm > 0.5).sum()
    assert 0 < clipped < 100 * seeds  # both branches of the clipping were taken
    for mine, other in ((ours.online, theirs.online), (ours.target, theirs.target)):
        np.testing.assert_allclose(other.weights, torch_rows(sizes, mine.weights), atol=5e-6)
    x = np.random.default_rng(1).standard_normal((seeds, 7, 4)).astype(np.float32)
    by_output = np.random.default_rng(2).standard_normal((seeds, 7, 3)).astype(np.float32)
    gradients = [one.online.gradient(one.online.forward(x)[1], by_output) for one in (ours, theirs)]
    np.testing.assert_allclose(gradients[1], torch_rows(sizes, gradients[0]), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("make", [residual, branching, partial(mlp, hidden=(8, 8))])
@pytest.mark.parametrize("optimizer", [None, partial(torch.optim.RMSprop, lr=1e-3), partial(torch.optim.Muon, lr=1e-3)])
def test_a_stack_learns_what_each_seed_learns_alone(make, optimizer):
    if optimizer is not None and optimizer.func is torch.optim.Muon:
        make = partial(unbiased, hidden=8)  # Muon takes matrices only
    sizes = (4, 8, 3)
    stack = in_torch(sizes, 3, make, optimizer=optimizer)
    assert len(stack._leaves) == (3 if make is branching else 1)  # vmap, or one after the other
    rng = np.random.default_rng(0)
    alone = [StackedTorch(make, vector_space(4), 3, [np.random.default_rng(i)], device="cpu", learning_rate=1e-3,
                          max_grad_norm=0.5, optimizer=optimizer) for i in range(3)]  # fmt: skip
    for _ in range(20):
        x, y = rng.standard_normal((3, 6, 4)).astype(np.float32), rng.standard_normal((3, 6, 3)).astype(np.float32)
        for network, rows in ((stack, slice(None)), *((one, slice(i, i + 1)) for i, one in enumerate(alone))):
            outputs, tape = network.forward(x[rows])
            network.step(tape, outputs - y[rows])
    for i, one in enumerate(alone):
        np.testing.assert_allclose(stack.weights[i], one.weights[0], atol=2e-5)
    single, before = stack.only(1), stack.weights.copy()
    outputs, tape = single.forward(x[1:2])
    single.step(tape, outputs)
    assert (stack.weights[1] != before[1]).any()
    np.testing.assert_array_equal(stack.weights[[0, 2]], before[[0, 2]])
    assert single.updates == stack.updates + 1 == 21


def unbiased(space, n_outputs, hidden):
    first, last = nn.Linear(space.shape[0], hidden, bias=False), nn.Linear(hidden, n_outputs, bias=False)
    return nn.Sequential(first, nn.ReLU(), last)


def test_frozen_weights_stay_and_tied_ones_move_together():
    agent = DQN(**SMALL, network=residual, device="cpu")
    agent.train_seeds(CARTPOLE, [0, 1], steps=120)
    modules = [agent.to_torch(seed).network for seed in (0, 1)]
    first = [checked_module(residual(vector_space(4), 2), (4,), 2) for _ in range(2)]
    for module, other in zip(modules, first, strict=True):
        assert module.tied.weight is module.again.weight
        assert not torch.equal(module.first.weight, other.first.weight)
    assert not torch.equal(modules[0].frozen, modules[1].frozen)  # each seed's own, drawn once
    twin = DQN(**SMALL, network=residual, device="cpu").train_seeds(CARTPOLE, [0, 1], steps=120)
    assert len(twin) == 2


def test_torch_is_not_loaded_by_the_default_network():
    code = ("import sys; from dqucb.deep import DQN; DQN(hidden=(4,), learning_starts=5).train('cartpole', steps=20); "
            "print('torch' in sys.modules)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- agents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DQN, DQNUCB, DeepDQUCB])
def test_agents_train_with_a_network_of_ones_own_and_resume_exactly(kind, tmp_path):
    settings = SMALL | {"network": residual, "optimizer": partial(torch.optim.AdamW, lr=1e-3), "device": "cpu"}
    whole = kind(**settings)
    runs = whole.train_seeds(CARTPOLE, [0, 5], steps=200)
    again = kind(**settings).train_seeds(CARTPOLE, [0, 5], steps=200)
    assert [curves(run) for run in runs] == [curves(run) for run in again]
    for stop in (30, 130):
        kind(**settings).train_seeds(CARTPOLE, [0, 5], steps=200, checkpoint=tmp_path / "c", callback=stop_after(stop))
    last = kind(**settings)
    resumed = last.train_seeds(CARTPOLE, [0, 5], steps=200, checkpoint=tmp_path / "c")
    assert [curves(run) for run in runs] == [curves(run) for run in resumed]
    np.testing.assert_array_equal(weights(whole), weights(last))
    assert last.network is residual


def test_a_file_imports_no_code_and_takes_the_network_from_the_user(tmp_path, monkeypatch):
    agent = DQN(**SMALL, network=residual, device="cpu")
    agent.train(CARTPOLE, steps=100)
    path, rows = agent.save(tmp_path / "agent"), np.random.default_rng(0).normal(size=(20, 4))
    unknown = Agent.load(path)
    with pytest.raises(ValueError, match=r"network 'test_deep_networks:residual#\w+' is a name from a file, and files"):
        unknown.predict(rows)
    known = DQN.load(path, network=residual)
    np.testing.assert_array_equal(known.predict(rows), agent.predict(rows))
    assert known.parameters() == agent.parameters()
    with pytest.raises(ValueError, match=r"network must be 'test_deep_networks:residual#.*with which .* was saved"):
        DQN.load(path, network=branching)
    monkeypatch.setitem(NETWORKS._things, "residual", residual)
    monkeypatch.setitem(NETWORKS._facts, "residual", {})
    registered = DQN(**SMALL, network="residual", device="cpu")
    registered.train(CARTPOLE, steps=100)
    loaded = Agent.load(registered.save(tmp_path / "registered"))
    np.testing.assert_array_equal(loaded.predict(rows), registered.predict(rows))

    class Mine(DQN):
        network = staticmethod(residual)

    mine = Mine(**SMALL, network=residual, device="cpu")
    mine.train(CARTPOLE, steps=100)
    np.testing.assert_array_equal(Mine.load(mine.save(tmp_path / "mine")).predict(rows), mine.predict(rows))
    with pytest.raises(ValueError, match="unknown network 'cnm': did you mean cnn"):
        DQN(network="cnm")


def test_factories_with_other_arguments_or_code_have_other_names():
    names = {DQN(network=make).parameters()["network"] for make in (
        residual, branching, partial(mlp, hidden=(8,)), partial(mlp, hidden=(9,)), lambda s, n: mlp(s, n),
        lambda s, n: 3,
    )}  # fmt: skip
    assert len(names) == 6
    assert DQN(network="cnn").parameters()["network"] == "cnn"
    state = {"0.weight": torch.zeros(2, 4), "0.bias": torch.ones(2)}
    digest = DQN(initial_state=state).parameters()["initial_state"]
    arrays = {name: value.numpy() for name, value in state.items()}
    assert digest == DQN(initial_state=arrays).parameters()["initial_state"]
    assert digest != DQN(initial_state=state | {"0.bias": torch.zeros(2)}).parameters()["initial_state"]


@pytest.mark.parametrize("network", [None, residual])
def test_an_agent_starts_from_the_weights_of_another(network, tmp_path):
    settings = SMALL | {"hidden": (16,), "network": network, "device": "cpu"}
    teacher = DQN(**settings)
    teacher.train(CARTPOLE, steps=150)
    state, rows = teacher.to_torch().state_dict(), np.random.default_rng(0).normal(size=(50, 4))
    pupil = DQN(**settings | {"learning_starts": 10_000}, initial_state=state)
    pupil.train_seeds(CARTPOLE, [3, 4], steps=20)
    for seed in (3, 4):  # the input scale too
        np.testing.assert_array_equal(pupil.predict(rows, trained_seed=seed), teacher.predict(rows))
        torch.testing.assert_close(pupil.to_torch(seed).state_dict(), state)
    loaded = DQN.load(pupil.save(tmp_path / "pupil"), **({} if network is None else {"network": network}))
    np.testing.assert_array_equal(loaded.predict(rows), teacher.predict(rows))
    with pytest.raises(ValueError, match="initial_state is not in the file"):
        loaded.clone().train(CARTPOLE, steps=5)
    with pytest.raises(ValueError, match="initial_state must have the entries"):
        DQN(**settings, initial_state={"0.weight": np.zeros((2, 4))}).train(CARTPOLE, steps=5)


def test_old_names_of_parameters_name_the_new_ones():
    for old, new in (("batch", "batch_size"), ("capacity", "buffer_size"), ("target_rate", "tau"),
                     ("largest_error", "huber_delta"), ("largest_gradient", "max_grad_norm")):  # fmt: skip
        for make in (DQN, DeepDQUCB, DQN().clone, DQN().set_params):
            with pytest.raises(TypeError, match=f"no parameter '{old}': it is called '{new}' now"):
                make(**{old: 3})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda space, n: nn.Sequential(nn.Linear(4, n), nn.Dropout()), "Dropout or BatchNorm"),
        (lambda space, n: nn.Sequential(nn.Linear(4, n), nn.BatchNorm1d(n)), "Dropout or BatchNorm"),
        (lambda space, n: nn.Linear(4, n + 1), r"to outputs \(2, 2\), got \(2, 3\)"),
        (lambda space, n: nn.Linear(4, n).double(), "float32"),
        (lambda space, n: "a network", "must return a torch.nn.Module"),
    ],
)
def test_networks_that_cannot_learn_q_are_refused_in_words(make, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        DQN(network=make, buffer_size=10).train(CARTPOLE, steps=3)


# ---- observations -------------------------------------------------------------------------------------------

LAKE = partial(gymnasium.make, "dqucb/PixelFrozenLake-v0", slip=0.0, horizon=40)
SPACES = [
    Box(-1, np.array([1, np.inf]), (2,)), Box(0, 255, (2, 3, 4), np.uint8), MultiBinary(3), MultiBinary((2, 2)),
    MultiDiscrete([2, 3]), Dict(a=Box(-1, 1, (2,)), b=Discrete(3), c=Tuple([MultiBinary(2), Discrete(2, start=5)])),
]  # fmt: skip


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_become_rows_and_come_back_from_json(space):
    import json

    back = space_from_json(json.loads(json.dumps(space_to_json(space))))
    assert back == space
    form, samples = Observations(space), [space.sample() for _ in range(5)]
    for sample in samples:
        expected = np.asarray(gymnasium.spaces.flatten(space, sample), form.dtype)
        np.testing.assert_array_equal(form.row(sample), expected)
        rows, single = form.rows(sample)
        assert single
        np.testing.assert_array_equal(rows, expected[None])
    rows, single = form.rows(np.array([form.row(sample) for sample in samples]))
    assert (rows.shape, single) == ((5, form.dimension), False)


class Mixed(gymnasium.Env):
    """A Dict with the state of a CartPole and some bits."""

    observation_space = Dict(cart=Box(-np.inf, np.inf, (4,)), bits=MultiBinary(2))
    action_space = Discrete(2)

    def __init__(self):
        self.env = gymnasium.make("CartPole-v1")

    def reset(self, *, seed=None, options=None):
        return {"cart": self.env.reset(seed=seed)[0], "bits": np.array([1, 0], np.int8)}, {}

    def step(self, action):
        state, *rest = self.env.step(action)
        return {"cart": state, "bits": np.array([0, int(action)], np.int8)}, *rest


@pytest.mark.parametrize("settings", [{}, {"network": residual, "device": "cpu"}])
def test_dict_observations_are_flattened_with_both_backends(settings, tmp_path):
    agent = DQN(**SMALL, **settings)
    run = agent.train(Mixed, steps=150)
    assert run.steps == 150
    observation = Mixed().reset(seed=0)[0]
    loaded = DQN.load(agent.save(tmp_path / "agent"), **{k: v for k, v in settings.items() if k == "network"})
    assert agent.predict(observation) == loaded.predict(observation)
    np.testing.assert_array_equal(agent.evaluate(Mixed, 2), loaded.evaluate(Mixed, 2))
    stepped, env = DQN(**SMALL, **settings).start(Mixed()), Mixed()
    state, _ = env.reset(seed=0)
    next_state, reward, terminated, *_ = env.step(stepped.act(state))
    assert stepped.observe(state, 0, reward, next_state, terminated=terminated) == (0.0, 1.0)


def test_the_pixel_env_is_a_gymnasium_env_with_the_episodes_of_the_lake():
    env, lake = gymnasium.make("dqucb/PixelFrozenLake-v0").unwrapped, gymnasium.make("dqucb/FrozenLake-v0").unwrapped
    check_env(env)
    assert (env.change_at, env.unit) == (lake.change_at, "episodes")
    seen = {}
    env.reset(seed=3)
    state, _ = lake.reset(seed=3)
    for action in np.random.default_rng(0).integers(4, size=300):
        state, *ours = lake.step(int(action))
        image, *theirs = env.step(int(action))
        assert ours == theirs
        assert seen.setdefault(state, image.tobytes()) == image.tobytes()
        if ours[1] or ours[2]:
            lake.reset()
            env.reset()
    assert len(set(seen.values())) == len(seen) > 5


def test_a_cnn_learns_the_pixel_env_and_the_replay_keeps_bytes(tmp_path):
    agent = DQN(network="cnn", device="cpu", discount=0.95, learning_starts=1_000, epsilon=0.05, epsilon_steps=3_000,
                train_every=4, batch_size=32, buffer_size=5_000, tau=0.05)  # fmt: skip
    agent.train_seeds(LAKE, [10, 11], steps=8_000, stop_at=7_999)
    assert agent._trainer.replay.store["observations"].dtype == np.uint8
    returns = [agent.evaluate(LAKE, 3, trained_seed=seed).mean() for seed in (10, 11)]
    assert max(returns) == 1.0, returns
    assert sum(returns) >= 1.0
    loaded = Agent.load(agent.save(tmp_path / "agent"))
    images = np.array([LAKE().reset(seed=0)[0] for _ in range(2)])
    np.testing.assert_array_equal(loaded.predict(images), agent.predict(images))
    assert loaded.predict(images[0]) == loaded.predict(images)[0]
    with pytest.raises(ValueError, match=r"observation must have the shape \(1, 12, 12\), got shape \(1, 3\)"):
        loaded.predict(np.zeros((1, 3), np.uint8))


def test_stacked_frames_and_bonuses_work_on_images():
    def frames():
        return gymnasium.wrappers.FrameStackObservation(LAKE(), 3)

    for agent in (DQNUCB, partial(DeepDQUCB, variant="paper")):
        run = agent(**SMALL, network="cnn", device="cpu").train(frames, steps=90)
        assert run.steps == 90
    with pytest.raises(ValueError, match=r"variant must be 'paper' for images of shape \(3, 1, 12, 12\)"):
        DeepDQUCB(**SMALL, network="cnn").train(frames, steps=5)


# ---- devices ------------------------------------------------------------------------------------------------


def test_the_device_is_chosen_and_a_missing_one_is_refused(monkeypatch):
    assert device_of("auto").type in ("cpu", "cuda", "mps")
    # A mock: this shows which device is asked for, not that one works.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "empty", lambda *size, device: None)
    assert device_of("auto").type == "cuda"
    monkeypatch.undo()
    for name in ("cuda:17", "nonsense"):
        with pytest.raises(ValueError, match=f"device must be 'auto' or an available torch device, got '{name}'"):
            DQN(device=name, buffer_size=10).train(CARTPOLE, steps=3)


def test_all_tensors_are_on_the_device_of_the_network():
    """With torch's meta device, which has shapes and no numbers: a tensor left on the CPU raises an error."""
    for n, make in ((1, residual), (3, residual), (3, partial(mlp, hidden=(8,)))):
        network = in_torch((4, 8, 3), n, make, device="meta")
        tensors = [network.flat, network.flat.grad, *network.fixed.values()]
        tensors += [weight for leaves in network._leaves for weight in leaves.values()]
        assert {tensor.device.type for tensor in tensors} == {"meta"}
        outputs = network._run(network._tensor(np.zeros((n, 5, 4), np.float32)))
        assert (outputs.device.type, tuple(outputs.shape)) == ("meta", (n, 5, 3))
        assert network._gradient(outputs, np.zeros((n, 5, 3), np.float32)).device.type == "meta"
        for optimizer in network._new_optimizers():
            optimizer.step()
        twin = network.copy()
        twin.move_towards(network, 0.1)
        assert twin.only(0).flat.device.type == "meta"


def test_a_named_device_takes_the_default_network_to_torch(monkeypatch):
    """A mock: the CPU stands in for another device."""
    monkeypatch.setattr("dqucb.deep.torch_network.device_of", lambda name: torch.device("cpu"))
    agent = DQN(**SMALL, device="cuda")
    agent.train(CARTPOLE, steps=100)
    assert isinstance(agent._trainer.learner.online, StackedTorch)
    assert sorted(agent.to_torch().network.state_dict()) == ["0.bias", "0.weight", "2.bias", "2.weight"]


def test_an_agent_of_a_device_that_is_missing_loads_for_another(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("dqucb.deep.torch_network.device_of", lambda name: torch.device("cpu"))
        agent = DQN(**SMALL, device="cuda:3")
        agent.train(CARTPOLE, steps=100)
        path = agent.save(tmp_path / "agent")
        expected = agent.predict(np.ones((3, 4)))
    np.testing.assert_array_equal(DQN.load(path, device="cpu").predict(np.ones((3, 4))), expected)
    with pytest.raises(ValueError, match="device must be 'auto' or an available torch device"):
        DQN.load(path).predict(np.ones(4))


def test_torch_compile_can_be_asked_for(monkeypatch):
    """A mock: what is compiled, not the compiler, which takes long and needs a C++ one."""
    calls = []
    monkeypatch.setattr(torch, "compile", lambda run: calls.append(run) or run)
    DQN(**SMALL, network=residual, device="cpu", compile_network=True).train(CARTPOLE, steps=80)
    assert calls


# ---- export -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"hidden": (16,)}, {"network": residual, "device": "cpu"}])
def test_the_module_computes_the_values_that_the_agent_acts_on(settings):
    agent = DQN(**SMALL | settings)
    agent.train_seeds(CARTPOLE, [3, 8], steps=150)
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    for seed in (3, 8):
        module = agent.to_torch(seed)
        np.testing.assert_array_equal(module(torch.tensor(rows)).argmax(1), agent.predict(rows, trained_seed=seed))
        with torch.no_grad():
            for value in module.parameters():
                value.zero_()  # in memory of its own
        assert len(set(agent.predict(rows, trained_seed=seed))) > 1


def test_onnx_models_give_the_values_of_the_module(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    vectors = DQN(**SMALL)
    vectors.train(CARTPOLE, steps=100)
    images = DQN(**SMALL, network="cnn", device="cpu")
    images.train(LAKE, steps=100)
    rng = np.random.default_rng(0)
    for agent, batch in (
        (vectors, rng.normal(size=(7, 4)).astype(np.float32)),
        (images, rng.integers(256, size=(7, 1, 12, 12)).astype(np.uint8)),
    ):
        session = runtime.InferenceSession(str(agent.export_onnx(tmp_path / "q.onnx")))
        for rows in (batch, batch[:1]):
            (q,) = session.run(["q"], {"observation": rows})
            np.testing.assert_allclose(q, agent.to_torch()(torch.tensor(rows)).detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(SavedFileError):
        DQN.load(tmp_path / "q.onnx")
