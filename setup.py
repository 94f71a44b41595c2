"""Builds the Cython extensions and, for wheels, compiles Numba's kernels; all else is in pyproject.toml."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

AOT = os.environ.get("DQUCB_AOT") == "1"
CORES = os.cpu_count() or 1
CHECKED = os.environ.get("DQUCB_CHECKED") == "1"  # for `make sequences`: every index is checked
# Contracting a*b+c into one rounding would make the bits depend on the machine.
# Without debug information, which Python's own flags ask for, the C compiler takes three quarters of the time.
EXACT = ["-O3", "-g0", "-ffp-contract=off"] if sys.platform != "win32" else ["/O2", "/fp:precise"]
# Cython's own code for memoryviews, once for all extensions: in each of them it took most of the C compiler's time.
SHARED = "dqucb._kernels._cython_shared"
PLAIN = ["-O1", "-g0"] if sys.platform != "win32" else []
NEEDS_COMPILER = (
    "dqucb needs a C compiler and the Python headers to build: install them with "
    "`apt-get install gcc python3-dev` (Debian, Ubuntu), `dnf install gcc python3-devel` (Fedora), "
    "`xcode-select --install` (macOS) or the Visual Studio Build Tools (Windows)"
)


class BuildOrExplain(build_ext):
    """Builds on all cores; says what to install when no compiler works, instead of a page of traceback."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def run(self):
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            sys.exit(f"{NEEDS_COMPILER} [{error}]")


class BuildKernels(Command):
    """Compiles the kernels that a wheel brings along (`dqucb.aot`), so that its first run starts at once.

    Only with `DQUCB_AOT=1`, as `make wheel` and the release build set it: it takes minutes of CPU time, and whoever
    installs from source compiles the kernels of an agent when the agent is first used.
    """

    description = "compile Numba's kernels ahead of time"
    user_options = ()
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_ext", ("build_lib", "build_lib"))

    def run(self):
        if not AOT:
            return
        root = Path.cwd() if self.editable_mode else Path(self.build_lib).resolve()
        command = [sys.executable, "-c", "from dqucb.aot import main; main()"]
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        finished = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": path}, check=False)
        if finished.returncode != 0:
            sys.exit("dqucb: the kernels were not compiled, see above; without DQUCB_AOT=1 the build leaves them out")

    def get_source_files(self):
        return []

    def get_outputs(self):
        folder = Path(self.build_lib, "dqucb", "_kernels", "compiled")
        return [str(path) for path in folder.glob("*")]

    def get_output_mapping(self):
        return {}


def kernel_requirements():
    """What compiling kernels imports: the package's own dependencies, and SciPy for the networks."""
    if not AOT:
        return []
    project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], "scipy>=1.11"]


build.sub_commands.append(("build_kernels", None))

setup(
    ext_modules=cythonize(
        [
            Extension("dqucb._kernels.*", ["dqucb/_kernels/*.pyx"], extra_compile_args=EXACT),
            Extension(SHARED, [SHARED.replace(".", "/") + ".c"], extra_compile_args=PLAIN),
        ],
        shared_utility_qualified_name=SHARED,
        nthreads=CORES if sys.platform == "linux" else 0,  # processes by fork; elsewhere each would run this file again
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
    setup_requires=kernel_requirements(),
    cmdclass={"build_ext": BuildOrExplain, "build_kernels": BuildKernels},
)
