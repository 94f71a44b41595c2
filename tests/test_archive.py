"""Files that earlier versions saved: this one loads them and finds what was saved, or refuses in words."""

import json

import pytest
from make_archive import FOLDER, held

import dqucb
from dqucb import SavedFileError

FILES = [
    path for folder in sorted(FOLDER.iterdir()) for path in sorted(folder.iterdir()) if path.name != "contents.json"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_of_an_earlier_version_holds_what_was_saved(path):
    if path.name.startswith("deep."):
        pytest.importorskip("scipy")
    wanted = json.loads((path.parent / "contents.json").read_text())[path.name]
    try:
        found = held(path)
    except SavedFileError as error:
        # A later version may refuse a file of an older one, in words; its own it must read.
        if path.parent.name == dqucb.__version__ or path.name not in str(error):
            raise
    else:
        assert found == wanted


def test_every_kind_of_file_is_there():
    names = {path.name for path in FILES}
    agents = {name for name in dqucb.AGENTS if issubclass(dqucb.AGENTS[name], dqucb.TabularAgent)}
    assert {f"agent.{name}.npz" for name in agents} <= names
    assert {"kde.npz", "run.npz", "folder", "finite-detector.npz", "continuous-detector.npz"} <= names
    assert any(name.startswith("deep.") for name in names)
