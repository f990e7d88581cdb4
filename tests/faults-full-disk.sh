#!/usr/bin/env bash
# Shows that a node whose disk is full answers writes with ENOSPC and reads with the right bytes, and takes writes again when there is space.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq
need_root 'a small tmpfs is mounted'

mkdir "$DIR/small"
mount -t tmpfs -o size=24M tmpfs "$DIR/small"
at_end 'stop full KILL; umount "$DIR/small"'
head -c 16M /dev/zero >"$DIR/small/ballast"

# The node promises 16 MiB and has 8.
start_node roomy 16MiB
DATA=$DIR/small/full.img start_node full 16MiB
NODES=(roomy full)
start_gateway
start_load load --extents 2 --connections 2 --depth 8 --reads 50 --model "$DIR/model"
disk_is_full() { jq -e '.phase_extents[1].errors > 100' "$DIR/load.progress"; }
wait_for 60 'the disk to be full' disk_is_full
next_phase load
load_seconds load 1
next_phase load
rm "$DIR/small/ballast"
extent_served load 1 500
next_phase load
extent_served load 1 500
end_load load
no_wrong_byte load
expect_result load 'writes to the full node failed with ENOSPC and nothing else' '[.errors | keys[]] == ["ENOSPC"]'
expect_result load 'the other node was not concerned' 'all(.phases[].extents[0].errors == {}; .)'
expect_result load 'reads went on while it was full' '.phases[1].extents[1].good > 0'
expect_result load 'all writes are taken when there is space again' '.phases[-1].extents[1].errors == {}'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
