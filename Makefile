# The commands people and CI run. `make demo` and `make test` install what is missing first.
.PHONY: help setup setup-dev setup-replay demo test test-all test-slow check drills generate bench bench-overhead bench-dashboard bench-scale
.PHONY: screenshots test-matrix test-frameworks gpu-check gpu-wheels packages image-versions
.DEFAULT_GOAL := help
SHELL := /bin/bash

PROGRAMS := prometheus prometheus-alertmanager:alertmanager
BIN := .venv/bin
GENERATED := 'dashboards/grafana/*.json' 'dashboards/rules/*.yaml' helm/zmon/files 'deploy/alertmanager/*.yml' ':!dashboards/rules/*_test.yaml'

help:
	@echo "make demo [DURATION=seconds] [DATA=file.tsv]   run a monitored training job on this machine"
	@echo "make demo REPLAY=frozen-rank                   show a recorded fault on the pages, without a training"
	@echo "make test                                      run all but the slow tests, with real jobs and a browser (12 minutes)"
	@echo "make test-all                                  run all tests"
	@echo "make test-slow                                 run the tests that make test leaves out"
	@echo "make check                                     check format, lint, types, imports, alert rules and generated files"
	@echo "make generate                                  write the generated pages, rules, Grafana dashboards and files of the chart"
	@echo "make drills                                    inject faults into real jobs: which culprit zmon names, and how fast (hours)"
	@echo "make bench                                     measure agent, hub, the detection of a slow rank, and the trainer (25 minutes)"
	@echo "make bench-overhead                            measure the cost of monitoring (7 minutes)"
	@echo "make bench-scale                               measure a hub with up to 16,384 ranks, ten quiet minutes at each size, and 100,000 replayed (75 minutes)"
	@echo "make bench-dashboard [RANKS=16384] [STORE=victoriametrics]   measure how soon pages are ready, in ten rounds (four rounds took 9 minutes, after 3 to 4 minutes for the history)"
	@echo "make gpu-check [ONLY=checks] [PYTHON=python]   check zmon on a machine with a GPU and print a report (8 minutes at most, no network)"
	@echo "make gpu-wheels                                download the packages that make gpu-check may need into .wheels/ (needs a network)"
	@echo "make packages                                  build the packages zmon-training, zmon-probe (for jobs) and zmon-lab (drills and measurements) into dist/"
	@echo "make image-versions                            pin the versions of the container images to those that are installed here"
	@echo "make screenshots                               draw the pictures of the docs from a recording (a minute)"
	@echo "make test-matrix [TESTS=words]                 test with other versions of Python and torch, in .matrix/ (ten minutes or more)"
	@echo "make test-frameworks [ONLY=names]              try jobs of other frameworks, in .frameworks/ (a quarter of an hour on two processors)"

setup:
	@scripts/setup trainer,dashboard,top $(PROGRAMS)

setup-dev:
	@scripts/setup dev $(PROGRAMS) chromium systemd:systemd-analyze gcc libc6-dev:/usr/include/stdio.h iproute2:ip victoria-metrics
	@scripts/setup-helm

setup-replay:
	@scripts/setup dashboard $(PROGRAMS)

demo: $(if $(REPLAY),setup-replay,setup)
	@$(BIN)/zmon demo $(if $(DURATION),--seconds $(DURATION)) $(if $(DATA),--data "$(DATA)") $(if $(REPLAY),--replay $(REPLAY))

test: setup-dev
	@scripts/test "not slow"

test-all: setup-dev
	@scripts/test ""

test-slow: setup-dev
	@scripts/test slow $(if $(UNTIL),-p tests.budget --until $(UNTIL))

screenshots: setup-dev
	@$(BIN)/python -m scripts.message_pictures
	@$(BIN)/python -m scripts.screenshots

drills: setup-dev
	@$(BIN)/zmon drill --all --repeats 3

check: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m scripts.words
	$(BIN)/mypy
	$(BIN)/python -m scripts.imports
	promtool check rules dashboards/rules/zmon.yaml dashboards/rules/hardware.yaml dashboards/rules/panels.yaml
	promtool check rules helm/zmon/files/rules/*.yaml
	promtool test rules dashboards/rules/*_test.yaml

	$(MAKE) -s generate
	git diff --exit-code --stat -- docs $(GENERATED)
	! git ls-files --others --exclude-standard $(GENERATED) | grep .

generate: setup-dev
	@$(BIN)/python -m scripts.generate

bench: setup-dev
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.hub
	@$(BIN)/python -m bench.attack
	@$(BIN)/python -m bench.straggler
	@$(BIN)/python -m bench.trainer
	@$(BIN)/python -m bench.planner
	@$(BIN)/python -m bench.gpu
	@$(BIN)/python -m bench.scaling
	@$(BIN)/python -m bench.mlperf

bench-overhead: setup-dev
	@$(BIN)/python -m bench.overhead

bench-dashboard: setup-dev
	@$(BIN)/python -m bench.dashboard $(if $(RANKS),--ranks $(RANKS)) $(if $(STORE),--store $(STORE))

bench-scale: setup-dev
	@$(BIN)/python -m bench.reports
	@$(BIN)/python -m bench.hub --quiet $(or $(QUIET),10)
	@$(BIN)/python -m bench.replay

packages:  # needs no root, so no system package either
	@scripts/setup dev
	@$(BIN)/python -m scripts.packages

image-versions: setup-dev
	@$(BIN)/python -m scripts.image_versions

test-matrix:
	@python3 scripts/test_matrix.py $(if $(TESTS),--tests '$(TESTS)')

test-frameworks: setup-dev
	@$(BIN)/python -m tests.frameworks $(if $(ONLY),--only $(ONLY))

# These two need no environment of the project: a machine with a GPU may have no network.
gpu-check:
	@$(or $(PYTHON),python3) scripts/gpu_check.py $(if $(ONLY),--only $(ONLY))

gpu-wheels:
	@python3 scripts/gpu_wheels.py
