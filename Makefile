# The commands people and CI run. `make` alone lists them.

SHELL := /bin/bash
export PATH := $(PATH):/usr/sbin:/sbin:$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
RELEASE := $(TARGET)/release
NOT_TESTED := $(TARGET)/not-tested

# The crates without network. Their tests call tools that `make setup` installs, and build fast.
PURE := -p importer-disk -p importer-codec

# The steps of `test` use both cores themselves.
.NOTPARALLEL:
.PHONY: help check test bench fuzz demo setup lint unit doctest deny smoke

help: ## This list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

check: lint ## Format, clippy, unit tests of the pure crates: under a minute when warm
	cargo test -q --lib $(PURE)

# The unit tests come last, so that their summary is the last thing one sees.
test: setup lint deny smoke doctest unit ## Everything; installs what it needs first

setup: ## Installs the tools of the tests where they are missing
	@scripts/setup.sh

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path fixtures/fuzz/Cargo.toml --check
	cargo fmt --manifest-path fixtures/peer/Cargo.toml --check
	cargo clippy --workspace --all-targets -- -D warnings

unit: # and, behind the summary, what this machine could not test
	@mkdir -p $(dir $(NOT_TESTED)) && rm -f $(NOT_TESTED)
	@MILLRACE_NOT_TESTED=$(NOT_TESTED) cargo nextest run --workspace; \
	    status=$$?; sort -u $(NOT_TESTED) 2>/dev/null; exit $$status

doctest:
	cargo test -q --doc --workspace

deny:
	cargo deny --log-level error check bans licenses sources

smoke: # every fuzz target for ten seconds
	@scripts/fuzz.sh 10

fuzz: setup ## Every fuzz target for SECONDS=600
	@scripts/fuzz.sh $(or $(SECONDS),600)

bench: setup ## The numbers of the design, with rivals; writes benches/RESULTS.md. ARGS="--quick --only NAME"
	cargo build --release -p importer -p dvcr -p benches
	$(RELEASE)/benches --importer $(RELEASE)/importer $(ARGS)

demo: setup ## An ext4 disk, served by nginx, imported and examined
	cargo build --release -p importer
	@scripts/demo.sh $(RELEASE)/importer
