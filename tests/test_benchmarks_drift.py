"""The harness of the drift detectors, in its quick form, and its streams."""

import numpy as np
import pytest

from benchmarks import drift, drift_learning, drift_peers
from benchmarks.drift_streams import FAMILIES, POLICIES
from benchmarks.drift_tables import merged


def test_the_quick_form_writes_a_report(tmp_path):
    results = drift.main(["--quick", "--parts", "detect,policy,cost", "--out", str(tmp_path)])
    assert [row["found"] for row in results["detect"]] == [2, 2]
    assert [row["placebo_alarms"] for row in results["detect"]] == [0, 0]
    assert [row["found"] for row in results["policy"]] == [0]
    assert "| lake slip 0.1 to 0.3 |" in (tmp_path / "drift.md").read_text()
    assert (tmp_path / "drift.json").exists()
    assert (tmp_path / "drift.png").exists()


@pytest.mark.parametrize("name", [*FAMILIES, *POLICIES])
def test_a_stream_and_its_placebo_agree_up_to_the_change(name):
    if "cheetah" in name or "hopper" in name:
        pytest.importorskip("mujoco")
    family = {**FAMILIES, **POLICIES}[name]
    changed, still = family(0, 60, steps=120), family(0, None, steps=120)
    assert len(changed.states) == len(still.states) == 120
    np.testing.assert_array_equal(changed.next_states[:60], still.next_states[:60])
    assert changed.change_at == 60
    assert still.change_at is None


@pytest.mark.parametrize("seed", [211, 213])
def test_the_edge_of_what_a_stream_visits_is_no_change(seed):
    """A scale that was a parabola in the state called ten patients free of noise, and one more an alarm."""
    stream = FAMILIES["hospital stays"](seed, None)
    assert drift_peers.alarms_of(stream, drift_peers.ours(stream, 1e-6)) == []


@pytest.mark.parametrize("seed", [200, 215])
def test_a_wave_of_patients_is_no_change(seed):
    """The noise of a count grows with it, also three spreads above the mean, where a wave is rare."""
    stream = FAMILIES["hospital stays"](seed, None, steps=20_000)
    assert drift_peers.alarms_of(stream, drift_peers.ours(stream, 1e-6)) == []


@pytest.mark.parametrize("seed", [302, 312, 324])
def test_noise_that_carries_a_cart_to_unknown_places_is_found(seed):
    """What the noise says on the way must not be lost by the silence of such places."""
    stream = FAMILIES["cartpole noise"](seed, 4_000, steps=4_600)
    found = drift_peers.alarms_of(stream, drift_peers.ours(stream, 1e-6))
    assert [alarm >= 4_000 for alarm, _ in found[:1]] == [True]


def test_alarms_while_an_agent_learns_are_counted(tmp_path):
    rows = [
        {"task": "Hopper", "world": "still", "seed": 0, "alarms": [40]},
        {"task": "Hopper", "world": "mass", "seed": 0, "alarms": [20, 55, 95]},
        {"task": "Hopper", "world": "mass", "seed": 1, "alarms": []},
        {"task": "Hopper", "world": "mass", "seed": 2, "alarms": [70]},
    ]
    table = drift_learning.measured(rows, steps=100, burn_in=10)
    assert table == [
        {"task": "Hopper", "world": "still", "streams": 1, "false_alarms": 1, "updates": 80},
        {"task": "Hopper", "world": "mass", "streams": 3, "found": 1, "median_delay": 5.0,
         "false_alarms": 2, "updates": 100},
    ]  # fmt: skip
    assert "3 false alarms in 180 updates" in drift_learning.report(table)
    pytest.importorskip("mujoco")
    arguments = ["--tasks", "Hopper", "--worlds", "gravity", "--seeds", "1", "--steps", "300", "--burn-in", "100"]
    assert drift_learning.main([*arguments, "--out", str(tmp_path)])[0]["streams"] == 1


def test_a_peer_is_calibrated_to_at_most_one_alarm():
    rng = np.random.default_rng(0)
    still = [rng.normal(size=4_000) for _ in range(4)]
    (peer,) = [peer for peer in drift_peers.peers() if peer.name == "CUSUM"]
    sensitivity = drift_peers.calibrate(peer, still)
    assert sum(peer.run(values, sensitivity) is not None for values in still) <= 1
    changed = np.concatenate([still[0][:3_000], still[0][3_000:] + 3.0])
    assert 3_000 <= peer.run(changed, sensitivity) < 3_060


def test_our_rate_is_calibrated_like_the_settings_of_others():
    (ours,) = [peer for peer in drift_peers.peers() if peer.name == "ours, calibrated"]
    values = np.ones(4_000)
    values[3_000], values[1_000] = 1e-5, 1e-9  # what lies in the burn-in does not count
    assert ours.run(values, 1e-4) == 3_000
    assert ours.run(values, 1e-6) is None
    assert drift_peers.calibrate(ours, [values, values]) <= 1e-5


def test_a_report_keeps_the_rows_that_are_not_run_again():
    before = [{"stream": "a", "asked": 1e-3, "ratio": 1.0}, {"stream": "b", "asked": 1e-3, "ratio": 2.0}]
    now = [{"stream": "b", "asked": 1e-3, "ratio": 3.0}, {"stream": "b", "asked": 1e-4, "ratio": 4.0}]
    assert merged(before, now) == [before[0], *now]


def test_armed_updates_leave_out_every_burn_in_up_to_the_end():
    assert drift.armed([], 1_000, 300) == 700
    assert drift.armed([499], 1_000, 300) == 200 + 200
    assert drift.armed([499, 899], 1_000, 300) == 200 + 100 + 0  # the last burn-in is cut by the end, and no debt


def test_the_interval_of_a_rate_is_exact():
    lowest, highest = drift.poisson_interval(2)
    assert (lowest, highest) == pytest.approx((0.2422, 7.2247), abs=1e-3)  # tables of Garwood (1936)
    assert drift.poisson_interval(0) == (0.0, pytest.approx(3.6889, abs=1e-3))
    words = [drift.verdict(*bounds) for bounds in ((0.6, 1.0, 1.5), (0.1, 0.2, 0.4), (0.3, 0.8, 1.7), (0.9, 2.2, 4.0))]
    assert words == ["yes", "no", "likely", "unlikely"]
