# `make demo`, `make detect` and `make test` need only python3 with venv, a C++ compiler and make; they install all else into
# .venv.

PYTHON ?= python3

# The torch of the virtual environment: any build since 2.10. By default pip selects one for the machine; for another, name
# its index too, for example for the CPU build:
#   make venv TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

# More arguments for pytest, such as "-m 'not slow'" or "-n 1".
PYTEST_FLAGS ?=

# Each worker goes through files of its own from beginning to end, so that what a file's first test builds, loads and
# traces is there for the others; a worker that is done takes tests over from one that is not.
PYTEST := -m pytest -n auto --dist worksteal --durations 25 --durations-min 5

# Where a machine turns bytecode off, hundreds of processes and pytest itself would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help venv demo detect bytecode test test-all test-everything test-slow test-nightly test-without-bridge test-torches mutants planted judge-suite gpu-judge-suite fuzz upstream-test upstream-test-vision lint docs bench gpu-test gpu-sanitize gpu-demo gpu-bench gpu-session scale-bench clean

help:
	@echo "make demo      build an LLTM three ways, check, time and train it; report in build/demo"
	@echo "make detect    train a small Mask R-CNN on handwritten digits; pictures and report in build/detection"
	@echo "make test      the tests, in minutes; make test-all adds the slow ones"
	@echo "make lint      ruff, mypy, import contracts, clang-format, spelling and style, generated tables"
	@echo "make docs      the documentation as a site, in build/site"
	@echo "make bench     the figures of README and docs, by benchmarks/suite.toml"
	@echo "make gpu-test, gpu-sanitize, gpu-demo, gpu-bench, gpu-session, scale-bench   what needs a GPU, with the packages of PYTHON as they are"
	@echo "make venv, make clean"

venv: $(READY)

# torch is installed first, on its own, so that no dependency selects another build; an installed one is kept. pip would
# compile bytecode on one core, for a minute. It is not made of what few processes import or is compiled already, and some
# packages have files for other versions of Python, which do not compile.
RARELY := moto|botocore|fontTools|debugpy|jedi|matplotlib|mypy|mypyc|networkx|pip|sklearn|aiohttp

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile $(TORCH)
	$(BIN)/python -m pip install --no-compile -e ".[demo,cmake,setuptools,test,dev,docs]"
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/|site-packages/($(RARELY))/' $(VENV)/lib || true
	touch $@

demo: $(READY)
	$(BIN)/opsmith demo

# On the CPU, in minutes; it fails if the masks that it finds are not good enough. DETECT_FLAGS are the demo's options, such as
# "--device cuda --config examples/detection/configs/digits.yaml".
DETECT_FLAGS ?= --device cpu

detect: $(READY)
	PYTHONPATH=examples/detection $(BIN)/python -m opsmith_detection demo $(DETECT_FLAGS)

bytecode: $(READY)
	$(BIN)/python -m compileall -q src

# These tests need no GPU, and see none: many fork, which a process that has used a GPU cannot. `make gpu-test` has the rest.
test test-everything test-slow test-nightly test-without-bridge: export CUDA_VISIBLE_DEVICES :=
test test-everything test-slow test-nightly test-without-bridge: export HIP_VISIBLE_DEVICES :=

# Minutes: everything but what is marked `slow` or `nightly`. Times by test go to build/test.xml; tests/durations.py adds them up.
test: $(READY) bytecode
	$(BIN)/python $(PYTEST) -m "not slow and not nightly" --junitxml build/test.xml $(PYTEST_FLAGS)

# What CI runs for each change: all but what is marked `nightly`, in one session, which has to start once; and the path in
# Python, which serves until the bridge is built. NIGHTLY=2/5 adds a fifth of what is marked so.
NIGHTLY ?=

test-all: test-everything test-without-bridge

test-everything: $(READY) bytecode
	$(BIN)/python $(PYTEST) $(if $(NIGHTLY),--nightly $(NIGHTLY),-m "not nightly") --junitxml build/test-all.xml $(PYTEST_FLAGS)

test-slow: $(READY) bytecode
	$(BIN)/python $(PYTEST) -m "slow and not nightly" --junitxml build/test-slow.xml $(PYTEST_FLAGS)

# What would make CI longer than half an hour, and fails rarely: `python tests/slow_tests.py` lists it with its reasons.
test-nightly: $(READY) bytecode
	$(BIN)/python $(PYTEST) -m nightly --junitxml build/test-nightly.xml $(PYTEST_FLAGS)

# Gradients, mutation and autocast; what torch traces does not call the bridge.
test-without-bridge: $(READY) bytecode
	OPSMITH_BRIDGE=off $(BIN)/python $(PYTEST) -m "not slow and not nightly" --junitxml build/test-without-bridge.xml $(PYTEST_FLAGS) \
	  @tests/without_bridge.txt

# The tests under each torch since 2.10, in virtual environments that come and go: what CI does every night.
# TORCHES="2.11.0 2.15.0" selects, and EACH_TORCH_FLAGS are the program's options.
TORCHES ?=
EACH_TORCH_FLAGS ?=

