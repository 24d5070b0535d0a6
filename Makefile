# Each target sets itself up from nothing: a virtual environment, the pinned packages, the project.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SHELL := bash

.PHONY: quickstart test test-oldest test-middle test-newest test-processors test-gpu test-slow lint types docs wheel

quickstart: $(VENV)/installed
	$(BIN)/python train.py fit --config quickstart

test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# The suite with the lowest, middle and newest releases that pyproject.toml allows. Warnings of libraries
# that know nothing of each other are no errors there. The pins may pass what pip is configured to allow.
TESTS ?=
test-oldest test-middle test-newest: test-%: $(VENV)/%/installed
	OMP_NUM_THREADS=1 $(VENV)/$*/bin/python -m pytest -n 2 --dist worksteal --override-ini filterwarnings=default $(TESTS)

$(VENV)/%/installed: constraints-%.txt pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)/$*
	PIP_CONSTRAINT=constraints-$*.txt $(VENV)/$*/bin/python -m pip install --quiet --no-compile --editable '.[onnx,faiss,mteb,test]'
	touch $@

# Two processes as different processors, and the numeric tests as other processors run them: instruction
# sets of torch, of oneDNN, threads.
PROCESSORS ?= default:SSE41:1 avx2:AVX2:2 default:AVX2:4
NUMERIC ?= $(addprefix tests/,encoders experiments extras flows maps methods tasks training vectors)
test-processors: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow tests/test_processors.py
	set -e; for processor in $(PROCESSORS); do \
		IFS=: read -r torch onednn threads <<< $$processor; \
		old=$$([ $$torch = avx2 ] || echo MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem); \
		echo "torch $$torch, oneDNN $$onednn, $$threads threads"; \
		env ATEN_CPU_CAPABILITY=$$torch ONEDNN_MAX_CPU_ISA=$$onednn $$old \
			OMP_NUM_THREADS=$$threads OMP_WAIT_POLICY=passive \
			$(BIN)/python -m pytest -n 2 --dist worksteal $(NUMERIC); \
	done

# The tests that need a CUDA device.
test-gpu: $(VENV)/installed-dev
	@if $(BIN)/python -c "import torch; raise SystemExit(not torch.cuda.is_available())"; \
	then $(BIN)/python -m pytest -m gpu; \
	else echo "no GPU: torch finds no CUDA device, and the tests marked gpu are not run"; fi

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

# Documents and API reference as a site. A warning, a broken link, or an unknown name of the project is an error.
docs: $(VENV)/installed-dev
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going -c docs . build/docs
	@echo "open file://$(CURDIR)/build/docs/docs/index.html"

# The wheel, in an environment that sees the packages of VENV but not this folder, runs the quickstart.
WHEEL := $(abspath $(VENV))/wheel
wheel: $(VENV)/installed
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

$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	touch $@
