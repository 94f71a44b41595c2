"""`watch`: find changes in a file of transitions."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dqucb import _validate as check
from dqucb.drift._reading import Columns, Row, WatchError, rows
from dqucb.drift.base import DriftDetector
from dqucb.drift.changes import Change, WatchResult
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
    follow: bool = False,
    poll: float = 1.0,
    progress: Callable[[int, float], object] | None = None,
    on_change: Callable[[Change], object] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> WatchResult:
    """Read a CSV or parquet file of transitions from top to bottom and report where their law changed.

    Parameters
    ----------
    path : path
        The file. The first line of a CSV file names the columns. Memory does not grow with its length.
    state, action, next_state : str or sequence of str, optional
        Columns. By default those named ``state``, ``state_...``, ``action``, ``next_state`` and so on. Without columns
        for the next state, the state of the next row is taken, unless `episode` differs there.
    reward, time, episode : str, optional
        Columns; by default those of these names, if there are any. Times are numbers or ISO dates and must not fall
        within an episode (without episodes: nowhere).
    n_states, n_actions : int, optional
        Given both: states are the integers 0 to n_states - 1. `n_actions` alone: actions are integers, states are
        numbers.
    watch_reward : bool
        Whether a changed reward is a change.
    false_alarms : float
        Alarms per row that are accepted on a still stream.
    burn_in : int, optional
        Rows before the first alarm can come, and after each alarm; None: that of the detector.
    follow : bool
        Whether to wait for more rows at the end of a CSV file, until `stop` says so or Ctrl-C.
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
    [(2004, 2003)]
    """
    if n_states is not None and n_actions is None:
        raise ValueError("n_actions must be given with n_states, got None")
    options: dict[str, Any] = {"false_alarms": false_alarms, "watch_reward": watch_reward}
    if burn_in is not None:
        options["burn_in"] = burn_in
    detector: DriftDetector
    if n_states is not None and n_actions is not None:
        detector = FiniteDriftDetector(n_states, n_actions, **options)
    else:
        detector = ContinuousDriftDetector(n_actions=n_actions, **options)
    poll = check.positive("poll", poll)
    source = Path(path)
    records = rows(source, follow, poll, stop, state=state, action=action, next_state=next_state, reward=reward,
                   time=time, episode=episode)  # fmt: skip
    columns = next(records)
    assert isinstance(columns, Columns)
    if watch_reward and columns.reward is None:
        raise WatchError(f"{path}: line 1: no column for the reward: pass reward=")
    result = WatchResult(str(path), detector.get_params()["false_alarms"], columns._asdict())
    watcher = _Watcher(detector, columns, result, on_change)
    size = source.stat().st_size if source.exists() else 0
    try:
        for first, second in _transitions(records, columns):
            watcher.take(first, second)
            if result.transitions % REPORT_EVERY == 0:
                if progress is not None and size:
                    progress(second.line, min(1.0, second.line * watcher.bytes_per_line(first) / size))
                if stop():
                    break
    except KeyboardInterrupt:
        if not follow:
            raise
    result.watching = not detector.warming_up
    result.hint = watcher.hint()
    result.trace = watcher.points()
    return result


def _transitions(records: Iterator[Columns | Row], columns: Columns) -> Iterator[tuple[Row, Row]]:
    """(row, the row that holds the next state)."""
    before: Row | None = None
    for row in records:
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
        self.trace: list[tuple[int, float]] = []
        self.stretch, self.inside, self.highest = 1, 0, 0.0
        self.largest_id: tuple[float, float] | None = None  # of state and action, while all are whole numbers
        if not self.finite and len(columns.state) == 1 and len(columns.action) < 2:
            self.largest_id = (0.0, 0.0)

    def take(self, first: Row, second: Row) -> None:
        following = second.next_state if self.columns.next_state else second.state
        state: Any = self._id(first.state, "state", first.line) if self.finite else first.state
        target: Any = self._id(following, "next_state", second.line) if self.finite else following
        action: Any = first.action or (0.0,)
        if self.integer_actions:
            action = self._id(first.action or (0.0,), "action", first.line)
        try:
            self.detector.update(state, action, target, first.reward)
        except ValueError as error:
            raise WatchError(f"{self.result.path}: line {first.line}: {error}") from None
        self.result.transitions += 1
        if self.largest_id is not None:
            chosen = first.action[0] if first.action else 0.0
            numbers = (max(first.state[0], following[0]), chosen)
            whole = all(x.is_integer() and x >= 0.0 for x in (*first.state, *following, chosen))
            state, action = (max(pair) for pair in zip(self.largest_id, numbers, strict=True))
            self.largest_id = (state, action) if whole else None
        self.recent.append((first.line, first.time))
        if not self.finite or self.result.transitions % 50 == 0 or self.detector.drift_detected:
            self._record(first.line, self.detector.statistic)
        if self.detector.drift_detected:
            self._change(first)

    def _id(self, values: tuple[float, ...], role: str, line: int) -> int:
        if len(values) != 1 or values[0] != int(values[0]):
            raise WatchError(f"{self.result.path}: line {line}: {role} must be one whole number, got {list(values)}")
        return int(values[0])

    def _change(self, row: Row) -> None:
        detector = self.detector
        back = detector.n_updates - (detector.changed_at or 0)
        line, moment = self.recent[-back] if 0 < back <= len(self.recent) else (None, None)
        shares: dict[str, float] = {}
        if isinstance(detector, ContinuousDriftDetector):
            names = [*(self.columns.next_state or self.columns.state), self.columns.reward or "reward"]
            pairs = zip(names, detector.coordinates.tolist(), strict=False)
            shares = dict(sorted(((name, round(share, 4)) for name, share in pairs), key=lambda pair: -pair[1]))
        change = Change(row.line, row.time, line, moment, detector.significance, str(detector.test), shares)
        self.result.changes.append(change)
        if self.on_change is not None:
            self.on_change(change)

    def _record(self, line: int, value: float) -> None:
        self.highest = max(self.highest, value)
        self.inside += 1
        if self.inside == self.stretch:
            self.trace.append((line, self.highest))
            self.inside, self.highest = 0, 0.0
            if len(self.trace) == 2 * POINTS:
                pairs = zip(self.trace[::2], self.trace[1::2], strict=True)
                self.trace = [(b[0], max(a[1], b[1])) for a, b in pairs]
                self.stretch *= 2

    def points(self) -> list[tuple[int, float]]:
        return [(line, round(value, 6)) for line, value in self.trace]

    def hint(self) -> str | None:
        """Whole numbers may be names, which a detector of vectors would take for sizes."""
        if self.largest_id is None or max(self.largest_id) > MOST_IDS or self.result.transitions == 0:
            return None
        states, actions = (int(largest) + 1 for largest in self.largest_id)
        return (
            f"all states are whole numbers: if they are names rather than sizes, ask for n_states={states} and "
            f"n_actions={actions} (--n-states {states} --n-actions {actions})"
        )

    def bytes_per_line(self, row: Row) -> float:
        """A rough length of a line, for the progress bar."""
        return 9.0 * (len(row.state) + len(row.action) + len(row.next_state) + 1)
