# What people and CI do with this project; CI calls the same targets as people do. `make` alone lists them.
#
# It must work on a fresh Debian or Ubuntu with nothing but Rust (rustup) and make: what else a target needs is
# checked first, and installed where that is possible without asking for a password.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
PREFIX ?= /usr/local
# Seconds for each fuzz target.
SECONDS ?= 20
# Random seeds of `make faults`, and the first of them; SEED=n runs that one alone.
SEEDS ?= 10000
FIRST ?= 0
# ACCEPT=1 accepts the instructions that were counted; ONLY=native counts the cases with that in their names.
ACCEPT ?=
ONLY ?=
# Where rustup puts cargo, for shells that do not know it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
BINARIES := $(or $(CARGO_TARGET_DIR),target)/release
BINARY := $(BINARIES)/flashmob
# Where `make cross` leaves the ARM binaries.
CROSS := $(abspath $(or $(CARGO_TARGET_DIR),target)/cross)

# program:package. The second list is for the tests alone.
PROGRAMS_DEMO := cc:gcc c-library:libc6-dev mkfs.ext4:e2fsprogs
PROGRAMS_TEST := c++:g++ openssl:openssl nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdfuse:libnbd-bin qemu-img:qemu-utils qemu-io:qemu-utils qemu-storage-daemon:qemu-system-common fio:fio \
  chromium:chromium sqlite3:sqlite3 fusermount3:fuse3 losetup:mount jq:jq curl:curl python3:python3 nbdkit:nbdkit nbd-server:nbd-server valgrind:valgrind \
  iperf3:iperf3 tshark:tshark tcpdump:tcpdump ip:iproute2 ss:iproute2 setpriv:util-linux unshare:util-linux strace:strace mkfs.xfs:xfsprogs \
  dpkg-deb:dpkg nsenter:util-linux setfacl:acl strip:binutils adb:adb zbarimg:zbar-tools etcd:etcd-server
# What flashmob is measured beside.
PROGRAMS_PEERS := nbdkit:nbdkit nbd-server:nbd-server qemu-nbd:qemu-utils qemu-storage-daemon:qemu-system-common \
  nbdfuse:libnbd-bin fusermount3:fuse3 redis-server:redis-server fio:fio iperf3:iperf3 strace:strace
# A virtual machine with Debian's kernel, for what this one's lacks.
PROGRAMS_VM := qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio dpkg-deb:dpkg apt-get:apt mkfs.ext4:e2fsprogs mkfs.f2fs:f2fs-tools \
  mkfs.xfs:xfsprogs jq:jq dmsetup:dmsetup

# The app: Android's tools, and Maven to fetch the jars (packaging/android/pom.xml).
PROGRAMS_ANDROID := javac:default-jdk-headless mvn:maven aapt2:aapt zipalign:zipalign apksigner:apksigner zip:zip unzip:unzip readelf:binutils

.PHONY: planted help demo build programs test test-slow test-all test-fresh fmt-check docs-check clippy unit unit-root unit-long faults faults-commit seeds bench-instructions fuzz-short e2e e2e-slow canaries bench-peers bench-copies bench-mdadm bench-rebuild bench-etcd bench-thousand bench-moves bench-keys bench-fio bench-net bench-lab bench-air bench-arm bench-growth figures test-mmc test-luks test-kernel-client test-power termux test-termux android-syscalls deny install clean deps-demo deps-test deps-lab deps-peers deps-vm deps-termux fuzz-tools apk test-app deps-android deps-cross cross test-arm arm msrv

help: ## this text
	@echo 'flashmob: one fast volume out of many small devices'
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  one test alone:     tests/run nbdcopy'
	@echo '  one seed again:     make faults SEED=42'
	@echo '  longer fuzzing:     make fuzz-short SECONDS=600'

demo: deps-demo build ## eight nodes, a gateway and a volume on this machine, measured and verified
	@$(BINARY) demo

build: ## the whole program, optimised
	@$(CARGO) build --release --quiet --bin flashmob
	@echo "built: $(BINARY)"

test: ## what every change must pass: deterministic, no retries; runs every part and tells all that failed
	@MAKE='$(MAKE)' .ci/parts test

