#!/usr/bin/env bash
# Shows that while a node is frozen, or killed and not back, the longest silence of every other node's extent stays below 1 s.
# Tier: slow
# Canary: silent-node-holds-others
. "$(dirname "$0")/lib.sh"
need jq

start_cluster 4 8MiB 'timeout = "30s"'
at_end 'kill -CONT ${PID[node1]} 2>/dev/null'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
busy_begin gateway node0 node2 node3

# silenced: a phase of 2.5 s in which node1 says nothing; its number is left in PHASE.
PHASE=0
silenced() {
    next_phase load
    PHASE=$((PHASE + 1))
    load_seconds load 2.5
}
# awake: a phase in which it serves again.
awake() {
    next_phase load
    PHASE=$((PHASE + 1))
    extent_served load 1 200
}
FROZEN=() KILLED=()
for _ in 1 2 3 4 5 6; do
    freeze node1
    silenced
    FROZEN+=("$PHASE")
    kill -CONT "${PID[node1]}"
    awake
done
for _ in 1 2 3 4 5 6; do
    stop node1 KILL
    silenced
    KILLED+=("$PHASE")
    run_node node1
    awake
done
end_load load

# gaps EXTENTS PHASE...: the longest silence of these extents in each phase, in seconds.
gaps() {
    local phase extents=$1
    shift
    for phase in "$@"; do result load "[.phases[$phase].extents[$extents].longest_gap_s] | max"; done
}
mapfile -t frozen_gaps < <(gaps '0, 2, 3' "${FROZEN[@]}")
mapfile -t killed_gaps < <(gaps '0, 2, 3' "${KILLED[@]}")
say "longest silence of the others in s: frozen ${frozen_gaps[*]}, killed ${killed_gaps[*]}"
# The test has to have made the silence that it is about.
for gap in $(gaps 1 "${FROZEN[@]}" "${KILLED[@]}"); do
    jq -en "$gap > 2" >/dev/null || fail "the silenced extent was silent for $gap s only"
done
pass 'the silenced extent itself was silent for more than 2 s each time'
sign_test 'beside a frozen node others are silent for at most 1 s' 1 "${frozen_gaps[@]}"
sign_test 'beside a killed node others are silent for at most 1 s' 1 "${killed_gaps[@]}"
no_wrong_byte load
expect_result load 'no request failed or went unanswered' '.errors == {} and .unanswered == 0 and .disconnects == 0'
