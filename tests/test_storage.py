"""Saved files: what comes back, what is refused, what readers see while others write, how much memory a file takes."""

import errno
import io
import json
import os
import pickle
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from saved_files import npy, resealed, sealed

from dqucb import _storage, _validate
from dqucb._storage import SavedFileError, load, pack, save, unpack, write_atomically

SETTINGS = {"x": [1, 2], "name": "grüß", "deep": {"none": None, "flag": True}}
ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3)[:, ::2],
    "b.0": np.array(3),
    "c": np.array([True, False]),
    "empty": np.zeros((0, 4), np.uint16),
    "fortran": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "big-endian": np.arange(5, dtype=">i4"),
    "nan": np.array([np.nan, np.inf, -0.0]),
}


def header(kind="Kind", form=1, **settings):
    return "settings.json", json.dumps({"format": form, "kind": kind, "settings": settings})


@pytest.mark.parametrize("compress", [True, False])
def test_what_is_packed_comes_back_bit_for_bit(compress, tmp_path):
    data = pack("Kind", SETTINGS, ARRAYS, compress=compress)
    assert data == pack("Kind", SETTINGS, ARRAYS, compress=compress)
    path = save(tmp_path / "file", "Kind", SETTINGS, compress=compress, **ARRAYS)
    assert path.read_bytes() == data
    for settings, arrays in (unpack(data, "Kind", "x"), load(path, "Kind")):
        assert settings == SETTINGS
        assert list(arrays) == list(ARRAYS)
        for name, array in arrays.items():
            assert array.dtype == ARRAYS[name].dtype.newbyteorder("<")
            assert array.shape == ARRAYS[name].shape
            assert array.tobytes() == ARRAYS[name].astype(array.dtype).tobytes()
            assert array.flags.writeable
            assert array.flags.c_contiguous
    with np.load(io.BytesIO(data)) as file:
        assert np.array_equal(file["a"], ARRAYS["a"])


def test_another_kind_is_named(tmp_path):
    path = save(tmp_path / "file", "Kind", {})
    with pytest.raises(SavedFileError, match="file: holds a Kind, expected a Sort"):
        load(path, "Sort")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"words": np.array(["a"])}, "words must be an array of booleans, integers or floats, got <U1"),
        ({"things": np.array([None])}, "things must be .* got object"),
        ({"pairs": np.array([1j])}, "pairs must be .* got complex128"),
        ({"../up": np.zeros(1)}, r"names of arrays must be .* got '\.\./up'"),
    ],
)
def test_what_cannot_be_saved_is_named(arrays, message):
    with pytest.raises(ValueError, match=message):
        pack("Kind", {}, arrays)
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack("Kind", {"x": float("nan")}, {})


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code ran on load",))


def numpys_own():
    out = io.BytesIO()
    np.savez(out, a=np.zeros(3))
    return out.getvalue()


