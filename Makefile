# make demo: set up, fetch the default model, look at a sentence. make test: every test. make check: the rest.
# make test WORKERS=4: in so many processes, each with about 3 GB of memory; 0 = in one, which pdb asks for.
# make kernel: build the CPU kernel beside the Python sources, by hand (setting up does it too).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
READY := $(VENV)/.ready
SENTENCE := The animal didn't cross the street because it was too tired

KERNEL := kernel/CMakeLists.txt $(wildcard kernel/*.cpp kernel/*.h kernel/*.inl)

.PHONY: demo test check format kernel bench clean

demo: $(READY)
	$(BIN)/headwise look "$(SENTENCE)"

test: $(READY)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks evidence
	$(BIN)/ruff check src tests benchmarks evidence
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house -m "not models"

format: $(READY)
	$(BIN)/ruff format src tests benchmarks evidence
	$(BIN)/ruff check --fix src tests benchmarks evidence

bench: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt ".[bench]"
	$(BIN)/python benchmarks

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
