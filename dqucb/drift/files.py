"""`watch`: find changes in a file of transitions."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dqucb import _validate as check
from dqucb.drift._reading import Columns, Row, WatchError, rows
from dqucb.drift.base import DriftDetector
from dqucb.drift.changes import BurnIn, Change, WatchResult
from dqucb.drift.continuous import ContinuousDriftDetector
from dqucb.drift.finite import FiniteDriftDetector

POINTS = 1_000  # of the statistic that are kept for the picture, however long the file
REMEMBERED = 10_000  # lines and times behind the present one that a change can be dated to exactly
REPORT_EVERY = 1_000
MOST_IDS = 10_000  # larger whole numbers are hardly names of states


def watch(
    path: str | os.PathLike[str],
    *,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    next_state: str | Sequence[str] | None = None,
    reward: str | None = None,
    time: str | None = None,
    episode: str | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    watch_reward: bool = False,
    false_alarms: float = 1e-6,
    burn_in: int | None = None,
    skip_missing: bool = False,
    follow: bool = False,
    poll: float = 1.0,
    progress: Callable[[int, float], object] | None = None,
    on_change: Callable[[Change], object] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> WatchResult:
    """Read a CSV or parquet file of transitions from top to bottom and report where the underlying process changed.

    Parameters
    ----------
    path : path
        The file. The first line of a CSV file names the columns. Memory does not grow with its length.
    state, action, next_state : str or sequence of str, optional
        Columns. By default those named ``state``, ``state_...``, ``action``, ``next_state`` and so on. Without columns
        for the next state, the state of the next row is taken, unless `episode` differs there.
    reward, time, episode : str, optional
        Columns; by default those of these names, if there are any. Times are numbers or ISO dates and must not fall
        within an episode (without episodes: nowhere). Dates without a time zone are taken as they are written.
    n_states, n_actions : int, optional
        Given both: states are the integers 0 to n_states - 1. `n_actions` alone: actions are integers, states are
        numbers.
    watch_reward : bool
        Whether a changed reward is a change.
    false_alarms : float
        Alarms per row that are accepted on a still stream.
    burn_in : int, optional
        Rows before the first alarm can come, and after each alarm; None: that of the detector. States that are integers
        need none.
    skip_missing : bool
        Whether rows with a missing value (an empty field, NaN, NA, null) in a column that is read are left out.
        Otherwise they are an error.
    follow : bool
        Whether to wait for more rows at the end of a CSV file, until `stop` says so or Ctrl-C. A file that is rotated
        or truncated is followed into the one that takes its place; lines count on.
    poll : float
        Seconds between two looks at a file that is followed.
    progress : callable, optional
        Called now and then with (line, share of the file read).
    on_change : callable, optional
        Called with each `Change` when it is found.
    stop : callable, optional
        Called now and then; returning True ends the reading.

    Returns
    -------
    WatchResult
        The changes, with `to_json` and `picture`.

    Raises
    ------
    WatchError
        Names the line and the column: a missing column, text where a number should be, a row that is too short, a time
        that falls.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dqucb.drift import watch
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "coin.csv"
    >>> _ = path.write_text("state,action,next_state\\n" + "0,0,0\\n" * 2_000 + "0,0,1\\n" * 50)
    >>> result = watch(path, n_states=2, n_actions=1)
    >>> [(change.line, change.changed_at_line) for change in result.changes]
    [(2003, 2002)]
    """
    if n_states is not None and n_actions is None:
        raise ValueError("n_actions must be given with n_states, got None")
    options: dict[str, Any] = {"false_alarms": false_alarms, "watch_reward": watch_reward}
    if burn_in is not None:
        if n_states is not None:
            raise ValueError(f"burn_in must be None with n_states, got {burn_in}: integers need no burn-in")
        options["burn_in"] = burn_in
    detector: DriftDetector
    if n_states is not None and n_actions is not None:
        detector = FiniteDriftDetector(n_states, n_actions, **options)
    else:
        detector = ContinuousDriftDetector(n_actions=n_actions, **options)
    poll = check.positive("poll", poll)
    source = Path(path)
    records = rows(source, follow, poll, stop, skip_missing, state=state, action=action, next_state=next_state,
                   reward=reward, time=time, episode=episode)  # fmt: skip
    columns = next(records)
    assert isinstance(columns, Columns)
    if watch_reward and columns.reward is None:
        raise WatchError(f"{path}: line 1: no column for the reward: pass reward=")
    result = WatchResult(str(path), detector.get_params()["false_alarms"], columns._asdict())
    watcher = _Watcher(detector, columns, result, on_change)
    size = source.stat().st_size if source.exists() else 0
    try:
        for first, second in _transitions(records, columns, result):
            watcher.take(first, second)
            if result.transitions % REPORT_EVERY == 0:
                if progress is not None and size:
                    progress(second.line, min(1.0, second.line * watcher.bytes_per_line(first) / size))
                if stop():
                    break
    except KeyboardInterrupt:
        if not follow:
            raise
    watcher.finish()
    return result


def _transitions(
    records: Iterator[Columns | Row | None], columns: Columns, result: WatchResult
) -> Iterator[tuple[Row, Row]]:
    """(row, the row that holds the next state); rows on both sides of one that was skipped are not neighbours."""
    before: Row | None = None
    for row in records:
        if row is None:
            result.skipped += 1
            before = None
            continue
        assert isinstance(row, Row)
        if columns.next_state:
            yield row, row
        else:
            if before is not None and before.episode == row.episode:
                yield before, row
            before = row


class _Watcher:
    """Feeds the detector, dates its alarms and keeps a trace of bounded length."""

    def __init__(
        self,
        detector: DriftDetector,
        columns: Columns,
        result: WatchResult,
        on_change: Callable[[Change], object] | None,
    ) -> None:
        self.detector, self.columns, self.result, self.on_change = detector, columns, result, on_change
        self.finite = isinstance(detector, FiniteDriftDetector)
        self.integer_actions = detector.get_params()["n_actions"] is not None
        self.recent: deque[tuple[int, str | None]] = deque(maxlen=REMEMBERED)
        self.trace: list[tuple[int, float, str | None]] = []
        self.last: tuple[int, str | None] = (1, None)  # line and time of the last transition
        self.block, self.inside, self.highest = 1, 0, 0.0
        self.largest_id: tuple[float, float] | None = None  # of state and action, while all are whole numbers
        if not self.finite and len(columns.state) == 1 and len(columns.action) < 2:
            self.largest_id = (0.0, 0.0)

    def take(self, first: Row, second: Row) -> None:
        next_values = second.next_state if self.columns.next_state else second.state
        state: Any = self._id(first.state, "state", first.line) if self.finite else first.state
        target: Any = self._id(next_values, "next_state", second.line) if self.finite else next_values
        action: Any = first.action or (0.0,)
        if self.integer_actions:
            action = self._id(first.action or (0.0,), "action", first.line)
        warming_up = self.detector.warming_up or self.detector.drift_detected
        try:
            self.detector.update(state, action, target, first.reward)
        except ValueError as error:
            raise WatchError(f"{self.result.path}: line {first.line}: {error}") from None
        self.result.transitions += 1
        self._note_burn_in(warming_up and self.detector.warming_up, first)
        if self.largest_id is not None:
            chosen = first.action[0] if first.action else 0.0
            numbers = (max(first.state[0], next_values[0]), chosen)
            whole = all(x.is_integer() and x >= 0.0 for x in (*first.state, *next_values, chosen))
            state, action = (max(pair) for pair in zip(self.largest_id, numbers, strict=True))
            self.largest_id = (state, action) if whole else None
        self.recent.append((first.line, first.time))
        if not self.finite or self.result.transitions % 50 == 0 or self.detector.drift_detected:
            self._record(first, self.detector.statistic)
        if self.detector.drift_detected:
            self._change(first)

    def _id(self, values: tuple[float, ...], role: str, line: int) -> int:
        if len(values) != 1 or values[0] != int(values[0]):
            raise WatchError(f"{self.result.path}: line {line}: {role} must be one whole number, got {list(values)}")
        return int(values[0])

    def _note_burn_in(self, lasts: bool, row: Row) -> None:
        """Keep the stretches of lines in which no alarm could come."""
        spans = self.result.burn_ins
        if lasts:
            if not spans or spans[-1].last_line < self.last[0]:
                spans.append(BurnIn(row.line, row.line, row.time, row.time))
            else:
                spans[-1] = replace(spans[-1], last_line=row.line, last_time=row.time)
        self.last = (row.line, row.time)

    def _change(self, row: Row) -> None:
        detector = self.detector
        line, moment = self._dated(detector.changed_at or 0)
        between = detector.changed_between
        bounds = None if between is None else tuple(self._dated(bound)[0] for bound in between)
        change = Change(
            line=row.line,
            time=row.time,
            changed_at_line=line,
            changed_at_time=moment,
            changed_between_lines=None if bounds is None or None in bounds else bounds,  # type: ignore[arg-type]
            significance=detector.significance,
            test=str(detector.test),
            coordinates={self._named(s.where): round(s.probability, 4) for s in detector.suspects},
        )
        self.result.changes.append(change)
        if self.on_change is not None:
            self.on_change(change)

    def _dated(self, update: int) -> tuple[int | None, str | None]:
        """The line and the time of an update, if it is not too far back."""
        back = self.detector.n_updates - update
        return self.recent[-back] if 0 < back <= len(self.recent) else (None, None)

    def _named(self, where: Any) -> str:
        """A pair of state and action, or the column of a coordinate."""
        if self.finite:
            return f"state {where[0]}, action {where[1]}"
        return [*(self.columns.next_state or self.columns.state), self.columns.reward or "reward"][where]

    def _record(self, row: Row, value: float) -> None:
        self.highest = max(self.highest, value)
        self.inside += 1
        if self.inside == self.block:
            self.trace.append((row.line, self.highest, row.time))
            self.inside, self.highest = 0, 0.0
            if len(self.trace) == 2 * POINTS:
                pairs = zip(self.trace[::2], self.trace[1::2], strict=True)
                self.trace = [(b[0], max(a[1], b[1]), b[2]) for a, b in pairs]
                self.block *= 2

    def finish(self) -> None:
        """Write what is known at the end into the result."""
        restarts = self.detector.drift_detected and not self.finite
        self.result.watching = not (self.detector.warming_up or restarts)
        self.result.burn_in = 0 if self.finite else int(self.detector.get_params()["burn_in"])
        self.result.hint = self.hint()
        self.result.trace = [(line, round(value, 6), moment) for line, value, moment in self.trace]

    def hint(self) -> str | None:
        """Whole numbers may be names, which a detector of vectors would take for sizes."""
        if self.largest_id is None or max(self.largest_id) > MOST_IDS or self.result.transitions == 0:
            return None
        states, actions = (int(largest) + 1 for largest in self.largest_id)
        return (
            f"all states are whole numbers: if they are categorical, pass n_states={states} and "
            f"n_actions={actions} (--n-states {states} --n-actions {actions})"
        )

    def bytes_per_line(self, row: Row) -> float:
        """A rough length of a line, for the progress bar."""
        return 9.0 * (len(row.state) + len(row.action) + len(row.next_state) + 1)
