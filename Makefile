# Everything starts from two commands: `make demo` and `make test`. Both set up .venv when it is absent.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_ALL := $(VENV)/.installed-all
# Programs that tests run, each with its system package: the JavaScript and the C client of
# docs/reference/local-wire-format.md, a browser for the console, and systemd-analyze for the units.
# Of npm come axe-core, which looks for barriers in pages, and a provider of OpenID Connect.
SYSTEM_PROGRAMS := java=openjdk-17-jre-headless node=nodejs npm=npm gcc=build-essential chromium=chromium systemd-analyze=systemd unshare=util-linux Rscript=r-cran-httr2 Rscript=r-cran-jsonlite
NPM_PACKAGES := axe-core@4.14.0 oidc-provider@9.13.3
# Compiled tests are kept: else every process of a run compiles the library and all tests again.
export PYTHONDONTWRITEBYTECODE :=
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help demo test setup-all test-all soak lint format docs bench dist clean

help:            ## what can be made
	@grep -E '^[a-z-]+: *.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | sort

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint,docs]'
	@touch $(STAMP)

demo: $(STAMP)   ## set up and run the main job on embedded defaults
	$(BIN)/dither demo

test: $(STAMP)   ## set up and run the tests (minutes); ends with the CPU seconds of each folder
	$(BIN)/python -m pytest -n 2 --durations=20

setup-all: $(STAMP_ALL) ## install what test-all needs: extras, Java, node, C, a browser, systemd, R (by apt and npm)

$(STAMP_ALL): $(STAMP) Makefile
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint,docs,bench,fuzz,browser,spark,torch]'
	@missing=; \
	for pair in $(SYSTEM_PROGRAMS); do \
	  command -v $${pair%%=*} >/dev/null || missing="$$missing $${pair#*=}"; done; \
	if test -z "$$missing"; then :; \
	elif command -v apt-get >/dev/null; then \
	  $(SUDO) apt-get update --quiet && \
	  $(SUDO) apt-get -o DPkg::Lock::Timeout=600 install --yes --no-install-recommends $$missing; \
	else echo "install$$missing, then run make setup-all again" >&2; exit 1; fi
	npm install --silent --no-save --prefix $(VENV) $(NPM_PACKAGES)
	@touch $(STAMP_ALL)

test-all: setup-all ## every test but the soaks; none may be skipped (tens of minutes)
	$(BIN)/python -m pytest -n 2 --durations=20 -m 'not soak' --no-skips

soak: $(STAMP)   ## long runs: kills, races, independent repetitions
	$(BIN)/python -m pytest -n 2 --durations=20 -m soak

lint: $(STAMP)   ## style, types and layer contracts
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/mypy --strict src/dither
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the sources in the house style
	$(BIN)/ruff check --fix src tests bench examples
	$(BIN)/ruff format src tests bench examples

docs: $(STAMP)   ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP)  ## every benchmark, quick sizes; each prints a table
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@for file in $$(ls bench/[a-z]*.py | grep -v common.py); do echo "== $$file"; $(BIN)/python $$file --quick || exit 1; done

dist: $(STAMP)   ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean:           ## remove what make made
	rm -rf $(VENV) site .mypy_cache .ruff_cache .import_linter_cache .hypothesis
