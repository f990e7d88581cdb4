#!/usr/bin/env bash
# Shows that the lab, with real processes and TCP stacks, and the simulator agree: requests and packets within 10 % for 1, 4 and 8 nodes and batches of 1, 10 and 100.
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_root 'a lab for root; lab-unprivileged shows one for others'
need jq

LOAD=(--nodes 1,4,8 --links 4 --batch 1,10,100 --outstanding 800)

check 'the simulator runs' "$FLASHMOB" simulate "${LOAD[@]}" --warmup 3 --time 10 --save "$DIR/simulator.json"

# off: points of the lab that are void, or differ by more than a tenth.
off() {
    jq -rn --slurpfile lab "$DIR/lab.json" --slurpfile sim "$DIR/simulator.json" '
        def points: .[0].measurement.points[];
        [$sim | points] as $sims | [$lab | points] as $labs | range(0; $sims | length) as $i | $labs[$i] as $l | $sims[$i] as $s
        | ($l.summary.requests_per_second.median / $s.summary.requests_per_second.median) as $requests
        | (($l.summary.packets_per_second.median / $l.summary.requests_per_second.median)
            / ($s.summary.packets_per_second.median / $s.summary.requests_per_second.median)) as $packets
        | (all($l.repetitions[]; .is_void)) as $void
        | select($void or ($requests - 1 | fabs) > 0.1 or ($packets - 1 | fabs) > 0.1)
        | "nodes \($l.parameters.nodes) batch \($l.parameters.batch.fixed): requests \($requests), packets of a request \($packets)\(if $void then ", void" else "" end)"'
}

# The lab runs in real time: on a machine that does other things a setting may be late, so one quiet run of a few is enough for each.
declare -A agreed
for round in 1 2 3 4 5; do
    rm -f "$DIR/lab.json"
    # 75: late. What is void is named below.
    timeout 200 "$FLASHMOB" -q lab run --nodes 8 --no-gateway -- flashmob -q bench cluster "${LOAD[@]}" --warmup 1.5 --time 2.5 \
        --save "$DIR/lab.json" --output json >/dev/null 2>"$DIR/lab.log" || [ $? -eq 75 ] || [ -s "$DIR/lab.json" ] || { cat "$DIR/lab.log" >&2; fail 'the lab runs'; }
    found=$(off)
    for setting in {1,4,8}' batch '{1,10,100}; do
        grep -q "nodes $setting:" <<<"$found" || agreed[$setting]=yes
    done
    [ ${#agreed[@]} -eq 9 ] && break
    echo "round $round:" "$found" >&2
done
check 'nine settings agree in requests and packets' [ ${#agreed[@]} -eq 9 ]
