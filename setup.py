"""Builds the Cython extensions; everything else about the package is in pyproject.toml."""

import os
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

CHECKED = os.environ.get("DQUCB_CHECKED") == "1"  # for `make sequences`: every index is checked
# Contracting a*b+c into one rounding would make the bits depend on the machine.
EXACT = ["-O3", "-ffp-contract=off"] if sys.platform != "win32" else ["/O2", "/fp:precise"]
NEEDS_COMPILER = (
    "dqucb needs a C compiler and the Python headers to build: install them with "
    "`apt-get install gcc python3-dev` (Debian, Ubuntu), `dnf install gcc python3-devel` (Fedora), "
    "`xcode-select --install` (macOS) or the Visual Studio Build Tools (Windows)"
)


class BuildOrExplain(build_ext):
    """Says what to install when no working compiler is found, instead of a page of traceback."""

    def run(self):
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            sys.exit(f"{NEEDS_COMPILER} [{error}]")


setup(
    ext_modules=cythonize(
        [Extension("dqucb._kernels.*", ["dqucb/_kernels/*.pyx"], extra_compile_args=EXACT)],
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKED,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": CHECKED,
        },
    ),
    cmdclass={"build_ext": BuildOrExplain},
)
