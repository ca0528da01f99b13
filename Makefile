# Two commands do everything on a fresh machine with Rust and Python 3.11+:
#   make demo    set up, build, and run the main job on real input, through the death of a worker, and a second job that
#                finds what the first one computed
#   make test    set up, build, and run every test
PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
export PATH := $(BIN):$(PATH)
export VIRTUAL_ENV := $(VENV)
# One profile for the wheel, the tests and the benches, so that each dependency is built once.
CARGO_FLAGS := --release --locked
RUST_CRATES := --workspace --exclude forebay-python
# A workspace of its own, so that other targets do not build kube's hundred crates.
KUBERNETES := --manifest-path crates/kubernetes/Cargo.toml

.PHONY: help setup build demo test test-rust test-python check check-format check-fast deny frameworks kubernetes upgrade fmt docs site wheel bench fuzz clean

help:
	@grep -E '^#   make|^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(VENV)/.ready ## a venv in the tree with what building and testing need

# libjpeg-turbo is built from source: cmake comes from PyPI; nasm, which only makes it faster, from the system. So does
# etcd, for the tests of several dispatchers.
$(VENV)/.ready: requirements-dev.txt
	@command -v cargo >/dev/null || { echo "forebay needs Rust: https://rustup.rs" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "forebay needs Python 3.11 or later" >&2; exit 1; }
	@command -v nasm >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update && apt-get -qq install -y nasm >/dev/null; } || echo "no nasm: JPEG decoding will be slower" >&2
	@command -v etcd >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update && apt-get -qq install -y --no-install-recommends etcd-server >/dev/null; } || echo "no etcd: several dispatchers will not be tested" >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

build: setup ## the Python package with its native module and the forebay command, into .venv
	PIP_QUIET=1 $(BIN)/maturin develop --quiet --release --locked

demo: build ## the main job on real input
	$(BIN)/python examples/digits.py

test: test-rust test-python ## every test

test-rust: setup
	cargo test $(CARGO_FLAGS) $(RUST_CRATES) --quiet --no-fail-fast

# Most tests wait for other processes, so one process more than there are cores runs them. Those that measure the machine run alone.
# They compile each Python file once, also where the environment asks for no compiled files, as images of containers do.
unexport PYTHONDONTWRITEBYTECODE
TEST_PROCESSES ?= $(shell $(PYTHON) -c 'import os; print(min(8, 1 + os.cpu_count()))')
test-python: build
	$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadfile -m "not alone"
	$(BIN)/python -m pytest -q -m alone

# Needs no build, so CI runs it first.
check-format: setup ## the formats of Rust and Python, and ruff's rules
	cargo fmt --all --check
	cargo fmt $(KUBERNETES) --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: build check-format ## what CI checks besides the tests
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) $(RUST_CRATES) --no-deps --quiet
	$(BIN)/mypy

check-fast: setup ## the inner loop: compiles, formats, and runs the tests nearest to what differs from the last commit
	@.ci/check-fast

# Needs cargo-deny (`cargo install --locked cargo-deny`), and the network for advisories.
deny: ## licences, sources and known vulnerabilities of dependencies, by deny.toml
	@command -v cargo-deny >/dev/null || { echo "make deny needs cargo-deny: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny --locked check
	cargo deny --locked --manifest-path crates/kubernetes/Cargo.toml check

# The package of the earlier revision is built once, which takes minutes, and kept in a cache folder. `make test` does not
# run this: no earlier package can be had without a build.
upgrade: build ## a service of this tree and of an earlier revision: make upgrade FROM=REVISION, or UPGRADE_FROM=FOLDER
	@.ci/upgrade $(FROM)

# PyTorch and what is built on it take gigabytes, so no other target needs them. FRAMEWORKS may be a folder outside the tree.
FRAMEWORKS ?= $(CURDIR)/.venv-frameworks
$(FRAMEWORKS)/.ready: requirements-frameworks.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/pip install --quiet --disable-pip-version-check -r requirements-frameworks.txt
	@touch $@

frameworks: build ## tests under PyTorch, Lightning, Accelerate, transformers, JAX and Keras, also on two ranks, and with other libraries' data; installs them
	@if $(MAKE) --no-print-directory $(FRAMEWORKS)/.ready; then \
		PYTHONPATH=$(CURDIR)/python $(FRAMEWORKS)/bin/python -m pytest -q -c python/tests_frameworks/pytest.ini \
			python/tests_frameworks; \
	else \
		echo "frameworks: skipped, for the packages of requirements-frameworks.txt cannot be installed here"; \
	fi

KUBERNETES_FLAGS := --target-dir $(or $(CARGO_TARGET_DIR),$(CURDIR)/target) --locked --quiet
kubernetes: build ## builds, checks and tests forebay-operator, which is no part of the package; on a real kube-apiserver, built once
	cargo clippy $(KUBERNETES) $(KUBERNETES_FLAGS) --all-targets -- -D warnings
	cargo test $(KUBERNETES) $(KUBERNETES_FLAGS)
	cargo build $(KUBERNETES) $(KUBERNETES_FLAGS)
	FOREBAY_OPERATOR=$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/forebay-operator \
		FOREBAY_KUBE_APISERVER="$$(.ci/kube-apiserver || true)" \
		$(BIN)/python -m pytest -q -rs python/tests/kubernetes

fmt: setup
	cargo fmt --all
	cargo fmt $(KUBERNETES)
	$(BIN)/ruff format .

# An environment of its own: no other target needs Sphinx. A warning is an error: each link, and each anchor, is checked.
SITE := $(CURDIR)/.venv-site
$(SITE)/.ready: requirements-site.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check -r requirements-site.txt
	@touch $@

site: build ## the documentation site in .site/html, from every page and from docstrings; installs Sphinx
	@if $(MAKE) --no-print-directory $(SITE)/.ready; then \
		$(SITE)/bin/python .ci/site/stage.py .site/pages && \
		PYTHONPATH=$(CURDIR)/python $(SITE)/bin/sphinx-build -q -W --keep-going -c .ci/site .site/pages .site/html; \
	else \
		echo "site: skipped, for the packages of requirements-site.txt cannot be installed here"; \
	fi

# Zig links against an old glibc, so the wheel runs on any Linux with glibc 2.28 or later. WHEEL_FLAGS: --target, for example.
wheel: setup ## a wheel for distribution, in dist/
	$(BIN)/pip install --quiet --disable-pip-version-check ziglang
	$(BIN)/maturin build --quiet --release --locked --zig --compatibility manylinux_2_28 --out dist $(WHEEL_FLAGS)

bench: build ## figures of this machine, beside tensorflow and torch where they are installed
	$(BIN)/forebay bench

# Needs cargo-fuzz (`cargo install cargo-fuzz`). Sanitizers are for nightly compilers: this makes an ordinary one accept them.
# Threads that are about to end look like leaks, so none are looked for.
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_SECONDS ?= 60
fuzz: setup ## each target of fuzz/ for FUZZ_SECONDS, with AddressSanitizer in Rust and C
	for target in $(FUZZ_TARGETS); do \
		RUSTC_BOOTSTRAP=1 CFLAGS=-fsanitize=address cargo fuzz run --sanitizer address $$target -- \
			-max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=30 -detect_leaks=0 || exit 1; \
	done

clean:
	rm -rf $(VENV) $(CURDIR)/.venv-frameworks $(SITE) .site dist target
