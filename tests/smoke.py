"""Does an installed wheel work? `python tests/smoke.py`, with nothing but the package and what it requires.

Used by the release workflow on each system; not collected by pytest.
"""

import subprocess
import sys
from importlib.metadata import version

import numpy as np

import dqucb


def main() -> None:
    assert dqucb.__version__ == version("dqucb")
    kde = dqucb.SlidingKDE(window=2, bandwidth=0.5)
    kde.push_many(np.zeros((3, 2)))
    assert len(kde) == 2
    detector = dqucb.FiniteDriftDetector(n_states=2, n_actions=1)
    detector.update(0, 0, 1)
    lake = dqucb.frozen_lake(slip=(0.0, 0.5), change_at=(300,), horizon=100)
    run = dqucb.PlanningDQUCB().train(lake, episodes=600, seed=1)
    assert run.detection_delays()[0] is not None
    assert dqucb.QUCB().train(lake, episodes=400).steps > 0
    listing = subprocess.run([sys.executable, "-m", "dqucb.cli", "list"], capture_output=True, text=True, check=True)
    assert "planning-dqucb" in listing.stdout
    print(f"dqucb {dqucb.__version__} from {dqucb.__file__}: works")


if __name__ == "__main__":
    main()
