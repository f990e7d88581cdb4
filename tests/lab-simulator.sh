#!/usr/bin/env bash
# Shows that the lab, with real processes and TCP stacks, and the simulator agree: requests and packets within 10 % for 1, 4 and 8 nodes and batches of 1, 10 and 100.
# Tier: slow
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_root 'a lab for root; lab-unprivileged shows one for others'
need jq

LOAD=(--links 4 --outstanding 800)

check 'the simulator runs' "$FLASHMOB" simulate "${LOAD[@]}" --nodes 1,4,8 --batch 1,10,100 --warmup 3 --time 10 --save "$DIR/simulator.json"

# off FILE: points of a lab's result that are void, or differ by more than a tenth.
off() {
    jq -rn --slurpfile lab "$1" --slurpfile sim "$DIR/simulator.json" '
        def points: .[0].measurement.points[];
        $lab | points as $l | ($sim | [points | select(.parameters.nodes == $l.parameters.nodes and .parameters.batch == $l.parameters.batch)][0]) as $s
        | ($l.summary.requests_per_second.median / $s.summary.requests_per_second.median) as $requests
        | (($l.summary.packets_per_second.median / $l.summary.requests_per_second.median)
            / ($s.summary.packets_per_second.median / $s.summary.requests_per_second.median)) as $packets
        | (all($l.repetitions[]; .is_void)) as $void
        | select($void or ($requests - 1 | fabs) > 0.1 or ($packets - 1 | fabs) > 0.1)
        | "nodes \($l.parameters.nodes) batch \($l.parameters.batch.fixed): requests \($requests), packets of a request \($packets)\(if $void then ", void" else "" end)"'
}

# measure NODES BATCHES: those settings in the lab, into lab.json. 75: late; what is void is named by off.
measure() {
    rm -f "$DIR/lab.json"
    timeout 200 "$FLASHMOB" -q lab run --nodes 8 --no-gateway -- flashmob -q bench cluster "${LOAD[@]}" --nodes "$1" --batch "$2" --warmup 1.5 --time 2.5 \
        --save "$DIR/lab.json" --output json </dev/null >/dev/null 2>"$DIR/lab.log" || [ $? -eq 75 ] || [ -s "$DIR/lab.json" ] || { cat "$DIR/lab.log" >&2; fail 'the lab runs'; }
}

# The lab runs in real time: on a machine that does other things a setting may be late, so one quiet run of a few is enough for each.
measure 1,4,8 1,10,100
[ "$(jq '.measurement.points | length' "$DIR/lab.json")" -eq 9 ] || fail 'nine settings were not measured'
found=$(off "$DIR/lab.json")
for round in 1 2 3 4; do
    [ -n "$found" ] || break
    echo "round $round:" "$found" >&2
    again=$found found=
    while read -r _ nodes _ batch _; do
        measure "$nodes" "${batch%:}"
        found+=$'\n'$(off "$DIR/lab.json")
    done <<<"$again"
    found=$(grep . <<<"$found" || true)
done
check 'nine settings agree in requests and packets' [ -z "$found" ]
