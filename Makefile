# Each target sets itself up from nothing: a virtual environment, the pinned packages, the project.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: quickstart test test-alone test-slow test-wheel reference lint types clean

quickstart: $(VENV)/installed
	$(BIN)/python train.py fit --config configs/quickstart.yaml

test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# Several processes against one, runs that are killed, memory that does not grow with the corpus, encoders that learn,
# pages in a browser, the documents' snippets: one by one.
test-alone: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m alone

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

# The wheel, in an environment that sees the packages of VENV but not this folder, runs the quickstart from there.
WHEEL := $(abspath $(VENV))/wheel
test-wheel: $(VENV)/installed
	rm -rf build/lib build/bdist* $(WHEEL)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(WHEEL) .
	rm -rf build/lib build/bdist*
	$(BIN)/python tools/check_wheel.py $(WHEEL)/*.whl
	$(PYTHON) -m venv --without-pip $(WHEEL)/venv
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
		$$($(WHEEL)/venv/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/packages.pth
	$(BIN)/python -m pip --python $(WHEEL)/venv/bin/python install --quiet --no-deps --no-index $(WHEEL)/*.whl
	cd $(WHEEL) && venv/bin/python -c "import flowbert, sys; assert flowbert.__file__.startswith(sys.prefix), flowbert"
	cd $(WHEEL) && FLOWBERT_CACHE=$(WHEEL)/cache venv/bin/flowbert fit --config quickstart

# Strict: a warning, or a reference to a name of ours that there is not, is an error.
reference: $(VENV)/installed-dev
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going docs/reference build/reference
	@echo "open build/reference/index.html"

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
