"""Files of Numba's disk cache that notice damage: whatever is not whole counts as missing and is compiled again.

Numba unpickles its index and loads machine code without a look: a cut file ended every later run with an EOFError that
names no file, a changed byte could crash, and two processes that save at once could leave the code of one signature
under the name of another. Here each file begins with the SHA-256 of the rest, and data holds the key it was saved for.
"""

import hashlib
import logging
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba.core import caching

log = logging.getLogger("dqucb")

_DIGEST = 32  # bytes
_complained: set[str] = set()


class CheckedCacheFile(caching.IndexDataCacheFile):
    """An index and its data files; the methods are those that Numba calls."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[Any, str]:
        content = self._whole(self._index_path)
        if content is None or content[:2] != (self._version, self._source_stamp):
            return {}
        return content[2]

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._whole(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, content: Any) -> None:
        data = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(data).digest() + data)

    @staticmethod
    def _whole(path: str) -> Any:
        """What `_write` put there; None if there is nothing, or something else, which is removed."""
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        if data[:_DIGEST] == hashlib.sha256(memoryview(data)[_DIGEST:]).digest():
            with suppress(Exception):  # a class of an older state of the code may be gone
                return pickle.loads(data[_DIGEST:])
        log.warning("%s: a damaged file of the kernel cache is removed, and its kernel compiled again", path)
        with suppress(OSError):
            os.unlink(path)
        return None


def checked(cache: Any, filename_base: str) -> None:
    """Let a dispatcher's `cache` keep its code in checked files of that name, and do without where it cannot write."""
    folder = cache._cache_path

    @contextmanager
    def guard() -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if folder not in _complained:
                _complained.add(folder)
                text = "kernels cannot be kept in %s (%s), so that every process compiles them again: make room there, "
                log.warning(text + "or let NUMBA_CACHE_DIR name another folder", folder, error.strerror or error)

    cache._guard_against_spurious_io_errors = guard
    cache._cache_file = CheckedCacheFile(
        cache_path=folder, filename_base=filename_base, source_stamp=cache._cache_file._source_stamp
    )
