"""What every density must do: the public battery over the registry, building by name, limits, owners of memory."""

import copy
import doctest
import json
import pickle
import threading
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import dqucb
from dqucb import (
    DENSITIES,
    DiscreteTransitionKDE,
    FourierTransitionDensity,
    SlidingKDE,
    TransitionCounts,
    TransitionKDE,
    check_density,
)
from dqucb.density import Density, make_density

FINITE = {"n_states": 6, "n_actions": 2, "horizon": 3}
VECTORS = {"state_dim": 2, "action_dim": 1}
CASES = {
    "discrete-kde": [{}, {"scope": "step"}, {"scope": "shared", "likelihood": "density", "kernel": "cosine"},
                     {"state_features": [[i // 3, i % 3] for i in range(6)], "likelihood_floor": 0.1}],
    "counts": [{}, {"scope": "step", "window": 3}, {"scope": "shared"}],
    "kde": [{}, {"kernel": "tophat", "bandwidth": 2.0}, {"likelihood": "density", "state_scale": [1.0, 2.0]}],
    "fourier": [{}, {"features": 2048, "window": 7}, {"likelihood": "density", "likelihood_floor": 0.01}],
}  # fmt: skip


def sizes(name):
    return FINITE if DENSITIES.facts(name)["states"] == "finite" else VECTORS


@pytest.mark.parametrize("name", DENSITIES)
def test_every_registered_density_keeps_the_contract(name):
    for parameters in CASES[name]:
        density = make_density({"name": name, **parameters}, **sizes(name))
        check_density(density)
        assert density.describe()["name"] == name
        again = make_density(json.loads(json.dumps(density.describe())), **sizes(name))
        assert again.describe() == density.describe()
        assert clone(density).get_params().keys() == density.get_params().keys()


def test_the_contract_holds_without_jit(run_python):
    code = """
from dqucb import TransitionCounts, DiscreteTransitionKDE, check_density
check_density(TransitionCounts(4, 2, horizon=2))
check_density(DiscreteTransitionKDE(4, 2, scope="shared"))
print("kept")
"""
    assert run_python(code, NUMBA_DISABLE_JIT="1").strip() == "kept"


class Sound(TransitionCounts):
    """Keeps the contract; the classes below break it in one way each."""


class NotANumber(Sound):
    def likelihood(self, *transition):
        p = super().likelihood(*transition)
        return p if p == 1.0 else float("nan")


class TooLarge(Sound):
    def likelihood(self, *transition):
        return 1.0 + (super().likelihood(*transition) < 1.0)


class NotOneWhenEmpty(Sound):
    def likelihood(self, *transition):
        return 0.5 * super().likelihood(*transition)


class Upside(Sound):
    def likelihood(self, *transition):
        p = super().likelihood(*transition)
        return p if not self.state()["used"].any() else 1.0 - p


class QueriesPush(Sound):
    def likelihood(self, *transition):
        p = super().likelihood(*transition)
        if self.state()["used"].any():
            self.push(*transition)
        return p


class NeverForgets(Sound):
    def __init__(self, *sizes, window=100, **settings):
        super().__init__(*sizes, window=1000, **settings)
        self._params["window"] = window


class ResetKeeps(Sound):
    kept = 0

    def reset(self):
        self.kept += 1
        if self.kept < 2 or not self.state()["used"].any():
            super().reset()


class SharesCopies(Sound):
    def __copy__(self):
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class SharesState(Density):
    def __init__(self, n_states, n_actions, horizon=1):
        self._params = {"n_states": n_states, "n_actions": n_actions, "horizon": horizon}
        self.reset()

    def push(self, state, action, next_state, step=0):
        self.counts[step, state, action, next_state] += 1

    def likelihood(self, state, action, next_state, step=0):
        row = self.counts[step, state, action]
        return float(row[next_state] / row.sum()) if row.any() else 1.0

    def reset(self):
        p = self._params
        self.counts = np.zeros((p["horizon"], p["n_states"], p["n_actions"], p["n_states"]), np.int64)

    def state(self):
        return {"counts": self.counts}

    def restore(self, state):
        self.counts = state["counts"].copy()


class TakesAnyState(SharesState):
    def state(self):
        return {"counts": self.counts.copy()}

    def restore(self, state):
        self.counts = state.get("counts", self.counts).copy()


class RefusesTooLate(Sound):
    def push(self, state, action, next_state, step=0):
        if next_state != next_state:
            super().push(0, 0, 0, 0)
        super().push(state, action, next_state, step)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (NotANumber, "likelihood must be in .0, 1., got nan"),
        (TooLarge, "likelihood must be in .0, 1., got 2.0"),
        (NotOneWhenEmpty, "an empty density must give every transition likelihood 1"),
        (Upside, "after 20 pushes of .* its likelihood is 0.0"),
        (QueriesPush, "likelihood must change nothing"),
        (NeverForgets, "a window of 5 must forget all but the last 5"),
        (ResetKeeps, "after reset every likelihood must be 1"),
        (SharesCopies, "copy.copy shares memory with the original"),
        (SharesState, "state must return copies"),
        (TakesAnyState, "push of a state None must be refused with a ValueError, not IndexError"),
        (RefusesTooLate, "push of a next state NaN was refused, but changed the density"),
    ],
)
def test_a_broken_density_is_refused(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_density(broken(5, 2))


def test_the_battery_leaves_the_density_alone_and_needs_sizes_or_transitions():
    density = Sound(5, 2)
    density.push(1, 1, 1)
    before = density.state()
    check_density(density)
    assert all(np.array_equal(before[name], array) for name, array in density.state().items())
    with pytest.raises(AssertionError, match="a density must have push"):
        check_density(3)

    class Plain:
        """A density without a base class, over words."""

        def __init__(self):
            self.counts = np.zeros((2, 2), np.int64)

        def __copy__(self):
            return copy.deepcopy(self)

        @staticmethod
        def place(word):
            if word not in ("red", "blue"):
                raise ValueError(f"state must be red or blue, got {word!r}")
            return int(word == "red")

        def push(self, state, action, next_state, step=0):
            self.counts[self.place(state), self.place(next_state)] += 1

        def likelihood(self, state, action, next_state, step=0):
            if action is None:
                raise ValueError("action must not be None")
            row = self.counts[self.place(state)]
            return float(row[self.place(next_state)] / row.sum()) if row.any() else 1.0

        def reset(self):
            self.counts[...] = 0

        def state(self):
            return {"counts": self.counts.copy()}

        def restore(self, state):
            if "counts" not in state:
                raise ValueError("state must hold counts")
            self.counts = state["counts"].copy()

    with pytest.raises(ValueError, match="check_density needs transitions="):
        check_density(Plain())
    check_density(Plain(), [("red", 0, "blue", 0), ("red", 0, "red", 0), ("blue", 1, "red", 0)] * 3)
    own = make_density(Plain(), n_states=2, n_actions=2)
    assert isinstance(own, Plain)


# ---- building by name ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DENSITIES)
def test_a_name_builds_a_density_for_a_finite_problem(name):
    density = make_density(name, **FINITE, defaults={"window": 7, "scope": "step", "no such parameter": 1})
    assert density.get_params()["window"] == 7
    for next_state in (1, 1, 4):
        density.push(0, 1, next_state, 2)
    assert density.likelihood(0, 1, 1, 2) > density.likelihood(0, 1, 4, 2)


def test_an_object_gives_fresh_densities_of_its_kind():
    density = TransitionKDE(2, window=9, kernel="linear", bandwidth=2.5)
    density.push([0, 0], 0, [1, 1])
    fresh = make_density(density, **VECTORS, defaults={"window": 50})
    assert fresh.describe() == density.describe()
    assert (len(fresh), len(density)) == (0, 1)


@pytest.mark.parametrize(
    ("spec", "sizes", "message"),
    [
        ("fourrier", VECTORS, "unknown density 'fourrier': did you mean fourier"),
        (
            {"name": "counts", "windw": 3},
            FINITE,
            "unknown parameter of the density counts 'windw': did you mean window",
        ),
        ({"window": 3}, FINITE, "density must have a name, one of .*'window': 3"),
        ("counts", VECTORS, "'counts' is for finite problems, not for vectors: use 'kde' or 'fourier'"),
        (TransitionCounts(4, 2), FINITE, "the density is for n_states=4, the problem has n_states=6"),
        ({"name": "kde", "state_dim": 3}, VECTORS, "the density is for state_dim=3, the problem has state_dim=2"),
        (3.0, FINITE, r"density must be one of .*counts.* or an object with push, .* got 3\.0"),
        (TransitionCounts, FINITE, "density must be one of"),
        ({"name": "counts", "window": 0}, FINITE, "window must be an integer >= 1, got 0"),
    ],
)
def test_what_cannot_be_built_is_named(spec, sizes, message):
    with pytest.raises(ValueError, match=message):
        make_density(spec, **sizes)


# ---- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SlidingKDE(window=10**12), r"window must be .* got 1000000000000, which takes 8\.0 TB"),
        (lambda: SlidingKDE(window=2**31 - 1, dimension=1000), "window must be .* which takes 17.2 TB when it is full"),
        (lambda: TransitionKDE(3, window=10**12), "window must be .* which takes 56.0 TB"),
        (lambda: TransitionKDE(2**20 + 1), "state_dim must be an integer in"),
        (lambda: FourierTransitionDensity(3, window=10**12), r"window must be .* which takes 2,048\.0 TB"),
        (lambda: FourierTransitionDensity(3, features=2**40), "features must be an integer in"),
        (lambda: DiscreteTransitionKDE(4, 2, window=2**32 + 1), "window must be an integer in .*, got 4294967297"),
        (lambda: TransitionCounts(10**6, 100, horizon=100), "must be small enough for a table of 8.6 GB, .* 40.0 GB"),
        (lambda: TransitionCounts(10**6, 100, horizon=100, scope="step"), "which needs 40.0 GB"),
        (lambda: DiscreteTransitionKDE(2, 1, state_features=[[-(2**31)], [2**31 - 1]]), "must be nearer to each other"),
        (lambda: DiscreteTransitionKDE(2, 1, state_features=[[0], [2**31]]), "state_features must be integers"),
        (lambda: DiscreteTransitionKDE(2, 1, state_features=[[0], [2**40]]), "state_features must be within"),
    ],
)  # fmt: skip
def test_what_cannot_fit_is_refused_with_the_size(build, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=message):
            build()


def test_distances_up_to_the_limit_are_exact():
    far = DiscreteTransitionKDE(3, 1, scope="shared", state_features=[[0, 0], [10**9, 10**9], [10**9, 10**9 - 1]])
    for next_state in (0, 1):
        far.push(0, 0, next_state)
    assert far.likelihood(0, 0, 0) == 0.5
    assert 0.25 < far.likelihood(0, 0, 2) < 0.5


# ---- one owner of each memory -------------------------------------------------------------------------


@pytest.mark.parametrize("build", [lambda w: SlidingKDE(w, dimension=1), lambda w: TransitionKDE(1, window=w)])
def test_a_window_is_set_up_once(build):
    density = build(3)
    push = (lambda x: density.push([x])) if isinstance(density, SlidingKDE) else (lambda x: density.push(x, 0, x))
    for x in range(5):
        push(float(x))
    shown = repr(density)
    arguments = {"state_dim": 1} if isinstance(density, TransitionKDE) else {}
    with pytest.raises(RuntimeError, match="is set up once: make a new one"):
        density.__init__(**arguments, window=10**6, bandwidth=2.0)
    assert repr(density) == shown
    for x in range(5, 2_000):
        push(float(x))
    assert density.points[:, 0].tolist() == [1997.0, 1998.0, 1999.0]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_of_a_discrete_density_share_nothing(way):
    """They used to share some tables and not others; pushes into both then left the pools."""
    density = TransitionCounts(50, 4, horizon=5)
    density.push(0, 0, 0)
    twin = way(density)
    rng = np.random.default_rng(0)
    saved = density.state()
    for transition in rng.integers([50, 4, 50, 5], size=(3_000, 4)):
        twin.push(*transition)
    assert all(np.array_equal(saved[name], array) for name, array in density.state().items())
    for transition in rng.integers([50, 4, 50, 5], size=(3_000, 4)):
        density.push(*transition)
        assert 0.0 <= twin.likelihood(*transition) <= 1.0
    density.restore(density.state())  # which checks every offset and count
    twin.restore(twin.state())


def test_features_that_the_caller_changes_later_do_not_matter():
    features = np.array([[0], [1], [50]])
    density = DiscreteTransitionKDE(3, 1, state_features=features)
    density.push(0, 0, 0)
    before = density.likelihood(0, 0, 1)
    features[1] = 2**30
    density.restore(density.state())
    assert density.likelihood(0, 0, 1) == copy.copy(density).likelihood(0, 0, 1) == before


@pytest.mark.parametrize("name", DENSITIES)
def test_threads_lose_no_transition(name):
    density = make_density({"name": name, "window": 100_000}, **sizes(name))
    transition = (1, 1, 2, 0) if sizes(name) is FINITE else ([0.0, 1.0], 1, [1.0, 1.0])

    def push():
        for _ in range(500):
            density.push(*transition)
            density.likelihood(*transition)

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = make_density({"name": name, "window": 100_000}, **sizes(name))
    for _ in range(2_000):
        alone.push(*transition)
    assert density.likelihood(*transition) == alone.likelihood(*transition) == 1.0
    ours, theirs = density.state(), alone.state()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


# ---- documentation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["_storage", *(f"density.{m}" for m in (
    "base", "checks", "continuous", "discrete", "fourier", "protocol", "sliding"))])  # fmt: skip
def test_examples_run(module):
    results = doctest.testmod(__import__(f"dqucb.{module}", fromlist=["_"]))
    assert results.attempted > 0
    assert results.failed == 0


def test_public_names_have_examples():
    names = ["DiscreteTransitionKDE", "FourierTransitionDensity", "SlidingKDE", "TransitionCounts", "TransitionDensity",
             "TransitionKDE", "check_density"]  # fmt: skip
    for name in names:
        assert "Examples\n" in getattr(dqucb, name).__doc__, name
        assert ">>> " in getattr(dqucb, name).__doc__, name
