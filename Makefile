# Needs make and a python3 (3.11 or newer) with venv. Everything else goes into .venv.

PYTHON ?= python3
ARGS ?=
# How many processes run tests at once. Many tests wait for servers and clocks of their own, so three pay on two cores.
TEST_PROCESSES ?= 3

BIN := .venv/bin
PIP := $(BIN)/python -m pip -q --disable-pip-version-check
DEV := .venv/.dev
BENCH := .venv/.bench
TOO_OLD := Hookfuse needs Python 3.11 or newer. Name one, as in: make test PYTHON=python3.12

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run demo example test check fmt bench ordeal docs

help:
	@echo 'Usage: make WORD [ARGS="..."]'
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1 \2/p' Makefile | \
		while read -r word line; do printf '  %-7s %s\n' "$$word" "$$line"; done

# Deliveries to this machine are allowed, so that the commands which the first start prints work.
run: $(DEV) ## Start the service; everything it keeps goes to hookfuse-data
	@HOOKFUSE_DATA_DIR="$${HOOKFUSE_DATA_DIR:-$(CURDIR)/hookfuse-data}" \
		HOOKFUSE_ALLOWED_NETWORKS="$${HOOKFUSE_ALLOWED_NETWORKS-127.0.0.1/32}" exec $(BIN)/hookfuse serve $(ARGS)

demo: $(DEV) ## Show the whole idea in one minute: six receivers, and one of them dies
	@exec $(BIN)/hookfuse demo $(ARGS)

example: $(DEV) ## Show a breaker of the library at work
	@$(BIN)/python examples/first_breaker.py

test: $(DEV) ## Run the tests; ARGS go to pytest, as in ARGS="-k policy"
ifeq ($(strip $(ARGS)),)
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --ignore tests/faults
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile tests/faults
else
	@$(BIN)/python -m pytest $(ARGS)
endif

check: $(DEV) ## Check style, format, types and layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

fmt: $(DEV) ## Format the code and mend what can be mended
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

bench: $(BENCH) ## Run the benchmarks; ARGS choose and tune them
	@$(BIN)/python -m benchmarks $(ARGS)

ordeal: $(DEV) ## Run the faults of delivery in their long form; ARGS choose, as in ARGS="F1 G1 --minutes 30"
	@$(BIN)/python -m tests.faults.long $(ARGS)

docs: $(DEV) ## Check the documentation by running its examples
	@$(BIN)/python -m pytest tests/public/test_docs.py $(ARGS)

# A changed package list starts from an empty .venv, so that nothing stays that is no longer asked for.
$(DEV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(TOO_OLD)")'
	@echo 'Preparing .venv (once, about a minute) ...'
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

$(BENCH): $(DEV)
	@echo 'Adding the libraries to compare with ...'
	@$(PIP) install -c constraints.txt -e '.[dev,bench]'
	@touch $@
