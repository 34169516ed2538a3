# Everything a checkout can do; `make` alone lists it.

SHELL := /bin/sh
.DEFAULT_GOAL := help

RUN := .venv/bin
PYTHON ?= python3
RENDER := $(PYTHON) python/tools/build.py && $(PYTHON) python/tools/upgrade.py
RELEASE := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" pgq.control)
SOURCES := python/src python/tools python/hatch_build.py tests benchmarks

# ---------------------------------------------------------------- goals of PGXS
# `make install PG_CONFIG=/path/to/pg_config` is PostgreSQL's own extension build. It is loaded for
# its goals alone, because it brings goals named like ours.

PGXS_GOALS := install uninstall installcheck installdirs

ifneq (,$(filter $(PGXS_GOALS),$(MAKECMDGOALS)))

EXTENSION = pgq
DATA = $(filter-out migrations/pgq--$(RELEASE).sql,$(wildcard migrations/pgq--*.sql))
DATA_built = migrations/pgq--$(RELEASE).sql
REGRESS = tour
REGRESS_OUTPUT ?= .cache/regress
REGRESS_OPTS = --inputdir=tests/install/regress --outputdir=$(REGRESS_OUTPUT)
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error no PGXS found: install PostgreSQL's development files \
(on Debian postgresql-server-dev-NN) or name its pg_config with PG_CONFIG=)
endif
include $(PGXS)
# always: make cannot tell whether a source has changed
.PHONY: rendered
rendered:
	@$(RENDER)
$(DATA_built): rendered
installcheck: $(REGRESS_OUTPUT)
$(REGRESS_OUTPUT):
	mkdir -p $@

else

help: ## list the goals
	@echo "pgq $(RELEASE)"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | sort | \
		while IFS="$$(printf '\t')" read -r goal text; do printf '  %-14s %s\n' "$$goal" "$$text"; done

demo: demo-environment ## real data through topic, groups and queue; ARGS="--rows 20000" shortens it
	@$(RUN)/python -m pgq demo $(ARGS)

demo-spark: demo-spark-environment ## the same data through Spark, in batch and as a stream
	@$(RUN)/python -m pgq demo-spark $(ARGS)

check: lint-environment ## within a minute: linters and tests of what has changed since the last commit; ARGS="sql/queue/nack.sql"
	@$(RUN)/python python/tools/check.py $(ARGS)

test: test-environment ## the suite on the embedded PostgreSQL; ARGS="-k publish" selects
	@$(RUN)/pytest -n auto -m "not slow" $(ARGS)

test-all: test-environment ## the complete suite, with what kills clusters and takes longest
	@$(RUN)/pytest -n auto $(ARGS)

coverage: test-environment ## statements of PL/pgSQL that no test executes; ARGS go to pytest
	@$(RUN)/python python/tools/plpgsql_coverage.py $(ARGS)

test-matrix: test-environment ## the suite on every PostgreSQL major that can be had, tests/spark on every Spark
	@$(RUN)/python python/tools/matrix.py $(ARGS) -n auto

explore: test-environment ## interleavings of calls that break a promise; ARGS="--seconds 600 --seed 7"
	@PYTHONPATH=tests:python/src:python/tools $(RUN)/python -m explorer $(ARGS)

faults: test-environment ## all that pgq does while things are killed; ARGS="--seconds 60 --seed 7"
	@PYTHONPATH=tests:python/src:python/tools $(RUN)/python -m fault_runs $(ARGS)

fuzz: test-environment ## odd arguments for every function; ARGS="--seconds 600 --seed 7"
	@PYTHONPATH=tests:python/src:python/tools $(RUN)/python -m fuzz $(ARGS)

mutants: test-environment ## break the SQL on purpose, and see which tests notice; ARGS="--limit 20 --seed 7"
	@PYTHONPATH=tests:python/src:python/tools $(RUN)/python -m mutants $(ARGS)

lint: lint-environment ## ruff, mypy, sqlfluff and pgspot
	@$(RUN)/python python/tools/lint.py

wrap: ## wrap the statements in sql/ at 100 columns
	@$(PYTHON) python/tools/wrap.py

build: ## render the scripts in migrations/ from sql/; needs python3 alone
	@$(RENDER)

install: ## PGXS: install the extension files (PG_CONFIG=…)

installcheck: ## PGXS: run pg_regress against an installed server

reference: test-environment ## generate the reference, the client's signatures and the golden catalog
	@$(RUN)/python python/tools/unasync.py
	@$(RUN)/python python/tools/reference.py
	@$(RUN)/python python/tools/signatures.py
	@$(RUN)/python python/tools/catalog.py
	@$(RUN)/python python/tools/driver_guide.py

