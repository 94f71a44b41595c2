"""Saved SlidingKDE files and copies: the same bits go on; damaged, foreign or tampered files are refused."""

import copy
import json
import pickle

import numpy as np
import pytest
from saved_files import contents, npy, sealed, write

from dqucb._storage import SavedFileError
from dqucb.density.sliding import SlidingKDE


@pytest.mark.parametrize("bandwidth", [0.7, "scott"])
@pytest.mark.parametrize("pushed", [0, 3, 7, 16])
@pytest.mark.parametrize("way", ["file", "pickle", "deepcopy"])
def test_a_copy_continues_with_the_same_bits(tmp_path, bandwidth, pushed, way):
    rng = np.random.default_rng(4)
    kde = SlidingKDE(window=7, kernel="exponential", bandwidth=bandwidth)
    for x in rng.normal(size=(pushed, 2)):
        kde.push(x)
    if way == "file":
        kde.save(tmp_path / "kde.npz")
        twin = SlidingKDE.load(tmp_path / "kde.npz")
    else:
        twin = copy.deepcopy(kde) if way == "deepcopy" else pickle.loads(pickle.dumps(kde))
    assert repr(twin) == repr(kde)
    kde.push([0.1, 0.2])
    twin.push([0.1, 0.2])
    for x in rng.normal(size=(20, 2)):
        kde.push(x)
        twin.push(x)
        assert kde.score(x) == twin.score(x)


def saved(tmp_path):
    kde = SlidingKDE(window=50)
    kde.push_many(np.random.default_rng(5).normal(size=(60, 3)))
    kde.save(tmp_path / "kde.npz")
    return tmp_path / "kde.npz"


def test_damaged_files_end_in_our_own_error(tmp_path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(6)
    damaged = [whole[:cut] for cut in rng.integers(0, len(whole) - 1, 30)]
    damaged += [rng.bytes(size) for size in (0, 1, 100, 5000)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(SavedFileError, match=r"kde\.npz"):
            SlidingKDE.load(path)
    with pytest.raises(SavedFileError):
        SlidingKDE.load(tmp_path / "absent.npz")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code ran on load",))


def test_a_pickle_inside_is_never_run(tmp_path):
    header = json.dumps({"format": 1, "kind": "SlidingKDE", "settings": {}})
    bomb = npy(np.array([Bomb()], dtype=object))
    (tmp_path / "bomb.npz").write_bytes(sealed([("settings.json", header), ("points.npy", bomb)]))
    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    for name in ("bomb.npz", "bomb.pkl"):
        with pytest.raises(SavedFileError):
            SlidingKDE.load(tmp_path / name)


def rewrite(path, settings_=None, points=None):
    """The file at `path` with some settings or the points replaced, checksums and all."""
    values, arrays = contents(path)
    values = {name: value for name, value in (values | (settings_ or {})).items() if value != "absent"}
    if points is not None:
        arrays["points"] = points
    write(path, values, arrays)


TAMPERED = {
    "another kind": ({"kind": "Run"}, None),
    "window too small": ({"window": 10}, None),
    "window zero": ({"window": 0}, None),
    "slot out of range": ({"next_slot": 50}, None),
    "slot negative": ({"next_slot": -1}, None),
    "slot missing": ({"next_slot": "absent"}, None),
    "unknown kernel": ({"kernel": "cubic"}, None),
    "unknown setting": ({"colour": "blue"}, None),
    "bandwidth": ({"bandwidth": -1.0}, None),
    "dimension": ({"dimension": 4}, None),
    "no dimension": ({"dimension": None}, None),
    "nan": (None, np.full((50, 3), np.nan)),
    "axes": (None, np.zeros(50)),
    "columns": (None, np.zeros((50, 2))),
    "type": (None, np.zeros((50, 3), np.float32)),
    "no columns": ({"dimension": None}, np.zeros((50, 0))),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_contents_are_refused(tmp_path, name):
    path = saved(tmp_path)
    rewrite(path)
    assert len(SlidingKDE.load(path)) == 50
    rewrite(path, *TAMPERED[name])
    with pytest.raises(SavedFileError, match=r"kde\.npz"):
        SlidingKDE.load(path)
