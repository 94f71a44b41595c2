"""Changes of files: bytes, members of an archive, arrays, JSON values and words, all from one random number."""

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS: list[Any] = [0, -1, 1, 2, 3, 2**31 - 1, 2**31, 2**63, -(2**63), 10**12, 10**400, 1.5, -0.0, 1e308, True]
WORDS: list[Any] = [None, "", "x", "../../etc/passwd", "a" * 10_000, "\0", "ü", [], {}, [[]], [1], {"a": 1}]
TEXTS = [
    *(b"nan", b"inf", b"-1", b"1e999", b"", b'"', b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"9" * 400, b",", b"\n", b"\r"),
    *(b"[", b"]", b"{", b"}", b"=", b"true", b"1979-05-27", b"0x10", b"[[", b"#", b"'''", b'"""', b"\\u0000"),
]
DTYPES = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<u4", "<u8", "<f2", "<f4", "<f8"]


def sealed(members: list[tuple[str, bytes]], compressed: bool) -> bytes:
    """An archive of ours with any members, and a checksum that agrees."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = bytes(64)
    return resealed(out.getvalue())


def resealed(data: bytes) -> bytes:
    """The same bytes with a checksum that agrees."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def members_of(data: bytes) -> list[tuple[str, bytes]]:
    """The members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def npy(array: Any) -> bytes:
    """An array in the form of a member."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), (1, 0), allow_pickle=False)
    return out.getvalue()


def mutated_bytes(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """Bits flipped, bytes cut out, doubled, replaced, taken from another file."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        place, size = chance.randrange(len(changed) + 1), chance.choice([1, 2, 4, 8, 64, 1_000])
        what = chance.randrange(6)
        if what == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif what == 1:
            del changed[place : place + size]
        elif what == 2:
            changed[place:place] = changed[place : place + size]
        elif what == 3:
            changed[place : place + size] = chance.randbytes(min(size, 64))
        elif what == 4:
            start = chance.randrange(len(other) + 1)
            changed[place : place + size] = other[start : start + size]
        else:
            del changed[place:]
    return bytes(changed)


def mutated_text(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """Fields and lines replaced, doubled, dropped, exchanged; sometimes plain bytes."""
    if chance.random() < 0.3:
        return mutated_bytes(data, chance, other)
    lines = data.split(b"\n")
    for _ in range(chance.choice([1, 1, 2, 4])):
        place = chance.randrange(len(lines))
        what = chance.randrange(5)
        if what == 0:
            lines.insert(place, lines[chance.randrange(len(lines))])
        elif what == 1 and len(lines) > 1:
            del lines[place]
        else:
            separator = b"," if b"," in lines[place] else b"="
            fields = lines[place].split(separator)
            field = chance.randrange(len(fields))
            old = fields[chance.randrange(len(fields))]
            fields[field] = chance.choice(TEXTS) if what < 4 else old
            if chance.random() < 0.2:
                fields.insert(field, chance.choice(TEXTS))
            lines[place] = separator.join(fields)
    return b"\n".join(lines)


def mutated_value(value: Any, chance: random.Random) -> Any:
    """A JSON value with one place somewhere inside changed."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value))
        changed = dict(value)
        what = chance.random()
        if what < 0.1:
            del changed[key]
        elif what < 0.15:
            changed[chance.choice([key + "x", "", "../x", "n" * 300])] = changed.pop(key)
        else:
            changed[key] = mutated_value(value[key], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.8:
        changed = list(value)
        place = chance.randrange(len(changed))
        if chance.random() < 0.2:
            del changed[place]
        elif chance.random() < 0.2:
            changed.insert(place, changed[place])
        else:
            changed[place] = mutated_value(changed[place], chance)
        return changed
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.4:
        return value + chance.choice([-1, 1, 1_000, -1_000, 2**32])
    return chance.choice(NUMBERS + WORDS)


def mutated_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """Another type, shape, size, order or other numbers."""
    what = chance.randrange(8)
    with np.errstate(all="ignore"):
        if what == 0:
            return array.astype(chance.choice(DTYPES))
        if what == 1:
            return array[None] if chance.random() < 0.5 else array.reshape(-1)
        if what == 2 and array.size:
            return array[tuple(slice(0, max(0, n - chance.randrange(2))) for n in array.shape)]
        if what == 3:
            return np.concatenate([array, array]) if array.ndim else array
        if what == 4:
            return np.zeros(chance.choice([(0,), (1,), (), (3, 0, 2)]), array.dtype)
        changed = array.copy()
        flat = changed.reshape(-1)
        if not flat.size:
            return changed
        if what == 5:
            return changed[::-1].copy() if changed.ndim else changed
        number = chance.choice([np.nan, np.inf, -1.0, 2.0, 2**31 - 1, -(2**31), 2**62, 1e300, 0.0, 1.0])
        with np.testing.suppress_warnings() as quiet:
            quiet.filter(RuntimeWarning)
            filled = np.array(number).astype(changed.dtype)
        places = slice(None) if what == 6 and chance.random() < 0.3 else chance.randrange(flat.size)
        flat[places] = filled
        return changed


def mutated_archive(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """A file of ours with some member changed, and usually a checksum that agrees."""
    what = chance.random()
    if what < 0.1:
        return mutated_bytes(data, chance, other)
    if what < 0.3:
        return resealed(mutated_bytes(data, chance, other) + bytes(64) * (chance.random() < 0.3))
    members = members_of(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        if not members:
            break
        place = chance.randrange(len(members)) if chance.random() < 0.6 else 0
        name, content = members[place]
        what = chance.random()
        if what < 0.08:
            del members[place]
        elif what < 0.14:
            members[place] = (chance.choice(["../a.npy", "x", name + "x", members[-1][0]]), content)
        elif what < 0.2:
            members[place] = (name, chance.choice(members_of(other))[1])
        elif name.endswith(".json"):
            try:
                header = json.loads(content)
            except ValueError:
                continue
            part = "settings" if chance.random() < 0.9 and isinstance(header, dict) and "settings" in header else None
            if part:
                header[part] = mutated_value(header[part], chance)
            else:
                header = mutated_value(header, chance)
            members[place] = (name, json.dumps(header).encode())
        elif what < 0.3:
            members[place] = (name, mutated_bytes(content, chance, other))
        elif what < 0.38:
            huge = chance.choice([b"(99999999999,)", b"(4294967296, 4294967296)", b"(1000000, 1000000, 1000)"])
            start = content.find(b"(")
            members[place] = (name, content[:start] + huge + content[content.find(b")", start) + 1 :])
        else:
            try:
                array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
            except Exception:  # NumPy's own reader meets what was changed before, and raises anything
                continue
            members[place] = (name, npy(mutated_array(array, chance)))
    return sealed(members, chance.random() < 0.5)


def mutated_manifest(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """A manifest with some value changed, and usually a checksum that agrees."""
    from dqucb.experiments.trials import canonical

    if chance.random() < 0.3:
        return mutated_text(data, chance, other)
    content = json.loads(data)
    content.pop("sha256")
    content = mutated_value(content, chance)
    if isinstance(content, dict):
        content["sha256"] = hashlib.sha256(canonical(content).encode()).hexdigest()
    return json.dumps(content).encode()


Mutation = Callable[[bytes, random.Random, bytes], bytes]