bench: bench-environment ## measure side by side; ARGS go to the runner
	@$(RUN)/python benchmarks/run.py $(ARGS)

bench-compare: demo-environment ## every rate beside that of another revision; ARGS="--before HEAD~1"
	@$(RUN)/python benchmarks/compare.py $(ARGS)

bench-deferred: demo-environment ## deferred topics: latency, open transactions; ARGS likewise
	@$(RUN)/python benchmarks/deferred.py $(ARGS)

bench-metrics: demo-environment ## what pgq.metrics() takes, with 1,000 topics; ARGS likewise
	@$(RUN)/python benchmarks/metrics.py $(ARGS)

bench-growth: bench-environment ## how costs grow with topics, messages, jobs, clients, bytes; ARGS likewise
	@$(RUN)/python benchmarks/growth.py $(ARGS)

bench-runs: demo-environment ## a partition with 10,000 runs of bulk writes beside a plain one; ARGS likewise
	@$(RUN)/python benchmarks/runs.py $(ARGS)

bench-months: bench-environment ## months in minutes, on a fast clock: does anything grow; ARGS="--seconds 600"
	@$(RUN)/python benchmarks/months.py $(ARGS)

bench-held: bench-environment ## held snapshots, ids, slots beside the published primitives; ARGS="--seconds 60"
	@$(RUN)/python benchmarks/held.py $(ARGS)

bench-client: demo-environment ## measure the Python client beside a plain cursor; ARGS likewise
	@$(RUN)/python benchmarks/client.py $(ARGS)

bench-worker: demo-environment ## measure the worker and the producer; ARGS likewise
	@$(RUN)/python benchmarks/worker.py $(ARGS)

bench-spark: demo-spark-environment ## measure Spark's ways beside the raw ones; ARGS likewise
	@$(RUN)/python benchmarks/spark.py $(ARGS)

bench-shards: demo-spark-environment ## a topic on one server beside the same over two, from Spark
	@$(RUN)/python benchmarks/spark_shards.py $(ARGS)

site: docs-environment ## build the documentation into .cache/site
	@cd python && NO_MKDOCS_2_WARNING=1 ../$(RUN)/python -m mkdocs build --strict
	@echo ".cache/site/index.html is the first page"

site-serve: docs-environment ## show the documentation at localhost:8000 while it is written
	@cd python && NO_MKDOCS_2_WARNING=1 ../$(RUN)/python -m mkdocs serve --watch ../README.md --watch ../sql --watch . $(ARGS)

release: lint test-all ## check everything and build the wheel into dist/
	@$(RUN)/python -m build --outdir dist python
	@echo "dist/ holds pgq $(RELEASE); CONTRIBUTING.md says what comes next"

clean: ## remove the environment, caches and built files
	@rm -rf .venv .cache dist build .mypy_cache .ruff_cache .pytest_cache
	@find python tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

postgrest: .cache/postgrest/postgrest ## fetch the PostgREST binary that the HTTP tests run
.cache/postgrest/postgrest:
	@python/tools/postgrest.sh

demo-environment: build
	@python/tools/environment.sh demo

bench-environment: build
	@python/tools/environment.sh demo bench

demo-spark-environment: build
	@python/tools/environment.sh demo spark
	@$(RUN)/python python/tools/jdbc.py

test-environment: build
	@python/tools/environment.sh demo push spark test
	@$(RUN)/python python/tools/jdbc.py || echo "without it the tests of Spark will be skipped" >&2
	@[ -n "$$PGQ_POSTGREST" ] || ! command -v npm >/dev/null || python/tools/postgrest.sh || \
		echo "without PostgREST the HTTP tests will be skipped" >&2
	@! command -v npm >/dev/null || python/tools/mermaid.sh || \
		echo "without mermaid the test of the site will be skipped" >&2

docs-environment: build
	@python/tools/environment.sh docs
	@python/tools/mermaid.sh

lint-environment: build
	@python/tools/environment.sh demo push spark test lint

.PHONY: help demo demo-spark check test test-all coverage test-matrix explore faults fuzz mutants lint wrap build install installcheck reference bench bench-compare bench-deferred bench-metrics bench-growth bench-runs bench-months bench-held bench-client bench-worker \
	bench-spark bench-shards release clean postgrest demo-environment bench-environment demo-spark-environment test-environment lint-environment site site-serve docs-environment

endif
