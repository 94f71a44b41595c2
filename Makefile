# Every target makes a private .venv first and installs there what it needs, on top of what is there already.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba_cache
SEEDS ?= 10
# Tests that meet other packages: what `make test-lowest` runs.
LOWEST ?= $(addprefix tests/test_,numba_private.py kernel_cache.py golden.py envs.py storage.py experiments.py \
	experiments_store.py experiments_statistics.py cli.py experiments_report.py density_sliding.py drift.py)
# --no-compile: Python compiles the modules that are used when they are first used, a tenth of what pip would compile.
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt \
	$(BIN)/python -m pip install --no-compile --disable-pip-version-check --progress-bar off

.DEFAULT_GOAL := help
.PHONY: help browser run test test-lowest docs lint bench bench-peers faults sequences bits wheel clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "dqucb needs Python 3.11 or newer: install python3 and python3-venv, or name one with make PYTHON=..."; exit 1; }
	@echo "dqucb: a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "dqucb: no virtual environment: install python3-venv (Debian, Ubuntu), and look whether the disk is full"; exit 1; }

# pip is silent while it builds and unpacks: a line every eight seconds says that it is still at work.
define install
	@( while sleep 8; do echo "dqucb: still installing $(1)"; done ) & beat=$$!; trap 'kill $$beat 2>/dev/null' EXIT; \
		$(INSTALL) $(1) || { echo $(FAILED); exit 1; }
	@touch $@
endef
FAILED := "dqucb: the installation failed, see above. Without a network: set PIP_FIND_LINKS to a folder that holds the wheels. \
On a full disk: make room here and in the folder for temporary files (TMPDIR). With an old pip: $(BIN)/python -m pip install -U pip."

# The package and what it depends on. Editable: edits in Python need no new installation, edits of a .pyx do.
$(VENV)/.core: $(BIN)/python pyproject.toml setup.py constraints.txt $(wildcard dqucb/_kernels/*.pyx dqucb/_kernels/*.pxd)
	@command -v $${CC:-cc} >/dev/null || { echo "dqucb needs a C compiler: apt-get install gcc python3-dev (Debian, Ubuntu) or your system's equivalent"; exit 1; }
	@echo "dqucb: installing the package and building its C extensions"
	$(call install,-e .)

# The packages of one extra: `dqucb` itself is there, so that nothing is built again.
$(VENV)/.extra-%: $(VENV)/.core
	@echo "dqucb: installing what the extra '$*' needs"
	$(call install,"dqucb[$*]")

# ns-gym asks for an older MuJoCo than ours, but only for tasks that the tests do not use.
$(VENV)/.ns-gym: $(VENV)/.extra-test
	$(call install,--no-deps ns-gym)

# The report is also tested in a real browser, where there is one or root can install it.
browser:
	@which chromium chromium-browser google-chrome 2>/dev/null | grep -q . || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "dqucb: installing Chromium with apt-get" && { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1; } || \
		echo "dqucb: no Chromium here, so that tests of the report in a browser are skipped: install it (Debian: apt-get install chromium)"

run: $(VENV)/.core  ## FrozenLake with two shifts, five agents: a table here, pictures and a report in out/
	@echo "dqucb: five agents, $(SEEDS) seeds each; kernels are compiled when an agent first runs, and kept in $(NUMBA_CACHE_DIR)"
	$(BIN)/dqucb run frozen-lake --agents planning-dqucb,dqucb,qucb,ucbvi,ucbmq --set qucb.learning_rate_horizon=auto --seeds $(SEEDS) --out out/frozen-lake
	$(BIN)/dqucb plot out/frozen-lake
	$(BIN)/dqucb report out/frozen-lake

test: $(VENV)/.ns-gym browser  ## the whole test suite, linters and type checks included
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-lowest:  ## what depends on other packages, with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-lowest
	PIP_CONSTRAINT=$(CURDIR)/constraints-lowest.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints-lowest.txt \
		.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest pytest-xdist hypothesis scipy scikit-learn
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal $(LOWEST)

docs: $(VENV)/.extra-docs $(VENV)/.extra-notebooks  ## the documentation in out/site; tutorials are run, and a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(VENV)/.extra-bench  ## benchmarks, bars, the comparison with the saved baseline, the complexity report in out/ and benchmarks/README.md; QUICK=1: only whether they run
	$(BIN)/python -m pytest benchmarks $(if $(QUICK),--benchmark-disable)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.start --fresh --out out/start)
	$(BIN)/python -m benchmarks.ceiling $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.windows $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.planning --parts cost,scale $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.complexity --out out/complexity $(if $(QUICK),--quick)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.readme --report out/complexity/complexity.json)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.compare)

bench-peers: $(VENV)/.core  ## the same work by other libraries, each in a virtual environment of its own
	$(BIN)/python -m benchmarks.peers --venv .venv-peers --out out/peers
	$(BIN)/python -m benchmarks.peers_deep --venv .venv-peers-deep --out out/peers

faults: $(VENV)/.extra-test  ## 1,000 faults, 50 killed parents, 100,000 changed files, memory of long runs: an hour
	$(BIN)/python -m tests.campaigns.differential --trials 10000
	$(BIN)/python -m tests.campaigns.faults --trials 1000
	$(BIN)/python -m tests.campaigns.fault_parents --parents 50
	$(BIN)/python -m tests.campaigns.memory
	$(BIN)/python -m tests.campaigns.fuzz --files 100000

sequences: $(VENV)/.extra-test  ## 20,000 random sequences of calls, with bounds checks in all compiled code
	DQUCB_CHECKED=1 $(BIN)/python setup.py -q build --build-base build/checked --build-lib build/checked/lib
	PYTHONSAFEPATH=1 PYTHONPATH=build/checked/lib:$(CURDIR) $(BIN)/python -m tests.campaigns.sequences --sequences 20000 --out out/sequences.jsonl

bits: $(VENV)/.extra-test  ## docs/bits.md: what was compared for bit identity
	$(BIN)/python -m tests.campaigns.bits --write docs/bits.md

lint: $(VENV)/.extra-test  ## ruff, mypy and the rules between layers
	$(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

wheel: $(BIN)/python  ## dist/*.whl, with compiled kernels: some minutes of CPU time
	DQUCB_AOT=1 PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt PIP_CONSTRAINT=$(CURDIR)/constraints.txt \
		$(BIN)/python -m pip wheel --no-deps -w dist .

clean:  ## remove everything that was built
	rm -rf $(VENV) .venv-peers .venv-peers-deep .venv-rlberry .venv-lowest build dist *.egg-info .numba_cache .cache out dqucb/_kernels/compiled \
		dqucb/_kernels/*.c dqucb/_kernels/*.so