FOREIGN = {
    "empty": b"",
    "text": b"state,action\n1,2\n" * 40,
    "png": b"\x89PNG\r\n\x1a\n" + bytes(300),
    "pickle": pickle.dumps(Bomb()),
    "npy": npy(np.zeros(30)),
    "npz": numpys_own(),
    "zeros": bytes(1000),
    "zip magic": b"PK\x03\x04" + bytes(1000),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused_in_our_words(name, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(SavedFileError, match="file: not a dqucb file") as caught:
        load(path, "Kind")
    assert "pickle" not in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    secret = save(tmp_path / "secret", "Kind", {})
    secret.chmod(0)
    for name, message in {
        "pipe": "not a file",
        "": "not a file",
        "none": "cannot be read",
        "x\0y": "cannot be read",
    }.items():
        with pytest.raises(SavedFileError, match=message):
            load(f"{tmp_path}/{name}", "Kind")
    if os.geteuid() != 0:
        with pytest.raises(SavedFileError, match=r"secret: cannot be read \(Permission denied\)"):
            load(secret, "Kind")


def test_every_flipped_bit_and_every_cut_is_noticed():
    data = pack("Kind", SETTINGS, ARRAYS)
    rng = np.random.default_rng(0)
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]
        for damaged in (flipped, data[:place], data + data[:place] if place else data + b"\0"):
            with pytest.raises(SavedFileError, match=r"^file: (not a dqucb file|damaged)"):
                unpack(damaged, "Kind", "file")


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
CRAFTED = {
    "no settings": [("a.npy", npy(np.zeros(3)))],
    "settings are no json": [("settings.json", "{")],
    "settings are no text": [("settings.json", b"\xff\xfe\x00")],
    "settings are a list": [("settings.json", "[]")],
    "settings inside are a list": [("settings.json", '{"format": 1, "kind": "Kind", "settings": []}')],
    "nan in settings": [("settings.json", '{"format": 1, "kind": "Kind", "settings": {"x": NaN}}')],
    "deep settings": [("settings.json", f'{{"format": 1, "kind": "Kind", "settings": {DEEP}}}')],
    "long number": [("settings.json", '{"format": 1, "kind": "Kind", "settings": {"x": 1' + "0" * 5000 + "}}")],
    "newer format": [header(form=2)],
    "member of another kind": [header(), ("a.txt", b"hello")],
    "name with a path": [header(), ("../a.npy", npy(np.zeros(3)))],
    "no array": [header(), ("a.npy", b"hello")],
    "empty array file": [header(), ("a.npy", b"")],
    "pickled array": [header(), ("a.npy", npy(np.array([Bomb()], dtype=object)))],
    "words": [header(), ("a.npy", npy(np.array(["word"])))],
    "records": [header(), ("a.npy", npy(np.zeros(2, [("x", "f8")])))],
    "big-endian": [header(), ("a.npy", npy(np.zeros(2, ">f8")))],
    "cut array": [header(), ("a.npy", npy(np.zeros(9))[:-1])],
    "long array": [header(), ("a.npy", npy(np.zeros(9)) + b"\0")],
    "booleans of 2": [header(), ("a.npy", npy(np.zeros(9, bool))[:-1] + b"\2")],
    "huge shape": [header(), ("a.npy", npy(np.zeros(9)).replace(b"(9,), }          ", b"(9999999999,), } "))],
    "overflowing": [header(), ("a.npy", npy(np.zeros(0)).replace(b"(0,), }" + 16 * b" ", b"(4294967296,4294967296)}"))],
    "many axes": [header(), ("a.npy", npy(np.zeros((1,) * 32)).replace(b"(1, 1, 1, ", b"(1,1,1,1,1"))],
    "unbalanced header": [header(), ("a.npy", npy(np.zeros(9)).replace(b"(9,), }", b"(((((((" ))],
}  # fmt: skip


@pytest.mark.parametrize("name", CRAFTED)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_crafted_members_under_a_valid_checksum_are_refused(name, method):
    assert unpack(sealed([header(), ("a.npy", npy(np.zeros(9)))], method), "Kind", "file")[1]["a"].shape == (9,)
    with pytest.raises(SavedFileError, match=r"^file: "):
        unpack(sealed(CRAFTED[name], method), "Kind", "file")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method):
    with pytest.raises(SavedFileError, match="another method than deflate"):
        unpack(sealed([header()], method), "Kind", "file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused():
    with pytest.raises(SavedFileError, match=r"unexpected member 'a\.npy'"):
        unpack(sealed([header(), ("a.npy", npy(np.zeros(1))), ("a.npy", npy(np.ones(1)))]), "Kind", "file")


def test_random_changes_under_a_valid_checksum_raise_nothing_but_our_error_and_take_no_memory():
    """Bytes of the zip structure and of the members changed, cut out, doubled and swapped, checksum and all."""
    rng = np.random.default_rng(1)
    known = [b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\x01\0\x10\0"]
    files = [pack("Kind", SETTINGS, ARRAYS, compress=compress) for compress in (True, False)]
    refused = 0
    tracemalloc.start()
    try:
        for trial in range(6_000):
            data = bytearray(files[trial % 2])
            for _ in range(int(rng.integers(1, 4))):
                # The end of the archive, where the sizes are declared, matters most.
                start = int(rng.integers(len(data) // 2 if rng.random() < 0.5 else 0, len(data) - 70))
                size = int(rng.integers(1, 9))
                change = rng.integers(5)
                if change == 0:
                    data[start] ^= 1 << int(rng.integers(8))
                elif change == 1:
                    data[start : start + 4] = known[int(rng.integers(len(known)))]
                elif change == 2:
                    del data[start : start + size]
                elif change == 3:
                    data[start:start] = data[start : start + size]
                else:
                    data[start] = int(rng.integers(256))
            try:
                unpack(resealed(bytes(data)), "Kind", "file")
            except SavedFileError:
                refused += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused > 4_000
    assert peak < 20 * 2**20


def declaring(member_size):
    """A deflated megabyte of zeros that says it is larger: the four places where the zip format states the size."""
    data = pack("Kind", {}, {"a": np.zeros(1 << 17)})
    true = len(npy(np.zeros(1 << 17)))
    assert data.count(true.to_bytes(4, "little")) >= 1
    return resealed(data.replace(true.to_bytes(4, "little"), member_size.to_bytes(4, "little")))


def test_memory_asked_for_is_bounded_by_the_file():
    with pytest.raises(SavedFileError, match="more than the file can hold"):
        unpack(declaring(2**31), "Kind", "file")
    bomb = sealed([header(), ("a.npy", npy(np.zeros(2**23)))], zipfile.ZIP_DEFLATED)  # 64 MiB in 64 KiB
    assert len(bomb) * _storage.MAX_EXPANSION > 2**26
    assert unpack(bomb, "Kind", "file")[1]["a"].nbytes == 2**26
    lying = bomb.replace((2**26 + 128).to_bytes(4, "little"), (2**10).to_bytes(4, "little"))
    tracemalloc.start()
    try:
        with pytest.raises(SavedFileError):
            unpack(resealed(lying), "Kind", "file")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_writers_in_threads_never_show_a_damaged_file(tmp_path):
    path = save(tmp_path / "file", "Kind", {"writer": -1}, a=np.zeros(2_000))
    stop = threading.Event()
    errors = []

    def write(number):
        data = pack("Kind", {"writer": number}, {"a": np.full(2_000 + number, number)}, compress=False)
        try:
            while not stop.is_set():
                write_atomically(path, data)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    seen = {load(path, "Kind")[0]["writer"] for _ in range(400)}
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(seen) > 1
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file_and_names_the_path(tmp_path, monkeypatch, broken):
    path = save(tmp_path / "file", "Kind", {"version": "old"})

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, broken, full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/file'"):
        save(path, "Kind", {"version": "new"})
    monkeypatch.undo()
    assert load(path, "Kind")[0] == {"version": "old"}
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*/none/file'"):
        save(tmp_path / "none" / "file", "Kind", {})


def test_prefixes_of_names_are_added_and_taken_off():
    values = {"a": 1, "b.c": 2}
    assert _storage.prefixed("x.", values) == {"x.a": 1, "x.b.c": 2}
    assert _storage.below("x.", _storage.prefixed("x.", values) | {"y.a": 3}) == values


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (np.zeros((2, 3)), {}, r"table must be int64\(2, 3\), got float64\(2, 3\)"),
        (np.zeros((4, 3), np.int64), {}, r"table must be int64\(2, 3\), got int64\(4, 3\)"),
        (np.zeros((4, 2), np.int64), {"growing": True}, r"table must be int64\(2, 3\), got int64\(4, 2\)"),
        (np.zeros(3, np.int64), {"growing": True}, r"table must be int64\(2, 3\), got int64\(3,\)"),
        (None, {}, r"table must be int64\(2, 3\), got object\(\)"),
    ],
)
def test_saved_arrays_have_the_type_and_shape_of_new_ones(given, options, message):
    with pytest.raises(ValueError, match=message):
        _validate.like("table", given, np.zeros((2, 3), np.int64), **options)
    longer = _validate.like("table", np.ones((4, 3), np.int64)[::-1], np.zeros((2, 3), np.int64), growing=True)
    assert longer.shape == (4, 3)
    assert longer.flags.c_contiguous
    with pytest.raises(ValueError, match="curve must be finite"):
        _validate.like("curve", np.array([1.0, np.nan]), np.zeros(2), finite=True)
