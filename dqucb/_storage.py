"""Saved files: arrays and JSON settings in one .npz, never pickle, replaced atomically.

A reader meets either the old file or the new one, whole; whatever is wrong with a file ends in a
`SavedFileError` that names it.
"""

import io
import json
import os
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

_SETTINGS = "settings.json"  # the array name that holds the JSON text, as bytes


class SavedFileError(ValueError):
    """A saved file is missing, damaged, or was not written by this class."""


def pack(kind: str, settings: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """`settings` and `arrays` as the bytes of a file."""
    text = json.dumps({"kind": kind, **settings}, sort_keys=True, allow_nan=False)
    contents: dict[str, Any] = {_SETTINGS: np.frombuffer(text.encode(), np.uint8), **arrays}
    archive = io.BytesIO()
    np.savez_compressed(archive, **contents)
    return archive.getvalue()


def save(path: str | os.PathLike[str], kind: str, settings: dict[str, Any], **arrays: Any) -> Path:
    """Write `settings` and `arrays` to `path` and return the path."""
    target = Path(path)
    write_atomically(target, pack(kind, settings, arrays))
    return target


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; `SavedFileError` if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise SavedFileError(f"{os.fspath(path)}: not a readable dqucb file ({error})") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path`; whoever looks sees the old file or the new one, whole, even after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read back what `save` wrote with the same `kind`; checksums are verified by the zip layer."""
    return unpack(read(path), kind, os.fspath(path))


def unpack(data: bytes, kind: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `pack` was given; anything else is a `SavedFileError` that names the file as `name`."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("not an .npz archive")
            arrays = {name: file[name] for name in file.files}
        settings = json.loads(arrays.pop(_SETTINGS).tobytes())
        found = settings.pop("kind")
    except (OSError, TypeError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error,
            NotImplementedError, MemoryError, SyntaxError, RuntimeError) as error:  # fmt: skip
        raise SavedFileError(f"{name}: not a readable dqucb file ({error})") from error
    if found != kind:
        raise SavedFileError(f"{name}: holds a {found}, expected a {kind}")
    return settings, arrays