test-slow: ## what judges time, throughput and memory, or needs the outside world: pass, fail, or not judged
	@MAKE='$(MAKE)' .ci/parts slow

test-all: ## both of them, 10,000 more simulated clusters, and each fuzz target for 20 s
	@MAKE='$(MAKE)' .ci/parts all

test-fresh: ## make demo and make test in a minimal Debian with nothing but make and Rust (root; KEEP=1 keeps it)
	@.ci/fresh

cross: deps-cross ## for ARM, static and stripped: target/cross/flashmob-{aarch64,armv7}, and flashmob-node-* for nodes (PROGRAMS=flashmob-node: that alone; ROUTE=rustup|source|debian; docs/cross-building.md)
	@packaging/cross/build

test-arm: deps-test build ## on both ARM architectures under qemu-user: suites of core, node and gateway, end-to-end tests with ARM nodes, measurements
	@packaging/cross/test all

arm: deps-test build ## the part of test-arm that is in make test-slow: a 32-bit ARM node behind a gateway of this machine's (FLASHMOB_REQUIRE_ARM=1: it must run)
	@echo '== a 32-bit ARM node'
	@packaging/cross/test chosen

# cargo itself refuses older compilers; this is about the other direction, a version that nobody compiles with.
msrv: ## the minimum Rust version is one that CI compiles with
	@.ci/minimum-rust

fmt-check: ## formatting
	@echo '== format'
	@$(CARGO) fmt --all --check

docs-check: ## links of the documents, and the table of unsafe code
	@echo '== documents'
	@tests/links.py
	@.ci/unsafe

clippy: ## lints, none of them tolerated
	@echo '== lints'
	@$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings

# Not --release: linking every test program with LTO takes longer than the tests gain.
unit: ## unit and property tests, and every committed input of the fuzz targets
	@echo '== unit and property tests'
	@$(CARGO) test --quiet --workspace --no-fail-fast

# The whole workspace again, for -p alone would build its crates anew with other features of theirs.
# One after another: they share the machine's loop devices, and to take a free one means to open those of others for a moment.
unit-root: ## unit tests with loop devices, schedulers, full disks and tracing (root)
	@echo '== tests with loop devices, schedulers, full disks and tracing'
	@if [ "$$(id -u)" = 0 ]; then $(CARGO) test --quiet --workspace --lib --no-fail-fast -- --ignored --test-threads=1 store:: host:: capture:: privileged::; \
	else echo 'not run: needs root'; fi

unit-long: ## unit tests that take a minute: more of what make unit tries
	@echo '== long unit tests'
	@$(CARGO) test --quiet --workspace --lib --no-fail-fast -- --ignored ::long_

faults: ## 10,000 simulated clusters with faults, every answer checked (SEEDS=n for more, FIRST=n to begin elsewhere, SEED=n for one, COPIES=1 for volumes with copies, KILLED=1 for changes in whose middle somebody is killed)
	@echo '== faults'
	@$(CARGO) build --release --quiet --bin faults
	@$(if $(SEED),,echo 'seeds $(FIRST) to '$$(($(FIRST) + $(SEEDS) - 1)))
	@$(BINARIES)/faults $(if $(COPIES),--copies) $(if $(KILLED),--killed) $(if $(SEED),--seed $(SEED),--first $(FIRST) --seeds $(SEEDS))

# Other seeds for each commit, and the same ones whenever that commit is tested.
faults-commit: ## 2,000 simulated clusters, 2,000 with copies, and 100 moments of each change for each victim, the first drawn from the commit's hash
	@commit=$$(git rev-parse --verify --quiet HEAD 2>/dev/null || true); first=$$((0x0$${commit:0:8})); $(MAKE) faults SEEDS=2000 FIRST=$$first && $(MAKE) faults COPIES=1 SEEDS=2000 FIRST=$$first && $(MAKE) faults KILLED=1 SEEDS=2400 FIRST=$$first

