# One entry point for everything. `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
# A process of tests that dies ends the run: what it was running failed, and xdist may wait for its rest for ever.
PARALLEL := -n $(WORKERS) --dist loadgroup --max-worker-restart 0

# Longer proofs, which have targets of their own: chaos, interop.
LONGER := --ignore tests/chaos/test_spark_kills.py --ignore tests/interop/test_stores.py \
	--ignore tests/interop/test_tables_on_stores.py --ignore tests/interop/test_iceberg_spark.py \
	--ignore tests/interop/test_iceberg_spark_manifests.py

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests and the demo start hundreds of processes, and each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup minio stores peers demo test lint type bench interop chaos fuzz mutants docs constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything in it, at the versions of constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lakehouse needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(forget_old_name)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]'
	@touch $@

minio: ## Build the MinIO server that tests and demo use (once; without Go they use moto)
	@tools/build_minio.sh || echo "MinIO could not be built, see above. Tests and demo use Docker or moto." >&2

stores: ## Build or fetch the other stores that interop tests against (once; what cannot be had is said)
	@for store in versitygw rclone s3proxy; do \
		tools/build_$$store.sh || echo "$$store could not be had, see above. Tests that need it are skipped." >&2; \
	done

peers: setup ## Make the environments of peers that cannot stand beside ours (once; for benchmarks)
	@$(BIN)/python -m benchmarks.peer_env || echo "Some peers are missing, see above. Benchmarks leave them out." >&2

demo: setup minio ## Show the engine at work, end to end
	$(BIN)/lakehouse demo

test: setup minio ## Run every test
	$(BIN)/python -m pytest $(PARALLEL) tests $(LONGER)

lint: setup ## Check style, formatting and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python tools/gen_sync.py --check
	$(BIN)/python tools/gen_reference.py --check
	$(BIN)/python tools/gen_notebook.py --check

type: setup ## Check types
	$(BIN)/mypy

bench: setup minio peers ## Measure, side by side with peers
	$(BIN)/python -m benchmarks

interop: setup minio stores peers ## Test against other people's readers, writers and object stores
	$(call pytest_in,tests/interop) -ra

chaos: export LAKEHOUSE_CHAOS_SECONDS ?= 600
chaos: export LAKEHOUSE_CHAOS_COMMANDS ?= 1900
chaos: export LAKEHOUSE_CHAOS_CHILDREN ?= 470
chaos: setup minio ## Kill processes for ten minutes, and see that nothing is lost
	$(call pytest_in,tests/chaos) -s

fuzz: setup minio ## Look for new counter-examples to every property (make test tries the same each time)
	$(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile=fuzz tests

mutants: setup minio ## Take one rule of the table protocol out at a time, and see that a test fails
	$(BIN)/python -m tools.mutants

docs: setup ## Write the pages and modules that are made from the code
	$(BIN)/python tools/gen_sync.py
	$(BIN)/python tools/gen_reference.py
	$(BIN)/python tools/gen_notebook.py

constraints: ## Install what pyproject.toml asks for and write its versions to constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(forget_old_name)
	$(BIN)/pip install --quiet $(if $(UPGRADE),--upgrade --upgrade-strategy eager) --editable '.[all]'
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable | grep -v ' @ '; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## Remove what building and testing left; .venv and .cache stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

# Until the distribution was called aiolakehouse it was called lakehouse. Both in one environment would have two of every
# entry point, and removing the old one later would take the command of the new one away.
forget_old_name = $(BIN)/pip uninstall --quiet --yes lakehouse 2>/dev/null; rm -rf lakehouse.egg-info

# $(1) = folder of tests; says so and fails when there is none.
pytest_in = $(if $(wildcard $(1)),$(BIN)/python -m pytest $(1),$(error there is nothing to run yet: $(1) does not exist))
