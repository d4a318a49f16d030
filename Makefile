# Two commands on a fresh machine with Python >= 3.11, make and a package index: `make climb` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)
unexport PYTHONDONTWRITEBYTECODE  # else every process compiles all modules again: pytest's workers, each command

.PHONY: climb test test-all nightly check format docs fuzz prebuilt wheel bench-sim bench-limits bench-short clean

climb: $(STAMP)  ## verify and measure the whole ladder on this machine
	$(BIN)/gemmsmith climb

test: check  ## what a change most likely breaks: under eight minutes on two cores
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not gpu and not slow and not nightly"

test-all: $(STAMP)  ## a twentieth of the longer tests that need no GPU (tests/tiers.toml): about two minutes on two cores
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "slow and not gpu"

nightly: $(STAMP)  ## what CI has no time for (tests/tiers.toml): about an hour on two cores
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "nightly and not gpu"

SECONDS ?= 60
fuzz: $(STAMP)  ## check random kernels and mutants of them for SECONDS; failures are written to build/fuzz
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS) --jobs $(WORKERS)

check: $(STAMP)  ## linting, formatting, strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=$(WORKERS) $(BIN)/mypy
	$(BIN)/python benchmarks/update_docs.py --check

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs  ## the documentation as a site with search, in build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench-sim: $(STAMP)  ## how fast the simulator and predictions are, on one core
	$(BIN)/python benchmarks/simulator_speed.py
	$(BIN)/python benchmarks/prediction_speed.py

prebuilt: $(STAMP)  ## compiled kernels for an H200 into the package, before building a wheel for release
	mkdir -p -m 700 src/gemmsmith/prebuilt
	$(BIN)/gemmsmith warm --gpu H200 --shapes llm --dtype bf16,fp16 --first-calls --into src/gemmsmith/prebuilt
	$(BIN)/gemmsmith warm --gpu H200 --first-calls --dtype fp32 --into src/gemmsmith/prebuilt
	rm -f src/gemmsmith/prebuilt/*.lock
	du -sh src/gemmsmith/prebuilt

wheel: prebuilt  ## a wheel for release in dist/, with these kernels; under 20 MB
	rm -f dist/*.whl
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	rm -r src/gemmsmith/prebuilt
	ls -l dist/*-py3-none-any.whl
	test $$(stat -c %s dist/*-py3-none-any.whl) -lt 20000000

bench-limits: $(STAMP)  ## seconds that commands take to start, against their limits
	$(BIN)/python benchmarks/limits.py

bench-short: $(STAMP)  ## a short form of each script under benchmarks/ that needs no GPU
	$(BIN)/python benchmarks/simulator_speed.py --size 64 --rung naive --rung warp_tile
	$(BIN)/python benchmarks/limits.py --runs 1
	$(BIN)/python benchmarks/prediction_speed.py --size 512 --rung shared_tile
	$(BIN)/python benchmarks/machine_code.py compare benchmarks/results/machine_code.json --only naive
	mkdir -p build
	$(BIN)/python benchmarks/check_repositories.py docs --only tile_fixed
	$(BIN)/python benchmarks/calibrate_gates.py build/gates.json --device sim --largest-k 32 --seeds 1 --rungs naive

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, not " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

$(VENV)/.docs: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist climb.html report.html .mypy_cache .ruff_cache .pytest_cache .hypothesis
