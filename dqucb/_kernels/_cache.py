"""Machine code on disk: what came with the installation, and what was compiled here.

One file holds one kernel for one signature. Its name is a hash of everything that the code depends on (the kernel's
sources, Numba's version and settings, Python, the CPU), so that a file that does not fit is never found. Its first line
is a hash of its name and the rest, so that a damaged or misplaced one is not used. After any error the kernel is
compiled: slower, never wrong. Numba's own cache keeps an index per function instead. It is unpickled without a check,
two processes at once can store the code of one signature under another, a full disk ends the run, and reading it takes
longer than reading the code.

- `SHIPPED` is filled by `dqucb.aot` when a wheel is built, for a CPU that nearly all have (`BASELINE`).
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
    """How many kernels this process has started and finished compiling, and how many it read from disk."""

    def __init__(self) -> None:
        self.begun = self.finished = self.read = 0
        self._timer: threading.Timer | None = None
        self._said = False

    def begin(self) -> None:
        """Count a kernel that is not on disk; print a message if compiling it takes more than a second."""
        self.begun += 1
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(SECONDS_BEFORE_MESSAGE, self._say)
            self._timer.daemon = True
            self._timer.start()

    def _say(self) -> None:
        if self.begun > self.finished and not self._said:
            self._said = True
            why = why_not_shipped() or "this installation came without those for these settings"
            print(f"dqucb: compiling kernels, once ({why}) ...", file=sys.stderr, flush=True)


progress = Progress()


class KernelCache(_numba_private.Cache):
    """The files of one kernel, in the two folders."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}".replace("<locals>.", "")
        self._identity = _identity(function)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function, or None: then Numba compiles it."""
        for path in self._places(signature, context):
            try:
                found = _numba_private.unpacked(_read(path), context)
            except FileNotFoundError:
                continue
            except Exception as error:  # any: what a damaged or foreign file raises is not known
                log.warning("%s: a damaged file of compiled kernels is not used, and compiled again (%r)", path, error)
                continue
            progress.read += 1
            return found
        progress.begin()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Store what was compiled, if there is a folder for it."""
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
                f"kernels cannot be kept in {folder} ({error.strerror or error}), so that every process compiles them "
                "again: make room there, or let NUMBA_CACHE_DIR name another folder"
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
    """What the code of a kernel depends on, except for its signature and the CPU."""
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


def _read(path: Path) -> bytes:
    """What `_write` wrote; ValueError if it is something else."""
    digest, _, data = path.read_bytes().partition(b"\n")
    if digest != _checksum(path, data):
        raise ValueError("its checksum is wrong")
    return zlib.decompress(data)


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically; several processes may write it at once."""
    small = zlib.compress(data)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(_checksum(path, small) + b"\n" + small)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _checksum(path: Path, data: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + data).hexdigest().encode()


@functools.cache
def own_folder() -> Path | None:
    """The folder of kernels that are compiled on this machine; None, with one warning, if none is writable."""
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
    _say_once(
        f"nothing can be written to {tried}: kernels that did not come with the installation are compiled in every "
        "process; let NUMBA_CACHE_DIR name a folder for them"
    )
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
    """The facts in which shipped kernels must agree with this process."""
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
        return "NUMBA_CPU_NAME chooses the CPU to compile for"
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
    log.warning(words)
