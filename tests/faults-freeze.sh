#!/usr/bin/env bash
# Shows that a node frozen for 3 s under load holds up only its own requests, loses none, and is used again when it wakes.
# Tier: test
. "$(dirname "$0")/lib.sh"
need jq

start_cluster 4 8MiB 'timeout = "10s"'
at_end 'kill -CONT ${PID[node1]} 2>/dev/null'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
load_seconds load 3
next_phase load
kill -STOP "${PID[node1]}"
load_seconds load 3
kill -CONT "${PID[node1]}"
next_phase load
extent_served load 1 500
end_load load
no_wrong_byte load
expect_result load 'no request failed or went unanswered' '.errors == {} and .unanswered == 0 and .disconnects == 0'
for extent in 0 2 3; do
    before=$(result load ".phases[0].extents[$extent].p99_ms")
    at_most "p99 of extent $extent while node1 was frozen (before: $before ms)" \
        "$(result load ".phases[1].extents[$extent].p99_ms")" "$(jq -n "$before * 2")" ms
done
expect_result load 'the frozen extent was silent, and only that one' \
    '[.phases[1].extents[].longest_gap_s > 2] == [false, true, false, false]'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"

# Frozen for longer than the timeout: what failed must not land later on top of what was written since.
stop gateway
start_gateway 'timeout = "1s"'
start_load late --extents 4 --reads 30 --depth 8 --model "$DIR/model" --seed 2
kill -STOP "${PID[node1]}"
next_phase late
load_seconds late 3
kill -CONT "${PID[node1]}"
next_phase late
extent_served late 1 1000
end_load late
no_wrong_byte late
expect_result late 'EIO in the frozen extent alone' '[.phases[1].extents[].errors | keys] == [[], ["EIO"], [], []]'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
