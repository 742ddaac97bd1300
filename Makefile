# Two commands do everything: `make quickstart` and `make test`. Both make their own .venv first.
# `--resume`: a second `make quickstart` goes on with the first one, wherever that was stopped.

PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(p) -c 'import sys; sys.version_info >= (3, 11) and print(sys.executable)' 2>/dev/null)))
PIP_INSTALL = .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INSTALL_INPUTS = pyproject.toml constraints.txt setup.cfg

# One thread: on shared cores OpenMP's waiting threads cost more than they bring. Offline: no test downloads a thing.
TEST_ENV = OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1
PYTEST = .venv/bin/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile

.PHONY: quickstart test test-all lint clean

quickstart: .venv/installed
	.venv/bin/agentrl train experiments/quickstart.yaml --resume

test: lint
	$(TEST_ENV) $(PYTEST) -m "not slow"

test-all: lint
	$(TEST_ENV) $(PYTEST)

# mypy reads folders, not setuptools' map of packages: build/typed shows it envs/ and prompts/ inside of agentrl/.
lint: .venv/installed-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	@rm -rf build/typed && mkdir -p build/typed/agentrl
	@ln -s $(CURDIR)/agentrl/* $(CURDIR)/envs $(CURDIR)/prompts build/typed/agentrl
	cd build/typed && ../../.venv/bin/mypy --config-file ../../setup.cfg --cache-dir ../../.mypy_cache -p agentrl

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "agentrl needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python $(INSTALL_INPUTS)
	$(PIP_INSTALL) -e .
	@touch $@

.venv/installed-dev: .venv/bin/python $(INSTALL_INPUTS)
	$(PIP_INSTALL) -e ".[dev]"
	@touch $@ .venv/installed
