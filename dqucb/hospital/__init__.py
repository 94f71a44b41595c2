"""The case study: COVID-19 patients are allocated to hospitals whose lengths of stay change.

system.py defines the data, simulation.py the dynamics and the daily optimum, synthetic.py hospitals that need no
download. loading.py reads the published files (facilities.py parses them, daily.py splits weeks into days and fits
beta). env.py is the Gymnasium env, allocation.py and model_allocation.py are the agents without a network, and head.py
is the head by which deep agents read allocations out of a network. prior.py holds the dynamics that are assumed before
anything is learned.

    from dqucb.hospital import load_hospitals, synthetic_hospitals
    system = synthetic_hospitals(40)
    system, report = load_hospitals("facilities.csv.gz", state="TX", hospitals=40, state_daily="daily.csv.gz")
    print(report)
"""

from dqucb.hospital.allocation import (
    CUCBRA,
    UCBRA,
    AllocationAgent,
    ClairvoyantDaily,
    GreedyByFreeBeds,
    ProportionalToFreeBeds,
    RandomAllocation,
)
from dqucb.hospital.env import AllocationSpace, HospitalAllocationEnv
from dqucb.hospital.facilities import HospitalDataError
from dqucb.hospital.loading import QualityReport, load_hospitals
from dqucb.hospital.model_allocation import ModelAllocation
from dqucb.hospital.simulation import (
    HospitalState,
    Outcome,
    Simulation,
    by_largest_remainders,
    clairvoyant_allocation,
    clairvoyant_rewards,
    described,
)
from dqucb.hospital.synthetic import synthetic_hospitals, texas_census
from dqucb.hospital.system import BEFORE_A_WAVE, HospitalSystem, changed_beta

__all__ = [
    "BEFORE_A_WAVE",
    "CUCBRA",
    "UCBRA",
    "AllocationAgent",
    "AllocationSpace",
    "ClairvoyantDaily",
    "GreedyByFreeBeds",
    "HospitalAllocationEnv",
    "HospitalDataError",
    "HospitalState",
    "HospitalSystem",
    "ModelAllocation",
    "Outcome",
    "ProportionalToFreeBeds",
    "QualityReport",
    "RandomAllocation",
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