# The ranges of each family; the records are of one build. KEEP=1 goes on with a later one: what passed counts.
SEEDS_DIR ?= target/seeds
SEEDS_COPIES ?= 400000
SEEDS_KILLED ?= 24000
SEEDS_PLAIN ?= 100000
seeds: ## 400,000 simulated clusters with copies, 24,000 killed changes and 100,000 without copies, hours; Ctrl-C interrupts, the same command goes on (FIRST=n, KEEP=1 after a change)
	@$(CARGO) build --release --quiet --bin faults
	@mkdir -p $(SEEDS_DIR)
	@run() { name=$$1; shift; echo "== seeds: $$name"; \
	  $(BINARIES)/faults "$$@" --first $(FIRST) --resume $(SEEDS_DIR)/$$name $(if $(KEEP),--keep-passed); }; status=0; \
	for family in copies:$(SEEDS_COPIES):--copies killed:$(SEEDS_KILLED):--killed plain:$(SEEDS_PLAIN):; do \
	  IFS=: read -r name count option <<<"$$family"; run "$$name" $$option --seeds "$$count" || status=$$?; [ $$status -le 1 ] || exit $$status; \
	done; exit $$status

bench-instructions: ## instructions per request, compared with the accepted figures (ACCEPT=1 accepts them, ONLY=native for some)
	@echo '== instructions per request'
	@.ci/deps valgrind:valgrind
	@for crate in core server; do $(CARGO) bench --quiet -p flashmob-$$crate --bench instructions -- $(if $(ACCEPT),--accept) $(if $(ONLY),'$(ONLY)') || exit 1; done

bench-arm: deps-cross build ## instructions per request of flashmob-node on ARM, by a plugin of qemu-user's, 2 minutes (first: make cross)
	@bench/arm/run

planted: ## how many seeds `make faults` needs to find each planted bug, over five ranges: a table, 10 minutes
	@$(CARGO) run --profile planted --quiet -p flashmob-lab --features planted --bin planted

fuzz-short: fuzz-tools ## every fuzz target for 20 s (SECONDS=n)
	@echo '== fuzzing'
	@fuzz/run $(SECONDS)

# In one command from the root: with -p each would bring its own features of its dependencies, and rebuild them.
programs: ## the binary, the fault simulator and what end-to-end tests run beside it, optimised
	@$(CARGO) build --release --quiet --bin flashmob --bin flashmob-node --bin faults --bin fairness --bin android-filter

e2e: programs ## real clients, real processes, real faults: what is deterministic (tests/run NAME... for some)
	@echo '== end to end'
	@tests/run --tier test

e2e-slow: programs ## the end-to-end tests that judge time, throughput and memory, or need the outside world
	@echo '== end to end, slow'
	@tests/run --tier slow

canaries: programs ## each slow end-to-end test against a binary with a planted bug, which it must find
	@echo '== canaries'
	@$(CARGO) build --profile planted --quiet --bin flashmob --features flashmob/planted
	@tests/run --canaries

bench-peers: deps-peers build ## flashmob beside other servers in one run, under 20 minutes (QUICK=1: under 3)
	@$(CARGO) build --release --quiet -p flashmob-peers
	@$(dir $(BINARY))bench-peers $(if $(QUICK),--quick) $(ARGS)

bench-fio: deps-peers build ## flashmob bench disk beside fio and beside a bare loop of system calls, in one run
	@$(CARGO) build --release --quiet -p flashmob-peers --bin bench-fio
	@$(dir $(BINARY))bench-fio $(if $(QUICK),--rounds 3 --time 1) $(ARGS)

bench-net: deps-peers build ## flashmob bench net beside iperf3, on loopback and between two network namespaces, in one run
	@$(CARGO) build --release --quiet -p flashmob-peers --bin bench-net
	@$(dir $(BINARY))bench-net $(if $(QUICK),--rounds 3 --time 1) $(ARGS)

bench-copies: deps-peers build ## two copies beside GlusterFS with two, a node killed meanwhile, on loopback, 3 minutes (root)
	@.ci/deps glusterfsd:glusterfs-server glusterfs:glusterfs-client
	@bench/copies/run $(ARGS)

