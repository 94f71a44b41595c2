"""Rows of transitions from CSV and parquet files, checked: every error names the file, the line and the column."""

import csv
import io
import math
import os
import time as clock
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

from dqucb import _validate as check

PARQUET = (".parquet", ".pq")
MISSING = ("", "na", "nan", "null", "none")  # fields that hold no value, in any case of letters


class Columns(NamedTuple):
    """Names of the columns that are read; an empty `next_state` means that of the next row."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    next_state: tuple[str, ...]
    reward: str | None
    time: str | None
    episode: str | None


class Row(NamedTuple):
    """One checked row; `line` counts from 1, the header included."""

    line: int
    state: tuple[float, ...]
    action: tuple[float, ...]
    next_state: tuple[float, ...]
    reward: float | None
    time: str | None
    episode: str | None


class WatchError(ValueError):
    """A file of transitions cannot be read; the message names the line and the column."""


def choose(header: Sequence[str], name: str, **given: str | Sequence[str] | None) -> Columns:
    """The columns to read: those given, else those whose names begin with state, action and next_state.

    Parameters
    ----------
    header : list of str
        Names of the columns of the file.
    name : str
        Of the file, for messages.
    """
    if len(set(header)) != len(header):
        twice = next(column for column in header if list(header).count(column) > 1)
        raise WatchError(f"{name}: line 1: column {twice!r} appears twice")

    def several(role: str, needed: bool) -> tuple[str, ...]:
        wanted = given[role]
        if wanted is None:
            found = tuple(column for column in header if column == role or column.startswith(f"{role}_"))
            if role == "state":
                found = tuple(column for column in found if not column.startswith("state_next"))
            if not found and needed:
                raise WatchError(
                    f"{name}: line 1: no column is named {role} or {role}_...: name it with {role}= "
                    f"(--{role}); columns are {', '.join(header)}"
                )
            return found
        names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        for column in names:
            _present(column, role, header, name)
        return names

    def single(role: str) -> str | None:
        wanted = given[role]
        if wanted is None:
            return role if role in header else None
        if not isinstance(wanted, str):
            raise WatchError(f"{role} must be the name of one column, got {wanted!r}")
        _present(wanted, role, header, name)
        return wanted

    columns = Columns(several("state", True), several("action", False), several("next_state", False),
                      single("reward"), single("time"), single("episode"))  # fmt: skip
    if columns.next_state and len(columns.next_state) != len(columns.state):
        raise WatchError(
            f"{name}: next_state must have as many columns as state ({len(columns.state)}), "
            f"got {list(columns.next_state)}"
        )
    return columns


def _present(column: str, role: str, header: Sequence[str], name: str) -> None:
    if column not in header:
        try:
            check.one_of(role, column, header)
        except ValueError as error:
            raise WatchError(f"{name}: line 1: {error}") from None


def rows(
    path: Path,
    follow: bool,
    poll: float,
    stop: Callable[[], bool],
    skip_missing: bool,
    **given: str | Sequence[str] | None,
) -> Iterator[Columns | Row | None]:
    """First the columns, then each row, as it comes; None for a row that is skipped since a value is missing.

    Parameters
    ----------
    path : path-like
        The file.
    follow : bool
        Whether to wait for more lines at its end.
    poll : float
        Seconds between two looks.
    stop : callable
        Tells whether to end.
    skip_missing : bool
        Whether rows with missing values are left out rather than refused.
    """
    if path.suffix.lower() in PARQUET:
        if follow:
            raise WatchError(f"{path}: a parquet file cannot grow: follow=True needs a CSV file")
        records = _parquet(path)
    else:
        records = _csv(path, follow, poll, stop)
    _, header = next(records)
    columns = choose(header, str(path), **given)
    yield columns
    place = {column: i for i, column in enumerate(header)}
    read = [place[name] for names in columns for name in ((names,) if isinstance(names, str) else names or ())]
    last: float | None = None
    episode: str | None = None
    for line, values in records:
        if skip_missing and any(is_missing(values[i]) for i in read):
            yield None
            continue
        row = _parsed(columns, place, line, values, str(path))
        if row.time is not None:
            now = instant(row.time, columns.time, line, str(path))
            if last is not None and now < last and row.episode == episode:
                raise WatchError(
                    f"{path}: line {line}: {columns.time} {row.time!r} is before that of the row above: sort the file"
                )
            last, episode = now, row.episode
        yield row


def is_missing(value: object) -> bool:
    """Whether a field holds no value."""
    return value is None or str(value).strip().lower() in MISSING


def _parsed(columns: Columns, place: dict[str, int], line: int, values: Sequence[str], name: str) -> Row:
    def numbers(names: tuple[str, ...]) -> tuple[float, ...]:
        return tuple([_number(values[place[column]], column, line, name) for column in names])

    def text(column: str | None) -> str | None:
        return None if column is None else str(values[place[column]])

    reward = None if columns.reward is None else _number(values[place[columns.reward]], columns.reward, line, name)
    return Row(line, numbers(columns.state), numbers(columns.action), numbers(columns.next_state), reward,
               text(columns.time), text(columns.episode))  # fmt: skip


def _number(value: str, column: str, line: int, name: str) -> float:
    try:
        number = _float(value)
    except (TypeError, ValueError):
        shown = "an empty field" if value in ("", None) else repr(value)
        hint = ": skip_missing=True (--skip-missing) leaves such rows out" if is_missing(value) else ""
        raise WatchError(f"{name}: line {line}: {column} must be a number, got {shown}{hint}") from None
    if not math.isfinite(number):
        raise WatchError(f"{name}: line {line}: {column} must be finite, got {value!r}")
    return number


def _float(value: str) -> float:
    """A number as data files write it; `float` would also read Python's own 1_0 as 10."""
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    return float(value)


