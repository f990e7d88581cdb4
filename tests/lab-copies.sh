#!/usr/bin/env bash
# Shows that in the lab p99 of reads of eight nodes with two copies stays within twice that of the healthy cluster while one node has a slow flash, or a lossy way; at most one in twenty is hedged.
# Tier: slow
# Canary: slow-nodes-read
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'a lab for root; lab-unprivileged shows one for others'
need jq

# Rounds of labs, of which five have to be in time. Without a choice between the copies p99 is 4 and 25 times as long, as simulated.
ROUNDS=${ROUNDS:-8}
declare -A WEAK=([healthy]='' [flash]='1:flash=50' [loss]='1:loss=60%')

# measure WHAT ROUND: a line of figures for WHAT: round, p99 in ms, reads, hedged reads. None if the lab was late.
measure() {
    local status=0 weak=()
    [ -z "${WEAK[$1]}" ] || weak=(--weak "${WEAK[$1]}")
    # shellcheck disable=SC2016 # the lab's shell expands them
    timeout 100 "$FLASHMOB" -q lab run --nodes 8 --air 11n --flash emmc --extent 256MiB --copies 2 --seed "$2" "${weak[@]}" -- sh -ec '
        flashmob bench nbd "$FLASHMOB_URI" --outstanding 8 --warmup 1 --time 4 --output json
        flashmob status "$FLASHMOB_ADMIN" --output json' </dev/null >"$DIR/lab.out" 2>"$DIR/lab.log" || status=$?
    lab_is_well $status || { cat "$DIR/lab.log" >&2; fail "$1: a lab ended with status $status"; }
    jq -es '.[0].result.errors == [] and .[1].gateway.volumes[0].copies.evictions == 0' "$DIR/lab.out" >/dev/null ||
        fail "$1, round $2: reads failed, or a node was put out"
    [ $status -eq 75 ] || jq -rs --arg round "$2" '.[1].gateway as $gateway | [$round,
        (.[0].result.latency_ns.percentiles[] | select(.percent == 99) | .ns / 1e6),
        ($gateway.requests[] | select(.[0] == "read") | .[1]), $gateway.volumes[0].copies.hedged_reads] | @tsv' "$DIR/lab.out" >>"$DIR/$1.figures"
}
touch "$DIR"/{healthy,flash,loss}.figures
busy_begin
for ((round = 1; round <= ROUNDS; round++)); do
    for what in healthy flash loss; do measure "$what" "$round"; done
done
pass "no read failed in $((3 * ROUNDS)) labs, and no node was put out"
late=
for what in flash loss; do
    # Round, p99, reads and hedged reads of the healthy cluster, and the same without the round of the weak one.
    join "$DIR/healthy.figures" "$DIR/$what.figures" >"$DIR/pairs" || true
    mapfile -t ratios < <(awk '{ print $5 / $2 }' "$DIR/pairs")
    say "$what: p99 in ms, healthy and weak: $(awk '{ printf "%.1f %.1f; ", $2, $5 }' "$DIR/pairs")"
    if [ ${#ratios[@]} -lt 5 ]; then late+=" $what: ${#ratios[@]} of $ROUNDS rounds in time;"; continue; fi
    sign_test "a node with ${WEAK[$what]}: p99 in those of the healthy cluster" 2 "${ratios[@]}"
    at_most "a node with ${WEAK[$what]}: hedged reads" "$(awk '{ reads += $6; hedged += $7 } END { print 100 * hedged / reads }' "$DIR/pairs")" 5 '% of all'
done
[ -z "$late" ] || void "the lab was late:$late"