bench-moves: deps-peers build ## what --dry-run tells of moves beside what happens, over a modelled air, 3 minutes (root)
	@bench/moves/run

bench-rebuild: deps-peers build ## a rebuild beside clients, by real processes over a modelled air, at 25 to 90 % load, 40 minutes (root)
	@bench/rebuild/run

bench-mdadm: deps-vm build ## two copies beside mdadm's RAID 1 over NBD in a virtual machine: bytes, errors, completeness; 3 minutes
	@.ci/deps fio:fio mdadm:mdadm nbd-client:nbd-client nbd-server:nbd-server curl:curl
	@bench/copies/mdadm

bench-etcd: deps-test build ## the first write to a chunk where the map is in etcd beside that where it is in a file, and an etcd that is 50 ms late; 4 minutes
	@bench/etcd/run

bench-thousand: deps-test build ## what a gateway spends on 10, 100 and 1,000 node processes while nobody asks for anything; 5 minutes
	@bench/copies/thousand

bench-keys: deps-test build ## links with keys beside links without, on loopback and over a modelled air: requests/s, processor time, bytes and packets; 4 minutes
	@bench/keys/run
	@bench/keys/air

bench-lab: deps-lab build ## flashmob beside nbdkit, GlusterFS and P1's mode over a modelled air, with the share of the limit, 25 minutes (QUICK=1: 3)
	@$(CARGO) build --release --quiet -p flashmob-peers --bin bench-lab
	@$(dir $(BINARY))bench-lab $(if $(QUICK),--rounds 1 --time 2) $(ARGS)

bench-air: ## the share of what air and flash can do, in virtual time: sizes, 1 to 32 nodes, airs, gateways; table and figure, minutes (QUICK=1: fewer)
	@$(CARGO) build --release --quiet -p flashmob-peers --bin bench-air
	@$(dir $(BINARY))bench-air $(if $(QUICK),--nodes 8 --air 11n) $(ARGS)

bench-growth: ## what 10 to 1,000 simulated nodes, and maps of 1 to 64 TiB, cost: the gateway's work, start, memory; tables and figure, 5 minutes (ARGS='--of maps')
	@$(CARGO) build --release --quiet -p flashmob-peers --bin bench-growth
	@$(dir $(BINARY))bench-growth $(if $(QUICK),--rounds 1) $(ARGS)

