"""A run is never taken for another one: what changes a result is part of what names it, or it is refused in words."""

import functools
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TransformReward

import dqucb
from dqucb import QUCB, FiniteDriftDetector, ShiftingMDP, TabularMDP, compare, frozen_lake, gridworld
from dqucb._fingerprint import UnidentifiedError, fingerprint
from dqucb.envs import ShiftWrapper
from dqucb.experiments.manifest import SettingsDifferError

SMALL = {"rows": 2, "cols": 2, "horizon": 5, "noise": 0.1}
FAST = {"seeds": 1, "jobs": 1}


def _again(make_agents, problems, out, **options):
    """How many runs `compare` computes for each problem in one folder; a refusal in words counts as "refused"."""
    found = []
    for agents, problem in zip(make_agents, problems, strict=True):
        try:
            found.append(compare(agents, problem, out=out, **FAST, **options).computed)
        except SettingsDifferError:
            found.append("refused")
    return found


def _same_agent(problems, out, **options):
    return _again([QUCB()] * len(problems), problems, out, **options)


# ---- envs ------------------------------------------------------------


def test_a_wrapped_env_of_ours_is_an_unknown_env(tmp_path):
    lake = functools.partial(gymnasium.make, "dqucb/FrozenLake-v0", change_at=(100, 200))
    wrapped = TransformReward(lake(), lambda reward: 10 * reward)
    run = QUCB().train(wrapped, episodes=300)
    plain = QUCB().train(lake(), episodes=300)
    assert np.isnan(run.regret).all()
    assert not np.isnan(plain.regret).any()
    assert run.problem != plain.problem
    with pytest.raises(ValueError, match="max_return must be given"):
        compare(QUCB(), wrapped, 300, **FAST)
    first = compare(QUCB(), lake, 300, **FAST, out=tmp_path)
    assert first.computed == 1
    with pytest.raises(ValueError, match="other settings"):
        compare(QUCB(), wrapped, 300, **FAST, out=tmp_path, regret="none")


def test_a_wrapper_with_other_arguments_is_another_env(tmp_path):
    def shifted(slip):
        return ShiftWrapper(gymnasium.make("FrozenLake-v1"), [{"render_mode": slip}], change_at=[5])

    assert _same_agent([shifted("a"), shifted("a"), shifted("b")], tmp_path, episodes=10, regret="none") == [
        1, 0, "refused",
    ]  # fmt: skip


def test_a_factory_with_other_arguments_makes_another_env(tmp_path):
    def maker(slippery):
        return lambda: gymnasium.make("FrozenLake-v1", is_slippery=slippery)

    assert _same_agent([maker(True), maker(True), maker(False)], tmp_path, episodes=10, regret="none") == [
        1, 0, "refused",
    ]  # fmt: skip


def test_an_array_among_the_arguments_of_an_env_counts(tmp_path):
    def maker(rows):
        return functools.partial(gymnasium.make, "FrozenLake-v1", desc=np.array([list(row) for row in rows], "S1"))

    options = {"episodes": 10, "regret": "none"}
    assert _same_agent([maker(["SF", "FG"]), maker(["SF", "FG"]), maker(["SH", "FG"])], tmp_path, **options) == [
        1, 0, "refused",
    ]  # fmt: skip


def test_an_env_whose_table_was_changed_is_another_env(tmp_path):
    plain, changed = gymnasium.make("FrozenLake-v1"), gymnasium.make("FrozenLake-v1")
    changed.unwrapped.P[0][0] = [(1.0, 15, 1.0, True)]
    used = gymnasium.make("FrozenLake-v1")
    QUCB().train(used, episodes=3)
    assert _same_agent([plain, used, changed], tmp_path, episodes=10, regret="none") == [1, 0, "refused"]


