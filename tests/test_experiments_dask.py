"""The same tasks on a real Dask cluster of two worker processes, one of which is killed at work."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dqucb import Run
from dqucb.experiments import compare, execution, make_problem

EPISODES = 3_000
LONG = make_problem("gridworld", length=2_000)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, processes=True, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield cluster.scheduler_address, client


def test_a_killed_worker_loses_nothing_and_changes_nothing(cluster, tmp_path):
    address, client = cluster
    pids = sorted(client.run(os.getpid).values())
    assert len(pids) == 2
    assert os.getpid() not in pids
    problem = make_problem("frozen-lake", length=EPISODES)
    serial = compare(["dqucb", "qucb"], problem, EPISODES, seeds=15, jobs=1, out=tmp_path / "serial")
    at = []

    def kill_one_at_work():
        while (done := len(list((tmp_path / "dask" / "runs").glob("*.npz")))) < 3:
            time.sleep(0.002)
        os.kill(pids[0], signal.SIGKILL)
        at.append(done)

    killer = threading.Thread(target=kill_one_at_work, daemon=True)
    killer.start()
    parallel = compare(
        ["dqucb", "qucb"], problem, EPISODES, seeds=15, backend="dask", scheduler=address, out=tmp_path / "dask"
    )
    killer.join(10)
    assert at
    assert at[0] < 30, "the worker must die during the sweep"
    assert parallel.computed == 30
    assert not parallel.missing
    assert all(len(Run.load(path)) == EPISODES for path in (tmp_path / "dask" / "runs").iterdir())
    for place in serial.traces:
        ref, comp = serial.load_run(*place), parallel.load_run(*place)
        for name in ("ends", "returns", "gaps", "likelihood", "lengths"):
            np.testing.assert_array_equal(getattr(comp, name), getattr(ref, name), strict=True)


def test_hand_made_problems_reach_the_cluster(cluster):
    from dqucb.agents import QUCB
    from dqucb.problems import TabularMDP

    P = np.random.default_rng(0).dirichlet(np.ones(3), (3, 2))
    problem = TabularMDP(P, np.array([0.0, 0.5, 1.0]), horizon=4)
    remote = compare(QUCB(), problem, 20, seeds=2, backend="dask", scheduler=cluster[0])
    local = compare(QUCB(), problem, 20, seeds=2, jobs=1)
    for seed in (0, 1):
        np.testing.assert_array_equal(remote.load_run("QUCB", seed).gaps, local.load_run("QUCB", seed).gaps)


def test_without_the_package_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r'pip install "dqucb\[dask\]"'):
        compare("qucb", "frozen-lake", 99, seeds=1, backend="dask", scheduler="tcp://127.0.0.1:1")


@pytest.fixture
def scheduler():
    """A scheduler without workers, as a process of its own: (process, address)."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    code = """
import asyncio
from distributed import Scheduler

async def serve():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(serve())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()


def test_a_cluster_without_workers_says_so(scheduler, monkeypatch):
    monkeypatch.setattr(execution, "WORKER_SECONDS", 0.5)
    with pytest.raises(
        OSError, match=r"the Dask cluster at tcp://.* has no workers: start some with dask worker tcp://"
    ):
        compare("qucb", "gridworld", 50, seeds=2, backend="dask", scheduler=scheduler[1])


def stopped_at_work(killed, worker, address, folder, message):
    """Kill a process after the second run of a long experiment; its error must match the message."""

    def kill_at_work():
        while len(list((folder / "runs").glob("*.npz"))) < 2:
            time.sleep(0.01)
        killed.kill()

    threading.Thread(target=kill_at_work, daemon=True).start()
    try:
        with pytest.raises(OSError, match=message):
            compare("random", LONG, 2_000, seeds=400, backend="dask", scheduler=address, out=folder)
    finally:
        worker.kill()
        worker.wait()
    return len(list((folder / "runs").glob("*.npz")))


def started_worker(address, *options):
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", *options]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def test_a_killed_scheduler_says_so_and_what_was_done_is_kept(scheduler, tmp_path):
    process, address = scheduler
    worker = started_worker(address, "--death-timeout", "5")
    message = r"the Dask scheduler at tcp://.* is gone .* the same call continues"
    kept = stopped_at_work(process, worker, address, tmp_path, message)
    assert 2 <= kept < 400
    assert compare("random", LONG, 2_000, seeds=kept + 2, jobs=1, out=tmp_path).computed >= 2


def test_when_the_only_worker_dies_it_says_so_and_what_was_done_is_kept(scheduler, tmp_path, monkeypatch):
    _, address = scheduler
    monkeypatch.setattr(execution, "WORKER_SECONDS", 15)
    worker = started_worker(address, "--no-nanny")
    message = r"the Dask cluster at tcp://.* has no workers: .* the same call continues"
    assert stopped_at_work(worker, worker, address, tmp_path, message) >= 2
