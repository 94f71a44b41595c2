"""`watch` on files, and its command."""

import json
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from dqucb.drift import files as drift_files
from dqucb.drift import watch
from dqucb.drift._cli import watch_command
from dqucb.drift._reading import WatchError

app = typer.Typer()
app.command()(watch_command)
HEADER = "time,state_x,state_v,action,next_state_x,next_state_v,reward\n"


def lines(steps, change_at=None, seed=0):
    rng = np.random.default_rng(seed)
    x, v = 0.0, 0.0
    for t in range(steps):
        u = rng.normal()
        k = 0.9 if change_at is None or t < change_at else 0.5
        y, w = 0.98 * x + 0.1 * v, k * v + 0.3 * u + 0.05 * rng.normal()
        yield f"{t * 0.5},{x!r},{v!r},{u!r},{y!r},{w!r},{-x * x!r}\n"
        x, v = float(y), float(w)


@pytest.fixture
def changed(tmp_path):
    path = tmp_path / "changed.csv"
    path.write_text(HEADER + "".join(lines(2_500, 2_000)))
    return path


def test_a_change_is_reported_with_its_line_time_and_coordinate(changed, tmp_path):
    seen = []
    result = watch(changed, burn_in=600, on_change=seen.append, progress=lambda line, share: seen.append(share))
    assert result.transitions == 2_500
    assert len(result.changes) == 1
    change = result.changes[0]
    assert 2_002 <= change.line < 2_300
    assert abs(change.changed_at_line - 2_002) < 100
    assert float(change.time) == (change.line - 2) * 0.5
    assert float(change.changed_at_time) == (change.changed_at_line - 2) * 0.5
    assert change.significance <= 1e-6
    assert next(iter(change.coordinates)) == "next_state_v"
    assert change in seen
    assert 0.0 < seen[0] <= 1.0
    assert json.loads(result.to_json(tmp_path / "out.json")) == json.loads((tmp_path / "out.json").read_text())
    assert json.loads(result.to_json())["changes"][0]["line"] == change.line
    assert result.picture(tmp_path / "out.png").stat().st_size > 1_000
    assert "2500 transitions, 1 change\n" in str(result)
    assert max(value for _, value, _ in result.trace) > 1.0


def test_a_still_file_has_no_change(tmp_path):
    path = tmp_path / "still.csv"
    path.write_text(HEADER + "".join(lines(2_500)))
    result = watch(path, burn_in=600)
    assert result.changes == []
    assert result.watching
    assert not watch(path, burn_in=5_000).watching


def test_columns_by_name_and_next_states_from_the_next_row(tmp_path):
    path = tmp_path / "rows.csv"
    rng = np.random.default_rng(0)
    text, x = ["when;x;run\n".replace(";", ",")], 0.0
    for t in range(2_600):
        text.append(f"2024-01-01T00:00:{t % 60 / 1000 + t // 60:09.6f},{x},{t // 100}\n" if t < 3_000 else "")
        x = (0.9 if t < 2_000 else -0.9) * x + rng.normal() if (t + 1) % 100 else 0.0
    path.write_text("".join(text))
    result = watch(path, state="x", time="when", episode="run", burn_in=600)
    assert result.transitions == 2_600 - 26
    assert len(result.changes) == 1
    assert result.changes[0].line >= 2_002
    assert result.changes[0].changed_at_time.startswith("2024-01-01")