def test_an_env_with_state_that_cannot_be_read_needs_a_name(tmp_path):
    class Opaque(gymnasium.Wrapper):
        def __init__(self, env):
            super().__init__(env)
            self.stream = (number for number in range(9))  # a generator: nobody can say what comes of it

    def make():
        return Opaque(gymnasium.make("FrozenLake-v1"))

    options = {"episodes": 10, "regret": "none"}
    assert compare(QUCB(), make, **options, **FAST).computed == 1  # without a folder nothing is reused
    with pytest.raises(ValueError, match=r"needs name= and version= for FrozenLake-v1: .*generator"):
        compare(QUCB(), make, **options, **FAST, out=tmp_path)
    assert compare(QUCB(), make, **options, **FAST, out=tmp_path, name="mine", version="1").computed == 1
    assert compare(QUCB(), make, **options, **FAST, out=tmp_path, name="mine", version="1").computed == 0
    with pytest.raises(ValueError, match=r"other settings.*version"):
        compare(QUCB(), make, **options, **FAST, out=tmp_path, name="mine", version="2")


# ---- finite problems ------------------------------------------------------------


def _coin(reward):
    return ShiftingMDP(
        [TabularMDP(np.ones((1, 2, 1)), np.array([[reward, 0.0]]), horizon=1)], [], description={"problem": "mine"}
    )


def test_problems_with_one_description_are_told_apart(tmp_path):
    assert _same_agent([_coin(1.0), _coin(1.0), _coin(0.5)], tmp_path, episodes=20) == [1, 0, "refused"]


def test_a_notebook_cell_that_is_run_again_trains_on_the_new_problem():
    returns = [compare(QUCB(), _coin(reward), 50, **FAST).load_run("QUCB", 0).returns.max() for reward in (1.0, 0.5)]
    assert returns == [1.0, 0.5]


def test_a_horizon_that_was_changed_after_construction_counts(tmp_path):
    first, shorter = gridworld(**SMALL), gridworld(**SMALL)
    shorter.optimal_values()
    shorter.horizon = 3
    assert len(shorter.optimal_values()) == 4  # what was solved for the old horizon is not used for the new one
    assert _same_agent([first, shorter], tmp_path, episodes=20) == [1, "refused"]


def test_builders_and_envs_of_the_package_keep_their_keys():
    problem = frozen_lake(change_at=(20, 40))
    assert problem.identity == problem.description
    assert dqucb.make_agent("dqn").describe("cartpole").problem.get("sha256") is None


# ---- agents, detectors, parameters ------------------------------------------------------------


def _defined(action):
    class Mine(dqucb.Agent):
        def act(self, observation, step=0):
            return action

        def observe(self, state, action, reward, next_state, step=0, terminated=False):
            pass

    return Mine()


def test_an_agent_class_that_is_defined_again_is_another_agent(tmp_path):
    agents = [_defined(0), _defined(0), _defined(1)]
    assert _again(agents, [gridworld(**SMALL)] * 3, tmp_path, episodes=5) == [1, 0, "refused"]


def test_a_version_of_the_users_stands_for_the_code_of_an_agent(tmp_path):
    agents = [_defined(0), _defined(1)]
    assert _again(agents, [gridworld(**SMALL)] * 2, tmp_path, episodes=5, version="1") == [1, 0]
    assert _again(agents[:1], [gridworld(**SMALL)], tmp_path, episodes=5, version="2") == ["refused"]


class Constant(FiniteDriftDetector):
    """A detector that prints the same whatever it was given."""

    def __repr__(self):
        return "Constant()"


def test_a_detector_with_a_constant_repr_is_told_apart(tmp_path):
    found = []
    for rate in (1e-5, 1e-5, 1e-6):
        detector = Constant(n_states=4, n_actions=4, false_alarms=rate)
        found += _same_agent([gridworld(**SMALL)], tmp_path, episodes=5, detector=detector)
    assert found == [1, 0, "refused"]


def test_whole_and_real_numbers_of_a_real_parameter_have_one_key(tmp_path):
    agents = [QUCB(bonus_scale=1), QUCB(bonus_scale=1.0)]
    assert _again(agents, [gridworld(**SMALL)] * 2, tmp_path, episodes=5) == [1, 0]
    options = [{"max_return": 1}, {"max_return": 1.0}]
    env = functools.partial(gymnasium.make, "FrozenLake-v1")
    assert [compare(QUCB(), env, 5, **FAST, **each, out=tmp_path / "env").computed for each in options] == [1, 0]


# ---- code ------------------------------------------------------------

EDITED = """
    import sys
    import dqucb.run
    from dqucb import QUCB, compare, gridworld

    if len(sys.argv) > 2:
        dqucb.run.code_digest = lambda: sys.argv[2]
    made = compare(QUCB(), gridworld(rows=2, cols=2, horizon=5, noise=0.1), 20, seeds=2, jobs=1, out=sys.argv[1])
    print(made.computed)
"""


