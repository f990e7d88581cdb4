#!/usr/bin/env bash
# Shows that while one of eight nodes with two copies dozes, p99 of reads stays within twice that of the healthy cluster, and no read waits for it to wake up; at most one in twenty is hedged.
# Tier: slow
# Canary: late-reads-wait slow-nodes-read
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# Healthy and with a node that dozes, in turn.
ROUNDS=${ROUNDS:-12}
DOZE_S=0.4 AWAKE_S=1.6

start_copies 8 32MiB
at_end 'kill -CONT ${PID[node3]} 2>/dev/null'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
# A few reads at a time, so many a second, whether the node dozes or not. If each answer led to the next read, those that wait would hold up the
# load, and be few among all.
start_load load --reads 100 --rate 500 --depth 8 --model "$DIR/model"
busy_begin gateway "${NODES[@]}"

PHASE=0
# phase SIGNAL: a phase of its own, in which a node gets a signal twice and goes on after a while; its number is left in PHASE. Healthy ones are made in
# the same way: a shell that looks at files all the time would be in the way of the reads.
phase() {
    next_phase load
    PHASE=$((PHASE + 1))
    for _ in 1 2; do
        kill "-$1" "${PID[node3]}"
        sleep $DOZE_S # the pause is what this test is about
        kill -CONT "${PID[node3]}"
        sleep $AWAKE_S
    done
}
HEALTHY=() DOZING=()
for ((round = 0; round < ROUNDS; round++)); do
    phase CONT
    HEALTHY+=("$PHASE")
    phase STOP
    DOZING+=("$PHASE")
done
end_load load

# figures NAME PHASE...: a figure of each phase, in ms.
figures() {
    local phase name=$1
    shift
    for phase in "$@"; do result load ".phases[$phase].extents[0].$name"; done
}
mapfile -t healthy < <(figures p99_ms "${HEALTHY[@]}")
mapfile -t dozing < <(figures p99_ms "${DOZING[@]}")
mapfile -t longest < <(figures max_ms "${DOZING[@]}")
ratios=() parts=()
for at in "${!healthy[@]}"; do
    ratios+=("$(jq -n "${dozing[at]} / ${healthy[at]}")")
    parts+=("$(jq -n "${longest[at]} / 1000 / $DOZE_S")")
done
say "p99 in ms: healthy ${healthy[*]}, while a node dozes ${dozing[*]}; the longest ${longest[*]}"
say "reads: $(result load .reads), hedged $(copies_say .hedged_reads), of these $(copies_say .hedges_first) answered first by the other copy"
sign_test 'p99 while a node dozes, in those of the healthy cluster' 2 "${ratios[@]}"
sign_test 'the longest read while a node dozes, in pauses' 0.5 "${parts[@]}"
at_most 'hedged reads' "$(jq -n "100 * $(copies_say .hedged_reads) / $(result load .reads)")" 5 '% of all'
check 'reads were hedged' copies '.hedged_reads > 0 and .hedges_first > 0'
no_wrong_byte load
expect_result load 'no request failed or went unanswered' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'no node was put out' copies '.evictions == 0 and .fewest_current == .copies'
