# Needs Python 3.11 or newer and nothing else; everything is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: demo test lint types layers tests golden bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## shrink the example program, then replay it from the lockfile
	$(BIN)/planish doctor
	cd examples && rm -f planish.lock && ../$(BIN)/planish opt lzss.c -o lzss.o
	cd examples && ../$(BIN)/planish opt lzss.c -o lzss.o --replay

test: lint types layers tests  ## everything that CI runs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

tests: $(STAMP)
	$(BIN)/pytest -n $(JOBS)

golden: $(STAMP)  ## rewrite the golden files from what the code gives now
	$(BIN)/pytest -n $(JOBS) tests/golden --update-golden

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist
