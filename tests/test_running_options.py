"""Options of a run are declared once, and everything else derives from the declaration."""

import inspect
from dataclasses import replace

import pytest

from dqucb import QUCB, compare, gridworld, sweep
from dqucb.experiments.options import FLAGS, Options
from dqucb.running import options as declared

GRID = gridworld(rows=2, cols=2, horizon=5, noise=0.1)


def test_signatures_flags_and_documentation_derive_from_the_declaration():
    train = inspect.signature(QUCB.train).parameters
    assert {name: each.default for name, each in train.items() if name in declared.OPTIONS} == {
        name: option.default for name, option in declared.OPTIONS.items()
    }
    assert set(declared.SHARED) < set(inspect.signature(compare).parameters)
    from dqucb._cli_options import train_flags

    assert [flag.name for flag in train_flags()] == list(FLAGS)
    for name, option in declared.OPTIONS.items():
        assert f"{name} : " in QUCB.train.__doc__
        assert option.help in QUCB.train.__doc__


def test_an_option_changes_results_unless_it_says_otherwise(monkeypatch, tmp_path):
    """A new option is one declaration: it is checked, taken by `compare`, and part of the identity of a run."""
    new = declared.Option("A new option.", lambda name, value: int(value), default=1, flag=int)
    for table in (declared.OPTIONS, declared.SHARED):
        monkeypatch.setitem(table, "novelty", new)
    computed = [compare(QUCB(), GRID, 5, seeds=1, jobs=1, out=tmp_path, novelty=1).computed for _ in range(2)]
    assert computed == [1, 0]  # the default is no part of the identity, so that keys of before stay
    with pytest.raises(ValueError, match=r"options\.novelty is only here|options is only here"):
        compare(QUCB(), GRID, 5, seeds=1, jobs=1, out=tmp_path, novelty=2)
    agent = QUCB()
    agent.train(GRID, episodes=9, stop_at=5, novelty=2)
    with pytest.raises(ValueError, match="its novelty is 2, not 1"):
        agent.train(GRID, episodes=9)
    monkeypatch.setitem(declared.OPTIONS, "novelty", replace(new, changes_results=False))
    harmless = QUCB()
    harmless.train(GRID, episodes=9, stop_at=5, novelty=2)
    assert len(harmless.train(GRID, episodes=9, novelty=3)) == 9


def test_unknown_options_are_answered_with_the_nearest():
    with pytest.raises(TypeError, match=r"unknown option of train 'epsiodes': did you mean episodes"):
        QUCB().train(GRID, epsiodes=5)
    with pytest.raises(TypeError, match="unknown option of compare 'max_returns'"):
        compare(QUCB(), GRID, 5, max_returns=1)
    with pytest.raises(TypeError, match="compare takes callback for itself or not at all"):
        compare(QUCB(), GRID, 5, callback=print)
    with pytest.raises(TypeError, match="unknown option of compare 'detectr'"):
        sweep(QUCB(), GRID, {"bonus_scale": [1.0]}, 5, detectr="auto")


def test_a_file_of_settings_takes_the_same_options(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('problem = "gridworld"\nchange_at = [3]\nmax_return = 2\nrecords = 7\n')
    assert Options.read({"config": path}).train == {"change_at": [3], "max_return": 2, "records": 7}
    path.write_text("regret = 3\n")
    with pytest.raises(ValueError, match="regret must be a word, got 3"):
        Options.read({"config": path})
    path.write_text("max_return = 'much'\n")
    with pytest.raises(ValueError, match="max_return must be a finite number, got 'much'"):
        Options.read({"config": path})
