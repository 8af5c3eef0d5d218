# make demo: set up, fetch the default model, look at a sentence. make test: every test. make check: the rest.
# make release: build a wheel and an sdist, and check whether they could be released.
# make kernel: build the CPU kernel beside the Python sources, by hand (setting up does it too).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SENTENCE := The animal didn't cross the street because it was too tired

KERNEL := kernel/CMakeLists.txt $(wildcard kernel/*.cpp kernel/*.h kernel/*.inl)

.PHONY: demo test check format kernel bench release clean

demo: $(READY)
	$(BIN)/headwise look "$(SENTENCE)"

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks evidence release
	$(BIN)/ruff check src tests benchmarks evidence release
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house -m "not models"

format: $(READY)
	$(BIN)/ruff format src tests benchmarks evidence release
	$(BIN)/ruff check --fix src tests benchmarks evidence release

bench: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt ".[bench]"
	$(BIN)/python benchmarks

release: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt build twine
	$(BIN)/python release/check.py

kernel:
	cmake -S kernel -B build/kernel -DPython_EXECUTABLE="$(shell command -v $(PYTHON))"
	cmake --build build/kernel

$(READY): pyproject.toml constraints.txt $(KERNEL)
	@echo "Installing into $(VENV): about 1.5 GB with PyTorch, some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)
	@echo "Installed into $(VENV)"

clean:
	rm -rf $(VENV) build dist src/headwise/_kernel*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	cd kernel && rm -rf CMakeFiles CMakeCache.txt CMakeInit.txt cmake_install.cmake build.ninja libnanobind-static.a
