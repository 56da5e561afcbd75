# Everything a person needs on a fresh machine with Python 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8050
# What the recording tests need; with TORCH= they are skipped.
TORCH ?= torch==2.13.0

.PHONY: help serve test lint format types bench proto samples clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

serve: $(VENV)/.installed  ## serve the bundled samples on http://127.0.0.1:8050
	$(BIN)/chakra-dashboard serve --port $(PORT)

test: $(VENV)/.test $(VENV)/.browser  ## run every test, the browser's too
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.test  ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test  ## rewrite files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	$(BIN)/python -m dashboard.warm
	touch $@

$(VENV)/.test: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]' $(TORCH)
	touch $@ $(VENV)/.installed

$(VENV)/.browser: tests/find_browser.sh
	sh tests/find_browser.sh
	mkdir -p $(VENV) && touch $@

bench: $(VENV)/.test $(VENV)/.browser  ## measure everything beside floors and peers; writes tests/benchmarks/RESULTS.md
	$(BIN)/python -m tests.benchmarks $(ARGS)

proto: $(VENV)/.test  ## rebuild the generated protobuf modules
	$(BIN)/python -m grpc_tools.protoc -I chakra_core/readers/proto --python_out=chakra_core/readers/proto chakra_core/readers/proto/*.proto

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
