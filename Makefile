# The front door. Everything real is done by meson, by scripts/ and by tests/run.

PREFIX        ?= /usr/local
DESTDIR       ?=
FUZZ_SECONDS  ?= 60
FUZZ          ?=
T             ?=

.DEFAULT_GOAL := build
.PHONY: build test run bench fuzz lint fmt clean install help

build: ## compile everything; the programs are build/NAME
	@scripts/deps install build
	@scripts/build gcc

test: ## all checks and tests, in all builds; T="STAGE..." or T="-k NAME" for some
	@scripts/deps install build test
	@tests/run $(T)

run: build ## start the server on this machine and show a sandbox at work
	@if [ -x scripts/demo ]; then exec scripts/demo; fi; \
	echo "make run: there is no server to start yet."; \
	echo "  What exists is the foundation: see 'What works today' in README.md."; \
	exit 1

bench: build ## compare with peers in one run on this machine; writes build/bench/
	@scripts/deps install bench
	@scripts/bench

fuzz: ## fuzz each parser for FUZZ_SECONDS (60); FUZZ="NAME..." for some
	@scripts/deps install build test
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz $(FUZZ)

lint: ## repository checks, clang-tidy and shellcheck
	@scripts/deps install build test lint
	@scripts/lint

fmt: ## format the C files in place
	@scripts/check-format --fix

clean: ## remove the build trees (found inputs in .cache/ stay)
	@rm -rf build build-clang build-asan build-fuzz

install: build ## install below DESTDIR and PREFIX (/usr/local)
	@meson configure build -Dprefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C build --quiet

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
