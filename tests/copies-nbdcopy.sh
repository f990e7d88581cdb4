#!/usr/bin/env bash
# Shows that nbdcopy copies an image in while nodes or the gateway fail in the middle of it, and copies the same bytes out afterwards and with each node dead.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdcopy nbdkit
SIZE=$((64 << 20))

# A new image each time, so that what an earlier one left is never taken for it.
image() {
    head -c "$SIZE" /dev/urandom >"$DIR/in.raw"
    rm -f "$DIR/out.raw"
}
written() { curl -sf "http://$ADMIN/status" | jq '.gateway.requests[] | select(.[0] == "write") | .[1]'; }
has_written() { ! alive copy || [ "$(written)" -ge "$1" ]; }

# copy_in_while WHAT FAULT...: an image is copied in, and the fault happens in the middle: until it has, the source is slow.
copy_in_while() {
    local what=$1 before
    shift
    image
    before=$(written)
    echo 64M >"$DIR/bits_per_second"
    rm -f "$DIR/source.sock"
    start source nbdkit -f -U "$DIR/source.sock" --filter=rate file "$DIR/in.raw" rate-file="$DIR/bits_per_second"
    wait_for 10 'the source' test -S "$DIR/source.sock"
    start copy nbdcopy --requests=16 --request-size=65536 --flush "nbd+unix:///?socket=$DIR/source.sock" "${COPY_URI:-$URI}"
    wait_for 20 'the first part to be copied' has_written $((before + 50))
    alive copy || fail "$what: nbdcopy was over before the fault"
    "$@"
    alive copy || fail "$what: nbdcopy was over before the end of the fault"
    echo 100G >"$DIR/bits_per_second"
    finish copy 60
    [ "$STATUS" -eq 0 ] || { cat "$DIR/copy.log" >&2; fail "$what: nbdcopy ended with $STATUS"; }
    stop source
    copy_out "$what"
}
# copy_out WHAT
copy_out() {
    check "$1: nbdcopy out" nbdcopy "$URI" "$DIR/out.raw"
    check "$1: the same bytes" cmp "$DIR/in.raw" "$DIR/out.raw"
}
evicted() { ! alive copy || copies ".evictions > $1"; }

# The faults, each in the middle of a copy.
nothing() { :; }
killed() { stop node1 KILL; }
killed_and_back() { stop node2 KILL && run_node node2; }
restarted() { stop node3 && run_node node3; }
frozen() {
    local before
    before=$(copies_say .evictions)
    freeze node0
    # It stands still for as long as it takes until others go on without it.
    wait_for 20 'the end of waiting for it' evicted "$before"
    kill -CONT "${PID[node0]}"
}
frozen_for_good() { freeze node1; }
gateway_killed() { stop gateway KILL && gateway_again; }
all_killed() {
    kill_all gateway "${NODES[@]}"
    for node in "${NODES[@]}"; do run_node "$node"; done
    gateway_again
}

at_end 'for node in "${NODES[@]}"; do ! alive "$node" || kill -CONT "${PID[$node]}"; done'
start_copies 4 32MiB 'evict_after = "500ms"' 'timeout = "60s"'
copy_in_while 'without a fault' nothing
copy_in_while 'a node killed' killed
node_again node1
copy_in_while 'a node killed and started again' killed_and_back
whole_again
copy_in_while 'a node ended and started again' restarted
whole_again
copy_in_while 'a node frozen until others go on without it' frozen
whole_again
copy_in_while 'a node frozen for good' frozen_for_good
kill -CONT "${PID[node1]}"
whole_again
copy_out 'when it goes on'

# nbdcopy ends when its connection does: QEMU's client between the two reconnects.
start_qemu
COPY_URI=$QEMU_URI
copy_in_while 'the gateway killed and started again' gateway_killed
whole_again
copy_in_while 'all killed at once and started again' all_killed
whole_again
for node in "${NODES[@]}"; do
    stop "$node" KILL
    copy_out "without $node"
    node_again "$node"
done