test-torches:
	$(PYTHON) tests/each_torch.py $(TORCHES) $(EACH_TORCH_FLAGS)

# What the tests are worth: how many of forty planted faults they find. An hour.
mutants: $(READY)
	$(BIN)/python tests/mutants/run.py

# What `opsmith check` finds: every planted defect by its name, and nothing in correct operators, for five seeds. Hours on two
# processors; a run that was killed goes on where it was. PLANTED_FLAGS are the program's options, such as "--seeds 0".
PLANTED_FLAGS ?=

planted: $(READY) bytecode
	$(BIN)/python tests/checker/planted/score.py --json build/planted.json $(PLANTED_FLAGS)

# What `opsmith judge` says of every cheat and honest candidate that this machine can run, beside a plain judge. A run that
# was killed goes on where it was. JUDGE_FLAGS are the program's options, such as "--needs cpu --jobs 2"; with a GPU, use
# `make gpu-judge-suite`.
JUDGE_FLAGS ?=

judge-suite: $(READY) bytecode
	$(BIN)/python tests/judging/suite/score.py --json build/judge-suite.json $(JUDGE_FLAGS)

gpu-judge-suite:
	PYTHONPATH=src $(PYTHON) tests/judging/suite/score.py --json build/judge-suite.json $(JUDGE_FLAGS)

# An hour of inputs that nobody thought of; `make test` has the same few of them each time. With FUZZ_SANITIZER=address or
# undefined the operators are built with that sanitizer.
FUZZ_SECONDS ?= 3600
FUZZ_SANITIZER ?=

fuzz: $(READY) bytecode
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS) $(addprefix --sanitizer ,$(FUZZ_SANITIZER))

# PyTorch's own tests of torch.utils.cpp_extension, against the drop-in: make upstream-test PYTORCH=path/to/pytorch
upstream-test: $(READY)
	$(BIN)/python -m pip install -q expecttest hypothesis
	$(BIN)/python tests/upstream/run.py $(PYTORCH)

# torchvision's own tests of its operators, with these in their place, on the machine's own PyTorch and torchvision, which
# must be there: make upstream-test-vision VISION=path/to/vision
upstream-test-vision:
	PYTHONPATH=src $(PYTHON) tests/upstream/vision.py $(VISION)

# In parts, for `make -j`: mypy takes as long as all others together.
LINT := lint-style lint-types lint-imports lint-format lint-spelling lint-tables lint-pages

.PHONY: $(LINT)
lint: $(LINT)

lint-style: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-types: $(READY)
	$(BIN)/mypy
	cd examples/detection && $(CURDIR)/$(BIN)/python -m mypy

lint-imports: $(READY)
	$(BIN)/lint-imports

lint-format: $(READY)
	git ls-files '*.cpp' '*.cu' '*.cuh' '*.h' ':!tests/codegen/expected' | xargs $(BIN)/clang-format --dry-run --Werror

lint-spelling: $(READY)
	git ls-files | xargs $(BIN)/codespell
	$(BIN)/python docs/style.py

lint-tables: $(READY)
	$(BIN)/python benchmarks/tables.py --check

lint-pages: $(READY)
	$(BIN)/python docs/generate.py --check

# The documentation as a site, in build/site: warnings are errors, and so are links that lead nowhere. Open index.html. Not
# with --quiet, which takes warnings from --strict as well.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The figures of README and docs for the CPU, as benchmarks/suite.toml lists them: half an hour on an otherwise idle machine.
# BENCH="mlp nms" runs those alone. The tables are made in any case, from the results that are there.
BENCH ?=

bench: $(READY)
	$(BIN)/python benchmarks/run.py $(BENCH); failed=$$?; $(BIN)/python benchmarks/tables.py && exit $$failed

# A GPU machine may be offline and have its own torch: nothing is installed there.
gpu-test:
	PYTHONPATH=src $(PYTHON) -m pytest -m "gpu and not sanitizer" $(PYTEST_FLAGS)

# Every operator under each tool of compute-sanitizer.
gpu-sanitize:
	PYTHONPATH=src $(PYTHON) -m pytest -m sanitizer $(PYTEST_FLAGS)

gpu-demo:
	PYTHONPATH=src $(PYTHON) -m opsmith demo

gpu-bench:
	PYTHONPATH=src $(PYTHON) benchmarks/run.py --device cuda $(BENCH)

# What changes need that have not run on a GPU, on all GPUs of a machine side by side; results are in $(OUT)/session.tgz.
OUT ?= build/gpu-session

gpu-session:
	$(PYTHON) benchmarks/gpu_session.py benchmarks/gpu_session.toml --output $(OUT)

# How examples/detection scales over the GPUs of this machine: make scale-bench GPUS=4
GPUS ?= 2
SCALE_FLAGS ?= --output benchmarks/results/detection_scaling.json

scale-bench:
	PYTHONPATH=src $(PYTHON) benchmarks/detection_scaling.py --gpus $(GPUS) $(SCALE_FLAGS)

# The virtual environment stays: it takes minutes to download. `rm -r .venv` removes it.
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
