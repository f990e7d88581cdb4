#!/usr/bin/env bash
# Shows that everything acknowledged is there after the gateway and all nodes of a volume with copies are killed at once under load, 20 times.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdinfo
seeded

start_copies 4 8MiB 'evict_after = "500ms"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --block 16384 --model "$DIR/model"

for round in {1..20}; do
    name=load$round
    start_load "$name" --extents 4 --connections 2 --depth 8 --reads 20 --block 16384 --model "$DIR/model" --seed "$((SEED + round))"
    draw 150
    for extent in 0 1 2 3; do extent_served "$name" $extent $((50 + DRAWN)); done
    kill_all gateway "${NODES[@]}"
    finish "$name" 60
    [ -s "$DIR/$name.out" ] || fail "$name ended without a result (status $STATUS)"
    jq -e '.mismatches == 0 and .errors == {} and .disconnects == 2' "$DIR/$name.out" >/dev/null ||
        { jq -c . "$DIR/$name.out" | cut -c1-3000 >&2; fail "round $round: a wrong byte or a failed request before the kill"; }
    for node in "${NODES[@]}"; do run_node "$node"; done
    gateway_again
    # Not in every round: copies that have not been compared yet are killed again.
    [ $((round % 4)) -ne 0 ] || whole_again
    check "round $round: all is there, $(jq .uncertain "$DIR/$name.out") of the last writes were not answered" is_all_there --final --block 16384
done
check 'each start was counted' copies '.epoch == 21'
whole_again

# Each copy alone.
for node in "${NODES[@]}"; do
    stop "$node" KILL
    check "it is all there without $node" is_all_there --block 16384
    node_again "$node"
done