figures: build ## docs/figures.md: the papers' figures from the simulator, models, the lab and this machine (root, 15 minutes)
	@rm -rf target/figures docs/figures && mkdir -p target/figures
	@cd target/figures && $(abspath $(BINARY)) reproduce p1 --in simulator --save results -o p1.html
	@cd target/figures && $(abspath $(BINARY)) reproduce p3 --save results -o p3.html
	@cd target/figures && $(abspath $(BINARY)) reproduce p4 --quick --save results -o p4.html
	@cd target/figures && $(abspath $(BINARY)) reproduce p5 --quick --systems ext4,xfs --journal DELETE --synchronous FULL --save results -o p5.html
	@$(BINARY) -q report target/figures/results/*.json -o target/figures/all.html --figures docs/figures.md

test-mmc: deps-vm build ## flashmob trace on a real MMC driver: Debian's kernel and an emulated SD card in a virtual machine, 1 minute
	@tests/mmc/run

test-luks: deps-vm build ## a volume encrypted at its client by the commands of docs/security.md: cryptsetup in a virtual machine with Debian's kernel, 2 minutes
	@.ci/deps cryptsetup:cryptsetup-bin nbd-client:nbd-client mkfs.ext4:e2fsprogs
	@tests/luks/run

test-kernel-client: deps-vm build ## what the kernel's NBD client sees while a volume grows and shrinks, by the commands of docs/copies.md, in a virtual machine with Debian's kernel, 1 minute
	@.ci/deps nbd-client:nbd-client mkfs.ext4:e2fsprogs e2fsck:e2fsprogs resize2fs:e2fsprogs blkdiscard:util-linux
	@tests/kernel-client/run

test-power: deps-vm deps-test build ## power cuts of nodes' devices on ext4, f2fs and XFS, by dm-flakey in a virtual machine with Debian's kernel, 10 minutes
	@tests/power/run

# Termux's word for an architecture, and the binary of `make cross` for it.
TERMUX := aarch64=$(CROSS)/flashmob-aarch64 arm=$(CROSS)/flashmob-armv7

termux: ## Termux's packages for aarch64 and arm, out of what `make cross` built
	@for pair in $(TERMUX); do [ -f "$${pair#*=}" ] || { $(MAKE) cross; break; }; done
	@for pair in $(TERMUX); do packaging/termux/build "$${pair%%=*}" "$${pair#*=}" $(dir $(CROSS))termux; done

test-termux: deps-termux build ## both packages in a prefix like Termux's, and adb, with the ARM binaries under qemu-user, 2 minutes
	@for pair in $(TERMUX); do [ -f "$${pair#*=}" ] || { $(MAKE) cross; break; }; done
	@TERMUX_BINARIES='$(TERMUX)' PUSH_BINARY='$(lastword $(TERMUX))' VERBOSE=1 LIMIT_S=600 tests/run termux push push-reproduce

android-syscalls: deps-test build ## the system calls of flashmob-node for ARM of 'make cross', under qemu-user, compared with what is known (ACCEPT=1 accepts them)
	@ACCEPT=$(ACCEPT) tests/android/syscalls

# flashmob-node comes from `make cross`; BINARIES=FOLDER takes flashmob-node-aarch64 and flashmob-node-armv7 from elsewhere.
apk: deps-android ## the Android app for both ARM architectures, signed with a test key and checked (first: make cross)
	@packaging/android/build

# Python is the fake node's. REAL_NODE=PROGRAM also runs that one under the app's service.
test-app: deps-android ## the Android app's tests on Robolectric (Android 6 and 14), and pictures of its screen; fetches 600 MB once
	@.ci/deps python3:python3
	@packaging/android/test-app

deny: ## licences, sources and advisories of everything it depends on
	@command -v cargo-deny >/dev/null || $(CARGO) install --quiet --locked cargo-deny
	@$(CARGO) deny check licenses bans sources
	@$(CARGO) deny check advisories || { echo 'the advisories were not checked, or there are some: see above (their list comes from the network)'; exit 1; }

install: build ## the binary to PREFIX (/usr/local)
	@install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/flashmob
	@echo "installed: $(DESTDIR)$(PREFIX)/bin/flashmob"

clean: ## all that was built
	@$(CARGO) clean --quiet
	@rm -rf fuzz/corpus fuzz/libfuzzer/target fuzz/libfuzzer/artifacts fuzz/libfuzzer/coverage

deps-demo: ## what the demo needs
	@.ci/deps $(PROGRAMS_DEMO)

deps-test: ## what the tests need
	@.ci/deps --rust $(PROGRAMS_DEMO) $(PROGRAMS_TEST) python-module-nbd:python3-libnbd python-module-ensurepip:python3-venv

# A build script is linked for this machine; zig comes into a virtual environment of Python's.
deps-cross:
	@.ci/deps cc:gcc c-library:libc6-dev python3:python3 python-module-ensurepip:python3-venv

deps-android:
	@.ci/deps $(PROGRAMS_ANDROID)

deps-vm:
	@.ci/deps $(PROGRAMS_VM)

deps-termux:
	@.ci/deps dpkg-deb:dpkg nsenter:util-linux nbdcopy:libnbd-bin jq:jq strip:binutils adb:adb qemu-aarch64-static:qemu-user-static qemu-arm-static:qemu-user-static

# A peer that cannot be installed is named in the results; the others are measured.
deps-peers:
	@.ci/deps $(PROGRAMS_PEERS) || echo 'some of the servers to compare with are missing: they will be named as not measured'

# The same.
deps-lab:
	@.ci/deps nbdkit:nbdkit glusterfsd:glusterfs-server glusterfs:glusterfs-client fio:fio || echo 'some of the servers to compare with are missing: they will be named as not measured'

fuzz-tools:
	@command -v cargo-fuzz >/dev/null || { echo 'installing cargo-fuzz'; $(CARGO) install --quiet --locked cargo-fuzz; }
