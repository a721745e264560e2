# Everything a person runs. The first call makes .venv from pyproject.toml, with the versions of $(LOCK); after that nothing
# touches the network, but for `lock` and the first `oldest`.
PYTHON ?= python3
ARGS   ?=
DATA   ?= ../shared/data
LOCK   ?= requirements/tested.txt
BIN    := .venv/bin
OLD    := .venv-oldest
STAMP  := .venv/.installed
PEERS  := .venv/.peers-installed
OTHERS := .venv/.quality-installed

# Each core takes its part of the tests in order, so that what a file shares is made once, and helps the others at the end.
SPREAD := -n auto --maxprocesses 8 --dist worksteal

# Compiled kernels are kept here between tests and between runs.
export PLAIT_CACHE_DIR ?= $(CURDIR)/.cache/plait
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo shell test test-all test-nightly oldest check bench quality paper docs gallery dist lock clean
.DEFAULT_GOAL := help

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP)  ## .venv with Plait and its development tools

demo: $(STAMP)  ## fit a small model of real data and explain a prediction (about 10 seconds)
	@$(BIN)/plait demo $(ARGS)
	@echo 'The command is $(CURDIR)/$(BIN)/plait; in the shell that `make shell` opens it is plait.' >&2

shell: $(STAMP)  ## a shell in which `plait` and `python` are those of .venv (exit or Ctrl-D leaves it)
	@VIRTUAL_ENV='$(CURDIR)/.venv' PATH='$(CURDIR)/$(BIN)':"$$PATH" "$${SHELL:-/bin/sh}" $(ARGS) || true

test: $(STAMP)  ## run the first tier of tests, about 5 minutes on two cores (ARGS="-k name" for some)
	$(BIN)/pytest $(SPREAD) --durations 20 $(ARGS)

test-all: $(STAMP)  ## run the second tier: large crosses, servers, kills, a browser, all pages and notebooks
	$(BIN)/pytest $(SPREAD) --durations 20 --tier thorough $(ARGS)

test-nightly: $(STAMP)  ## run the third tier, which takes hours
	$(BIN)/pytest $(SPREAD) --durations 20 --tier nightly $(ARGS)

oldest: $(OLD)/.installed  ## all tests with the oldest versions that pyproject.toml allows (ARGS as above)
	$(OLD)/bin/python -m pytest $(SPREAD) $(ARGS)

check: $(STAMP)  ## formatting, lint, types, direction of imports, docstrings of public objects
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.support.public

bench: $(PEERS)  ## compare time and memory with other packages, into docs/benchmarks.md (ARGS=--quick: minutes; ARGS=--fresh: measure all again)
	$(BIN)/python -m lab.bench $(ARGS)

quality: $(OTHERS)  ## compare predictions with other packages, into docs/quality.md (ARGS=--quick: minutes; ARGS=--fresh: measure all again)
	$(BIN)/python -m lab.quality $(ARGS)

paper: $(STAMP)  ## run the paper's experiments, into docs/paper.md (ARGS=--quick: minutes; ARGS=--fresh: measure all again)
	$(BIN)/python -m lab.paper $(if $(wildcard $(DATA)),--data $(DATA)) $(ARGS)

docs: $(STAMP)  ## the documentation as web pages, in site/ (no network needed)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'open site/index.html'

gallery: $(STAMP)  ## draw the charts of docs/gallery.md
	$(BIN)/python docs/build_site/gallery.py

dist: $(STAMP)  ## the wheel and the source archive, in dist/
	$(BIN)/hatchling build

lock: $(STAMP)  ## the newest versions of everything into requirements/tested.txt: test them, then commit it
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --no-annotate --no-emit-index-url \
	  --custom-compile-command 'make lock' --output-file requirements/tested.txt pyproject.toml

clean:  ## remove caches and build output (.venv stays)
	rm -rf .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site .venv-oldest
	find src tests lab examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml $(LOCK)
	@python=; \
	for candidate in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'Plait needs Python 3.11 or newer, and "$(PYTHON)" is not. Install one, or name it: make PYTHON=/path/to/python' >&2; exit 1; \
	fi; \
	if [ ! -x $(BIN)/pip ]; then echo "making .venv with $$python"; "$$python" -m venv .venv; fi
	$(BIN)/pip install --quiet $(if $(LOCK),--constraint $(LOCK)) --editable '.[dev]'
	@touch $@

$(OLD)/.installed: pyproject.toml $(STAMP)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(OLD)
	$(BIN)/uv pip install --quiet --python $(OLD)/bin/python --resolution lowest-direct --editable '.[dev]'
	@touch $@

# Other packages to compare with; one that does not install becomes a line of the page, not an error.
$(PEERS): $(STAMP)
	$(BIN)/python -m lab.harness.packages bench
	@touch $@

$(OTHERS): $(STAMP)
	$(BIN)/python -m lab.harness.packages quality
	@touch $@
