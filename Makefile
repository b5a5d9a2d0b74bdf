# Every task sets up .venv by itself: Python 3.11 and make are all it needs (tools/bare_machine tries that).
# .empty has nothing installed, .made what users install, .spark Spark too, .ready what tests need, .servers what servers need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EMPTY := $(VENV)/.empty
MADE := $(VENV)/.made
SPARK := $(VENV)/.spark
READY := $(VENV)/.ready
SERVERS := $(VENV)/.servers
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --use-pep517 -c constraints.txt
# On a terminal pip shows how far it is.
QUIET := $(if $(MAKE_TERMOUT),,--quiet)
# What these extras and groups name comes without compiling: a machine with Python and make can install it.
EXTRAS := duckdb,spark,jre,delta,iceberg,postgresql,connect,kafka,s3,azure,gs,hdfs,browse
GROUPS := --group dev --group docs
# What only tests on servers need; the library for AMQP is compiled where it is installed.
SERVER_EXTRAS := amqp
# These tests wait for servers about as much as they work. With four processes, two cores are so busy that servers answer late.
SERVER_WORKERS := 3
# Others wait now and then, for Spark or a process: one more than there are cores keeps all of these busy.
TEST_WORKERS = $$($(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
EXAMPLES := quarter
# Some environments forbid compiled modules; tests start a thousand short commands, which would each compile what they import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-spark test test-servers test-all test-fast test-kernels test-pythons native check fix conformance modules docs release bench clean

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name what; do \
		printf 'make %-12s %s\n' "$$name" "$$what"; done

demo: $(MADE) ## sample messages into a trail and into tables, then the same with Delta and on Spark
	@$(BIN)/trailgate demo --no-spark
	@$(MAKE) --no-print-directory demo-spark

demo-spark: $(SPARK)
	@$(BIN)/trailgate demo --only-spark
	@echo "# Compiling the loops for this machine, which larger captures would wait for:"
	@$(BIN)/trailgate warm

test: $(READY) ## all tests that start no server, the ones on a real Spark too
	@$(BIN)/trailgate warm
	$(BIN)/python -m pytest -q -rs -n $(TEST_WORKERS) --dist loadgroup -m "not servers" --hypothesis-profile $(EXAMPLES)

test-servers: $(SERVERS) ## the tests with brokers, stores, HDFS and clusters, and kills by the dozen
	@$(BIN)/trailgate warm
	$(BIN)/python -m pytest -q -rs -n $(SERVER_WORKERS) --dist loadgroup -m servers

test-all: EXAMPLES = full
test-all: export TRAILGATE_EVERY = 1
test-all: export TRAILGATE_KILLS = 20
test-all: test test-servers ## all tests, with faults at every place and 5,000 histories of each class (a night)

test-fast: $(READY) ## the tests that need no Spark and no minutes
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not spark and not slow" --hypothesis-profile fast

# Tests that run no loop of the product.
NO_KERNELS := columnar/compiling/test_checked_kernel.py cobol/copybook messages/properties/test_properties.py trail/annotation trail/format trail/records
test-kernels: $(READY) native ## numba's loops with their bounds checked, then native ones, compared with numba's and plain Python
	@TRAILGATE_LOOPS=numba NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.numba-bounds $(BIN)/trailgate warm
	TRAILGATE_LOOPS=numba NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.numba-bounds $(BIN)/python -m pytest -q -n auto --dist worksteal \
		-m "not spark and not slow" --hypothesis-profile fast $(addprefix --ignore=tests/,$(NO_KERNELS) columnar/compiling/test_native.py) tests/columnar tests/cobol tests/model tests/messages tests/formats tests/capture tests/trail \
		tests/brokers/test_stomp_frames.py tests/brokers/test_amqp_messages.py
	@TRAILGATE_LOOPS=numba $(BIN)/trailgate warm
	TRAILGATE_LOOPS=native TRAILGATE_COMPARED=1 $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not spark and not slow" \
		--hypothesis-profile fast $(addprefix --ignore=tests/,$(NO_KERNELS)) tests/columnar tests/cobol/values tests/formats/delimited tests/formats/xml/test_xml_scanner.py tests/trail \
		tests/test_native_wheel.py tests/formats/json tests/formats/debezium tests/model/test_transactions.py tests/formats/publications tests/brokers/test_stomp_frames.py tests/brokers/test_amqp_messages.py

# The loops that a wheel contains, for this checkout: a loop whose code is changed later is compiled by numba again.
native: $(READY) ## build native loops in place (a C compiler, and two minutes)
	@$(BIN)/python tools/build_loops.py

check: $(READY) ## lint, format, types, and the imports between packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(READY) ## format, and repair what lint can repair
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

conformance: $(READY) ## write docs/conformance.md from tests/conformance/*.toml
	$(BIN)/python tests/conformance/statements.py

modules: $(READY) ## write docs/modules.md from the first lines of the modules
	$(BIN)/python tools/list_modules.py

docs: $(READY) ## build the documentation site into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test-pythons: $(READY) ## a built wheel on each Python that is here, with the newest and the oldest packages (half an hour)
	$(BIN)/python tools/pythons.py
	TRAILGATE_RELEASES=1 $(BIN)/python -m pytest -q -rs tests/test_versions.py tests/test_private_parts.py

release: $(READY) ## build the sdist, the wheels and the bill of materials into dist/, and compare two builds
	@$(INSTALL) --quiet --group release
	$(BIN)/python tools/release.py $(RELEASE)

bench: $(READY) ## measure, each figure beside its yardstick
	$(BIN)/python -m benchmarks

clean: ## remove .venv and the tools' caches
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .numba-bounds

# Debian keeps ensurepip in a package of its own. Without it, pip of the system (python3-pip)
# installs into the environment from outside; without that too, say which package is missing.
$(EMPTY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 ..." >&2; exit 1; }
	@rm -rf $(VENV)
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
		$(PYTHON) -m venv $(VENV); \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --without-pip $(VENV) \
		&& $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; \
	else \
		echo "This Python has neither ensurepip nor pip. On Debian: apt install python3-venv" >&2; \
		exit 1; \
	fi
	@touch $(EMPTY)

$(MADE): $(EMPTY)
	@echo "# Installing Trailgate: 150 MB, without Spark"
	@$(INSTALL) $(QUIET) --no-compile -e '.[duckdb]'
	@touch $(MADE)

$(SPARK): $(EMPTY)
	@echo "# Installing Spark, a Java for it, and Delta: 650 MB"
	@$(INSTALL) $(QUIET) --no-compile -e '.[duckdb,spark,jre,delta]'
	@touch $(MADE) $(SPARK)

# Groups need a newer pip than that of Debian 12. Modules are compiled when they are first imported: tests import few of all.
$(READY): $(EMPTY)
	@echo "# Installing Trailgate, Spark, and what tests need: 1 GB"
	@$(INSTALL) --quiet pip
	@$(INSTALL) $(QUIET) --no-compile -e '.[$(EXTRAS)]' $(GROUPS)
	@touch $(MADE) $(SPARK) $(READY)

$(SERVERS): $(READY)
	@$(INSTALL) --quiet -e '.[$(EXTRAS),$(SERVER_EXTRAS)]' $(GROUPS) --group browser || { \
		echo "The library for AMQP is compiled here. On Debian: apt install gcc pkg-config python3-dev libssl-dev" >&2; \
		exit 1; \
	}
	@touch $(SERVERS)
