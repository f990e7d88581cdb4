#!/usr/bin/env bash
# Shows that a node frozen under load holds up only its own requests, loses none, and is used again when it wakes; and that what failed meanwhile does not happen later.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

# How long others wait is judged by silent-node.sh; here what is answered is counted, so that it does not matter how busy the machine is.
start_cluster 4 8MiB 'timeout = "60s"'
at_end 'kill -CONT ${PID[node1]} 2>/dev/null'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 200; done
freeze node1
next_phase load
for extent in 0 2 3; do extent_served load $extent 500; done
next_phase load
kill -CONT "${PID[node1]}"
extent_served load 1 500
end_load load
no_wrong_byte load
expect_result load 'no request failed or went unanswered' '.errors == {} and .unanswered == 0 and .disconnects == 0'
# 2 connections with 8 requests each: what the node had answered before it froze may come after the phase began.
expect_result load 'the frozen extent was silent, and only that one' \
    '[.phases[1].extents[].good] | .[1] <= 16 and .[0] >= 500 and .[2] >= 500 and .[3] >= 500'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"

# Frozen for longer than the timeout: what failed must not land later on top of what was written since.
stop gateway
start_gateway 'timeout = "5s"'
start_load late --extents 4 --reads 30 --depth 8 --model "$DIR/model" --seed 2
freeze node1
next_phase late
extent_failed late 1 8
for extent in 0 2 3; do extent_served late $extent 500; done
next_phase late
kill -CONT "${PID[node1]}"
extent_served late 1 1000
end_load late
no_wrong_byte late
expect_result late 'EIO in the frozen extent alone' '[.phases[1].extents[].errors | keys] == [[], ["EIO"], [], []] and all(.phases[].extents[0, 2, 3]; .errors == {})'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
