#!/usr/bin/env bash
# Shows that nodes start and serve under the filters of system calls that Android 8, 10, 13 and 15 put over 64-bit apps, that bench, trace sqlite and status work there, and that a node has no child.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq nbdcopy strace
need_python_nbd

LISTS=$ROOT/crates/flashmob/tests/data/android
FILTER=${FILTER:-$(dirname "$FLASHMOB")/android-filter}
[ -x "$FILTER" ] || fail "$FILTER does not exist; run: make programs"
# Our binaries for Android are linked with musl; this one may be linked with glibc, whose own start the filter has to help.
OPTIONS=()
[[ $(ldd "$FLASHMOB" 2>/dev/null || true) != *libc.so.6* ]] || OPTIONS=(--c-library)
PLAIN=$FLASHMOB
# What the app has.
NODE=${NODE:-$(dirname "$FLASHMOB")/flashmob-node}
[ -x "$NODE" ] || fail "$NODE does not exist; run: make programs"

# under RELEASE COMMAND...
under() {
    local release=$1
    shift
    ANDROID_ROOT=/system "$FILTER" "${OPTIONS[@]}" "$LISTS" "$release" "$@"
}

# killed_by_the_filter WHAT COMMAND...: passes if it ends by SIGSYS.
killed_by_the_filter() {
    local what=$1 status=0
    shift
    "$@" >"$DIR/killed.out" 2>&1 || status=$?
    [ "$status" -eq $((128 + 31)) ] || { cat "$DIR/killed.out" >&2; fail "$what: status $status, not SIGSYS"; }
    pass "$what"
}

# What the test is worth: the filter ends programs that do not know it.
killed_by_the_filter 'a forbidden call ends a program' "$FILTER" "$LISTS" 8 --probe statx
killed_by_the_filter 'on Android 15 too' "$FILTER" "$LISTS" 15 --probe io_uring_setup
check 'an allowed call is made' "$FILTER" "$LISTS" 15 --probe statx
killed_by_the_filter 'an ordinary program has no chance' under 8 "$(command -v stat)" /
[ "$("$FILTER" "$LISTS" 8 --list | wc -l)" -gt 180 ] || fail 'the list of Android 8 is short'

# serves RELEASE COMMAND...: a cluster of three nodes that COMMAND runs, a plain gateway, clients, a kill, a restart.
serves() {
    local release=$1 node direct
    shift
    printf '#!/bin/sh\nexport ANDROID_ROOT=/system\nexec %s "$@"\n' "$*" >"$DIR/node-$release"
    chmod +x "$DIR/node-$release"
    DATA_DIR=$DIR/$release NODES=() ADDR=() NODE_BINARIES=("$DIR/node-$release") NODE_PROGRAM=()
    mkdir -p "$DATA_DIR"
    rm -f "$DIR/gateway.toml.extents"
    for node in a b c; do
        NODES+=("$release$node")
        direct=
        [ "$node" != c ] || direct=--direct
        # shellcheck disable=SC2086
        start_node "$release$node" 4MiB -v --admin 127.0.0.1:0 $direct
    done
    start_gateway 'layout = "striped"' 'stripe = "4KiB"'
    "$PYTHON" "$TESTS/nbd_commands.py" writable "$URI" "$UNIX_URI" 2>"$DIR/commands.out" || { cat "$DIR/commands.out" >&2; fail "$release: see above"; }
    pass "$release: every command of NBD"
    check "$release: an image goes in" nbdcopy --connections=4 --requests=64 --flush "$DIR/in.img" "$URI"
    stop "${release}a" KILL
    run_node "${release}a"
    check "$release: it comes out, after a node was killed" nbdcopy --connections=4 --requests=64 "$URI" "$DIR/out.img"
    check "$release: unchanged" cmp "$DIR/in.img" "$DIR/out.img"
    node_admin=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/${release}b.log" | head -n 1)
    curl -s "http://$node_admin/status" | jq -r '.forbidden_calls // [] | join(" ")' >"$DIR/forbidden-$release"
    check "$release: status of a node" "$DIR/node-$release" status "$node_admin"
    stop gateway
    for node in a b c; do
        stop "$release$node"
        [ "$STATUS" -eq 0 ] || fail "$release: a node ended with $STATUS"
    done
    pass "$release: nodes stop as they should"
}

