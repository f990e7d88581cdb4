# What building for ARM needs: a C compiler and linker (zig), a standard library by one of three routes, and qemu to run it.
#
# Sourced by build, test and qemu. Everything that is fetched lies in one folder of the user's cache and nowhere else; nothing needs root.
# docs/cross-building.md explains the routes.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${FLASHMOB_CROSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flashmob-cross}
TARGET_DIR=$(cd "$ROOT" && mkdir -p "${CARGO_TARGET_DIR:-target}/cross" && cd "${CARGO_TARGET_DIR:-target}/cross" && pwd)
PATH=$PATH:$HOME/.cargo/bin
# The versions that were tested together.
ZIG_PACKAGES=(ziglang==0.17.0 cargo-zigbuild==0.24.0)

declare -A TRIPLE=([aarch64]=aarch64-unknown-linux-musl [armv7]=armv7-unknown-linux-musleabihf)
declare -A QEMU=([aarch64]=qemu-aarch64 [armv7]=qemu-arm)
WHY=''   # why the last thing that was tried did not work

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "cross: $*"
    exit 1
}

mkdir -p "$CACHE"
# One at a time fills the cache. A lock of the kernel's: nothing stays of it.
exec 8>"$CACHE/lock"

# quietly SECONDS COMMAND...: (--foreground, so that Ctrl-C reaches it) what it said is told in WHY if it fails or takes longer: a network may be silent instead of absent.
quietly() {
    local limit=$1
    shift
    if timeout --foreground "$limit" "$@" >"$CACHE/last.log" 2>&1; then return 0; fi
    # What it calls an error says more than its last lines.
    WHY="$(basename "$1") ${*:2:3} failed: $({ grep -i '^error' "$CACHE/last.log" || grep -v '^ *$' "$CACHE/last.log"; } | tail -n 2 | tr '\n' ' ' | cut -c1-300)"
    return 1
}

# ---- zig ----

# zig_tools: cargo-zigbuild and zig in PATH, from PyPI.
zig_tools() {
    local venv=$CACHE/zig-tools stamp
    stamp=$venv/ready-$(printf '%s-' "${ZIG_PACKAGES[@]}" | tr -d =)
    flock 8
    if [ ! -e "$stamp" ]; then
        say 'cross: fetching zig, as C compiler and linker, from PyPI (once, about 80 MB)'
        command -v python3 >/dev/null || { WHY='there is no python3; install it (Debian: apt-get install python3 python3-venv)'; return 1; }
        rm -rf "$venv"
        quietly 120 python3 -m venv "$venv" || { WHY="python3 makes no virtual environment; install its module (Debian: apt-get install python3-venv). $WHY"; return 1; }
        quietly 600 "$venv/bin/pip" install --disable-pip-version-check "${ZIG_PACKAGES[@]}" || { WHY="${ZIG_PACKAGES[*]} did not come from PyPI; is there a network? $WHY"; return 1; }
        touch "$stamp"
    fi
    flock -u 8
    PATH=$venv/bin:$PATH
    export ZIG_GLOBAL_CACHE_DIR=$CACHE/zig CARGO_ZIGBUILD_CACHE_DIR=$CACHE/zigbuild
}

# ---- packages of Debian, without root ----

