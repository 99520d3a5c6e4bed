# The ways into the project: `make demo` and `make test` need python3 with venv, a C++ compiler and make, nothing else.

PYTHON ?= python3

# Which torch the virtual environment gets. Any build from 2.10 on will do, and pip takes what fits the machine; for a
# certain one name its index too, for example the CPU build:
#   make demo TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: venv demo test lint clean
.DEFAULT_GOAL := demo

venv: $(READY)

# torch comes first and alone, so that nothing chooses another build of it; what is there already stays as it is.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(TORCH)
	$(BIN)/python -m pip install -e ".[demo,cmake,setuptools,test,dev]"
	touch $@

demo: $(READY)
	$(BIN)/opsmith demo

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The virtual environment stays: it takes minutes to download. `rm -r .venv` removes it.
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
