# Everything a developer or CI runs. `make` alone lists the targets. Services of the tests: dev/services; CI: .ci/run.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.ONESHELL:
.DEFAULT_GOAL := help

GO       ?= go
# The race detector watches our code and not SQLite's, which is C in origin and has a third of the run for itself. Other
# modules cannot be left out so: the linker may take their unwatched copy of a generic function for all.
RACE     ?= -race -gcflags=modernc.org/sqlite/lib=-race=false
FUZZTIME ?= 3s
SOAK     ?= 1h
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# The packages whose tests ask for a server, by how they run: dev/served.txt.
served    = $$(awk -v ORS=' ' '$$1 == "$(1)" && NF == 2 {print "./" $$2}' dev/served.txt)
# Those of whose tests one or more are pure, and a pattern of these tests.
APART     = $$(awk 'NF == 3 {print "./" $$2}' dev/served.txt | sort -u | tr '\n' ' ')
PURE      = ^($$(awk 'NF == 3 {printf "%s%s", sep, $$3; sep = "|"}' dev/served.txt))$$
UNITS    ?= $$($(GO) list ./... | grep -vE "/e2e|/internal/arch\$$" | tr '\n' ' ')
# Where servers are there, each package runs once: those that ask for one are named by dev/served.txt.
UNSERVED  = $$($(GO) list ./... | grep -vE "/e2e|/internal/arch\$$" | grep -vxFf <(awk '$$1 ~ /^(race|plain|pure|strict)$$/ && NF == 2 {print "github.com/pawl-dev/pawl/" $$2}' dev/served.txt) | tr '\n' ' ')
BUSY      = $$(($$(getconf _NPROCESSORS_ONLN) + 2))
SKIPGATE := $(GO) run ./dev/skipgate
TOOL     := $(GO) tool -modfile=dev/tools/go.mod

.PHONY: help build man run check test nightly bench bench-quick crash soak coverage-report slo dashboards fuzz api-fuzz clean \
	format fixes lint unit fuzz-changed parts services-plain crash-test coverage-tests scripts-changed scripts-test \
	bench-changed bench-builds bench-pages

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/pawl
	@$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/pawl ./cmd/pawl

man: build ## bin/man: the man pages. man -M bin/man pawl
	@bin/pawl docs man -q bin/man/man1

run: build ## the living example: build, then pawl demo
	@bin/pawl demo

check: format fixes lint unit fuzz-changed ## what needs no service: style, static checks, unit tests with -race, short fuzzing of what changed. PKG=./observe/...: of these packages only

test: ## everything: check, then all tests against real services, then kills and faults (a quarter of an hour on two cores)
	@export TMPDIR=$$(dev/tmpdir)
	if [[ -z $${PAWL_SERVICES_DIR:-} ]]; then
		export PAWL_SERVICES_DIR=$$TMPDIR/pawl-services-$$$$
		trap 'dev/services clean; rm -rf "$$PAWL_SERVICES_DIR"' EXIT
	fi
	# While all cores are busy, a heartbeat of the broker may be late for longer than the three seconds that let a killed
	# one come back soon: nobody kills this one.
	export PAWL_RAN=$$PWD/out/ran
	mkdir -p out
	rm -f "$$PAWL_RAN"
	export PAWL_KAFKA_JVM='-Xms512m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1'
	PAWL_KAFKA_PROPERTIES=broker.session.timeout.ms=30000 dev/services run -- env -u PAWL_KAFKA_PROPERTIES $(MAKE) parts
	$(GO) run ./dev/coverage "$$PAWL_RAN"

nightly: ## test without its economies (about three hours): every seed and length, -race over the drivers, long fuzzing, soak, all scripts
	@dev/services run -- $(MAKE) scripts-test bench-builds nightly-tests
	$(MAKE) api-fuzz
	rm -f out/soak.jsonl # of another night
	$(MAKE) fuzz soak SOAK=10m

bench: ## all benchmarks, Pawl and its peers side by side (long)
	@cd bench && ../dev/services run -- $(GO) run ./cmd/pawlbench full

bench-quick: ## the same in under five minutes
	@cd bench && ../dev/services run -- $(GO) run ./cmd/pawlbench quick

bench-pages: ## each page of the console over a million waiting messages and a tenth as many dead letters
	@PAWL_BARS=1 PAWL_PAGES=$${PAWL_PAGES:-1000000} $(GO) test ./console -run '^$$' -bench Pages -benchtime 5x

crash: ## kill -9, SIGSTOP, full disks, locked files, against the built binary (some minutes)
	@dev/services run -- $(MAKE) crash-test

coverage-report: ## the table of failure scenarios and stores, from its tests, which run now: out/coverage.md (make test writes it, too)
	@export PAWL_RAN=$$PWD/out/ran
	mkdir -p out
	rm -f "$$PAWL_RAN"
	dev/services run -- $(MAKE) coverage-tests
	$(GO) run ./dev/coverage "$$PAWL_RAN"

slo: ## the objectives of docs/slo.md, measured on this machine: targets and figures; SLO="-o json" or "-faults 1h"
	@export PAWL_SERVICES_DIR=$$(dev/tmpdir)/pawl-slo-$$$$ # it restarts the server
	trap 'dev/services clean; rm -rf "$$PAWL_SERVICES_DIR"' EXIT
	cd bench
	$(GO) build -o ../bin/slo ./cmd/slo
	cd ..
	dev/services run postgres -- bin/slo $(SLO)

