# `make demo` and `make test` need nothing but a Python 3.11 or newer; everything else is installed into $(VENV).
# PYTHON=/path/to/python3 chooses the interpreter, VENV=folder another place, ARGS="..." what the command gets, PROCESSES=n
# how many share the tests (more than cores, since many tests wait for a process).

VENV = .venv
PYTHON =
ARGS =
PROCESSES = 3
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INSTALLED = $(VENV)/.installed
DEVELOPING = $(VENV)/.developing
SDKS = $(VENV)/sdks
PEERS = $(VENV)/peers
CODE = src tests benchmarks

.PHONY: help install demo test lint reference pydantics faults stops loops wire conversations bytes fuzz crashes model powerloss diskfaults simulate postgres mutants mcp bench bench-repair streams sdk maxfired clean

help:
	@echo "make demo          repair a small broken project, without a key and without the network"
	@echo "make test          lint, types and tests, on asyncio and Trio"
	@echo "make lint          the same without the tests"
	@echo "make reference     docs/errors.md and docs/states.md, made from the classes and the tables"
	@echo "make faults        every cause and error at every point of a run"
	@echo "make pydantics     the words about bad arguments with the oldest and the newest pydantic"
	@echo "make stops         every public operation stopped at every await"
	@echo "make loops         the tests of what waits, on uvloop and with eager tasks"
	@echo "make wire          recorded replies of model APIs decoded in every way"
	@echo "make conversations generated conversations, told to a server of each API and read back"
	@echo "make bytes         streams closed, reset, stalled and split at 80 bytes each; ARGS=--all at every byte"
	@echo "make fuzz          a million odd inputs for the splitter and each codec"
	@echo "make crashes       processes killed around every journal write and every effect, and what becomes of their runs"
	@echo "make postgres      runs on Postgres: processes killed and paused, a server restarted, lines cut"
	@echo "make simulate      runs of everything at once, by seed, held against a plain interpreter of what must come of them"
	@echo "make model         every state of a run with two drivers, kills, faults, stops and a person"
	@echo "make powerloss     the journal after a power loss at any write, with any part of what was not synced"
	@echo "make diskfaults    runs on a disk that is full, or reports an error, at each write"
	@echo "make hostile       tools that hang, escape, leak and lie, with a figure for each"
	@echo "make mutants       the ground floor broken in small ways, one at a time: its tests must notice"
	@echo "make mcp           MCP servers from npm and on old SDKs: called, stopped, killed, started again"
	@echo "make bench         speed and memory beside a bare loop"
	@echo "make streams       a thousand streams at once beside a bare client"
	@echo "make sdk           a model call's CPU beside the official SDKs"
	@echo "make maxfired      how often one charge fires in a crash, here and in libraries that can resume"
	@echo "make bench-repair  how many broken projects the offline model repairs"

install: $(DEVELOPING)

demo: $(INSTALLED)
	$(BIN)/heaveto demo $(ARGS)

lint: $(DEVELOPING)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/python -m heaveto.testing.lint src

# The test run's last line says what was left out on this machine.
test: lint
	$(BIN)/python -m pytest -n $(PROCESSES) $(ARGS)

# What is made of the code itself; a test compares.
reference: $(DEVELOPING)
	$(BIN)/python tests/reference/errors_page.py
	$(BIN)/python tests/reference/states_page.py

# The words about bad arguments must not change with a validator's release: tried in throw-away environments, without the
# price table, which takes no pydantic below 2.10.
PYDANTICS = 2.8.0 2.10.0 2.*
USED = anyio httpx2[http2] msgspec griffelib click platformdirs pathspec
GOLDEN = tests/tools/test_arguments.py tests/tools/test_answers.py tests/loop/test_model_texts.py
pydantics: $(DEVELOPING)
	@for release in $(PYDANTICS); do \
	  folder=$$(mktemp -d) && "$(BIN)/python" -m venv "$$folder" && \
	  grep -vi "^pydantic\|^typing.inspection\|^annotated" constraints.txt > "$$folder/constraints.txt" && \
	  "$$folder/bin/python" -m pip install --quiet --disable-pip-version-check -c "$$folder/constraints.txt" \
	    "pydantic==$$release" $(USED) pytest pytest-timeout hypothesis trio && \
	  "$$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps . && \
	  "$$folder/bin/python" -c "import pydantic; print('pydantic', pydantic.VERSION)" && \
	  "$$folder/bin/python" -m pytest -q $(GOLDEN) || failed=1; \
	  rm -rf "$$folder"; \
	done; test -z "$$failed"

# Every cause and error at every point of a run; ARGS=--write writes the page in the docs anew.
faults: $(DEVELOPING)
	PYTHONPATH=tests/reference $(BIN)/python tests/faults/faults.py $(ARGS)

# Every public operation stopped at every await, on both back ends; HEAVETO_STOP replays one point.
stops: $(DEVELOPING)
	$(BIN)/python -m pytest -q -n $(PROCESSES) --dist worksteal --stop-points 5000 $(ARGS)

# Under a fake clock a loop is asyncio's own, so on uvloop the tests with the real clock are of use; eager tasks (Python 3.12)
# are tried under both clocks.
LOOPS = tests/scopes tests/retry tests/loop tests/runs tests/journal tests/testing
loops: $(DEVELOPING)
	HEAVETO_TEST_LOOP=uvloop $(BIN)/python -m pytest -q -n $(PROCESSES) $(LOOPS) tests/models $(ARGS)
	@if $(BIN)/python -c "import sys; sys.exit(sys.version_info < (3, 12))"; then \
	  HEAVETO_TEST_LOOP=eager $(BIN)/python -m pytest -q -n $(PROCESSES) $(LOOPS) $(ARGS); \
	else echo "left out: eager tasks need Python 3.12 or newer"; fi

