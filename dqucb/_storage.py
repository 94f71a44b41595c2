"""Saved files: arrays and JSON settings in one .npz, never pickle, replaced atomically.

A reader meets either the old file or the new one, whole; whatever is wrong with a file ends in a
`SavedFileError` that names it.
"""

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_SETTINGS = "settings.json"  # the array name that holds the JSON text, as bytes


class SavedFileError(ValueError):
    """A saved file is missing, damaged, or was not written by this class."""


def save(path: str | os.PathLike[str], kind: str, settings: dict[str, Any], **arrays: Any) -> Path:
    """Write `settings` and `arrays` to `path` (temporary file, fsync, rename) and return the path."""
    target = Path(path)
    text = json.dumps({"kind": kind, **settings}, sort_keys=True, allow_nan=False)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            contents: dict[str, Any] = {_SETTINGS: np.frombuffer(text.encode(), np.uint8), **arrays}
            np.savez_compressed(file, **contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target


def load(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read back what `save` wrote with the same `kind`; checksums are verified by the zip layer."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("not an .npz archive")
            arrays = {name: file[name] for name in file.files}
        settings = json.loads(arrays.pop(_SETTINGS).tobytes())
        found = settings.pop("kind")
    except (OSError, TypeError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error,
            NotImplementedError, MemoryError, SyntaxError, RuntimeError) as error:  # fmt: skip
        raise SavedFileError(f"{os.fspath(path)}: not a readable dqucb file ({error})") from error
    if found != kind:
        raise SavedFileError(f"{os.fspath(path)}: holds a {found}, expected a {kind}")
    return settings, arrays
