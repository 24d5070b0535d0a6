# Each target sets itself up from nothing: a virtual environment, the pinned packages, the project.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: quickstart test test-processes test-slow lint types clean

quickstart: $(VENV)/installed
	$(BIN)/python train.py fit --config configs/quickstart.yaml

test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# Training and evaluation on two processes against one: each starts processes of its own, so they run one by one.
test-processes: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests/cli/test_two_processes.py

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	touch $@
