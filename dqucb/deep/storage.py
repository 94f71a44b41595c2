"""Files of the deep agents: arrays in safetensors, settings as JSON in its header, a checksum over both; no pickle."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dqucb._storage import SavedFileError, write_atomically


def save_file(
    path: str | os.PathLike[str], kind: str, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> Path:
    """Write to `path`, atomically, and return the path."""
    target = Path(path)
    text = json.dumps({"kind": kind, **settings}, sort_keys=True, allow_nan=False)
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = save(plain, {"settings": text, "checksum": _checksum(text, plain)})
    write_atomically(target, data)
    return target


def load_file(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(settings, arrays) that `save_file` wrote with the same `kind`; anything else is a `SavedFileError`."""
    try:
        with safe_open(os.fspath(path), "np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        text = metadata["settings"]
        if metadata["checksum"] != _checksum(text, arrays):
            raise ValueError("the checksum does not match")
        settings = json.loads(text)
        found = settings.pop("kind")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, MemoryError,
            SafetensorError) as error:  # fmt: skip
        raise SavedFileError(f"{os.fspath(path)}: not a readable dqucb file ({error})") from error
    if found != kind:
        raise SavedFileError(f"{os.fspath(path)}: holds a {found}, expected a {kind}")
    return settings, arrays


def _checksum(text: str, arrays: dict[str, NDArray[Any]]) -> str:
    total = zlib.crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), total)
        total = zlib.crc32(array.tobytes(), total)
    return f"{total:08x}"
