# Two commands do all the set-up on a bare machine with Python 3.11 or newer: make demo, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := requirements/constraints.txt
JOBS ?= 2

# pdoc shows what a module has; what is imported on demand is asked for first.
define ALL_NAMES
import pdoc.__main__, scorewise
[getattr(scorewise, name) for name in scorewise.__all__]
pdoc.__main__.cli()
endef
export ALL_NAMES

.DEFAULT_GOAL := help
.PHONY: help browser demo test test-full lint bench reproduce docs format clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "scorewise needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[report]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml reproduction/pyproject.toml $(CONSTRAINTS) requirements/laplace.txt | $(BIN)/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[dev]'
	$(PIP) install --quiet --no-deps --requirement requirements/laplace.txt
	$(PIP) install --quiet --no-deps --editable ./reproduction
	@touch $@ $(VENV)/.installed

# The report is tested in a real browser, installed where that is allowed.
browser:
	@if ! { command -v chromium && command -v chromedriver; } > /dev/null \
	  && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  get="apt-get install --yes --quiet=2 chromium chromium-driver"; \
	  $$get > /dev/null || { apt-get update --quiet=2 && $$get > /dev/null; } \
	  || echo "no browser could be installed: tests that need one are skipped"; \
	fi

demo: $(VENV)/.installed  ## Run the main job on digits, print the verdict, write out/report.html.
	$(BIN)/scorewise demo --out out

test: $(VENV)/.installed-dev browser lint  ## Run the linters and every test but the truly long ones.
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"

test-full: $(VENV)/.installed-dev browser lint  ## Run every test, the long simulations too.
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(VENV)/.installed-dev  ## Check style, types and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed-dev  ## Format the code and mend what the linter can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev  ## Measure speed and memory, as ratios in the same run.
	$(BIN)/python benchmarks/decompose.py $(ARGS)
	$(BIN)/python benchmarks/growth.py $(ARGS)
	$(BIN)/python benchmarks/models.py $(ARGS)
	$(BIN)/python benchmarks/curves.py $(ARGS)
	$(BIN)/python benchmarks/active.py $(ARGS)
	$(BIN)/python benchmarks/files.py $(ARGS)

reproduce: $(VENV)/.installed-dev  ## Install the paper's experiments, and write reproduction/page.md anew.
	$(BIN)/scorewise-paper report --results reproduction/results --out reproduction

docs: $(VENV)/.installed-dev  ## Build the reference of the public names into out/docs.
	$(BIN)/python -c "$$ALL_NAMES" --docformat numpy --output-directory out/docs scorewise

clean:  ## Remove everything that make has made.
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
