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
# Whether warnings of the C++ compiler are errors, and which instruction sets it compiles for (all if empty).
WERROR := ON
SETS :=

INSTALL_LISTED := $(PIP) install --quiet --no-deps --require-hashes --requirement
INSTALL_LOCAL := $(PIP) install --quiet --no-deps --no-build-isolation
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --custom-compile-command "make lock" --override requirements/without-torch.txt \
  pyproject.toml requirements/build.in

# Installs Debian's packages where that is allowed.
APT_INSTALL = [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && export DEBIAN_FRONTEND=noninteractive \
  && get="apt-get install --yes --quiet=2 $(1)" && { $$get > /dev/null || { apt-get update --quiet=2 && $$get > /dev/null; }; }
# Compiles the kernel in the folder $(1), with more options $(2). CMake and Ninja are those of the environment, or else
# of the machine. CMake starts anew where it failed before: a compiler may have been installed since.
COMPILE = export PATH="$(abspath $(BIN)):$$PATH" && cmake -S . -B $(1) -G Ninja --log-level=WARNING \
  $$([ -f $(1)/build.ninja ] || echo --fresh) \
  -DCMAKE_MAKE_PROGRAM="$$(command -v ninja)" -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
  -DSCOREWISE_WERROR=$(WERROR) $(2) && cmake --build $(1)
KERNEL := src/scorewise/kernels/cpu
HAS_HEADERS := import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))

# Runs the code of pictures and examples that is new, and follows links between pages. Warnings are errors, also those
# of that code: the module of an example is called __main__, that of a picture <string>. Threads that wait for work
# sleep, as in tests/conftest.py.
BUILD_SITE = OMP_WAIT_POLICY=passive OPENBLAS_THREAD_TIMEOUT=4 $(BIN)/python -W error:::__main__ -W "error:::<string>" -m sphinx --fail-on-warning --keep-going --quiet --jobs $(JOBS) -d build/docs/doctrees docs out/docs
# What the build keeps; without it, all code runs.
BUILT_SITE := build/docs out/docs docs/gallery docs/reference

.DEFAULT_GOAL := help
.PHONY: help browser compiler demo extension lock test test-newest test-gpu test-full test-sanitize lint bench reproduce docs site-anew format clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 15

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
	@touch $@ $(VENV)/.installed $(VENV)/.installed-docs

# The examples of the site train a network, so torch is installed here too.
$(VENV)/.installed-docs: pyproject.toml $(LISTS)/docs.txt | $(BIN)/python
	$(INSTALL_LISTED) $(LISTS)/docs.txt
	$(PIP) install --quiet --no-warn-conflicts '$(TORCH)'
	$(INSTALL_LOCAL) --editable .
	@touch $@

lock: $(VENV)/.installed-dev  ## Write the lists of the newest releases and their hashes.
	mkdir -p $(TO)
	$(LOCK) requirements/dev.in --extra dev --output-file $(TO)/dev.txt
	$(LOCK) requirements/docs.in --extra docs --constraint $(TO)/dev.txt --output-file $(TO)/docs.txt
	$(LOCK) --extra report --constraint $(TO)/dev.txt --output-file $(TO)/demo.txt

# The report and the page "The simplex" are tested in a real browser, installed where that is allowed.
browser:
	@{ command -v chromium && command -v chromedriver; } > /dev/null \
	  || { $(call APT_INSTALL,chromium chromium-driver); } \
	  || echo "no browser could be installed: tests that need one are skipped"

# The kernel needs a C++ compiler and Python's headers, installed where that is allowed.
compiler: | $(BIN)/python
	@{ command -v "$${CXX:-c++}" > /dev/null && $(BIN)/python -c '$(HAS_HEADERS)'; } \
	  || { $(call APT_INSTALL,g++ python3-dev); } \
	  || echo "no compiler could be installed: make test needs g++ and python3-dev, or clang"

extension: | $(BIN)/python  ## Compile what has changed of the C++ kernel, in place: into src/.
	@$(call COMPILE,build/extension,-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/$(KERNEL) -DSCOREWISE_INSTRUCTION_SETS="$(SETS)")

demo: $(VENV)/.installed  ## Run the main job on digits, print the verdict, write out/report.html.
	@mkdir -p out
	@$(MAKE) extension WERROR=OFF > out/extension.log 2>&1 || echo "The compiled kernel could not be built, so large \
	inputs take longer. It needs a C++ compiler, such as Debian's g++; out/extension.log has the details."
	$(BIN)/scorewise demo --out out

