# make demo: set up, fetch the default model, look at a sentence. make test: every test. make check: the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SENTENCE := The animal didn't cross the street because it was too tired

.PHONY: demo test check format bench clean

demo: $(READY)
	$(BIN)/headwise look "$(SENTENCE)"

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house

format: $(READY)
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

bench: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt ".[bench]"
	$(BIN)/python benchmarks

$(READY): pyproject.toml constraints.txt
	@echo "Installing into $(VENV): about 1.5 GB with PyTorch, some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)
	@echo "Installed into $(VENV)"

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
