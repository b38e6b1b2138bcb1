# Everything a developer or CI runs. `make` alone lists the targets. Services of the tests: dev/services; CI: .ci/run.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.ONESHELL:
.DEFAULT_GOAL := help

GO       ?= go
RACE     ?= -race
FUZZTIME ?= 3s
SOAK     ?= 1h
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# The packages of services-test: whose tests ask for a server, or do more without -short; the others have run in check.
# The harness of kills and faults is crash. Those of check: without what drives the built binary, where the race
# detector would see the driver only.
SERVED   := $$(grep -rlE --include=*_test.go 'PAWL_TEST_|storetest\.|testing\.Short' dev dispatch e2e examples internal pipeline store | \
	xargs -n1 dirname | sort -u | grep -vx e2e/crash | sed 's|^|./|')
UNITS    := $$($(GO) list ./... | grep -v /e2e)
TOOL     := $(GO) tool -modfile=dev/tools/go.mod

.PHONY: help build man run check format vet fixes lint unit test services-test crash-test bench-builds servers-and-bench scripts-test bench bench-quick crash soak fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/pawl
	@$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/pawl ./cmd/pawl

man: build ## bin/man: the man pages. man -M bin/man pawl
	@bin/pawl docs man -q bin/man/man1

run: build ## the living example: build, then pawl demo
	@bin/pawl demo

check: format vet fixes lint unit ## what needs no service: style, static checks, unit tests with -race, short fuzzing
	@dev/fuzz $(FUZZTIME)

test: ## everything: check, then all tests against real services, then kills and faults
	@dev/services run -- $(MAKE) check servers-and-bench services-test crash-test

bench: ## all benchmarks, Pawl and its peers side by side (long)
	@cd bench && ../dev/services run -- $(GO) run ./cmd/pawlbench full

bench-quick: ## the same in under five minutes
	@cd bench && ../dev/services run -- $(GO) run ./cmd/pawlbench quick

crash: ## kill -9, SIGSTOP, full disks, locked files, against the built binary (some minutes)
	@dev/services run -- $(MAKE) crash-test

soak: ## work under kills and stops for SOAK (1h) on each store, and a long run of convert
	@PAWL_SOAK=$(SOAK) dev/services run -- $(GO) test -count=1 -v -timeout 0 -run '^TestSoak' ./e2e/crash
	@PAWL_SOAK=$(SOAK) $(GO) test -count=1 -v -timeout 0 -run '^TestConvertSurvivesKills$$' ./e2e

fuzz: FUZZTIME := 1m
fuzz: ## every fuzz target for FUZZTIME (1m) each
	@dev/fuzz $(FUZZTIME)

clean: ## remove what was built, and the services with their data
	@dev/services clean
	rm -rf bin coverage bench/out

# The parts of check and test; each can be run alone.

format:
	@out=$$(find . -path ./.services -prune -o -name testdata -prune -o -name '*.go' -print0 | xargs -0 gofmt -l)
	[[ -z $$out ]] || { printf 'not formatted; run gofmt -w on:\n%s\n' "$$out"; exit 1; }

vet:
	@$(GO) vet ./...

fixes:
	@$(GO) fix -diff ./... || { echo 'not up to date; run go fix ./...'; exit 1; }

lint:
	@$(TOOL) golangci-lint run 2> >(grep -v '^go: downloading' >&2)
	if command -v shellcheck >/dev/null; then shellcheck -x dev/services dev/services.d/test dev/fuzz dev/tmpdir .ci/run; else echo 'shellcheck is not installed: scripts not checked'; fi

unit:
	@$(GO) test ./internal/arch
	export TMPDIR=$$(dev/tmpdir)
	$(GO) run ./dev/skipgate -again -short $(RACE) -timeout=10m $(UNITS)

# Side by side: the first mostly waits for servers.
servers-and-bench:
	@$(MAKE) -j2 -Oline scripts-test bench-builds

scripts-test:
	@dev/services.d/test

# Three packages at once on two cores, because e2e mostly waits.
services-test:
	@$(GO) run ./dev/skipgate -again -count=1 -timeout=20m -p=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) $(SERVED)

# After the others and alone, because they would be in each other's way.
crash-test:
	@$(GO) run ./dev/skipgate -count=1 -timeout=20m ./e2e/crash

bench-builds:
	@cd bench
	$(GO) vet ./...
	$(GO) test -short ./...
