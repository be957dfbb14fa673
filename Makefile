# The front door. Everything real is done by meson, by scripts/ and by tests/run.

PREFIX        ?= /usr/local
DESTDIR       ?=
FUZZ_SECONDS  ?= 60
FUZZ          ?=
SOAK_SECONDS  ?= 600
SOAK_SEED     ?=
VM            ?=
T             ?=
BENCH         ?=
PUBLISH       ?=
PEERS         ?=
E             ?=

.DEFAULT_GOAL := build
.PHONY: build test test-escape test-soak test-vm run bench fuzz lint fmt clean install help

build: ## compile everything; the programs are build/NAME
	@scripts/deps install build
	@scripts/build gcc

test: ## all checks and tests, in all builds; T="STAGE..." or T="-k NAME" for some
	@scripts/deps install build test
	@tests/run $(T)

test-escape: build ## attempts to get out of a sandbox, and a table of what came of each; E="E01 R07 ..." for some
	@scripts/deps install test
	@OSB_BUILD=$(CURDIR)/build tests/escape/run $(E)

test-soak: ## random clients and faults for SOAK_SECONDS (600); SOAK_SEED=N repeats the choices of a run
	@scripts/deps install build test
	@scripts/build asan
	@OSB_BUILD=$(CURDIR)/build-asan SOAK_SECONDS=$(SOAK_SECONDS) SOAK_SEED=$(or $(SOAK_SEED),0) tests/soak/run

test-vm: build ## tests on Debian's kernel with pure cgroup v2, in an emulated machine; VM="OPTION... TEST..."
	@scripts/deps install test vm
	@scripts/check-vm $(VM)

run: build ## start the server on this machine and show a sandbox at work
	@scripts/demo

bench: build ## compare with peers in one run; BENCH="http ..." for some, PEERS=1 installs them, PUBLISH=1 into docs/
	@scripts/deps install bench $(if $(PEERS),peers)
	@OSB_BENCH_PUBLISH=$(PUBLISH) OSB_BENCH_PEERS=$(PEERS) scripts/bench $(BENCH)

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
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
