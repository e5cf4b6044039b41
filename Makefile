# What CI calls, and nothing else: .ci/run uses these targets word for word.
# A bare checkout needs python3 (3.11 or newer, with venv) and make; everything else is installed into .venv, by hash.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
UV     := build/uv/bin/uv

# Tests start hundreds of processes; without cached bytecode each of them compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show these targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

# The dependencies are installed again only when the lock changes, the project itself when its metadata does.
$(VENV)/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "error: Python 3.11 or newer is needed (%s is %s). Name one: make PYTHON=python3.11 ..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(VENV)/.installed ## Make .venv with everything that is needed

.PHONY: accept
accept: setup ## The main job: every scenario against our own stand-ins
	$(BIN)/harness run

.PHONY: test
test: setup ## The tests
	$(BIN)/pytest -n 2 --dist loadfile tests

$(VENV)/.fleet: tests/fleet/requirements.txt $(VENV)/.installed
	$(PIP) install --quiet --no-deps --require-hashes -r $<
	@touch $@

.PHONY: test-postgres
test-postgres: setup ## The store's contract and every scenario on PostgreSQL, two gateway processes on one database (red where it is missing)
	$(BIN)/pytest --timeout 1200 postgres_tests

.PHONY: test-fleet
test-fleet: setup $(VENV)/.fleet ## A fleet on a Dask cluster of processes: the same result as on a process pool
	$(BIN)/pytest tests/fleet/on_cluster.py
	$(BIN)/python tests/fleet/measure.py

.PHONY: scenarios
scenarios: setup ## The second door: the same scenarios as pytest items
	$(BIN)/pytest -n 2 scenarios

# Software of others runs in an environment of its own; the copy of its lock is written last, so that a torn one is made again.
.real/%/.locked: harness/local/%-requirements.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r $<
	@cp $< $@

# The same for software from npm; no script of a package is run.
.real/npm/%/.locked: real/npm/%/package-lock.json
	rm -rf $(@D)
	mkdir -p $(@D)
	cp real/npm/$*/package.json $< $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@cp $< $@

REAL_DRIFT := .real/papr/.locked .real/npm/sarif/.locked .real/npm/everything-old/.locked .real/npm/everything-new/.locked .real/npm/memory/.locked

.PHONY: real
real: setup .real/mem0/.locked $(REAL_DRIFT) ## A vendor's own server, untouched, behind tap and gateway (level local)
	$(BIN)/harness run scenarios/local --level local
	$(BIN)/pytest real

.PHONY: honcho
honcho: setup $(UV) ## Honcho's own stack from a checkout (SRC=...), behind tap and gateway: MEM-5 at level local
	$(BIN)/python tools/honcho.py $(SRC)
	$(BIN)/harness run scenarios/memory/MEM-5.yaml --level local --protocol 2025-11-25

# The official suite and a Node to run it; no script of a package is run.
.real/conformance/.locked: conformance/package-lock.json
	rm -rf $(@D)
	mkdir -p $(@D)
	cp conformance/package.json $< $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@cp $< $@

.PHONY: conformance
conformance: setup .real/conformance/.locked ## The official MCP conformance suite against our upstream client and our gateway
	$(BIN)/python -m conformance client server

$(VENV)/.secrets: tools/secrets-requirements.txt $(VENV)/.installed
	$(PIP) install --quiet --no-deps --require-hashes -r $<
	@touch $@

.PHONY: secrets
secrets: setup $(VENV)/.secrets ## gitleaks over all that is committed, and over a planted control, which must be found
	$(BIN)/python tools/scan_secrets.py
	$(BIN)/python -m torture canaries --scale short

ROUNDS ?= 1

.PHONY: test-replay
test-replay: setup ## Every committed cassette played with the network unplugged, serially and with -n 2 (ROUNDS=5 for five orders)
	unshare --user --map-root-user --net $(BIN)/python tools/replay_offline.py $(ROUNDS)

.PHONY: test-relay
test-relay: setup ## What needs namespaces: an agent in a sandbox behind the relay (red where the kernel forbids them)
	$(BIN)/harness run scenarios/relay
	$(BIN)/pytest relay_tests

$(VENV)/.browser: browser_tests/requirements.txt $(VENV)/.installed
	$(PIP) install --quiet --no-deps --require-hashes -r $<
	@touch $@

.real/npm/axe/.locked: browser_tests/package-lock.json
	rm -rf $(@D)
	mkdir -p $(@D)
	cp browser_tests/package.json $< $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@cp $< $@

.real/npm/allure/.locked: browser_tests/allure/package-lock.json
	rm -rf $(@D)
	mkdir -p $(@D)
	cp browser_tests/allure/package.json $< $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@cp $< $@

.PHONY: test-browser
test-browser: setup $(VENV)/.browser .real/npm/axe/.locked .real/npm/allure/.locked ## Report and console in a real browser (red where there is no chromium)
	$(BIN)/pytest -rP browser_tests

.PHONY: gateways-light
gateways-light: setup ## Gateways of other people (FastMCP, mcp-proxy, ctrlrun), unchanged, judged as written down
	$(BIN)/pytest -n 2 --dist worksteal gateways/test_light.py

.PHONY: gateways
gateways: setup ## The same for all of them, with ContextForge and LiteLLM (nightly: half an hour and 1 GB of installations)
	$(BIN)/pytest -n 2 --dist worksteal gateways/test_light.py
	$(BIN)/pytest gateways/test_heavy.py

.PHONY: torture
torture: setup ## Every promise tried thousands of times, each with a control that must break (an hour)
	$(BIN)/python -m torture --scale full
	$(BIN)/harness run MEM-1 --protocol 2026-07-28 --report none --reports-dir build/torture
	$(BIN)/python tools/torture_bundles.py build/torture/latest/evidence.jsonl

.PHONY: torture-short
torture-short: setup ## The same a few times each: that it holds, and that every control still breaks
	$(BIN)/python -m torture --scale short

.PHONY: triage
triage: setup ## Forty nights with known causes; prints the confusion matrix of the triage
	$(BIN)/python -P tools/triage_matrix.py

.PHONY: lint
lint: setup ## Style
	$(BIN)/ruff check

.PHONY: types
types: setup ## Strict types
	$(BIN)/mypy

.PHONY: contracts
contracts: setup ## Who may import whom, and how large a module or function may be
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/pytest tests/repo

.PHONY: docs
docs: setup ## Regenerate the pages that come from the code
	$(BIN)/python tools/make_docs.py
	$(BIN)/python tools/make_drift_docs.py

.PHONY: wheel-check
wheel-check: setup ## Build the wheel, install it alone elsewhere, run a scenario from it
	PYTHON=$(PYTHON) tools/wheel_check.sh

.PHONY: lock
lock: $(UV) ## Resolve requirements.lock anew
	$(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra dev pyproject.toml -o requirements.lock

$(UV):
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip --disable-pip-version-check install --quiet uv

.PHONY: clean
clean: ## Remove what was installed and written
	rm -rf $(VENV) .real dist build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find reports -mindepth 1 ! -name README.md -delete

.PHONY: bench
bench: setup ## Measure gateway and harness side by side; prints one table, fails for no figure
	$(BIN)/python -m bench

.PHONY: mutants
mutants: setup ## Break copies of the gateway in small ways; prints the share that tests and scenarios notice
	$(BIN)/python tools/mutants.py