soak: ## work under kills, freezes and restarts for SOAK (1h) on each store: out/soak.md, goes on after an interruption; and a long run of convert
	@dev/services run -- $(GO) run ./dev/soak -for $(SOAK)
	@PAWL_SOAK=$(SOAK) $(GO) test -count=1 -v -timeout 0 -run '^TestConvertSurvivesKills$$' ./e2e

dashboards: ## deploy/grafana, anew
	@cd dev/tools && $(GO) run ./dashboards ../../deploy/grafana

fuzz: FUZZTIME := 1m
fuzz: ## every fuzz target for FUZZTIME (1m) each
	@dev/fuzz $(FUZZTIME)

api-fuzz: build ## 10,000 requests made from the description of the API: nothing undocumented is answered
	@dev/api-fuzz 10000

clean: ## remove what was built, and the services with their data
	@dev/services clean
	rm -rf bin coverage bench/out

# The parts of check and test; each can be run alone.

format:
	@out=$$(find . -path ./.services -prune -o -name testdata -prune -o -name '*.go' -print0 | xargs -0 gofmt -l)
	[[ -z $$out ]] || { printf 'not formatted; run gofmt -w on:\n%s\n' "$$out"; exit 1; }

fixes:
	@$(GO) fix -diff $(or $(PKG),./...) || { echo 'not up to date; run go fix ./...'; exit 1; }

lint:
	@cd dev/tools && $(GO) test ./dashboards
	cd ../..
	$(TOOL) golangci-lint run $(PKG) 2> >(grep -v '^go: downloading' >&2)
	if command -v shellcheck >/dev/null; then shellcheck -x dev/services dev/services.d/test dev/fuzz dev/api-fuzz dev/changed dev/tmpdir .ci/run; else echo 'shellcheck is not installed: scripts not checked'; fi

# Lint runs vet. Collecting garbage is dear under -race, and a watched process sleeps for a second at its end.
unit:
	@$(GO) test ./internal/arch
	export TMPDIR=$$(dev/tmpdir)
	export GOGC=300 GOMEMLIMIT=2GiB GORACE=atexit_sleep_ms=0
	$(SKIPGATE) -again -short -vet=off $(RACE) $(AT_ONCE) $(if $(WITHOUT),-skip="$(PURE)") -timeout=30m $(or $(PKG),$(UNITS))

# The corpora of all fuzz targets run as unit tests; here those of folders that changed are fuzzed for a minute. Those of
# convert begin with minutes of work, because PDFium is compiled: by night only.
fuzz-changed:
	@mapfile -t folders < <(dev/changed | grep -E '\.go$$' | grep -vE '^(bench|e2e|pipeline/convert)' | xargs -rn1 dirname | sort -u)
	[[ -n "$(PKG)" || $${#folders[@]} -eq 0 ]] || PAWL_FUZZ_WITHIN=60 dev/fuzz $(FUZZTIME) "$${folders[@]}"

# The packages that wait most come first, two more at once than there are cores. Of those that start daemons and servers
# fewer run at once: they would not get to answer each other. The kills mostly wait, too: static checks, builds of
# benchmarks and short fuzzing take what they leave of the processors.
parts: format
	@$(MAKE) unit UNITS="$(call served,race) $(call served,first) $(UNSERVED)" AT_ONCE="-p=$(BUSY)" WITHOUT=pure
	$(MAKE) services-plain
	mkdir -p out
	nice -n 19 $(MAKE) fixes lint bench-changed fuzz-changed >out/static 2>&1 &
	$(MAKE) crash-test && killed=0 || killed=$$?
	wait $$! && static=0 || static=$$?
	cat out/static
	[[ $$killed -eq 0 && $$static -eq 0 ]]
	$(MAKE) scripts-changed

# What fails is a hole in the report.
coverage-tests:
	@for p in $$($(GO) run ./dev/coverage -packages); do
		$(SKIPGATE) -short -count=1 -timeout=20m -run="$$($(GO) run ./dev/coverage -run "$$p")" "$$p" || :
	done

services-plain:
	@$(SKIPGATE) -again -short -vet=off -count=1 -p=$(BUSY) -run="$(PURE)" $(APART)
	$(SKIPGATE) -again -short -vet=off -count=1 -timeout=25m -p=2 -parallel=4 $(call served,plain) $(call served,pure)

crash-test:
	@$(SKIPGATE) -again -short -vet=off -count=1 -parallel=64 -timeout=30m $(call served,strict)

scripts-changed:
	@if dev/changed | grep -E '^dev/(services|tmpdir)' >/dev/null; then $(MAKE) scripts-test; fi

scripts-test:
	@dev/services.d/test

bench-changed:
	@if dev/changed | grep '^bench/' | grep -v '^bench/measured/' >/dev/null; then $(MAKE) bench-builds; else cd bench && $(GO) build ./...; fi

bench-builds:
	@cd bench
	$(GO) vet ./...
	$(GO) test -short ./...

nightly-tests:
	@$(SKIPGATE) -again -race -count=1 -timeout=2h -p=1 $(UNSERVED) $(call served,race) $(call served,pure) ./store/postgres
	$(SKIPGATE) -again -count=1 -timeout=1h $(call served,plain)
	PAWL_BARS=1 $(SKIPGATE) -count=1 -timeout=1h $(call served,strict)
	PAWL_BARS=1 $(SKIPGATE) -count=1 -timeout=2h -run=TestNoAlertInAHealthyHour ./e2e
	$(MAKE) bench-pages
