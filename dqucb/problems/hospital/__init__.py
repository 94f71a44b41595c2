"""COVID-19 patients and the hospitals that share them: pure data, and what a day's allocation leads to.

system.py holds the class, simulation.py its dynamics and the daily optimum, synthetic.py hospitals that need no
download, loading.py the published files (facilities.py reads them, daily.py splits weeks into days and fits beta),
usual.py what may be taken for usual before anything is learned.

    from dqucb.problems.hospital import load_hospitals, synthetic_hospitals
    system = synthetic_hospitals(40)
    system, report = load_hospitals("facilities.csv.gz", state="TX", hospitals=40, state_daily="daily.csv.gz")
    print(report)
"""

from dqucb.problems.hospital.facilities import HospitalDataError
from dqucb.problems.hospital.loading import QualityReport, load_hospitals
from dqucb.problems.hospital.simulation import (
    HospitalState,
    Outcome,
    Simulation,
    by_largest_remainders,
    clairvoyant_allocation,
    clairvoyant_rewards,
    described,
)
from dqucb.problems.hospital.synthetic import synthetic_hospitals, texas_census
from dqucb.problems.hospital.system import BEFORE_A_WAVE, HospitalSystem, changed_beta

__all__ = [
    "BEFORE_A_WAVE",
    "HospitalDataError",
    "HospitalState",
    "HospitalSystem",
    "Outcome",
    "QualityReport",
    "Simulation",
    "by_largest_remainders",
    "changed_beta",
    "clairvoyant_allocation",
    "clairvoyant_rewards",
    "described",
    "load_hospitals",
    "synthetic_hospitals",
    "texas_census",
]
