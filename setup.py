"""Builds the Cython extensions and compiles Numba's kernels; everything else about the package is in pyproject.toml."""

import os
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build
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


class BuildKernels(Command):
    """Compiles the kernels that a wheel brings along (`dqucb.agents.ahead`), so that the first run does not have to.

    Part of `pip install`, editable or not, and of `pip wheel`; `DQUCB_AHEAD=0` leaves it out. Where it fails, kernels
    are compiled when they are first used.
    """

    description = "compile Numba's kernels ahead of time"
    user_options = ()
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_ext", ("build_lib", "build_lib"))

    def run(self):
        if os.environ.get("DQUCB_AHEAD") == "0":
            return
        root = Path.cwd() if self.editable_mode else Path(self.build_lib).resolve()
        command = [sys.executable, "-c", "from dqucb.agents.ahead import main; main()"]
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        finished = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": path}, check=False)
        if finished.returncode != 0:
            print("dqucb: no kernels were compiled ahead of time; they are compiled when they are first used")

    def get_source_files(self):
        return []

    def get_outputs(self):
        folder = Path(self.build_lib, "dqucb", "_kernels", "compiled")
        return [str(path) for path in folder.glob("*")]

    def get_output_mapping(self):
        return {}


build.sub_commands.append(("build_kernels", None))

setup(
    ext_modules=cythonize(
        [Extension("dqucb._kernels.*", ["dqucb/_kernels/*.pyx"], extra_compile_args=EXACT)],
        # C code of its own: Cython looks at dates alone, and would take that of the other kind for current.
        build_dir="build/checked/c" if CHECKED else None,
        compiler_directives={
            "language_level": 3,
            "boundscheck": CHECKED,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": CHECKED,
        },
    ),
    cmdclass={"build_ext": BuildOrExplain, "build_kernels": BuildKernels},
)
