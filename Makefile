PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test long oldest check docs picture clean

$(VENV)/.cli: pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit('fairbound needs Python 3.11 or newer: make PYTHON=python3.12' if sys.version_info < (3, 11) else 0)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable ".[cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.cli
	$(PIP) --editable ".[dev]"
	touch $@

# Trains on the embedded sample Adult until rows kept apart confirm the bound: by sex, then by race and sex crossed, under the tightest
# bound that its smallest group has room for (3,165 rows; docs/certificates.md). Any verdict is a success: 0 met, 1 violated, 3 not
# enough evidence.
demo: $(VENV)/.cli
	$(BIN)/fairbound fit --data adult --group sex --certify --constraint "demographic_parity <= 0.05" --out demo-out || \
	  case $$? in 1|3) ;; *) exit 1 ;; esac
	$(BIN)/fairbound fit --data adult --group race_binary,sex --cross --certify --constraint "demographic_parity <= 0.1" --out demo-out/race-and-sex || \
	  case $$? in 1|3) ;; *) exit 1 ;; esac

test: check
	$(BIN)/python -m pytest

long: check
	$(BIN)/python -m pytest --long

# The oldest versions that pyproject.toml allows, in an environment of their own, and what must work with them; numpy 1.26 rounds the
# last bit of a sum otherwise.
OLDEST := .venv-oldest
SMOKE := tests/unit/base tests/unit/rows tests/unit/tables tests/unit/solver tests/unit/optim tests/unit/cli/test_doors.py
oldest:
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/oldest.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --requirement $(OLDEST)/oldest.txt "pytest>=8" "hypothesis>=6.100"
	$(OLDEST)/bin/python -m pip install --quiet --no-deps --editable .
	$(OLDEST)/bin/python -m pytest --override-ini addopts= --override-ini filterwarnings=default -q -k "not last_bit" $(SMOKE)

check: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

# The site, in site/. A broken link or a public name without a docstring fails.
docs: $(VENV)/.cli
	$(PIP) --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The picture of the README: the demo's page in a browser.
picture: demo
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 \
	  --window-size=1200,1230 --screenshot="$(CURDIR)/docs/img/report.png" "file://$(CURDIR)/demo-out/report.html"

clean:
	rm -rf $(VENV) $(OLDEST) demo-out site .pytest_cache .ruff_cache .mypy_cache