def test_memory_of_the_trace_is_bounded(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("state,action,next_state\n" + "0,0,0\n" * 120_000)
    result = watch(path, n_states=1, n_actions=1)
    assert result.transitions == 120_000
    assert len(result.trace) < 2_000


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "empty: the first line must name the columns"),
        ("a,b\n1,2\n", {}, r"line 1: no column is named state .*state= \(--state\)"),
        ("time;state;action\n1;2;3\n", {}, "line 1: fields must be separated by commas, got ';'"),
        ("state,next_state,time,episode\n1,2,5,0\n1,2,4,0\n", {}, "line 3: time '4' is before that of the row above"),
        ("state,action\n1,2\n", {"state": "stat"}, "line 1: state must be one of .*did you mean 'state'"),
        ("state,state\n1,2\n", {}, "line 1: column 'state' appears twice"),
        ("state,action,next_state\n1,2,3\n1,x,3\n", {}, "line 3: action must be a number, got 'x'"),
        ("state,action,next_state\n1,2,3\n1,,3\n", {}, "line 3: action must be a number, got an empty field"),
        ("state,action,next_state\n1,nan,3\n", {}, "line 2: action must be finite, got 'nan'"),
        ("state,action,next_state\n1,2\n", {}, "line 2: 2 fields where the header has 3"),
        ("state,next_state,time\n1,2,5\n1,2,4\n", {}, "line 3: time '4' is before that of the row above"),
        ("state,next_state,time\n1,2,noon\n", {}, "line 2: time must be a number or an ISO date, got 'noon'"),
        (
            "state,action,next_state\n7,0,0\n",
            {"n_states": 3, "n_actions": 1},
            r"line 2: state must be an integer in \[0, 2\]",
        ),
        (
            "state,action,next_state\n0.5,0,0\n",
            {"n_states": 3, "n_actions": 1},
            "line 2: state must be one whole number",
        ),
        ("state_a,state_b,next_state\n1,2,3\n", {}, "next_state must have as many columns as state"),
        ('state,next_state\n1,"2\n', {}, "line 2: .*end of data"),
        ("state,next_state\n1,2\n", {"watch_reward": True}, "no column for the reward"),
    ],
)
def test_errors_name_the_line(tmp_path, text, options, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(WatchError, match=message):
        watch(path, **options)


def test_time_may_begin_anew_with_each_episode(tmp_path):
    path = tmp_path / "episodes.csv"
    path.write_text("time,state,action,episode\n" + "".join(f"{t % 10},{t % 3}.5,0,{t // 10}\n" for t in range(50)))
    assert watch(path).transitions == 50 - 5


def test_whole_numbers_that_may_be_names_are_pointed_out(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("state,action,next_state\n" + "".join(f"{t % 3},{t % 2},{(t + 1) % 3}\n" for t in range(50)))
    result = watch(path)
    assert "--n-states 3 --n-actions 2" in str(result)
    assert json.loads(result.to_json())["hint"] == result.hint
    assert watch(path, n_states=3, n_actions=2).hint is None
    path.write_text(path.read_text() + "0.5,0,1\n")
    assert watch(path).hint is None


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_file_is_read(changed, tmp_path):
    run = CliRunner().invoke
    for name, message in (("a.xyz", "picture must end in one of"), ("none/a.png", "a folder that exists")):
        bad = run(app, [str(changed), "--picture", str(tmp_path / name)])
        assert bad.exit_code == 2
        assert message in bad.output
        assert "alarm" not in bad.output


def test_alarms_of_a_followed_file_are_lines_of_json(changed):
    """A program that reads them would wait for ever for one object at the end."""
    script = "from dqucb.cli import main; main()"
    command = [sys.executable, "-c", script, "watch", str(changed), "--burn-in", "600", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert json.loads(line)["line"] > 2_002
    assert (rest, errors, process.returncode) == ("", "", 0)


def test_a_missing_file_and_bytes_that_are_no_text(tmp_path):
    with pytest.raises(WatchError, match="cannot be opened"):
        watch(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"state,next_state\n1,\xff\xfe\n")
    with pytest.raises(WatchError, match="not UTF-8"):
        watch(tmp_path / "bytes.csv")


def test_a_growing_file_is_followed(tmp_path):
    path = tmp_path / "growing.csv"
    rows = list(lines(2_500, 2_000))
    path.write_text(HEADER + "".join(rows[:1_000]) + rows[1_000][:7])
    found = []

    def write():
        with open(path, "a") as file:
            file.write(rows[1_000][7:])
            for row in rows[1_001:]:
                file.write(row)
                if len(row) % 97 == 0:
                    file.flush()
                    time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    began = time.monotonic()
    result = watch(path, burn_in=600, follow=True, poll=0.01, on_change=found.append,
                   stop=lambda: bool(found) or time.monotonic() - began > 60)  # fmt: skip
    writer.join()
    assert len(result.changes) == len(found) == 1
    assert result.changes[0].line < 2_300


def test_parquet_files_are_read_alike(changed, tmp_path):
    pytest.importorskip("pyarrow")
    import pandas

    pandas.read_csv(changed).to_parquet(tmp_path / "changed.parquet")
    expected, found = watch(changed, burn_in=600), watch(tmp_path / "changed.parquet", burn_in=600)
    assert [change.line for change in found.changes] == [change.line for change in expected.changes]
    with pytest.raises(WatchError, match="cannot grow"):
        watch(tmp_path / "changed.parquet", follow=True)


def test_the_command_prints_changes_json_and_errors(changed, tmp_path):
    run = CliRunner().invoke
    shown = run(app, [str(changed), "--burn-in", "600", "--picture", str(tmp_path / "a.png")])
    assert shown.exit_code == 0, shown.output
    assert "alarm at line" in shown.output
    assert "1 change\n" in shown.output
    assert (tmp_path / "a.png").exists()
    parsed = json.loads(run(app, [str(changed), "--burn-in", "600", "--json", "--state", "state_x,state_v"]).stdout)
    assert len(parsed["changes"]) == 1
    assert parsed["columns"]["state"] == ["state_x", "state_v"]
    bad = run(app, [str(changed), "--state", "speed"])
    assert bad.exit_code == 2
    assert "state must be one of" in bad.output
    assert "Traceback" not in bad.output


def coin(steps, change_at, missing=()):
    """Rows of a coin that lands on 1 half of the time and then always; some have no next state."""
    rng = np.random.default_rng(0)
    for t in range(steps):
        outcome = int(rng.random() < 0.5) if t < change_at else 1
        yield f"0,0,{'' if t in missing else outcome}\n"


COIN = "state,action,next_state\n"
FINITE = {"n_states": 2, "n_actions": 1}


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_may_end_as_on_any_system(tmp_path, end):
    """After the first bare carriage return everything was dropped."""
    path = tmp_path / "coin.csv"
    path.write_bytes((COIN + "".join(coin(600, 400))).replace("\n", end).encode())
    result = watch(path, **FINITE)
    assert result.transitions == 600
    assert [402 <= change.line < 450 for change in result.changes] == [True]
    assert result.changes[0].coordinates == {"state 0, action 0": pytest.approx(1.0, abs=0.1)}
    first, last = result.changes[0].changed_between_lines
    assert first <= 402 <= last


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_a_followed_file_may_be_rotated_and_truncated(tmp_path, end):
    path, found, seen = tmp_path / "coin.csv", [], []

    def write(mode, rows, header=COIN):
        with open(path, mode, newline="") as file:
            file.write((header + "".join(rows)).replace("\n", end))

    def wait_for(count):
        waiting = time.monotonic() + 60.0
        while len(seen) < count and time.monotonic() < waiting:
            time.sleep(0.01)
        assert len(seen) == count

    rows = list(coin(900, 700))
    write("w", rows[:300])
    done = threading.Event()

    def follow():
        found.append(watch(path, follow=True, poll=0.01, stop=done.is_set, **FINITE))

    original = drift_files._Watcher.take

    def take(self, first, second):
        seen.append(first.line)
        original(self, first, second)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drift_files._Watcher, "take", take)
        thread = threading.Thread(target=follow)
        thread.start()
        held_back = end == "\r"  # a line feed might still follow
        wait_for(300 - held_back)
        path.rename(tmp_path / "coin.1.csv")
        time.sleep(0.05)
        write("w", rows[300:400])  # rotated: another file of this name, with a header
        wait_for(400 - held_back)
        write("w", rows[400:403])  # truncated: the same file, shorter
        wait_for(403 - 2 * held_back)  # what was held back is lost with the file
        write("a", rows[403:], header="")
        wait_for(900 - 2 * held_back)
        done.set()
        thread.join(60)
    assert found[0].transitions == 900 - held_back
    assert len(found[0].changes) == 1
    assert found[0].changes[0].line > 700


def test_times_without_a_zone_are_taken_as_they_are_written(tmp_path, monkeypatch):
    """At half past two the clock is put forward in Berlin: three o'clock seemed to be half an hour earlier."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        path = tmp_path / "night.csv"
        moments = ["2024-03-31T02:30:00", "2024-03-31T03:00:00", "2024-03-31T03:30:00"]
        path.write_text("time," + COIN + "".join(f"{moment},0,0,1\n" for moment in moments))
        assert watch(path, **FINITE).transitions == 3
    finally:
        monkeypatch.undo()
        time.tzset()


def test_rows_with_missing_values_are_skipped_on_request(tmp_path):
    path = tmp_path / "coin.csv"
    path.write_text(COIN + "".join(coin(600, 400, missing={10, 11, 500})))
    with pytest.raises(
        WatchError, match=r"line 12: next_state must be a number, got an empty field: skip_missing=True"
    ):
        watch(path, **FINITE)
    result = watch(path, skip_missing=True, **FINITE)
    assert (result.transitions, result.skipped, len(result.changes)) == (597, 3, 1)
    assert "597 transitions, 1 change, 3 rows skipped" in str(result)
    chain = tmp_path / "chain.csv"
    chain.write_text("state,action\n0,0\n1,0\nnan,0\n0,0\n1,0\n")
    assert watch(chain, skip_missing=True, **FINITE).transitions == 2  # not from the second row to the fourth


def test_json_has_the_trace_only_if_it_is_asked_for(changed):
    result = watch(changed, burn_in=600)
    assert "trace" not in json.loads(result.to_json())
    assert len(json.loads(result.to_json(trace=True))["trace"]) == len(result.trace) > 100
    call = [str(changed), "--burn-in", "600", "--json"]
    assert "trace" not in json.loads(CliRunner().invoke(app, call).stdout)
    assert "trace" in json.loads(CliRunner().invoke(app, [*call, "--trace"]).stdout)


def test_too_few_rows_are_exit_code_3(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text(HEADER + "".join(lines(100)))
    result = CliRunner().invoke(app, [str(path)])
    assert result.exit_code == 3
    assert "100 transitions are too few: no alarm can come in the burn-in of 3000" in result.stderr
    path.write_text(COIN)
    result = CliRunner().invoke(app, [str(path), "--n-states", "2", "--n-actions", "1"])
    assert result.exit_code == 3
    assert "no transitions" in result.stderr
    path.write_text(COIN + "0,0,1\n")
    assert CliRunner().invoke(app, [str(path), "--n-states", "2", "--n-actions", "1"]).exit_code == 0


def drawn(result, path, monkeypatch):
    """The figure of a picture."""
    from matplotlib.figure import Figure

    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: figures.append(self))
    result.picture(path)
    return figures[0]


def test_the_picture_shades_the_burn_in_has_time_on_its_axis_and_a_legend_beside_it(changed, tmp_path, monkeypatch):
    result = watch(changed, burn_in=600)
    assert len(result.burn_ins) == 2
    assert (result.burn_ins[0].first_line, result.burn_ins[0].last_line) == (2, 600)
    assert result.burn_ins[1].first_line == result.changes[0].line + 1
    figure = drawn(result, tmp_path / "out.png", monkeypatch)
    axes, legend = figure.axes[0], figure.legends[0]
    assert axes.get_xlabel() == "time"
    assert axes.get_legend() is None
    assert {text.get_text() for text in legend.get_texts()} == {"statistic", "alarm above", "burn-in", "alarm"}
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(axes.get_tightbbox())
    left, right = axes.get_xlim()
    assert left <= 0.0
    assert 1_000.0 < right < 1_500.0  # seconds, not lines


def test_dates_are_drawn_as_dates(tmp_path, monkeypatch):
    path = tmp_path / "days.csv"
    rows = [f"2024-{1 + t // 28:02d}-{1 + t % 28:02d},{row}" for t, row in enumerate(coin(300, 200))]
    path.write_text("time," + COIN + "".join(rows))
    figure = drawn(watch(path, **FINITE), tmp_path / "out.png", monkeypatch)
    assert "DateLocator" in type(figure.axes[0].xaxis.get_major_locator()).__name__


def test_integers_need_no_burn_in(tmp_path):
    path = tmp_path / "coin.csv"
    path.write_text(COIN + "".join(coin(10, 5)))
    with pytest.raises(ValueError, match="burn_in must be None with n_states, got 100"):
        watch(path, burn_in=100, **FINITE)


def test_a_number_is_written_as_data_files_write_it(tmp_path):
    """Python reads 1_0 as 10; a file that holds it is damaged."""
    path = tmp_path / "log.csv"
    path.write_text("state,action,next_state\n0,0,1\n1_0,0,1\n")
    with pytest.raises(WatchError, match="line 3: state must be a number, got '1_0'"):
        watch(path)
