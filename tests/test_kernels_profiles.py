"""The kernel profiles: formulas, thresholds and normalising constants in every dimension."""

import shutil
import subprocess
from pathlib import Path

import naive_density as naive
import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

from dqucb._kernels.profiles import KERNELS, log_normalization, profile_values, zero_beyond

ROOT = Path(__file__).resolve().parent.parent
COMPACT = ("linear", "cosine", "epanechnikov", "tophat")


def sklearn_normaliser_is_right(kernel, dimension):
    """scikit-learn's cosine constant is wrong in even dimensions and has lost its digits above 11."""
    return kernel != "cosine" or (dimension % 2 == 1 and dimension <= 11)


@pytest.mark.parametrize("kernel", KERNELS)
def test_profile_is_one_at_zero_and_follows_its_formula(kernel):
    u = np.random.default_rng(0).uniform(0, 3, 10_000)
    assert profile_values(kernel, np.zeros(1), 0.37)[0] == 1.0
    squared = (0.37 * u) ** 2
    distance = np.sqrt(squared)
    comp = profile_values(kernel, squared, 0.37)
    ref = np.where((distance < 0.37) | (kernel not in COMPACT), naive.profile(kernel, distance / 0.37), 0.0)
    np.testing.assert_allclose(comp, ref, rtol=1e-12, atol=1e-16)
    # With bandwidth 1 both sides see the same u: only the formula's own rounding is left.
    u = np.sqrt(u**2)
    np.testing.assert_allclose(profile_values(kernel, u**2, 1.0), naive.profile(kernel, u), rtol=2e-15, atol=2e-16)


def test_gaussian_profile_is_the_exponential_to_the_last_bits():
    x = np.linspace(0, 707, 100_001)
    ref = np.exp(-x)
    assert np.max(np.abs(profile_values("gaussian", 2 * x, 1.0) - ref) / np.spacing(ref)) <= 1.0
    np.testing.assert_array_equal(profile_values("gaussian", [2000.0, 1e300, np.inf], 1.0), 0.0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", [0.1, 1.0, 3.0])
def test_zero_beyond_is_where_the_profile_passes_the_threshold(kernel, bandwidth):
    edge = zero_beyond(kernel, bandwidth, 1e-30)
    assert profile_values(kernel, [edge * 1.001], bandwidth)[0] < 1e-30
    if kernel not in COMPACT:
        assert profile_values(kernel, [edge * 0.999], bandwidth)[0] > 1e-30
    else:
        assert edge == bandwidth**2


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dimension", range(1, 26))
def test_normalization_is_the_integral_in_every_dimension(kernel, dimension):
    comp = log_normalization(kernel, 0.7, dimension)
    assert comp == pytest.approx(naive.log_normalization(kernel, 0.7, dimension), rel=1e-9, abs=1e-9)
    if sklearn_normaliser_is_right(kernel, dimension):
        origin = np.zeros((1, dimension))
        ref = KernelDensity(kernel=kernel, bandwidth=0.7).fit(origin).score_samples(origin)[0]
        assert comp == pytest.approx(ref, rel=1e-7 if kernel == "cosine" else 1e-12, abs=1e-12)


def test_a_profile_without_its_functions_does_not_compile():
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    block = (ROOT / "dqucb" / "_kernels" / "profiles.pxd").read_text().split('"""')[1]

    def compiles(source):
        command = [compiler, "-fsyntax-only", "-x", "c", "-std=c99", "-"]
        return subprocess.run(command, input=source, capture_output=True, text=True)

    assert compiles(block).returncode == 0
    finished = compiles(block.replace("ROW(tophat,", "ROW(cubic, 0, dq_edge_compact) ROW(tophat,"))
    assert finished.returncode != 0
    assert "dq_cubic" in finished.stderr
    assert "dq_integral_cubic" in finished.stderr
