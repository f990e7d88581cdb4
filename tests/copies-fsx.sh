#!/usr/bin/env bash
# Shows that fsx finds no wrong byte on a volume with copies while its gateway is killed and started again, and its nodes are killed one after another.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/fsx.sh"
OPERATIONS=${OPERATIONS:-10000}
seeded

start_copies 4 16MiB 'evict_after = "1s"' 'timeout = "60s"'
start_fsx "$OPERATIONS" 16777216
# goes_on: waits until fsx has written more. What it reads then comes from the volume, not from the page cache.
goes_on() {
    fsx_goes_on 300
    blockdev --flushbufs "$LOOP"
}

kills=0
goes_on
while alive fsx; do
    stop gateway KILL
    gateway_again
    goes_on
    node=node$((kills % 4))
    stop "$node" KILL
    goes_on
    node_again "$node"
    goes_on
    kills=$((kills + 1))
done
finish_fsx
[ "$kills" -gt 1 ] || fail "fsx was over before the faults: OPERATIONS=$OPERATIONS are too few"
pass "$OPERATIONS operations of fsx, the gateway and a node killed $kills times, no wrong byte"
whole_again
