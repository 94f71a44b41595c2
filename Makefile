# Every target makes a private .venv first and installs what it needs there.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba_cache
EXTRAS ?= test,docs,dask,deep,mujoco
SEEDS ?= 10
# Tests that meet other packages: what `make test-lowest` runs.
LOWEST ?= $(addprefix tests/test_,numba_private.py kernel_cache.py golden.py envs.py storage.py experiments.py \
	experiments_store.py experiments_statistics.py cli.py experiments_report.py density_sliding.py drift.py)
# The constraints hold in the build as well: kernels are compiled there, with the Numba that will run them.
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test test-lowest docs lint bench bench-peers faults sequences bits wheel clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:\t/'

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "dqucb needs Python 3.11 or newer: install python3 and python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Editable, so that Python edits need no new install; a changed .pyx or pyproject.toml does.
$(VENV)/.installed: $(BIN)/python pyproject.toml setup.py constraints.txt $(wildcard dqucb/_kernels/*.pyx dqucb/_kernels/*.pxd)
	@command -v $${CC:-cc} >/dev/null || { echo "dqucb needs a C compiler: apt-get install gcc python3-dev (Debian, Ubuntu) or your system's equivalent"; exit 1; }
	$(INSTALL) -e ".[$(EXTRAS)]"
	@touch $@

run: $(VENV)/.installed  ## FrozenLake with two shifts, five agents: a table here, pictures and a report in out/
	$(BIN)/dqucb run frozen-lake --agents planning-dqucb,dqucb,qucb,ucbvi,ucbmq --set qucb.learning_rate_horizon=auto --seeds $(SEEDS) --out out/frozen-lake
	$(BIN)/dqucb plot out/frozen-lake
	$(BIN)/dqucb report out/frozen-lake

test: $(VENV)/.installed  ## the whole test suite, linters and type checks included
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-lowest:  ## what depends on other packages, with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv .venv-lowest
	PIP_CONSTRAINT=$(CURDIR)/constraints-lowest.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints-lowest.txt \
		.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal $(LOWEST)

docs: $(VENV)/.installed  ## the documentation in out/site; tutorials are run, and a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(VENV)/.installed  ## benchmarks, bars, the comparison with the saved baseline, the complexity report in out/ and benchmarks/README.md; QUICK=1: only whether they run
	$(INSTALL) -e ".[dev]"
	$(BIN)/python -m pytest benchmarks $(if $(QUICK),--benchmark-disable)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.start --fresh --out out/start)
	$(BIN)/python -m benchmarks.ceiling $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.windows $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.planning --parts cost,scale $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.complexity --out out/complexity $(if $(QUICK),--quick)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.readme --report out/complexity/complexity.json)
	$(if $(QUICK),,$(BIN)/python -m benchmarks.compare)

bench-peers: $(VENV)/.installed  ## the same work by other libraries, each in a virtual environment of its own
	$(BIN)/python -m benchmarks.peers --venv .venv-peers --out out/peers
	$(BIN)/python -m benchmarks.peers_deep --venv .venv-peers-deep --out out/peers

faults: $(VENV)/.installed  ## 1,000 faults, 50 killed parents, 100,000 changed files, memory of long runs: an hour
	$(BIN)/python -m tests.campaigns.faults --trials 1000
	$(BIN)/python -m tests.campaigns.fault_parents --parents 50
	$(BIN)/python -m tests.campaigns.memory
	$(BIN)/python -m tests.campaigns.fuzz --files 100000

sequences: $(VENV)/.installed  ## 20,000 random sequences of calls, with bounds checks in all compiled code
	DQUCB_CHECKED=1 DQUCB_AHEAD=0 $(BIN)/python setup.py -q build --build-base build/checked --build-lib build/checked/lib
	PYTHONSAFEPATH=1 PYTHONPATH=build/checked/lib:$(CURDIR) $(BIN)/python -m tests.campaigns.sequences --sequences 20000 --out out/sequences.jsonl

bits: $(VENV)/.installed  ## docs/bits.md: what was compared for bit identity
	$(BIN)/python -m tests.campaigns.bits --write docs/bits.md

lint: $(VENV)/.installed  ## ruff, mypy and the rules between layers
	$(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

wheel: $(VENV)/.installed  ## dist/*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

clean:  ## remove everything that was built
	rm -rf $(VENV) .venv-peers .venv-peers-deep .venv-rlberry .venv-lowest build dist *.egg-info .numba_cache .cache out dqucb/_kernels/compiled \
		dqucb/_kernels/*.c dqucb/_kernels/*.so
