#!/usr/bin/env bash
# Shows that a node killed with -9 under load holds up only its own requests: no wrong byte, no error if it is back in time, EIO if not, and service resumes by itself.
# Tier: test
. "$(dirname "$0")/lib.sh"
need jq

# others_unharmed LOAD PHASE WHAT: p99 of extents 0, 1 and 3 in a phase is within twice that of phase 0, and none of them failed.
others_unharmed() {
    local load=$1 phase=$2 what=$3 extent before now
    for extent in 0 1 3; do
        before=$(result "$load" ".phases[0].extents[$extent].p99_ms")
        now=$(result "$load" ".phases[$phase].extents[$extent].p99_ms")
        at_most "$what, p99 of extent $extent (before: $before ms)" "$now" "$(jq -n "$before * 2")" ms
        expect_result "$load" "$what, no error in extent $extent" ".phases[$phase].extents[$extent].errors == {}"
    done
}

start_cluster 4 8MiB 'timeout = "10s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load short --extents 4 --connections 2 --depth 8 --model "$DIR/model"
load_seconds short 3
next_phase short
stop node2 KILL
load_seconds short 2
run_node node2
extent_served short 2 500
load_seconds short 3
end_load short
no_wrong_byte short
others_unharmed short 1 'killed and back'
expect_result short 'no request failed: those of the dead node waited' '.errors == {} and .unanswered == 0 and .disconnects == 0'
say "the node's own extent was silent for $(result short '.phases[1].extents[2].longest_gap_s') s"

# Gone for longer than the timeout: EIO in bounded time, for that node alone.
stop gateway
start_gateway 'timeout = "1s"'
start_load long --extents 4 --connections 2 --depth 8 --model "$DIR/model" --seed 2
load_seconds long 3
next_phase long
stop node2 KILL
load_seconds long 3
next_phase long
run_node node2
extent_served long 2 500
end_load long
no_wrong_byte long
others_unharmed long 1 'killed and gone'
expect_result long 'its own requests failed with EIO alone' '.phases[1].extents[2].errors | keys == ["EIO"]'
expect_result long 'every request was answered' '.unanswered == 0 and .disconnects == 0'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
