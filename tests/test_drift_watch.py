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
    assert max(value for _, value in result.trace) > 1.0


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


def test_a_number_is_written_as_data_files_write_it(tmp_path):
    """Python reads 1_0 as 10; a file that holds it is damaged."""
    path = tmp_path / "log.csv"
    path.write_text("state,action,next_state\n0,0,1\n1_0,0,1\n")
    with pytest.raises(WatchError, match="line 3: state must be a number, got '1_0'"):
        watch(path)
