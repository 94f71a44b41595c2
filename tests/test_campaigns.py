"""Short forms of the campaigns in benchmarks/: faults, changed files, random sequences of calls."""

import json
import os

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_commands_that_are_disturbed_and_repeated_end_like_undisturbed_ones(run_python):
    """The first numbers hold kills, full disks, torn writes, interrupts and two writers."""
    code = "from benchmarks.faults import campaign; campaign(24, commands=('run', 'sweep', 'report', 'deep'))"
    pytest.importorskip("torch")
    result = json.loads(run_python(code, OMP_NUM_THREADS="1").splitlines()[0])
    assert (result["trials"], result["wrong"]) == (24, 0)
    assert len(result["mix"]) >= 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_changed_files_are_loaded_or_refused_in_our_words(run_python):
    """Tabular agents are fuzzed in the long form: their kernels take minutes to compile."""
    pytest.importorskip("torch")
    loaders = "('kde', 'density', 'detector', 'run', 'manifest', 'index', 'evaluations', 'hospital CSV', 'TOML', "
    code = f"from benchmarks.fuzz import campaign; campaign(3_300, {loaders}'transition CSV', 'deep agent'))"
    *each, last = (json.loads(line) for line in run_python(code).splitlines()[:12])
    assert (last["files"], last["findings"]) == (3_300, 0)
    assert last["peak MB"] < 1_000
    assert all(found["refused"] > 50 for found in each if found["loader"] not in ("index", "evaluations"))


@pytest.mark.parametrize("kind", ["windows", "detectors"])
def test_random_sequences_of_calls_leave_sound_objects(run_python, kind):
    """With bounds checks; `make sequences` also does densities and agents."""
    code = f"from benchmarks.sequences import run; run(40, 15, {kind!r})"
    assert json.loads(run_python(code))["sequences"] == 40
