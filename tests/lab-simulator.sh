#!/usr/bin/env bash
# Shows that the lab, with real processes and TCP stacks, and the simulator agree in requests a second, within 10 % for 1, 4 and 8 nodes and batches of 1, 10 and 100.
# Tier: slow
# Canary: service-time-doubled
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'a lab for root; lab-unprivileged shows one for others'
need jq

# Packets of a request do not depend on time: lab-packets.sh.
LOAD=(--links 4 --outstanding 800 --nodes 1,4,8 --batch 1,10,100)
check 'the simulator runs' "$FLASHMOB" simulate "${LOAD[@]}" --warmup 3 --time 10 --save "$DIR/simulator.json"
busy_begin
timeout 280 "$FLASHMOB" -q lab run --nodes 8 --no-gateway -- flashmob -q bench cluster "${LOAD[@]}" --warmup 1 --time 1 --repeat 9 \
    --save "$DIR/lab.json" --output json </dev/null >"$DIR/lab.out" 2>"$DIR/lab.log" || [ $? -eq 75 ] || [ -s "$DIR/lab.json" ] || { cat "$DIR/lab.log" >&2; fail 'the lab runs'; }

# What the lab calls void itself it could not bring in the air's time. Of the rest the first five of each setting are judged.
jq -r --slurpfile sim "$DIR/simulator.json" '
    .measurement.points[] as $l | $sim[0].measurement.points[] | select(.parameters.nodes == $l.parameters.nodes and .parameters.batch == $l.parameters.batch)
    | .summary.requests_per_second.median as $rate
    | [$l.repetitions[] | select(.is_void | not) | .requests_per_second / $rate - 1 | fabs][:5]
    | "\($l.parameters.nodes) nodes, batches of \($l.parameters.batch.fixed)\t\(map(tostring) | join(" "))"' "$DIR/lab.json" >"$DIR/differences"
[ "$(wc -l <"$DIR/differences")" -eq 9 ] || fail 'nine settings were not measured'
late=
while IFS=$'\t' read -r what differences; do
    read -ra differences <<<"$differences"
    if [ ${#differences[@]} -lt 5 ]; then late+=" $what: ${#differences[@]} of 9 repetitions in time;"; continue; fi
    sign_test "$what, how far the rates differ" 0.1 "${differences[@]}"
done <"$DIR/differences"
[ -z "$late" ] || void "the lab was late:$late"
