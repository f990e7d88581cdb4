#!/usr/bin/env bash
# Shows that `flashmob bench cluster` measures real nodes in every combination of nodes, links and batches, that its figures hang together, and that wrong arguments get a clear answer.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

unset FLASHMOB_CONFIG FLASHMOB_LAB
CONFIG=$DIR/gateway.toml
# cluster STATUS OPTION...: runs the benchmark with JSON into $DIR/cluster.json and expects that exit status.
cluster() {
    local expected=$1 status=0
    shift
    timeout 280 "$FLASHMOB" bench cluster "$@" --output json >"$DIR/cluster.json" 2>"$DIR/cluster.log" || status=$?
    [ "$status" -eq "$expected" ] || { cat "$DIR/cluster.log" >&2; fail "status $status, not $expected: bench cluster $*"; }
}
# holds WHAT FILTER: passes if the filter is true of the last result.
holds() {
    jq -e "$2" "$DIR/cluster.json" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?)' "$DIR/cluster.json" | cut -c1-3000 >&2; fail "$1"; }
    pass "$1"
}
# nodes OPTION...: three nodes with these options, and a configuration over them.
nodes() {
    local i
    NODES=()
    NODE_OPTIONS=("$@")
    for i in 0 1 2; do
        alive "node$i" && stop "node$i"
        start_node "node$i" 16MiB
        NODES+=("node$i")
    done
    write_config
}

nodes --admin 127.0.0.1:0
cluster 0 --config "$CONFIG" --nodes 1,3 --links 1,2 --aggregate 1,10,auto --time 0.3 --warmup 0.1 --repeat 2
holds 'every combination, twice each, in the order of the sweep' '[.measurement.points[].parameters | [.nodes, .links]] | length == 12 and .[0] == [1, 1] and .[-1] == [3, 2]'
holds 'each with requests, and none failed' 'all(.measurement.points[].repetitions[]; .requests > 0 and .errors == 0 and (.is_void | not)) and all(.measurement.points[]; .repetitions | length == 2)'
holds 'counts hang together: a request is a piece, a batch of k has at most k' \
    'all(.measurement.points[]; .parameters as $p | all(.repetitions[]; .batches.pieces >= .requests * 0.9 and (if ($p.batch | type) == "object" then .batches.pieces <= .batches.sent * $p.batch.fixed else true end)))'
holds 'latency was recorded for each' 'all(.measurement.points[].repetitions[]; .latency_ns.count == .requests and .latency_ns.min > 0)'
holds 'k = 10 takes fewer and larger packets for each request than k = 1' \
    'def one(k): [.measurement.points[] | select(.parameters == (.parameters + {nodes: 3, links: 1, batch: {fixed: k}})) | .repetitions[] | {p: ((.packets.sent + .packets.received) / .requests), b: ((.packets.bytes_sent + .packets.bytes_received) / (.packets.data_sent + .packets.data_received))}];
     (one(1) | map(.p) | min) > 1.5 * (one(10) | map(.p) | max) and (one(10) | map(.b) | min) > (one(1) | map(.b) | max)'
holds 'processor time of the gateway is told' 'all(.measurement.points[].repetitions[]; .gateway_cpu_s > 0 and .gateway_cpu_s < 2 * .elapsed_s)'
holds 'extents that were never written are named' '.warnings | map(select(.code == "not_allocated")) | length == 1 and (.[0].message | test("48 MiB of the 48 MiB of the extents were never written.*nbdcopy"))'
holds 'it was a real network, with nothing modelled' '.measurement.setting == "network" and .measurement.air == null and .measurement.flash == null and .measurement.extent_bytes == 16777216'

"$FLASHMOB" bench cluster --config "$CONFIG" --time 0.2 --repeat 2 --save "$DIR/saved.json" --label 'three tablets' >"$DIR/table" 2>"$DIR/table.log"
check 'a table for people' grep -Eq 'nodes +links +batch +block .*requests/s .*packets/s' "$DIR/table"
check 'what is saved is the result' jq -e '.label == "three tablets" and .format == "flashmob-result" and .measurement.kind == "cluster"' "$DIR/saved.json"
"$FLASHMOB" bench cluster --config "$CONFIG" --time 0.2 --repeat 2 --output ndjson >"$DIR/events" 2>"$DIR/events.log"
check 'every line of NDJSON is an event, the last one the result' \
    jq -es 'all(.[]; .event) and .[0].event == "begin" and .[-1].event == "end" and (map(select(.event == "cluster_repetition")) | length == 2)' "$DIR/events"

