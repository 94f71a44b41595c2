"""Short forms of the campaigns in tests/campaigns/: faults, changed files, random sequences of calls."""

import json
import os

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_commands_that_are_disturbed_and_repeated_end_like_undisturbed_ones(run_python):
    """The first numbers hold kills, full disks, torn writes, interrupts and two writers."""
    code = "from tests.campaigns.faults import campaign; campaign(24, commands=('run', 'sweep', 'report', 'deep'))"
    pytest.importorskip("scipy")
    result = json.loads(run_python(code, OMP_NUM_THREADS="1").splitlines()[0])
    assert (result["trials"], result["wrong"]) == (24, 0)
    assert len(result["mix"]) >= 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_changed_files_are_loaded_or_refused_in_our_words(run_python):
    """Tabular agents are fuzzed in the long form: their kernels take minutes to compile."""
    pytest.importorskip("scipy")
    loaders = "('kde', 'density', 'detector', 'run', 'manifest', 'index', 'evaluations', 'hospital CSV', 'TOML', "
    code = f"from tests.campaigns.fuzz import campaign; campaign(3_300, {loaders}'transition CSV', 'deep agent'))"
    *each, last = (json.loads(line) for line in run_python(code).splitlines()[:12])
    assert (last["files"], last["findings"]) == (3_300, 0)
    assert last["peak MB"] < 1_000
    assert all(found["refused"] > 50 for found in each if found["loader"] not in ("index", "evaluations"))


@pytest.mark.parametrize("kind", ["windows", "detectors"])
def test_random_sequences_of_calls_leave_sound_objects(run_python, kind):
    """Without bounds checks, which need other builds; `make sequences` has them, and densities and agents."""
    code = f"from tests.campaigns.sequences import campaign; campaign(40, 15, {kind!r})"
    last = json.loads(run_python(code).splitlines()[-1])
    assert (last["sequences"], last["slices with violations"]) == (40, 0)


def test_a_violation_in_a_sequence_is_written_down_and_the_next_slices_go_on(run_python, tmp_path):
    """An index out of bounds, in code that raises it and in code that cannot; a slice that is done is not run again."""
    code = f"""
import tests.campaigns.sequences as s, sys
from pathlib import Path
from tests.campaigns.sequence_machines import WindowCalls
from types import SimpleNamespace
s.SLICE = 5
number = [0]
def count(self):
    self.kde.push([0.0] * self.columns)
    if number[0] == 1 and len(self.kde) > 3:
        raise IndexError("out of bounds")
    if number[0] == 2:
        sys.unraisablehook(SimpleNamespace(exc_value=IndexError("quiet"), object="push"))
WindowCalls.count = count
out = Path({str(tmp_path / "found.jsonl")!r})
for slices in (1, 2, 3, 3):
    number[0] = slices - 1
    print("good" if s.campaign(5 * slices, 15, "windows", out=out) else "bad")
"""
    said = run_python(code).splitlines()
    assert [line for line in said if line in ("good", "bad")] == ["good", "bad", "bad", "bad"]
    slices = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [each["slice"] for each in slices] == [0, 1, 2]
    assert "violation" not in slices[0]
    assert "IndexError: out of bounds" in slices[1]["violation"]
    assert "IndexError('quiet')" in slices[2]["violation"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
def test_workers_of_killed_parents_end(run_python):
    """Killed when the workers begin, and at their first task; the long form has six stages."""
    found = json.loads(run_python("from tests.campaigns.fault_parents import campaign; campaign(2, first=1)"))
    assert (found["parents"], found["children left"]) == (2, 0)
    assert found["killed with living workers"] > 0


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc/self/statm")
def test_memory_of_long_runs_is_flat_and_a_leak_is_seen(run_python):
    """Kernels that are compiled on the way leave a heap that varies by some MB: the leak is far larger."""
    code = """
import json
from tests.campaigns import memory
held = []
def leaking(length, file):
    for part in range(memory.PARTS):
        held.append(bytearray(b"x") * 2**23)
        yield part
memory.RUNS["leak"] = (10, leaking)
print(json.dumps([memory.measured(name, 0.001, 20.0)["flat"] for name in ("finite detector, rows", "leak")]))
"""
    assert json.loads(run_python(code).splitlines()[-1]) == [True, False]


def test_all_ways_in_agree_with_each_other_and_with_the_reference(tmp_path):
    """One trial of each agent; processes and Dask are in the long form."""
    from tests.campaigns.differential import TABULAR_WAYS, WAYS, Tally, agent_names, run_trial

    tally = Tally()
    ways = {name: way for name, way in (WAYS | TABULAR_WAYS).items() if name != "processes"}
    for name in agent_names():
        for number in range(10):  # some agents refuse problems with a discount
            run_trial(number, 7, tmp_path, tally, ways, name)
            if any(done == name for done, _ in tally.done):
                break
    assert tally.problems == []
    assert {name for name, _ in tally.done} == set(agent_names())
    assert {way for name, way in tally.done if name == "model-allocation"} == WAYS.keys() - {"processes"}


def test_the_differential_campaign_finds_a_reward_that_is_cut_off(tmp_path, monkeypatch):
    """What it is for: a way in that sees other rewards than the compiled loop does."""
    from dqucb import TabularAgent
    from tests.campaigns.differential import WAYS, Tally, run_trial

    def capped(self, training, seen):
        return learned(self, training, seen._replace(reward=min(seen.reward, 1.0)))

    learned = TabularAgent._learned
    monkeypatch.setattr(TabularAgent, "_learned", capped)
    tally = Tally()
    for number in range(6):
        run_trial(number, 3, tmp_path, tally, {name: WAYS[name] for name in ("first", "env", "resumed")}, "qucb")
    assert any("differ from those of the first way" in problem for problem in tally.problems)