# HEAVETO_WIRE_DIR says where the recordings are; without them the replies made by hand serve alone.
wire: $(DEVELOPING)
	$(BIN)/python tests/wire/wire.py $(ARGS)

# ARGS="--only DIALECT:SEED" shows one conversation, and what goes wrong with it.
conversations: $(DEVELOPING)
	$(BIN)/python tests/wire/conversations.py $(ARGS)

bytes: $(DEVELOPING)
	$(BIN)/python tests/wire/every_byte.py $(ARGS)

# ARGS="--all" kills at every pair of points, ARGS="--replay plain asyncio 17 3" at one of them.
crashes: $(DEVELOPING)
	$(BIN)/python tests/crashes/crashes.py $(ARGS)

# A server of its own, from the programs that are installed here. ARGS="--every 1 --rounds 5" goes on for much longer.
postgres: $(DEVELOPING)
	$(BIN)/python tests/postgres/postgres.py $(ARGS)

# ARGS="--seed 17" shows what is wrong with one seed, made small; ARGS=--bugs has it find bugs in copies of the product.
simulate: $(DEVELOPING)
	$(BIN)/python tests/simulation/simulate.py $(ARGS)

# The tables, the ladder and the store's leases, explored in every state that they can come to; and seeded bugs found so.
model: $(DEVELOPING)
	$(BIN)/python tests/model/model.py

# ARGS="--each 100" makes more states of each write, "--seed 2" others.
powerloss: $(DEVELOPING)
	$(BIN)/python tests/powerloss/powerloss.py $(ARGS)

diskfaults: $(DEVELOPING)
	$(BIN)/python tests/powerloss/disk_faults.py $(ARGS)

# ARGS="--only SEED:NUMBER" shows one input, and what goes wrong with it.
fuzz: $(DEVELOPING)
	$(BIN)/python tests/wire/fuzz.py $(ARGS)

# ARGS=7 kills at every seventh step only.
hostile: $(DEVELOPING)
	$(BIN)/python benchmarks/hostile.py $(ARGS)

mutants: $(DEVELOPING)
	$(BIN)/python benchmarks/mutants.py $(ARGS)

bench: $(DEVELOPING)
	$(BIN)/python benchmarks/scopes.py $(ARGS)
	$(BIN)/python benchmarks/speed.py $(ARGS)
	$(BIN)/python benchmarks/stops.py
	$(BIN)/python benchmarks/tools.py
	$(BIN)/python benchmarks/journal.py

streams: $(DEVELOPING)
	$(BIN)/python benchmarks/streams.py $(ARGS)

# The SDKs are used by nothing else, so they are not in the environment of the tests.
sdk: $(SDKS)/.installed
	$(BIN)/python benchmarks/sdk.py --sdks $(SDKS) $(ARGS)

# The peers are used by nothing else, and have pins of their own. ARGS="--every 5" tries every fifth crash point.
maxfired: $(PEERS)/.installed
	$(BIN)/python benchmarks/maxfired/maxfired.py --peers $(PEERS) $(ARGS)

# Servers of other people's, and old releases of the SDK for one of ours, in a folder that is removed again.
OLD_SDKS = 1.0.0 1.7.1 1.9.4 1.12.4 1.24.0
mcp: $(DEVELOPING)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	npm install --prefix "$$folder" --no-audit --no-fund --loglevel=error \
	  @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem && \
	for release in $(OLD_SDKS); do \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --target "$$folder/mcp-$$release" \
	    "mcp==$$release" "pydantic<2.12" > "$$folder/pip.txt" 2>&1 || { cat "$$folder/pip.txt"; exit 1; }; \
	done && \
	HEAVETO_MCP_SERVERS="$$folder" $(BIN)/python -m pytest -q tests/tools/mcp/npm_servers.py tests/tools/mcp/old_sdks.py $(ARGS)

bench-repair: $(INSTALLED)
	$(BIN)/python benchmarks/repair/run.py $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

# What users install. pip is pinned first, because an interpreter's own may not know dependency groups; the build runs with
# the pinned hatchling, because pip's isolated builds do not read constraints.
$(INSTALLED): pyproject.toml constraints.txt
	@if ! "$(BIN)/python" -c "" 2>/dev/null; then \
	  python="$(PYTHON)"; \
	  for each in $${python:-python3.13 python3.12 python3.11 python3}; do \
	    if "$$each" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then python="$$each"; break; fi; \
	    python=; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "heaveto needs Python 3.11 or newer: install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python), or name yours with PYTHON=/path/to/python3." >&2; exit 1; \
	  fi; \
	  if ! "$$python" -c "import venv, ensurepip" 2>/dev/null; then \
	    echo "$$python lacks the venv and ensurepip modules: install them (Debian, Ubuntu: apt install python3-venv), or name another interpreter with PYTHON=/path/to/python3." >&2; exit 1; \
	  fi; \
	  "$$python" -m venv --clear "$(VENV)" || exit 1; \
	fi
	$(PIP) pip
	$(PIP) hatchling editables
	$(PIP) --no-build-isolation -e .
	@touch $@

# What developers need besides.
$(DEVELOPING): $(INSTALLED)
	$(PIP) --group dev
	@touch $@

$(PEERS)/.installed: $(DEVELOPING) benchmarks/maxfired/constraints.txt
	rm -rf $(PEERS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c benchmarks/maxfired/constraints.txt --target $(PEERS) --group peers
	@touch $@

$(SDKS)/.installed: $(DEVELOPING)
	rm -rf $(SDKS)
	$(PIP) --target $(SDKS) --group bench
	@touch $@
