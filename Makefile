# What one can do here; `make` alone says it.
TARGET ?= $(or $(CARGO_TARGET_DIR),target)
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 30
API_CASES ?= 10000

.PHONY: help deps rust build deb demo test check test-cargo test-instructions test-loom test-miri test-e2e \
	test-vm test-api test-deb test-systemd test-container test-releases fuzz soak soak-reload soak-xdp \
	test-xdp-kernels

help:
	@echo 'make demo      build HNLB and show it under load in a lab of network namespaces (root)'
	@echo 'make build     build the release binary, $(TARGET)/release/hnlb'
	@echo 'make deb       a Debian package in $(TARGET)/deb, checked by lintian'
	@echo 'make test      every check and test; those that need root are skipped without it'
	@echo 'make test-instructions  only the instructions per packet, against their bounds;'
	@echo '               with UPDATE=1 the bounds are written anew'
	@echo 'make test-loom only the connection table, model-checked'
	@echo 'make test-miri the connection table in Miri, on the nightly toolchain'
	@echo 'make test-e2e  only the whole lab, with each encoding'
	@echo 'make test-vm   only real drivers, in QEMU: rules on net_tap, receive side scaling on virtio'
	@echo 'make test-xdp-kernels  the XDP program on Linux 5.15, 6.1 and 6.12, in QEMU'
	@echo 'make test-api  the control API against API_CASES=$(API_CASES) random requests'
	@echo 'make test-deb  the package, installed, run and removed in a clean Debian (root)'
	@echo 'make test-systemd  the package under systemd, in QEMU: watchdog, reload, upgrade (root)'
	@echo 'make test-container  the container image, built by buildah and run (root)'
	@echo 'make test-releases  crate dpdk against the headers of DPDK 23.11 and 24.11'
	@echo 'make deps      install the Debian packages needed (root or sudo)'
	@echo 'make fuzz      every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make soak-reload  twenty times as many random changes of the configuration as make test'
	@echo 'make soak-xdp  ten million packets through the XDP program, beside software and the emulated card'
	@echo 'make soak      the lab under load again and again for SOAK_MINUTES=$(SOAK_MINUTES)'

deps:
	@sh scripts/deps.sh

rust:
	@sh scripts/rust.sh

build: rust deps
	cargo build --release --locked -p hnlb

# A Debian package in $(TARGET)/deb, checked by lintian.
deb: build
	@sh scripts/deb.sh $(TARGET)/release/hnlb $(TARGET)/deb

demo: build
	@if [ "$$(id -u)" = 0 ] || ! command -v sudo > /dev/null; then \
		exec $(TARGET)/release/hnlb lab demo; \
	else \
		exec sudo $(TARGET)/release/hnlb lab demo; \
	fi

# Labs wait most of their time. Instructions and models have target directories of their
# own and do not depend on time: they are built and run beside the labs, as niced as can
# be, and what they print comes behind.
test: check test-cargo
	@sh scripts/beside.sh '$(MAKE) --no-print-directory test-instructions test-loom' \
		'$(MAKE) --no-print-directory test-e2e test-vm'

check: rust deps
	sh scripts/links.sh
	sh scripts/tests.sh
	sh scripts/promtool.sh
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked

# No crate has tests in its documentation (scripts/tests.sh sees to that), and looking for
# them takes rustdoc a while for each.
test-cargo: rust deps
	cargo test --workspace --tests --locked

# What a packet costs, counted in callgrind; the bounds are in
# crates/pipeline/benches/instructions.toml.
test-instructions: rust deps
	UPDATE=$(UPDATE) cargo bench -p pipeline --bench instructions --locked

# Every interleaving of two and three threads with up to three preemptions; a
# target directory of its own, since the flag changes every dependency. 900 seconds
# without the build, beside the labs: only what hangs takes longer.
loom = RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=3 $(1) \
	cargo test -p conntrack --lib --profile loom --locked --target-dir $(TARGET)/loom
test-loom: rust
	$(call loom,) --no-run
	$(call loom,timeout 900)

# DPDK's headers as Ubuntu 24.04 and Debian 13 have them, from their archives.
test-releases: rust deps
	@sh scripts/dpdk-releases.sh $(TARGET)/releases

test-miri: rust
	@sh scripts/miri.sh $(TARGET)/miri

# The program that the tests are built with serves these two as well. `cargo build -p
# hnlb` would build most of it again: the libraries have other features without the
# tests.
test-e2e: rust deps
	cargo test --workspace --tests --locked --no-run
	@sh scripts/e2e.sh $(TARGET)/debug/hnlb

test-vm: rust deps
	cargo test --workspace --tests --locked --no-run
	@sh crates/lab/vm/test.sh $(TARGET)/debug/hnlb $(TARGET)/vm

test-xdp-kernels: rust deps
	cargo test -p xdp --tests --locked --no-run 2>&1 | tee $(TARGET)/xdp-tests
	@sh crates/lab/vm/xdp.sh $(TARGET)/vm $$(sed -n 's/.*tests.*(\(.*\))$$/\1/p' $(TARGET)/xdp-tests)

# Other requests: HNLB_SEED=2 make test-api.
test-api: rust deps
	HNLB_API_CASES=$(API_CASES) cargo test --workspace --test api_cases --locked -- --nocapture

test-deb: deb
	@sh scripts/test-deb.sh $(TARGET)/deb/hnlb_*.deb

test-systemd: deb
	@sh scripts/test-systemd.sh $(TARGET)/deb/hnlb_*.deb $(TARGET)/vm

test-container: deb
	@sh scripts/test-container.sh $(TARGET)/deb/hnlb_*.deb

fuzz: rust
	@sh scripts/fuzz.sh $(FUZZ_SECONDS)

# Other seeds: HNLB_SEED=100000 make soak-reload.
soak-reload: rust deps
	HNLB_SEQUENCES=1000 cargo test -p replay --test replay --locked reload:: -- --nocapture

# The XDP program against software and against the emulated card.
soak-xdp: rust deps
	XDP_PACKETS=5000000 cargo test -p xdp --locked -- --nocapture

soak: build
	@sh scripts/soak.sh $(TARGET)/release/hnlb $(SOAK_MINUTES)
