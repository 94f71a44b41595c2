"""A sweep that is killed again and again at random moments ends like one that never was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dqucb import Run
from dqucb.cli import app
from dqucb.experiments import compare, load_comparison, make_problem
from tests.waiting import PATIENCE, wait_for

KILLS = 20
SEEDS = 45
EPISODES = 600

# One process that has everything loaded forks a sweep and kills it, over and over. Each sweep stops at a random file,
# in the middle of writing it or just after, and waits there to be killed.
KILLER = f"""
import os, random, signal, time
from pathlib import Path
from dqucb.experiments import compare, make_problem

out = Path(OUT)
chance = random.Random(7)
real_fsync = os.fsync
problem = make_problem("frozen-lake", length={EPISODES})
compare(["dqucb", "qucb"], problem, {EPISODES}, seeds=1, jobs=1)  # loads the kernels before any fork
leftovers = 0

for kill in range({KILLS}):
    reading, writing = os.pipe()
    files_left, in_the_middle = chance.randrange(12), chance.random() < 0.5
    child = os.fork()
    if child == 0:
        def stopping_fsync(descriptor):
            global files_left
            files_left -= 1
            if not in_the_middle:
                real_fsync(descriptor)
            if files_left < 0:
                os.write(writing, b"here")
                time.sleep(3600)
            if in_the_middle:
                real_fsync(descriptor)
        os.fsync = stopping_fsync
        compare(["dqucb", "qucb"], problem, {EPISODES}, seeds={SEEDS}, jobs=1, out=out)
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 4) == b"here", "the sweep ended before it was killed"
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    leftovers += sum(1 for _ in out.glob("runs/.*.tmp"))
print(leftovers)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_twenty_kills_lose_nothing_and_change_nothing(tmp_path, run_python):
    problem = make_problem("frozen-lake", length=EPISODES)
    undisturbed = compare(["dqucb", "qucb"], problem, EPISODES, seeds=SEEDS, jobs=1, out=tmp_path / "undisturbed")
    killed = tmp_path / "killed"
    assert int(run_python(KILLER.replace("OUT", repr(str(killed))))) > 0, "some kills must hit a file being written"
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


def _command(out: Path, seeds: int = 2_000) -> list[str]:
    options = ["--agents", "dqucb,qucb", "--episodes", "3000", "--seeds", str(seeds), "--jobs", "2", "--out", str(out)]
    return [sys.executable, "-m", "dqucb.cli", "run", "frozen-lake", *options]


def _finished(out: Path) -> int:
    return len(list((out / "runs").glob("*.npz")))


def _workers_of(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


# Workers are started when tasks are handed out, and this agent waits for them when it is pickled: the parent dies while
# the workers are up and have no task yet. Its children are two workers, joblib's tracker and `ps`.
KILLED_EARLY = """
import os, signal, subprocess, time
from dqucb import QUCB, gridworld
from dqucb.experiments import compare

class Slow(QUCB):
    def __reduce__(self):
        children = ["ps", "-o", "pid=", "--ppid", str(os.getpid())]
        while len(subprocess.run(children, capture_output=True).stdout.split()) < 4:
            time.sleep(0.1)
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
    assert parent.wait(timeout=PATIENCE) == -signal.SIGKILL
    wait_for(lambda: not _session(parent.pid), "workers end with their killed parent")


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_killed_command_leaves_no_workers_and_ctrl_c_says_how_to_go_on(tmp_path):
    sweep = subprocess.Popen(_command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: _finished(tmp_path) >= 3, "the sweep wrote three runs")
    workers = _workers_of(sweep.pid)
    sweep.kill()
    sweep.wait()
    assert workers
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "workers end with a killed sweep")
    done = _finished(tmp_path)
    assert 3 <= done < 4_000
    # A terminal sends Ctrl-C to the whole group. In a shell's background these tests ignore it, and so would
    # the command: it gets its usual meaning back.
    sweep = subprocess.Popen(
        _command(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: _finished(tmp_path) >= done + 2, "the sweep went on")
    os.killpg(sweep.pid, signal.SIGINT)
    _, said = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 130, said
    assert f"{done} of 4000 runs are in" in said
    assert "finished runs are saved in" in said
    assert "To go on, repeat: dqucb run frozen-lake" in said
    assert "Traceback" not in said
    assert load_comparison(tmp_path).missing
    made = _finished(tmp_path)
    seeds = made + 2  # of each of the two agents: more than are there
    finished = CliRunner().invoke(app, [*_command(tmp_path, seeds)[3:], "--jobs", "1", "--json"])
    assert finished.exit_code == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert (result["runs"], result["summary"][0]["runs"]) == (2 * seeds, seeds)
    assert result["computed"] == 2 * seeds - made