def instant(value: str, column: str | None, line: int, name: str) -> float:
    """A time as a number. A date without a time zone is taken as it is written: no clock is put forward or back.

    Parameters
    ----------
    value : str
        The text of the cell.
    column, line, name : str, int, str
        Where it stands: column, line and file, for messages.
    """
    try:
        return _float(value)
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise WatchError(f"{name}: line {line}: {column} must be a number or an ISO date, got {value!r}") from None
    return (parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed).timestamp()


def _csv(path: Path, follow: bool, poll: float, stop: Callable[[], bool]) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(_followed(path, poll, stop) if follow else _lines(path), strict=True)
    width = None
    try:
        for values in reader:
            if not values:
                continue
            if width is None:
                width = len(values)
                values = [value.strip() for value in values]
                other = next((mark for mark in ";\t|" if width == 1 and mark in values[0]), None)
                if other is not None:
                    raise WatchError(f"{path}: line 1: fields must be separated by commas, got {other!r}")
            elif len(values) != width:
                raise WatchError(f"{path}: line {reader.line_num}: {len(values)} fields where the header has {width}")
            yield reader.line_num, values
    except csv.Error as error:
        raise WatchError(f"{path}: line {reader.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise WatchError(f"{path}: after line {reader.line_num}: not UTF-8 text ({error.reason})") from error
    if width is None:
        raise WatchError(f"{path}: empty: the first line must name the columns")


def _opened(path: Path) -> TextIO:
    try:
        return open(path, newline="", encoding="utf-8-sig")
    except OSError as error:
        raise WatchError(f"{path}: cannot be opened ({error.strerror or error})") from error


def _lines(path: Path) -> Iterator[str]:
    """All lines of a file; they end with \\n, \\r or both."""
    with _opened(path) as file:
        yield from file


def _followed(path: Path, poll: float, stop: Callable[[], bool]) -> Iterator[str]:
    """Lines of a file as they are written, until `stop()`; also of the file that takes its place.

    A file that was rotated (another one has its name) is read to its end first, one that was truncated is read again
    from its beginning. The header that the next one may begin with is left out.
    """
    header, file = "", _opened(path)
    try:
        while True:
            first = True
            for line in _growing(file, path, poll, stop):
                if not header:
                    header = line.strip()
                elif first and line.strip() == header:
                    first = False
                    continue
                first = False
                yield line
            if stop():
                return
            file.close()
            file = _opened(path)
    finally:
        file.close()


def _growing(file: TextIO, path: Path, poll: float, stop: Callable[[], bool]) -> Iterator[str]:
    """Whole lines of an open file up to `stop()`, or until its name belongs to another file or it became shorter."""
    part = ""
    while True:
        line = file.readline()
        if part.endswith("\r") and line:  # what was held back for a line feed that belongs to it
            if line == "\n":
                yield part + line
                part = ""
                continue
            yield part
            part = ""
        part += line
        if part.endswith("\n") or (part.endswith("\r") and _has_more(file)):
            yield part
            part = ""
        elif not line:
            if stop():
                if part.endswith("\r"):
                    yield part
                return
            state = _state_of(file, path)
            if state == "rotated":
                rest = file.read()  # written between the last look and the rotation
                yield from io.StringIO(part + rest, newline="")
                return
            if state == "truncated":
                return
            clock.sleep(poll)


def _has_more(file: TextIO) -> bool:
    """Whether the file continues after this place; the place stays."""
    here = file.tell()
    more = file.read(1)
    file.seek(here)
    return bool(more) and more != "\n"


def _state_of(file: TextIO, path: Path) -> str:
    try:
        there = path.stat()
    except FileNotFoundError:  # in the middle of a rotation
        return "waiting"
    here = os.fstat(file.fileno())
    if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
        return "rotated"
    return "truncated" if here.st_size < file.tell() else "waiting"


def _parquet(path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(f'{path} is a parquet file: pip install "dqucb[parquet]" ({error})') from error
    try:
        file = parquet.ParquetFile(path)
        header = file.schema_arrow.names
        yield 1, header
        line = 1
        for batch in file.iter_batches(batch_size=10_000):
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                line += 1
                yield line, [value.isoformat() if isinstance(value, datetime) else value for value in values]
    except (ArrowException, OSError) as error:
        raise WatchError(f"{path}: not a readable parquet file ({error})") from error
