"""Machine code on disk: what came with the installation, and what was compiled here.

One file holds one kernel for one signature. Its name is a hash of everything that the code depends on (the kernel's
sources, Numba's version and settings, Python, the CPU), so a file that does not fit is never found, and its first line
is a hash of the rest, so a damaged one is not believed. Whatever goes wrong, the kernel is compiled: slower, never
wrong. Numba's own cache keeps an index per function instead, which two processes at once can shorten, which a full disk
turns into an exception, and which takes longer to read than the code.

- `SHIPPED` is filled by `dqucb.agents.ahead` when a wheel is built, for a CPU that nearly all have (`BASELINE`).
- The other folder is the first writable one of `NUMBA_CACHE_DIR`, `__pycache__` beside this file, and the user's own.
"""

import contextlib
import functools
import hashlib
import inspect
import json
import logging
import os
import platform
import sys
import tempfile
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba

from dqucb._kernels import _numba_private

log = logging.getLogger("dqucb")

HERE = Path(__file__).parent
SHIPPED = HERE / "compiled"
SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.rglob("*.py")))).hexdigest()
MANIFEST = "kernels.json"
SECONDS_BEFORE_MESSAGE = 1.0


class Baseline(NamedTuple):
    """A CPU that shipped code is made for, in LLVM's names."""

    cpu: str
    features: frozenset[str]  # what a machine must have


# x86-64-v3 is any desktop or server since 2013 to 2015. The bits are the same on all: without fastmath LLVM neither
# contracts a*b+c nor reorders a sum (tests/test_kernel_cache.py compares).
_X86 = Baseline("x86-64-v3", frozenset("avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse4.2 xsave".split()))
_ARM = Baseline("generic", frozenset())
BASELINE = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}.get(platform.machine())


class Progress:
    """How many kernels this process began and finished to compile, and how many came from disk."""

    def __init__(self) -> None:
        self.begun = self.finished = self.read = 0
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """A kernel is not on disk; say so if compiling it takes longer than a moment."""
        self.begun += 1
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(SECONDS_BEFORE_MESSAGE, self._say)
            self._timer.daemon = True
            self._timer.start()

    def _say(self) -> None:
        if self.begun > self.finished:
            why = why_not_shipped() or "this installation came without those for these settings"
            _say_once(f"dqucb: compiling kernels, once ({why}) ...")


progress = Progress()


class KernelCache(_numba_private.Cache):
    """The files of one kernel, in the two folders."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}".replace("<locals>.", "")
        self._identity = _identity(function)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function, or None: then Numba compiles it."""
        for path in self._places(signature, context):
            data = _read(path)
            if data is None:
                continue
            try:
                found = _numba_private.unpacked(data, context)
            except Exception as error:  # any, since a file of some other Numba may raise anything
                log.debug("%s is compiled again: %r", path, error)
                continue
            progress.read += 1
            return found
        progress.begin()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled, if there is a folder for it."""
        progress.finished += 1
        folder = own_folder()
        data = _numba_private.packed(compiled) if folder is not None else None
        if folder is None or data is None:
            return
        target = _numba_private.target_of(compiled.target_context)
        try:
            _write(folder / self._file(signature, target), data)
        except OSError as error:
            _say_once(
                f"dqucb: compiled kernels cannot be kept in {folder} ({error}): they are compiled in each process"
            )

    def _places(self, signature: Any, context: Any) -> Iterator[Path]:
        if shipped_fits() and BASELINE is not None:
            yield SHIPPED / self._file(signature, (_numba_private.host_triple(), BASELINE.cpu, ""))
        folder = own_folder()
        if folder is not None:
            yield folder / self._file(signature, _numba_private.target_of(context))

    def _file(self, signature: Any, target: tuple[str, str, str]) -> str:
        parts = (self._identity, _numba_private.signature_name(signature), *target)
        return f"{self._name}-{_digest(*parts)[:24]}.kernel"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _identity(function: Callable[..., Any]) -> str:
    """What the code of a kernel depends on, but for its signature and the CPU."""
    cells = [repr(cell.cell_contents) for cell in function.__closure__ or ()]
    return _digest(SOURCES, _own_source(function), function.__qualname__, *cells, _versions())


def _own_source(function: Callable[..., Any]) -> str:
    """The file of a kernel that is defined outside this package, as tests do; `SOURCES` has the others."""
    path = inspect.getfile(function)
    if Path(path).is_relative_to(HERE):
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return f"{function.__code__.co_code!r} {function.__code__.co_consts!r}"


@functools.cache
def _versions() -> str:
    return f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')} {_numba_private.settings()}"


def _read(path: Path) -> bytes | None:
    """What `_write` wrote; None if there is no such file or it is damaged."""
    try:
        digest, _, data = path.read_bytes().partition(b"\n")
        return zlib.decompress(data) if hashlib.sha256(data).hexdigest().encode() == digest else None
    except (OSError, zlib.error):
        return None


def _write(path: Path, data: bytes) -> None:
    """Write a file that is whole whenever it is there, whoever else writes it."""
    small = zlib.compress(data)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(hashlib.sha256(small).hexdigest().encode() + b"\n" + small)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@functools.cache
def own_folder() -> Path | None:
    """Where kernels that are compiled here are kept; None, said once, if nothing can be written."""
    given = numba.config.CACHE_DIR
    candidates = [*([Path(given) / "dqucb"] if given else []), HERE / "__pycache__" / "kernels", _user_folder()]
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    tried = " or ".join(map(str, candidates))
    _say_once(f"dqucb: cannot write to {tried}: kernels that did not come with the installation are compiled in each "
              "process; set NUMBA_CACHE_DIR to a folder that can be written")  # fmt: skip
    return None


def _user_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "dqucb"


def facts() -> dict[str, str]:
    """What shipped kernels must have in common with this process."""
    return {
        "sources": SOURCES,
        "python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
        "numba": numba.__version__,
        "platform": _numba_private.host_triple(),
        "cpu": BASELINE.cpu if BASELINE is not None else "none",
    }


@functools.cache
def why_not_shipped() -> str:
    """Why the shipped kernels are not used, in words; empty if they are."""
    if _numba_private.cpu_is_chosen():
        return "Numba was told which CPU to compile for"
    try:
        found = json.loads((SHIPPED / MANIFEST).read_text(encoding="utf-8"))
        for name, here in facts().items():
            if found[name] != here:
                words = "other sources" if name == "sources" else f"{name} {found[name]}, and this is {here}"
                return f"the ones of this installation are for {words}"
    except OSError:
        return "this installation came without compiled ones"
    except (ValueError, KeyError, TypeError):
        return "the list of the ones of this installation is damaged"
    if BASELINE is None or not BASELINE.features <= _numba_private.host_features():
        return f"the ones of this installation need a CPU of kind {found['cpu']}"
    return ""


def shipped_fits() -> bool:
    """Whether the kernels that came with the installation run here."""
    return not why_not_shipped()


@functools.cache
def _say_once(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
