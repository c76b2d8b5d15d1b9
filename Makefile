# The two commands of the README are `make run` and `make test`; each sets up what it needs. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The command line program must be of exactly the version that the lock file names.
BINDGEN_VERSION := $(shell sed -n '/^name = "wasm-bindgen"$$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
TOOLS := target/tools
BINDGEN := $(TOOLS)/bin/wasm-bindgen
NODE_MODULES := end2end/node_modules/.package-lock.json
# The MCP project's tools need a newer Node than Debian has, which comes with them; one of the servers is in Python.
MCP_TOOLS := end2end/mcp/node_modules/.package-lock.json
MCP_PYTHON := $(TOOLS)/mcp/.installed
SITE := target/site/pkg/app.js.br
WASM := target/wasm32-unknown-unknown/wasm-release/app.wasm
# Tests hold the program at its fail points. All of them use one build, where the points do nothing unless they are asked to.
FAIL_POINTS := --features server/fail-points
# The program of those tests. A plain build would compile most libraries a second time, without what only tests need of them.
PROGRAM := cargo test --workspace $(FAIL_POINTS) --no-run
# The second pass is on a PostgreSQL server of its own; what has to do with no database is left out there.
WITH_POSTGRES := server/tests/with-postgres.sh
NO_DATABASE := $(addprefix --skip ,docs:: ingest:: mail:: report::)

# Pages know nothing of the database; these are the specs in which several processes, devices or copies meet in it.
BROWSER_AND_DATABASE := $(addprefix tests/,admin.spec.ts afterwards.spec.ts cancel.spec.ts devices.spec.ts lists.hydrate.spec.ts restart.spec.ts restored.spec.ts)

.PHONY: help run check test build clean site tools browser exim dovecot postgres lint test-rust test-browser test-mcp bench bench-peers bench-scale

help: ## List the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1 — \2/p' Makefile

run: site ## Set up, build and start Recount with a demo on http://127.0.0.1:3000
	cargo build --workspace
	exec target/debug/recount serve --data target/demo --listen 127.0.0.1:3000 --demo

test: lint test-rust test-browser test-mcp ## Set up and run every test

build: site ## Build the self-contained binary target/release/recount
	cargo build --release -p server

check: ## Check while you work: formatting, lints, and the tests that need nothing but Rust and no whole program
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FAIL_POINTS) -- -D warnings
	cargo test --workspace --lib $(FAIL_POINTS)
	cargo test --workspace --test main $(FAIL_POINTS) -- docs:: ingest::

lint: tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --workspace --all-targets $(FAIL_POINTS) -- -D warnings
	cargo clippy -p app --lib --features hydrate --target wasm32-unknown-unknown -- -D warnings
	@test -z "$$(cargo tree --workspace --target all -i ring 2>/dev/null)" || { echo "ring is in the tree; TLS is aws-lc-rs everywhere"; exit 1; }

test-rust: exim dovecot postgres ## Run the tests of contract, store, services and the whole program, on both databases
	cargo test --workspace $(FAIL_POINTS)
	$(WITH_POSTGRES) cargo test -p store -p server $(FAIL_POINTS) -- $(NO_DATABASE)

test-browser: site browser postgres ## Run the browser tests, those that concern the database on both
	$(PROGRAM)
	cd end2end && npm run --silent check
	cd end2end && npx playwright test
	cd end2end && ../$(WITH_POSTGRES) npx playwright test --project=with-script $(BROWSER_AND_DATABASE)

test-mcp: $(MCP_TOOLS) $(MCP_PYTHON) ## Run the tests with the tools and servers of others that speak MCP
	$(PROGRAM)
	cd end2end/mcp && npm test --silent

bench: build ## Measure what docs/benchmarks.md reports
	cargo bench -p server --bench latency

bench-peers: site ## Measure job systems that use PostgreSQL beside Recount (bench/README.md)
	$(MAKE) --no-print-directory -f bench/Makefile

bench-scale: site ## Measure what a long queue and a long history cost, and many people who watch
	$(MAKE) --no-print-directory -f bench/Makefile scale
	$(MAKE) --no-print-directory build
	$(MAKE) --no-print-directory -f bench/Makefile watch

site: $(SITE)

# The site: style sheet, script and WebAssembly, minified and compressed.
$(SITE): $(NODE_MODULES) $(BINDGEN) Cargo.lock Cargo.toml app/Cargo.toml $(shell find app/src app/contract style end2end/site.mjs -type f)
	cargo build -p app --lib --features hydrate --target wasm32-unknown-unknown --profile wasm-release
	rm -rf target/site.new && mkdir -p target/site.new/pkg
	$(BINDGEN) --target web --no-typescript --out-dir target/site.new/pkg --out-name app $(WASM)
	node end2end/site.mjs target/site.new
	rm -rf target/site && mv target/site.new target/site

tools: $(BINDGEN)
	rustup target add wasm32-unknown-unknown

# Its own lock file names a withdrawn crate, hence no --locked; it runs for a second, hence no optimisation.
$(BINDGEN): Cargo.lock
	rustup target add wasm32-unknown-unknown
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install wasm-bindgen-cli --force --version $(BINDGEN_VERSION) --root $(TOOLS)
	touch $@

$(NODE_MODULES) $(MCP_TOOLS): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
	cd $* && npm ci --no-audit --no-fund
	touch $@

$(MCP_PYTHON): end2end/mcp/requirements.txt
	@python3 -c "import ensurepip" 2>/dev/null || $(call install,python3-venv)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-virtualenv -r $<
	touch $@

# The system's Chromium, a real mail server and a real IMAP server; on Debian they are installed where they are missing.
browser:
	@command -v chromium >/dev/null || $(call install,chromium)

exim:
	@test -x /usr/sbin/exim4 || $(call install,exim4-daemon-light)

dovecot:
	@test -x /usr/sbin/dovecot || $(call install,dovecot-imapd)

postgres:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call install,postgresql)

install = { echo "Installing $(1) for the tests"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) >/dev/null; }

clean: ## Remove everything that was built
	rm -rf target end2end/node_modules end2end/mcp/node_modules end2end/test-results end2end/playwright-report
