# make demo | make lab | make test: all that a newcomer needs. Everything is installed into .venv and nowhere else.
GOOD := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do $$p $(GOOD) 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo lab test python
help:
	@echo "make demo   diagnose the recorded 35-hour run, print the findings, write postmortem.html"
	@echo "make lab    open the start notebook in JupyterLab"
	@echo "make test   run all tests"

demo: $(VENV)/runtime
	@$(BIN)/python -m diag_kit diagnose eagle3-35h -o postmortem.html
	@echo "next: open postmortem.html in a browser; make lab for the notebooks; on your host: $(BIN)/python -m diag_kit diagnose HOST"

lab: $(VENV)/runtime
	@$(BIN)/jupyter lab notebooks/00_start_here.ipynb

test: $(VENV)/tests
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

python:
	@{ [ -n "$(PYTHON)" ] && command -v "$(PYTHON)" >/dev/null 2>&1; } || \
	  { echo "diag_kit needs Python 3.11 or newer and found none$(if $(PYTHON), at $(PYTHON)); install it, or name one: make demo PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" $(GOOD) 2>/dev/null || \
	  { echo "diag_kit needs Python 3.11 or newer, and $(PYTHON) is older; name a newer one: make demo PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module; install it (Debian, Ubuntu: apt-get install python3-venv) and try again" >&2; exit 1; }

$(VENV)/runtime: requirements.txt pyproject.toml | python
	@[ -x $(BIN)/python ] || { echo "creating $(VENV)"; "$(PYTHON)" -m venv $(VENV); }
	@echo "installing diag_kit and what it needs into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/tests: $(VENV)/runtime
	@echo "installing what the tests need into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@
