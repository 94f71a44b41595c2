"""Saved files as somebody else would write them: any members, any arrays, and a valid checksum."""

import hashlib
import io
import json
import zipfile

import numpy as np


def sealed(members, method=zipfile.ZIP_STORED):
    """A zip archive of (name, bytes) members that ends with the SHA-256 of all bytes before it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = bytes(64)
    return resealed(out.getvalue())


def resealed(data):
    """The same bytes with a checksum that agrees."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def npy(array):
    """An array in NumPy's own format, pickled if it must be."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def contents(path):
    """(settings, arrays) of a saved file; the settings include `kind` and `format`."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "settings.json"}
        header = json.loads(file["settings.json"])
    return {**header.pop("settings"), **header}, arrays


def write(path, settings, arrays):
    """The reverse of `contents`."""
    header = {name: settings[name] for name in ("format", "kind") if name in settings}
    header["settings"] = {name: value for name, value in settings.items() if name not in ("format", "kind")}
    members = [("settings.json", json.dumps(header))]
    path.write_bytes(sealed(members + [(f"{name}.npy", npy(array)) for name, array in arrays.items()]))