def test_runs_of_edited_code_are_set_aside_and_repeated(tmp_path):
    def computed(*arguments):
        call = [sys.executable, "-c", textwrap.dedent(EDITED), str(tmp_path), *arguments]
        return int(subprocess.run(call, capture_output=True, text=True, check=True).stdout)

    assert [computed(), computed(), computed("other"), computed("other")] == [2, 0, 2, 0]
    assert len(list((tmp_path / "outdated").iterdir())) == 2  # nothing is lost


def test_the_digest_of_the_code_covers_all_but_what_is_listed():
    folder = Path(dqucb.__file__).parent
    for name in dqucb.run._NO_INFLUENCE:
        assert (folder / name).exists(), f"{name} is listed as without influence and does not exist"
    assert not any(name.startswith(("agents", "envs", "problems", "running")) for name in dqucb.run._NO_INFLUENCE)


# ---- resuming ------------------------------------------------------------

PARTS = [
    ({"max_return": 1.0}, {"max_return": 2.0}, "max_return"),
    ({"horizon": 20}, {"horizon": 30}, "horizon"),
    ({"change_at": [5]}, {"change_at": [6]}, "change_at"),
]


@pytest.mark.parametrize(("held", "asked", "name"), PARTS)
def test_a_run_does_not_continue_with_other_options(held, asked, name):
    agent, env = QUCB(), gymnasium.make("FrozenLake-v1")
    agent.train(env, episodes=20, stop_at=10, **held)
    with pytest.raises(ValueError, match=f"holds another run.*{name}"):
        agent.train(env, episodes=20, **asked)
    assert len(agent.train(env, episodes=20, **held)) == 20


def test_a_run_does_not_continue_with_other_records():
    agent, problem = QUCB(), gridworld(rows=2, cols=2, discount=0.9, noise=0.1)
    agent.train(problem, steps=1_000, stop_at=500, records=10)
    with pytest.raises(ValueError, match="its records is 10, not 20"):
        agent.train(problem, steps=1_000, records=20)


def test_a_run_does_not_continue_in_another_env_of_the_class():
    def lake(slippery):
        return gymnasium.make("FrozenLake-v1", is_slippery=slippery)

    agent = QUCB()
    agent.train(ShiftWrapper(lake(True), [{"render_mode": "a"}], [5]), episodes=20, stop_at=10)
    with pytest.raises(ValueError, match="its problem is"):
        agent.train(ShiftWrapper(lake(True), [{"render_mode": "b"}], [5]), episodes=20)


def test_a_run_does_not_continue_with_other_parameters():
    agent, problem = QUCB(), gridworld(**SMALL)
    agent.train(problem, episodes=20, stop_at=10)
    agent.bonus_scale = 3.0
    with pytest.raises(ValueError, match=r"its agent had bonus_scale=0\.2, not 3\.0"):
        agent.train(problem, episodes=20)


def test_a_file_keeps_the_options_of_its_run(tmp_path):
    problem = gridworld(rows=2, cols=2, discount=0.9, noise=0.1)
    agent = QUCB()
    agent.train(problem, steps=1_000, stop_at=500, records=10)
    loaded = QUCB.load(agent.save(tmp_path / "agent"))
    with pytest.raises(ValueError, match="its records is 10, not 1000"):
        loaded.train(problem, steps=1_000)
    assert loaded.train(problem, steps=1_000, records=10) is not None


# ---- fingerprints ------------------------------------------------------------


def test_fingerprints_follow_closures_globals_defaults_and_state():
    def closed(value):
        return lambda: value

    def defaulted(value):
        def function(given=value):
            return given

        return function

    class Held:
        def __init__(self, value):
            self.value = value

    for make in (closed, defaulted, Held, np.array, lambda value: functools.partial(max, value)):
        assert fingerprint(make(1)) == fingerprint(make(1)) != fingerprint(make(2))
    cyclic = [1]
    cyclic.append(cyclic)
    assert fingerprint(cyclic) == fingerprint(cyclic)
    with pytest.raises(UnidentifiedError, match="generator"):
        fingerprint(iter(number for number in range(3)))
