"""`dqucb verify` and `dqucb repair`: what is said of a folder, and that nothing is lost."""

import pytest
from typer.testing import CliRunner

from dqucb import SavedFileError
from dqucb.cli import app
from dqucb.experiments import compare, load_comparison, repair, runner, verify
from dqucb.problems import gridworld

PROBLEM = gridworld(noise=(0.05, 0.3), change_at=(60,), rows=2, cols=3, horizon=8)


def run_sweep(folder, seeds=3):
    return compare(["qucb", "random"], PROBLEM, 70, seeds=seeds, jobs=1, out=folder)


@pytest.fixture
def folder(tmp_path):
    run_sweep(tmp_path)
    return tmp_path


def contents(folder):
    """What all files hold, wherever they are."""
    return sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")


def command(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def test_a_whole_folder_is_whole(folder):
    assert command("verify", folder) == (0, "manifest: whole\nruns: 6 whole, 0 missing\n")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert command("repair", folder)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def damaged(folder):
    """Damage of every kind; the files that are damaged."""
    runs = sorted((folder / "runs").iterdir())
    runs[0].write_bytes(runs[0].read_bytes()[:-3])
    runs[1].write_bytes(runs[2].read_bytes())
    runs[3].unlink()
    (folder / "checkpoints" / "0123-0-1").write_bytes(b"half")
    (folder / "checkpoints" / "0123-0-1.evaluations").write_bytes(b"")
    (folder / "runs" / ".x.npz.12.tmp").write_bytes(b"half")
    (folder / "runs" / "notes.txt").write_text("mine")
    return [*runs[:2], folder / "checkpoints" / "0123-0-1", folder / "checkpoints" / "0123-0-1.evaluations"]


def test_what_is_damaged_is_named_and_set_aside_and_nothing_is_deleted(folder):
    files = damaged(folder)
    before = contents(folder)
    found = verify(folder)
    assert (found.runs, found.missing, list(found.damaged)) == (3, 3, files)
    assert contents(folder) == before
    code, said = command("verify", folder)
    assert code == 1
    assert said.count("damaged: ") == 4
    assert "notes.txt" in said
    assert "left by a session that was killed" in said
    code, said = command("repair", folder)
    assert (code, said.count("set aside: ")) == (0, 4)
    assert contents(folder) == before
    assert verify(folder).is_whole
    assert verify(folder).missing == 3
    assert run_sweep(folder).computed == 3
    assert command("verify", folder)[0] == 0


@pytest.mark.parametrize("how", ["cut", "gone", "empty"])
def test_a_lost_manifest_is_made_anew_from_the_runs(folder, how):
    path = folder / "manifest.json"
    before = load_comparison(folder)
    data = path.read_bytes()
    path.unlink()
    if how != "gone":
        path.write_bytes(data[:100] if how == "cut" else b"")
    assert command("verify", folder)[0] == 1
    assert command("repair", folder)[0] == 0
    after = load_comparison(folder)
    assert after.settings == {**before.settings, "agents": after.settings["agents"]}
    timed = ["seconds", "steps_per_second"]
    assert after.summary().drop(columns=timed).equals(before.summary().drop(columns=timed))
    if how != "gone":
        assert (folder / "corrupt" / "manifest.json.0").exists()
    assert run_sweep(folder, seeds=4).computed == 2


def test_a_manifest_is_not_guessed(folder, tmp_path_factory):
    (folder / "manifest.json").unlink()
    other = tmp_path_factory.mktemp("other")
    compare("random", PROBLEM, 80, seeds=1, jobs=1, out=other)
    (path,) = (other / "runs").iterdir()
    path.rename(folder / "runs" / path.name)
    with pytest.raises(SavedFileError, match="is of another experiment"):
        repair(folder)
    for path in (folder / "runs").iterdir():
        path.unlink()
    with pytest.raises(SavedFileError, match="no whole run to make one from"):
        repair(folder)
    with pytest.raises(SavedFileError, match="no folder of an experiment"):
        verify(folder / "runs")


def test_a_damaged_index_is_found_and_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "WORTH_WHILE", 3)
    monkeypatch.setattr("dqucb.experiments.index.WORTH_WHILE", 3)
    made = run_sweep(tmp_path)
    (path,) = (tmp_path / "index").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert list(verify(tmp_path).damaged) == [path]
    repair(tmp_path)
    assert verify(tmp_path).is_whole
    assert len(made.traces) == len(load_comparison(tmp_path).traces)
    assert len(list((tmp_path / "index").iterdir())) == 1


def test_a_folder_in_use_is_left_alone(folder):
    from dqucb.experiments.store import Store

    with Store(folder).locked(), pytest.raises(ValueError, match="in use"):
        repair(folder)