# pieces: how many node0 has served.
pieces() { "$FLASHMOB" status "$(sed -nE 's|.*admin on http://(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/node0.log")" --output json | jq .node.pieces; }
pieces_served() { [ "$(pieces)" -ge "$1" ]; }
start long "$FLASHMOB" bench cluster --config "$CONFIG" --links 1,2 --time 60 --warmup 0.1 --save "$DIR/part.json"
wait_for 20 'the load' log_has long 'volume pool ready'
# The warm-up does not count; what comes after it does.
wait_for 20 'requests of the warm-up' pieces_served $(($(pieces) + 100))
sleep 0.2
wait_for 20 'requests that count' pieces_served $(($(pieces) + 1000))
stop long INT
[ "$STATUS" -eq 130 ] || fail "Ctrl-C ended it with status $STATUS, not 130"
check 'Ctrl-C keeps what was measured' jq -e '.interrupted and (.measurement.points | length == 1) and .measurement.points[0].repetitions[0].requests > 0' "$DIR/part.json"

refused 'writes without permission' '--allow-writes' "$FLASHMOB" bench cluster --config "$CONFIG" --read-percent 50 --time 0.2
refused 'more nodes than there are' "has 3; give at most 3" "$FLASHMOB" bench cluster --config "$CONFIG" --nodes 1,4
refused 'no configuration' '--config FILE' "$FLASHMOB" bench cluster
refused 'a configuration that is not there' 'nowhere.toml' "$FLASHMOB" bench cluster --config "$DIR/nowhere.toml"
refused 'a volume that is not there' "no volume 'pond'; it has pool" "$FLASHMOB" bench cluster --config "$CONFIG" --volume pond
refused 'nodes that do read, with --no-io' 'start all nodes with --no-io, or all without' "$FLASHMOB" bench cluster --config "$CONFIG" --no-io --time 0.2
refused 'a block larger than its nodes' 'give a smaller size' "$FLASHMOB" bench cluster --config "$CONFIG" --nodes 1 -b 32MiB
refused 'a file that cannot be saved' 'cannot save' "$FLASHMOB" bench cluster --config "$CONFIG" --save "$DIR/no/where.json"
cluster 0 --config "$CONFIG" --read-percent 0 -b 4KiB --allow-writes --time 0.3
holds 'writes with permission' '.measurement.points[0] | .parameters.read_percent == 0 and .repetitions[0].requests > 0 and .repetitions[0].errors == 0'
FLASHMOB_CONFIG=$CONFIG cluster 0 --time 0.2
holds 'the configuration may come from the environment' '.measurement.points[0].repetitions[0].requests > 0'
sed "s|^address = \"${ADDR[node2]}\"|address = \"127.0.0.1:9\"|" "$CONFIG" >"$DIR/dead.toml"
refused 'a node that is not there' '127.0.0.1:9: no link' "$FLASHMOB" bench cluster --config "$DIR/dead.toml" --time 0.2

for i in 0 1 2; do
    stop "node$i"
    dd if=/dev/zero of="$DATA_DIR/node$i.img" bs=1M count=16 conv=notrunc status=none
    run_node "node$i"
done
cluster 0 --config "$CONFIG" --time 0.3
holds 'extents that were written are not' '[.warnings[].code] | index("not_allocated") | not'

nodes --no-io
cluster 0 --config "$CONFIG" --aggregate 1,100 --time 0.3
holds 'nodes without I/O are noticed' 'all(.measurement.points[]; .parameters.no_io) and any(.warnings[]; .message | test("add --no-io"))'
cluster 0 --config "$CONFIG" --no-io --time 0.3
holds 'and expected with --no-io' 'all(.measurement.points[]; .parameters.no_io) and (any(.warnings[]; .code == "not_allocated" or (.message | test("add --no-io"))) | not)'