test: $(VENV)/.installed-dev browser compiler  ## Run the linters, build the site, run every test but the truly long ones.
	$(MAKE) extension
	$(MAKE) --jobs=2 lint site-anew
	$(BIN)/python -m pytest -n $(JOBS) -m "not long"

test-newest: TORCH = torch
test-newest:  ## Run the tests with the newest releases of all dependencies, in .venv-newest.
	$(MAKE) lock TO=out/newest
	$(MAKE) test VENV=.venv-newest LISTS=out/newest TORCH='$(TORCH)'

# pytest imports no other file, as some need libraries that a machine with a GPU may lack.
TESTS_FOR_GPU = $$(grep --recursive --files-with-matches --include='test_*.py' 'mark[.]gpu' tests reproduction/tests)
test-gpu:  ## Run the tests that need a GPU with PYTHON, which has what they import; installs nothing.
	PYTHONPATH="$(CURDIR)/src:$(CURDIR)/reproduction$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON) -m pytest -m gpu $(TESTS_FOR_GPU)

test-full: $(VENV)/.installed-dev browser compiler  ## Run every test, the long simulations too.
	$(MAKE) extension
	$(MAKE) --jobs=2 lint site-anew
	$(BIN)/python -m pytest -n $(JOBS)

# The plainest instruction set and the widest of this processor; all where it has no AVX.
SETS_TO_SANITIZE = $$($${CXX:-c++} -march=native -dM -E -x c++ /dev/null | awk '/__AVX512VL__/ { widest = "avx512" } \
  /__AVX2__/ && !widest { widest = "avx2" } END { if (widest) print "baseline;" widest }')
# In a copy of the sources, as the kernel in src/ is another build. libasan is GCC's. Memory comes from malloc, which it
# watches; what it reports is not captured.
SANITIZED = PYTHONPATH=$(CURDIR)/build/sanitize/src PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
  LD_PRELOAD="$$($${CXX:-c++} -print-file-name=libasan.so) $$($${CXX:-c++} -print-file-name=libstdc++.so)" \
  $(BIN)/python -m pytest --capture=sys -n $(JOBS) tests/kernels tests/test_accumulate.py tests/test_accumulate_chunks.py
test-sanitize: $(VENV)/.installed-dev compiler  ## Run the tests of kernels under AddressSanitizer and UBSan.
	@$(call COMPILE,build/sanitize,-DSCOREWISE_SANITIZE=ON -DSCOREWISE_INSTRUCTION_SETS="$(SETS_TO_SANITIZE)")
	rm -rf build/sanitize/src && cp -R src build/sanitize && cp build/sanitize/_native.abi3.so build/sanitize/$(KERNEL)
	$(SANITIZED)
	if [ -n "$(SETS_TO_SANITIZE)" ]; then SCOREWISE_INSTRUCTION_SET=baseline $(SANITIZED); fi

lint: $(VENV)/.installed-dev  ## Check style, spelling, types and the direction of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.installed-dev  ## Format the code and mend what the linter can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev compiler  ## Measure speed and memory, as ratios in the same run.
	$(MAKE) extension
	$(BIN)/python benchmarks/decompose.py $(ARGS)
	$(BIN)/python benchmarks/arrays.py $(ARGS)
	$(BIN)/python benchmarks/growth.py $(ARGS)
	$(BIN)/python benchmarks/models.py $(ARGS)
	$(BIN)/python benchmarks/curves.py $(ARGS)
	$(BIN)/python benchmarks/calibrate.py $(ARGS)
	$(BIN)/python benchmarks/active.py $(ARGS)
	$(BIN)/python benchmarks/files.py $(ARGS)
	$(BIN)/python benchmarks/scale.py $(ARGS)
	$(BIN)/python benchmarks/boosting.py $(ARGS)

reproduce: $(VENV)/.installed-dev  ## Install the paper's experiments, and write reproduction/page.md anew.
	$(BIN)/scorewise-paper report --results reproduction/results --out reproduction

docs: $(VENV)/.installed-docs  ## Build the site into out/docs: guides, examples and reference. Open out/docs/index.html.
	@mkdir -p out
	@$(MAKE) extension WERROR=OFF > out/extension.log 2>&1 || echo "The compiled kernel could not be built: see out/extension.log."
	$(BUILD_SITE)

site-anew:
	rm -rf $(BUILT_SITE) && $(BUILD_SITE)

clean:  ## Remove everything that make has made.
	rm -rf $(VENV) .venv-newest build out $(BUILT_SITE) $(KERNEL)/_native.*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