dd if=/dev/urandom of="$DIR/in.img" bs=1M count=12 status=none
for release in 8 10 13 15; do
    serves "$release" "$FILTER" "${OPTIONS[@]}" "$LISTS" "$release" "$NODE"
    forbidden=" $(cat "$DIR/forbidden-$release") "
    case $release in
        8 | 10) [[ $forbidden == *' statx '* ]] || fail "$release: statx was not answered: '$forbidden'" ;;
        *) [[ $forbidden != *' statx '* ]] || fail "$release: statx is allowed there" ;;
    esac
    pass "$release: did without:${forbidden% }"
    check "$release: bench disk" under "$release" "$PLAIN" bench disk "$DIR/bench.dat" --size 8MiB --time 0.1 --repeat 1
    rm -f "$DIR/bench.dat"
    check "$release: trace sqlite" under "$release" "$PLAIN" trace sqlite "$DIR" --journal DELETE,WAL --inserts 20 --pairs 1
    start server "$PLAIN" bench net --server --bind 127.0.0.1 --port 0
    started server 'listening on 127\.0\.0\.1:[0-9]+'
    port=$(sed -nE 's/.*listening on 127\.0\.0\.1:([0-9]+).*/\1/p' "$DIR/server.log" | head -n 1)
    check "$release: bench net" under "$release" "$PLAIN" bench net --connect "127.0.0.1:$port" --time 0.1
    stop server
done

refused 'io_uring is not tried by a node' 'Android forbids io_uring; use --engine threads' \
    "$DIR/node-8" node --data "$DIR/u.img" --size 1MiB --engine io_uring --listen 127.0.0.1:0
refused 'nor by bench disk' 'Android forbids io_uring; use --engine pread' \
    env ANDROID_ROOT=/system "$FILTER" "${OPTIONS[@]}" "$LISTS" 8 "$PLAIN" bench disk "$DIR/u.dat" --size 8MiB --time 0.1 --engine io_uring

# One process: the system counts an app's children, and ends those that are too many.
traced_here() { strace -qq -o /dev/null true 2>/dev/null; }
traced_here || { echo '    not run: that a node has no child cannot be shown, for strace may not trace here' >&2; exit $NOT_RUN; }
start alone env ANDROID_ROOT=/system strace -D -f -qq -e trace=process,io_uring_setup -o "$DIR/strace.out" "$NODE" node --data "$DIR/alone.img" --size 12MiB --listen 127.0.0.1:0
started alone 'listening on 127\.0\.0\.1:[0-9]+'
NODES=(alone)
rm -f "$DIR/gateway.toml.extents"
ADDR[alone]=$(sed -nE 's/.*listening on (127\.0\.0\.1:[0-9]+).*/\1/p' "$DIR/alone.log" | head -n 1)
start_gateway
check 'a traced node takes an image' nbdcopy --flush "$DIR/in.img" "$URI"
stop gateway
stop alone
# Threads are clones too; what is none of them is a child.
grep -q 'CLONE_THREAD' "$DIR/strace.out" || fail 'no thread was seen: strace.out says nothing'
children=$(grep -E '\b(fork|vfork|clone|clone3)\(' "$DIR/strace.out" | grep -v CLONE_THREAD || true)
[ -z "$children" ] || fail "a node has a child: $children"
[ "$(grep -c 'execve(' "$DIR/strace.out")" -eq 1 ] || fail 'a node ran another program'
! grep -q io_uring "$DIR/strace.out" || fail 'a node tried io_uring'
pass 'a node has threads and no child, and does not try io_uring'