nodes --model nexus7-emmc --admin 127.0.0.1:0
cluster 0 --config "$CONFIG" --nodes 1,3 --time 1
holds 'modelled flash is called that' 'any(.warnings[]; .code == "modelled")'
check 'report takes it' "$FLASHMOB" report "$DIR/cluster.json" -o "$DIR/page.html"
check 'and says that these nodes were modelled' grep -q 'answered as slowly as a modelled flash' "$DIR/page.html"
holds 'and is as slow: sorted, a node does some 2,100 to 2,700 reads/s' 'all(.measurement.points[]; .summary.requests_per_second.median < 2800 * .parameters.nodes)'
check 'the node says so as well' grep -q "modelled: timing of 'nexus7-emmc'" "$DIR/node0.log"
ADMIN=$(sed -nE 's|.*admin on http://(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/node0.log" | head -n 1)
"$FLASHMOB" status "$ADMIN" >"$DIR/status" 2>&1 || fail 'no status'
check 'its status says what it models, and how late it was' grep -Eq 'modelled +nexus7-emmc' "$DIR/status"

# A stand-in for a lab: it answers every word with counters that have grown since.
cat >"$DIR/lab.py" <<'END'
import json, socket, sys
sys.stdout.reconfigure(line_buffering=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", file=sys.stderr, flush=True)
count = 0
while True:
    connection, _ = listener.accept()
    word = connection.makefile().readline().strip()
    count += 1
    counters = dict.fromkeys(["transmissions", "frames", "frame_bytes", "collisions", "retries", "dropped"], 1000 * count)
    answer = {"nodes": 3, "air": {"profile": "11n-2014", "description": "d", "gateway": "wired", "cells": 1},
              "flash": {"profile": "nexus7-emmc", "description": "d", "limits": []}, "extent_bytes": 16 << 20,
              "counters": counters | {"busy_ns": 250_000_000 * count}, "elapsed_ns": 1_000_000_000 * count, "is_late": sys.argv[2] == "late",
              "lateness": {"p50_us": 1.0, "p99_us": 2.0, "max_us": 3.0, "late_fraction": 0.5 if sys.argv[2] == "late" else 0.0}}
    connection.sendall((json.dumps(answer) + "\n").encode())
    connection.close()
    print(word, file=sys.stderr, flush=True)
END
start lab "$PYTHON" "$DIR/lab.py" "$DIR/lab.sock" in-time
started lab ready
FLASHMOB_LAB=$DIR/lab.sock FLASHMOB_CONFIG=$CONFIG cluster 0 --read-percent 90 --time 0.5
holds 'inside a lab: setting, air and flash are named, and writes need no permission' \
    '.measurement | .setting == "lab" and .air.profile == "11n-2014" and .flash.limits[0].requests_per_second > 100'
holds 'frames on the air are the difference of two looks' '.measurement.points[0] | .repetitions[0].air.frames == 1000 and .repetitions[0].air.busy_fraction == 0.25 and .summary.frames_per_request.median > 0'
holds 'the fraction of the flash is told' '.measurement.points[0].summary.flash_fraction.median | . > 0 and . < 2'
[ "$(grep -c begin "$DIR/lab.log")" -eq 1 ] || fail 'lateness is to be counted anew once for each repetition'
stop lab
start lab "$PYTHON" "$DIR/lab.py" "$DIR/lab.sock2" late
started lab ready
FLASHMOB_LAB=$DIR/lab.sock2 FLASHMOB_CONFIG=$CONFIG cluster 5 --time 0.3
holds 'a repetition in a late lab is void' '.measurement.points[0] | .repetitions[0].is_void and any(.warnings[]; .code == "late")'
stop lab
FLASHMOB_LAB=$DIR/gone.sock FLASHMOB_CONFIG=$CONFIG refused 'a lab that has ended' 'check that it is still running' "$FLASHMOB" bench cluster --time 0.2
refused 'a model that does not exist' "did you mean 'nexus7-emmc'" "$FLASHMOB" node --data "$DIR/x" --size 1MiB --model nexus7-emc
refused 'a model without I/O' 'cannot be used with' "$FLASHMOB" node --data "$DIR/x" --size 1MiB --model ufs --no-io

rm -f "$DIR"/node*.img*
for i in 0 1 2; do stop "node$i"; done
nodes
write_config 'layout = "striped"'
refused 'a part of a striped volume' 'striped' "$FLASHMOB" bench cluster --config "$CONFIG" --nodes 2
cluster 0 --config "$CONFIG" --time 0.2
holds 'all of a striped volume' '.measurement.points[0] | .parameters.nodes == 3 and .repetitions[0].requests > 0'
