# The commands people and CI run. `make demo` and `make test` install what is missing first.
.PHONY: help setup setup-dev demo test test-all test-slow check drills generate bench bench-overhead bench-dashboard
.PHONY: test-matrix
.DEFAULT_GOAL := help
SHELL := /bin/bash

PROGRAMS := prometheus prometheus-alertmanager:alertmanager
BIN := .venv/bin

help:
	@echo "make demo [DURATION=seconds] [DATA=file.tsv]   a monitored training job on this machine"
	@echo "make test                                      tests: one of each kind, real jobs and a browser included (10 minutes)"
	@echo "make test-all                                  all tests"
	@echo "make test-slow                                 what make test leaves out"
	@echo "make check                                     format, lint, types, layers, alert rules"
	@echo "make drills                                    faults in real jobs: who is blamed, and how fast (hours)"
	@echo "make bench                                     what agent and hub cost, how soon a slow rank is named, how fast the trainer is and how it scales (25 minutes)"
	@echo "make bench-overhead                            what watching costs (15 minutes)"
	@echo "make bench-dashboard                           how soon each view is there, of 1,024 ranks and six hours (ten rounds; four took 9 minutes, and 3 to 4 for the history)"
	@echo "make test-matrix [TESTS=words]                 tests with other versions of Python and torch, in environments in .matrix/ (ten minutes or more)"

setup:
	@scripts/setup trainer,dashboard,top $(PROGRAMS)

setup-dev:
	@scripts/setup dev $(PROGRAMS) chromium gcc libc6-dev:/usr/include/stdio.h iproute2:ip

demo: setup
	@$(BIN)/zmon demo $(if $(DURATION),--seconds $(DURATION)) $(if $(DATA),--data "$(DATA)")

test: setup-dev
	@scripts/test "not slow"

test-all: setup-dev
	@scripts/test ""

test-slow: setup-dev
	@scripts/test slow $(if $(UNTIL),-p tests.budget --until $(UNTIL))

drills: setup-dev
	@$(BIN)/zmon drill --all --repeats 3

check: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m scripts.words
	$(BIN)/mypy
	$(BIN)/lint-imports
	promtool check rules dashboards/rules/zmon.yaml dashboards/rules/hardware.yaml dashboards/rules/panels.yaml
	promtool test rules dashboards/rules/*_test.yaml

	$(MAKE) -s generate
	git diff --exit-code --stat -- docs 'dashboards/grafana/*.json'
	! git ls-files --others --exclude-standard 'dashboards/grafana/*.json' | grep .

generate: setup-dev
	@$(BIN)/python -m scripts.generate

bench: setup-dev
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.hub
	@$(BIN)/python -m bench.straggler
	@$(BIN)/python -m bench.trainer
	@$(BIN)/python -m bench.gpu
	@$(BIN)/python -m bench.scaling
	@$(BIN)/python -m bench.mlperf

bench-overhead: setup-dev
	@$(BIN)/python -m bench.overhead

bench-dashboard: setup-dev
	@$(BIN)/python -m bench.dashboard

test-matrix:
	@python3 scripts/test_matrix.py $(if $(TESTS),--tests '$(TESTS)')
