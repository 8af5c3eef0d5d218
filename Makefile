# make demo: set up, fetch the default model, look at a sentence. make test: every test. make check: the rest.
# make release: build a wheel and an sdist, and check whether they could be released.
# make docs: the site, into build/site; make docs LINKS=1 fetches external links too.
# make test WORKERS=4: in so many processes; 0 = in one, which pdb asks for. What fails beside others runs again alone.
# make kernel: build the CPU kernel beside the Python sources, by hand (setting up does it too).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
READY := $(VENV)/.ready
SENTENCE := The animal didn't cross the street because it was too tired

CODE := src tests benchmarks evidence release docs/conf.py docs/inside.py docs/site
SPHINX := $(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -c docs

KERNEL := kernel/CMakeLists.txt $(wildcard kernel/*.cpp kernel/*.h kernel/*.inl)

.PHONY: demo test check format docs kernel bench release clean

demo: $(READY)
	$(BIN)/headwise look "$(SENTENCE)"

test: $(READY)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile || \
		{ [ $$? -eq 1 ] && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

check: $(READY)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/house -m "not models"

format: $(READY)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt ".[bench]"
	$(BIN)/python benchmarks

release: $(READY)
	$(BIN)/pip install --quiet --constraint constraints.txt build twine
	$(BIN)/python release/check.py

docs: $(READY)
	rm -rf build/site
	SITE_LANGUAGE=en $(SPHINX) -b html -d build/pages-en . build/site
	SITE_LANGUAGE=zh-CN $(SPHINX) -b html -d build/pages-zh . build/site/zh-CN
	$(BIN)/python docs/site/links.py build/site
ifdef LINKS
	SITE_LANGUAGE=en $(SPHINX) -b linkcheck -d build/pages-en . build/links
	SITE_LANGUAGE=zh-CN $(SPHINX) -b linkcheck -d build/pages-zh . build/links-zh
endif
	@echo "The site: build/site/index.html"

kernel:
	cmake -S kernel -B build/kernel -DPython_EXECUTABLE="$(shell command -v $(PYTHON))"
	cmake --build build/kernel

$(READY): pyproject.toml constraints.txt $(KERNEL)
	@echo "Installing into $(VENV): about 1.5 GB with PyTorch, some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev,docs]"
	touch $(READY)
	@echo "Installed into $(VENV)"

clean:
	rm -rf $(VENV) build dist src/headwise/_kernel*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	cd kernel && rm -rf CMakeFiles CMakeCache.txt CMakeInit.txt cmake_install.cmake build.ninja libnanobind-static.a
