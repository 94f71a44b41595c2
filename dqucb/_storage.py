"""Saved files: arrays and JSON settings in one .npz archive with a checksum; no pickle, replaced atomically.

Format 1. A zip archive with fixed time stamps, so that the same content gives the same bytes:

    settings.json    {"format": 1, "kind": ..., "settings": {...}}
    <name>.npy       one array in NumPy's format 1.0: boolean, integer or floating, little-endian, C order
    zip comment      SHA-256 of all bytes before it, in 64 hexadecimal digits: the end of the file

`numpy.load` reads such a file as well. `unpack` verifies the checksum first, and every declared size against that of
the file before memory is allocated: stored members cannot be larger than the file, compressed ones not larger than
`MAX_EXPANSION` times. Any error is a `SavedFileError` that names the file.
"""

import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SavedFileError"]

FORMAT = 1
MAX_EXPANSION = 1032  # the largest compression ratio of deflate
SETTINGS = "settings.json"
DTYPES = {
    np.dtype(code).str: np.dtype(code)
    for code in ("?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
}

_DIGEST = 64  # hexadecimal digits
_NAME = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '([|<][a-z]\d)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n")
_PIECE = 1 << 20


class SavedFileError(ValueError):
    """A saved file is missing, damaged, or of another kind.

    Examples
    --------
    >>> from dqucb import SavedFileError, SlidingKDE
    >>> try:
    ...     SlidingKDE.load("no such file.npz")
    ... except SavedFileError as error:
    ...     print(error)
    no such file.npz: cannot be read (No such file or directory)
    """


def save(
    path: str | os.PathLike[str],
    kind: str,
    settings: Mapping[str, Any],
    /,
    *,
    compress: bool = True,
    **arrays: ArrayLike,
) -> Path:
    """Write `settings` and `arrays` to `path`, atomically, and return the path."""
    target = Path(path)
    write_atomically(target, pack(kind, settings, arrays, compress=compress))
    return target


def load(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(settings, arrays) of a file that `save` wrote with this `kind`; any other file is a `SavedFileError`."""
    return unpack(read(path), kind, os.fspath(path))


def read(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file; a `SavedFileError` if it cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would block, a device may be endless
            raise SavedFileError(f"{os.fspath(path)}: not a file")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, SavedFileError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise SavedFileError(f"{os.fspath(path)}: cannot be read ({reason})") from error


def pack(kind: str, settings: Mapping[str, Any], arrays: Mapping[str, ArrayLike], *, compress: bool = True) -> bytes:
    """The bytes of a file; `settings` are JSON values, `arrays` of boolean, integer or floating type."""
    text = json.dumps({"format": FORMAT, "kind": kind, "settings": settings}, sort_keys=True, allow_nan=False)
    out = io.BytesIO()
    # Level 1 is six times as fast as the default for 4 % more bytes. Members get zipfile's fixed time stamp, 1980.
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", method, compresslevel=1) as archive:
        with archive.open(SETTINGS, "w") as file:
            file.write(text.encode())
        for name, value in arrays.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"names of arrays must be letters, digits and any of _.:-, got {name!r}")
            array = np.asarray(value, order="C")
            dtype = array.dtype.newbyteorder("<")
            if dtype.str not in DTYPES:
                raise ValueError(f"{name} must be an array of booleans, integers or floats, got {array.dtype}")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array.astype(dtype, copy=False), (1, 0), allow_pickle=False)
        archive.comment = bytes(_DIGEST)
    out.seek(-_DIGEST, os.SEEK_END)
    out.write(_digest(out.getbuffer()[:-_DIGEST]))
    return out.getvalue()


def unpack(data: bytes, kind: str, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(settings, arrays) from the bytes of a file; errors call it `name`."""
    if data[:4] != b"PK\x03\x04" or len(data) < 2 * _DIGEST:
        raise SavedFileError(f"{name}: not a dqucb file")
    if not data[-_DIGEST:].isalnum() or data[-_DIGEST - 2 : -_DIGEST] != bytes((_DIGEST, 0)):
        raise SavedFileError(f"{name}: not a dqucb file, or cut short: it does not end with a checksum")
    if _digest(memoryview(data)[:-_DIGEST]) != data[-_DIGEST:]:
        raise SavedFileError(f"{name}: damaged: the checksum does not agree with the content")
    # The checksum is correct, but the content may have been written by anyone.
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _checked_members(archive, len(data))
            header = _header(archive.read(members.pop(SETTINGS)))
            if header["kind"] != kind:
                raise SavedFileError(f"{name}: holds a {str(header['kind'])[:80]}, expected a {kind}")
            arrays = {key.removesuffix(".npy"): _array(archive, member) for key, member in members.items()}
    except SavedFileError:
        raise
    except Exception as error:  # zipfile, zlib and json raise about fifteen types for crafted input
        raise SavedFileError(f"{name}: not a readable dqucb file ({error or type(error).__name__})") from error
    return header["settings"], arrays


def prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with `prefix` before each name, as parts of a larger state are stored."""
    return {f"{prefix}{name}": value for name, value in values.items()}


def below(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the file at `path` atomically: readers see the old or the new content, even after a power cut.

    Several threads or processes may write at once; the last one wins. An OSError names `path`.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name[:48]}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error


def set_aside(path: Path, folder: Path) -> Path:
    """Move a damaged file to `folder` under an unused name, and return its new path."""
    folder.mkdir(exist_ok=True)
    number = 0
    while os.path.lexists(target := folder / f"{path.name}.{number}"):
        number += 1
    os.replace(path, target)
    return target


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(content: memoryview) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _checked_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, after their declared sizes were checked against a file of `size` bytes."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename
        if name in members or not (name == SETTINGS or (name.endswith(".npy") and _NAME.fullmatch(name[:-4]))):
            raise ValueError(f"unexpected member {name[:80]!r}")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
            raise ValueError(f"member {name!r} is encrypted or compressed by another method than deflate")
        times = MAX_EXPANSION if member.compress_type == zipfile.ZIP_DEFLATED else 1
        if member.file_size > times * member.compress_size:
            raise ValueError(f"member {name!r} declares {member.file_size} bytes, more than the file can hold")
        members[name] = member
    if sum(member.compress_size for member in members.values()) > size:
        raise ValueError("the members overlap")
    return members


def _header(text: bytes) -> dict[str, Any]:
    """The JSON header, checked for its structure and version."""
    header = parsed_json(text)
    if not isinstance(header, dict) or set(header) != {"format", "kind", "settings"}:
        raise ValueError(f"{SETTINGS} must hold format, kind and settings")
    if header["format"] != FORMAT:
        raise ValueError(f"format {header['format']!r} is not known here: this dqucb reads format {FORMAT}")
    if not isinstance(header["settings"], dict):
        raise ValueError("settings must be a mapping")
    return header


def parsed_json(text: bytes) -> Any:
    """Parse standard JSON, without NaN and infinities."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """One array; its declared shape must account for every byte of the member."""
    with archive.open(member) as file:
        start = file.read(10)
        length = int.from_bytes(start[8:], "little")
        match = _HEADER.fullmatch(file.read(length))
        if start[:8] != _MAGIC or match is None or match[1].decode() not in DTYPES:
            raise ValueError(f"member {member.filename!r} is not an array of booleans, integers or floats")
        dtype = DTYPES[match[1].decode()]
        shape = tuple(int(axis) for axis in match[2].decode().split(",") if axis.strip())
        if len(shape) > 32 or math.prod(shape) * dtype.itemsize != member.file_size - 10 - length:
            raise ValueError(f"member {member.filename!r} does not hold an array of shape {shape[:4]}")
        array = np.empty(shape, dtype)
        octets = array.reshape(-1).view(np.uint8)
        for first in range(0, len(octets), _PIECE):
            piece = file.read(min(_PIECE, len(octets) - first))
            if len(piece) < min(_PIECE, len(octets) - first):
                raise ValueError(f"member {member.filename!r} is cut short")
            octets[first : first + _PIECE] = np.frombuffer(piece, np.uint8)
        if file.read(1):  # reading to the end also verifies the member's own checksum
            raise ValueError(f"member {member.filename!r} is longer than it declares")
    if dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise ValueError(f"member {member.filename!r} holds booleans other than 0 and 1")
    return array
