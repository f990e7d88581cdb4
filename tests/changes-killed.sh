#!/usr/bin/env bash
# Shows that a node is added, drained and replaced, a volume rebalanced, made larger and smaller under load, though in the middle of each the gateway, the source, the target or all of them are killed: nothing fails, every byte is there, and what was begun is ended. 48 times.
# Tier: slow
# ROUNDS=2 rounds of 6 operations and 4 victims take ten minutes.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/changes.sh"
seeded
ROUNDS=${ROUNDS:-2}

SIZE_MIB=384
start_copies 4 320MiB "size = \"${SIZE_MIB}MiB\"" 'evict_after = "3s"' 'timeout = "60s"'
OF_MODEL=(--bytes $((SIZE_MIB << 20)))
start_qemu
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
LOAD_URI=$QEMU_URI start_load load --extents 4 --connections 2 --depth 8 --reads 60 "${OF_MODEL[@]}" --model "$DIR/model" --seed "$SEED"
for ((round = 1; round <= ROUNDS; round++)); do
    for victim in $VICTIMS; do
        for operation in $OPERATIONS; do
            change "$operation" "$victim" "$round"
        done
    done
    for extent in 0 1 2 3; do extent_served load $extent 100; done
done
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'QEMU ends' stop qemu
whole_again
is_whole_without 0 1 2 3