# debian_packages FOLDER PACKAGE...: unpacked below the folder.
debian_packages() {
    local folder=$1
    shift
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        WHY='there is no apt-get and dpkg-deb here'
        return 1
    fi
    rm -rf "$folder.new" && mkdir -p "$folder.new/archives"
    # apt-get downloads into the folder it is started in.
    if ! (cd "$folder.new/archives" && exec timeout --foreground 600 apt-get download "$@") >"$CACHE/last.log" 2>&1; then
        WHY="apt-get download $* failed; if its lists are old, run: sudo apt-get update. $(grep -v '^ *$' "$CACHE/last.log" | tail -n 1 | cut -c1-300)"
        return 1
    fi
    local archive
    for archive in "$folder.new"/archives/*.deb; do quietly 120 dpkg-deb -x "$archive" "$folder.new" || return 1; done
    rm -rf "$folder.new/archives" "$folder"
    mv "$folder.new" "$folder"
}

# ---- the three routes to a standard library ----

# route_rustup TRIPLE: the standard library as rustup has it.
route_rustup() {
    command -v rustup >/dev/null || { WHY='there is no rustup'; return 1; }
    quietly 90 rustup target add "$1"
}

# route_source TRIPLE: the standard library is built from rustup's source of it.
route_source() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library/std" ] && { build_std; return; }
    command -v rustup >/dev/null || { WHY='there is no rustup, and no source beside the compiler'; return 1; }
    quietly 300 rustup component add rust-src && build_std
}

# route_debian TRIPLE: Debian's compiler and its source of the standard library. The two belong together, cargo may be another.
route_debian() {
    local folder=$CACHE/debian-rust parts
    if [ ! -x "$folder/rustc" ]; then
        say 'cross: fetching the compiler and the source of its standard library from Debian (once, about 200 MB)'
        # Their versions stand in names of packages.
        parts=$(apt-cache depends --recurse --no-recommends --no-suggests --no-enhances --no-conflicts --no-breaks --no-replaces rustc-web 2>/dev/null \
            | grep -oE '^(libstd-rust-web-[0-9.]+|libstd-rust-web-dev|libllvm[0-9]+)$' | sort -u) || true
        [ -n "$parts" ] || { WHY="there is no package rustc-web in apt's lists"; return 1; }
        # shellcheck disable=SC2086 # names of packages
        debian_packages "$folder" rustc-web rust-web-src $parts || return 1
        # shellcheck disable=SC2016 # expanded when it runs
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$(echo "$folder"/usr/lib/*-linux-gnu)" "$folder/usr/bin/rustc" >"$folder/rustc"
        chmod +x "$folder/rustc"
    fi
    quietly 20 "$folder/rustc" --version || return 1
    export RUSTC=$folder/rustc
    build_std
}

# build_std: cargo builds the standard library too, which stable compilers allow only if asked in this way.
build_std() {
    export RUSTC_BOOTSTRAP=1
    STD=('-Zbuild-std=std,panic_unwind')
}

# take_route ARCHITECTURE: sets STD and RUSTC. ROUTE=rustup|source|debian allows that one alone.
take_route() {
    local route triple=${TRIPLE[$1]:-}
    [ -n "$triple" ] || fail "no architecture '$1'; there are: ${!TRIPLE[*]}"
    command -v cargo >/dev/null || fail 'cargo is not installed; see https://rustup.rs, then open a new shell'
    case ${ROUTE:-any} in any | rustup | source | debian) ;; *) fail "no ROUTE '$ROUTE'; there are rustup, source and debian" ;; esac
    unset RUSTC RUSTC_BOOTSTRAP RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
    STD=()
    for route in rustup source debian; do
        [ "${ROUTE:-$route}" = "$route" ] || continue
        if flock 8 && "route_$route" "$triple"; then
            flock -u 8
            case $route in
                rustup) say "cross: $1: standard library from rustup ($(rustc --version))" ;;
                source) say "cross: $1: standard library built from rustup's source ($(rustc --version))" ;;
                debian) say "cross: $1: standard library built from Debian's source, by Debian's compiler ($("$RUSTC" --version))" ;;
            esac
            return 0
        fi
        flock -u 8
        say "cross: $1: not by the route '$route': $WHY"
    done
    WHY="no route leads to a standard library for $triple; see docs/cross-building.md"
    return 1
}

# cargo_zig ARCHITECTURE build|test OPTION...: cargo with that route's standard library and zig as C compiler and linker.
cargo_zig() {
    local architecture=$1 what=$2 triple=${TRIPLE[$1]} name
    shift 2
    name=${triple^^}
    name=CARGO_TARGET_${name//-/_}
    # musl is zig's and not the compiler's, so that C and Rust have the same.
    export "${name}_RUSTFLAGS=-C link-self-contained=no"
    case $what in
        build) (cd "$ROOT" && CARGO_TARGET_DIR=$TARGET_DIR/build cargo-zigbuild zigbuild --locked --target "$triple" "${STD[@]}" "$@") ;;
        test)
            export "${name}_RUNNER=$(qemu_path "$architecture")"
            (cd "$ROOT" && CARGO_TARGET_DIR=$TARGET_DIR/build cargo-zigbuild test --locked --target "$triple" "${STD[@]}" "$@")
            ;;
    esac
}

# ---- qemu ----

# need_qemu: qemu-user for both architectures, the machine's own or Debian's package in the cache.
need_qemu() {
    local architecture package
    for architecture in "${!QEMU[@]}"; do
        WHY=''
        # Since Debian 13 the first is empty, or gone, and what it had is in the second.
        for package in qemu-user-static qemu-user; do
            [ -z "$(qemu_path "$architecture")" ] || continue 2
            say "cross: fetching $package from Debian (once, about 15 MB)"
            flock 8
            debian_packages "$CACHE/qemu" "$package" || true
            flock -u 8
        done
        [ -n "$(qemu_path "$architecture")" ] || { WHY="no ${QEMU[$architecture]} (Debian: sudo apt-get install qemu-user-static, or qemu-user). $WHY"; return 1; }
    done
}

# qemu_path ARCHITECTURE: prints where it is; nothing if it is not.
qemu_path() {
    local name=${QEMU[$1]}
    PATH=$PATH:$CACHE/qemu/usr/bin command -v "$name-static" || PATH=$PATH:$CACHE/qemu/usr/bin command -v "$name" || true
}
