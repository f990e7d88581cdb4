#!/usr/bin/env bash
# Shows that the lab, with real processes and TCP stacks, and the simulator send equally many packets for a request, within 10 %, for 1, 4 and 8 nodes and batches of 1, 10 and 100.
# Tier: slow
# Canary: none-in-code
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'a lab for root; lab-unprivileged shows one for others'
need jq

# How many requests a second there are is for lab-simulator.sh. What a request is made of depends on time much less: batches of a fixed size are
# full while so much is outstanding, however late the lab is. TCP's timers are not so patient: beside thirty others one setting of 36 was 11 % off.
LOAD=(--links 4 --outstanding 800 --nodes 1,4,8 --batch 1,10,100)
# What the canary plants: a simulator with so little outstanding that no large batch is ever full.
SIMULATED=(${CANARY:+--outstanding 8})
[ -z "${CANARY:-}" ] || LOAD=(--links 4 --nodes 1,4,8 --batch 1,10,100)
check 'the simulator runs' "$FLASHMOB" simulate "${LOAD[@]}" "${SIMULATED[@]}" --warmup 3 --time 10 --save "$DIR/simulator.json"
[ -z "${CANARY:-}" ] || LOAD+=(--outstanding 800)
busy_begin
status=0
timeout 280 "$FLASHMOB" -q lab run --nodes 8 --no-gateway -- flashmob -q bench cluster "${LOAD[@]}" --warmup 1 --time 1 --repeat 3 \
    --save "$DIR/lab.json" --output json </dev/null >"$DIR/lab.out" 2>"$DIR/lab.log" || status=$?
# 5, of the benchmark in it: it was late, and says so.
lab_is_well $status || [ $status -eq 5 ] || { cat "$DIR/lab.log" >&2; fail "the lab ended with status $status"; }
jq -r --slurpfile sim "$DIR/simulator.json" '
    def of_request: [.repetitions[] | (.packets.sent + .packets.received) / .requests] | sort | .[length / 2 | floor];
    .measurement.points[] as $l | $sim[0].measurement.points[] | select(.parameters.nodes == $l.parameters.nodes and .parameters.batch == $l.parameters.batch)
    | "\($l.parameters.nodes) nodes, batches of \($l.parameters.batch.fixed):\t\(($l | of_request) / of_request)"' "$DIR/lab.json" >"$DIR/ratios"
[ "$(wc -l <"$DIR/ratios")" -eq 9 ] || fail 'nine settings were not measured'
while IFS=$'\t' read -r what ratio; do
    jq -en "($ratio - 1 | fabs) <= 0.1" >/dev/null || judged_fail "$what the lab sends $ratio times as many packets for a request as the simulator"
    pass "$what $ratio times as many packets for a request as in the simulator"
done <"$DIR/ratios"
