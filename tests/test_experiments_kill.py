"""A sweep that is killed again and again at random moments ends like one that never was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dqucb import Run
from dqucb.cli import app
from dqucb.experiments import compare, load_comparison, make_problem

KILLS = 20
SEEDS = 45
EPISODES = 600

# One process that has everything loaded forks a sweep and kills it, over and over: most times at a random moment after
# it made some progress, sometimes at a random moment after its start, sometimes when a file is being written. Each
# fsync takes a little longer, as on a slow disk.
KILLER = f"""
import os, random, signal, time
from pathlib import Path
from dqucb.experiments import compare, make_problem

out = Path(OUT)
chance = random.Random(7)
real_fsync = os.fsync
problem = make_problem("frozen-lake", length={EPISODES})
compare(["dqucb", "qucb"], problem, {EPISODES}, seeds=1, jobs=1)  # loads the kernels before any fork
alive = leftovers = 0

def wait(condition):
    limit = time.monotonic() + 30
    while not condition() and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        assert time.monotonic() < limit
        time.sleep(0.001)

def done():
    return sum(1 for _ in out.glob("runs/*.npz"))

for kill in range({KILLS}):
    before = done()
    child = os.fork()
    if child == 0:
        def slow_fsync(descriptor):
            time.sleep(0.01)
            real_fsync(descriptor)
        os.fsync = slow_fsync
        compare(["dqucb", "qucb"], problem, {EPISODES}, seeds={SEEDS}, jobs=1, out=out)
        os._exit(0)
    if kill % 5 == 4:
        wait(lambda: done() > before and any(out.glob("runs/.*.tmp")))
    else:
        if kill % 5:
            wait(lambda: done() > before)
        time.sleep(chance.uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    alive += os.WIFSIGNALED(status)
    leftovers += sum(1 for _ in out.glob("runs/.*.tmp"))
print(alive, leftovers)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_twenty_kills_lose_nothing_and_change_nothing(tmp_path, run_python):
    problem = make_problem("frozen-lake", length=EPISODES)
    undisturbed = compare(["dqucb", "qucb"], problem, EPISODES, seeds=SEEDS, jobs=1, out=tmp_path / "undisturbed")
    killed = tmp_path / "killed"
    alive, leftovers = map(int, run_python(KILLER.replace("OUT", repr(str(killed)))).split())
    assert alive >= KILLS / 2, "most kills must hit a sweep at work"
    assert leftovers > 0, "some kills must hit a file being written"
    before = len(list((killed / "runs").glob("*.npz")))
    assert before > 0
    last = compare(["dqucb", "qucb"], problem, EPISODES, seeds=SEEDS, jobs=1, out=killed)
    assert last.computed == 2 * SEEDS - before
    assert not (killed / "corrupt").exists()
    files = sorted(path.name for path in (killed / "runs").iterdir())
    assert files == sorted(f"{trial.key(seed)}.npz" for trial in last.trials.values() for seed in trial.seeds)
    assert all(len(Run.load(path)) == EPISODES for path in (killed / "runs").iterdir())
    for place in undisturbed.traces:
        ref, comp = undisturbed.load_run(*place), last.load_run(*place)
        for name in ("ends", "returns", "gaps", "likelihood", "lengths"):
            np.testing.assert_array_equal(getattr(comp, name), getattr(ref, name), strict=True)


def _command(out: Path) -> list[str]:
    options = ["--agents", "dqucb,qucb", "--episodes", "3000", "--seeds", "30", "--jobs", "2", "--out", str(out)]
    return [sys.executable, "-m", "dqucb.cli", "run", "frozen-lake", *options]


def _wait_for_files(out: Path, count: int) -> None:
    limit = time.monotonic() + 60
    while len(list((out / "runs").glob("*.npz"))) < count:
        assert time.monotonic() < limit, "the sweep wrote nothing"
        time.sleep(0.01)


def _workers_of(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


# Workers are started when tasks are handed out, and this agent takes its time to be pickled: the parent dies while the
# workers are up and wait for their first task.
KILLED_EARLY = """
import os, signal, time
from dqucb import QUCB, gridworld
from dqucb.experiments import compare

class Slow(QUCB):
    def __reduce__(self):
        time.sleep(4)
        os.kill(os.getpid(), signal.SIGKILL)

compare(Slow(), gridworld(0.1, rows=2, cols=2, horizon=4), 5, seeds=4, jobs=2)
"""


def _session(leader: int) -> list[int]:
    """The processes of a session, dead ones that nobody has waited for aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:  # it has ended since
            continue
        if int(session) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_workers_end_with_a_parent_that_is_killed_before_their_first_task():
    parent = subprocess.Popen([sys.executable, "-c", KILLED_EARLY], start_new_session=True, stderr=subprocess.DEVNULL)
    most = 0
    while parent.poll() is None:
        most = max(most, len(_session(parent.pid)))
        time.sleep(0.05)
    assert parent.returncode == -signal.SIGKILL
    assert most >= 3, "two workers must have been there"
    limit = time.monotonic() + 10
    while left := _session(parent.pid):
        if time.monotonic() > limit:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert time.monotonic() < limit, "workers outlive a killed parent"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_killed_command_leaves_no_workers_and_ctrl_c_says_how_to_go_on(tmp_path):
    sweep = subprocess.Popen(_command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for_files(tmp_path, 3)
    workers = _workers_of(sweep.pid)
    sweep.kill()
    sweep.wait()
    assert workers
    limit = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < limit, "workers outlive a killed sweep"
        time.sleep(0.05)

    done = len(list((tmp_path / "runs").glob("*.npz")))
    assert 3 <= done < 60
    # A terminal sends Ctrl-C to the whole group. In a shell's background these tests ignore it, and so would
    # the command: it gets its usual meaning back.
    sweep = subprocess.Popen(
        _command(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    _wait_for_files(tmp_path, done + 2)
    os.killpg(sweep.pid, signal.SIGINT)
    _, said = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, said
    assert f"{done} of 60 runs are in" in said
    assert "finished runs are saved in" in said
    assert "To go on, repeat: dqucb run frozen-lake" in said
    assert "Traceback" not in said
    assert load_comparison(tmp_path).missing
    finished = CliRunner().invoke(app, [*_command(tmp_path)[3:], "--jobs", "1", "--json"])
    assert finished.exit_code == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert (result["runs"], result["summary"][0]["runs"]) == (60, 30)
    assert 0 < result["computed"] < 60 - done
