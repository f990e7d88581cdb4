#!/usr/bin/env bash
# Shows that a node killed with -9 under load holds up only its own requests: no wrong byte, no error if it is back in time, EIO if not, and service resumes by itself.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

# How long others wait is judged by silent-node.sh; here what is answered is counted, so that it does not matter how busy the machine is.
# others_unharmed LOAD PHASE WHAT: extents 0, 1 and 3 were served in a phase, without an error.
others_unharmed() {
    expect_result "$1" "$3, the others are served without an error" "[.phases[$2].extents[0, 1, 3] | .errors == {} and .good >= 500] | all"
}

start_cluster 4 8MiB 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load short --extents 4 --connections 2 --depth 8 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served short $extent 200; done
stop node2 KILL
next_phase short
for extent in 0 1 3; do extent_served short $extent 500; done
next_phase short
run_node node2
extent_served short 2 500
end_load short
no_wrong_byte short
others_unharmed short 1 'killed and back'
# 2 connections with 8 requests each: what the node had answered before it died may come after the phase began.
expect_result short 'the dead node answered nothing' '.phases[1].extents[2].good <= 16'
expect_result short 'no request failed: those of the dead node waited' '.errors == {} and .unanswered == 0 and .disconnects == 0'

# Gone for longer than the timeout: EIO, for that node alone.
stop gateway
start_gateway 'timeout = "5s"'
start_load long --extents 4 --connections 2 --depth 8 --model "$DIR/model" --seed 2
for extent in 0 1 2 3; do extent_served long $extent 200; done
stop node2 KILL
next_phase long
extent_failed long 2 16
for extent in 0 1 3; do extent_served long $extent 500; done
next_phase long
run_node node2
extent_served long 2 500
end_load long
no_wrong_byte long
others_unharmed long 1 'killed and gone'
expect_result long 'its own requests failed with EIO alone' '.phases[1].extents[2].errors | keys == ["EIO"]'
expect_result long 'every request was answered' '.unanswered == 0 and .disconnects == 0'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
