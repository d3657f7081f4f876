# Two commands do all the set-up on a bare machine with Python 3.11 or newer: make demo, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Lists of releases with their hashes: which are installed, and where `make lock` writes them.
LISTS := requirements
TO := requirements
# Without a hash, as the builds for CPU and for CUDA have one version. The tests need the CPU only:
# point pip at a CPU build of this release to save the download of CUDA libraries.
TORCH := torch==2.13.0
JOBS ?= 2
# Warnings of the C++ compiler are errors.
WERROR := ON
# CMake and Ninja of the environment, or those of the machine.
CMAKE := PATH="$(abspath $(BIN)):$$PATH" cmake

INSTALL_LISTED := $(PIP) install --quiet --no-deps --require-hashes --requirement
INSTALL_LOCAL := $(PIP) install --quiet --no-deps --no-build-isolation
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --custom-compile-command "make lock" --override requirements/without-torch.txt \
  pyproject.toml requirements/build.in

# pdoc shows what a module has; what is imported on demand is asked for first.
define ALL_NAMES
import pdoc.__main__, scorewise
[getattr(scorewise, name) for name in scorewise.__all__]
pdoc.__main__.cli()
endef
export ALL_NAMES

.DEFAULT_GOAL := help
.PHONY: help browser demo extension lock test test-newest test-full lint bench reproduce docs format clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "scorewise needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(LISTS)/demo.txt | $(BIN)/python
	$(INSTALL_LISTED) $(LISTS)/demo.txt
	$(INSTALL_LOCAL) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml reproduction/pyproject.toml $(LISTS)/dev.txt | $(BIN)/python
	$(INSTALL_LISTED) $(LISTS)/dev.txt
	$(PIP) install --quiet --no-warn-conflicts '$(TORCH)'
	$(INSTALL_LOCAL) --editable . --editable ./reproduction
	@touch $@ $(VENV)/.installed

lock: $(VENV)/.installed-dev  ## Write the lists of the newest releases and their hashes.
	mkdir -p $(TO)
	$(LOCK) requirements/dev.in --extra dev --output-file $(TO)/dev.txt
	$(LOCK) --extra report --constraint $(TO)/dev.txt --output-file $(TO)/demo.txt

# The report is tested in a real browser, installed where that is allowed.
browser:
	@if ! { command -v chromium && command -v chromedriver; } > /dev/null \
	  && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  get="apt-get install --yes --quiet=2 chromium chromium-driver"; \
	  $$get > /dev/null || { apt-get update --quiet=2 && $$get > /dev/null; } \
	  || echo "no browser could be installed: tests that need one are skipped"; \
	fi

extension: | $(BIN)/python  ## Compile what has changed of the kernel, in place: into src/.
	@$(CMAKE) -S . -B build/extension -G Ninja --log-level=WARNING -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
	  -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/src/scorewise/kernels/cpu -DSCOREWISE_WERROR=$(WERROR)
	@$(CMAKE) --build build/extension

demo: $(VENV)/.installed  ## Run the main job on digits, print the verdict, write out/report.html.
	$(BIN)/scorewise demo --out out

test: $(VENV)/.installed-dev browser lint  ## Run the linters and every test but the truly long ones.
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"

test-newest: TORCH = torch
test-newest:  ## Run the tests with the newest releases of all dependencies, in .venv-newest.
	$(MAKE) lock TO=out/newest
	$(MAKE) test VENV=.venv-newest LISTS=out/newest TORCH='$(TORCH)'

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
	rm -rf $(VENV) .venv-newest build out src/scorewise/kernels/cpu/_native.*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
