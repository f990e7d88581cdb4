#!/usr/bin/env bash
# Shows that a gateway on another machine takes over a volume with copies, with the map that its nodes keep, and that it refuses while another gateway is linked or a node is missing.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# The other machine: it has the configuration, and nothing else of the first.
OTHER=$DIR/other
mkdir "$OTHER"
take_over=("$FLASHMOB" gateway "$OTHER/cluster.toml" --take-over)
# wrote: what the other machine has of the volume.
wrote() { find "$OTHER" -name 'cluster.toml.*'; }
# takes_over: the gateway on the other machine serves the volume.
takes_over() {
    rm -f "$DIR/gateway.sock"
    start gateway "${take_over[@]}"
    gateway_address
    volume_ready
    admin_address
}

start_copies 4 32MiB 'evict_after = "500ms"' 'timeout = "60s"'
cp "$DIR/gateway.toml" "$OTHER/cluster.toml"
wait_for 20 'all nodes to have a mirror of the map' copies '.mirrors == 4'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
refused 'while the first gateway runs, it is not taken over' 'a gateway is linked to nodes .*stop it first' "${take_over[@]}"
refused 'nor is its map made again' 'a gateway is linked to nodes .*stop it first' \
    "$FLASHMOB" volume recover "$OTHER/cluster.toml" pool --yes
check 'a dry run says so' "$FLASHMOB" volume recover "$OTHER/cluster.toml" pool --dry-run --output json
check 'of every node' jq -e '[.nodes[].is_linked] == [true, true, true, true]' "$DIR/check.out"
check 'nothing is written' test -z "$(wrote)"

# A copy falls behind, and the machine of the first gateway is lost in the middle of writes.
stop node3 KILL
check 'more is written without node 3' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'and its copies are behind' copies '.behind_chunks > 0'
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
stop gateway KILL
finish load 20
refused 'without node 3 it is not taken over' 'node 3 \(.*\): it was not found: .*Bring all nodes back' "${take_over[@]}"
run_node node3
stop node2
mv "$DIR/node2.img.map" "$DIR/away.map"
run_node node2
refused 'nor without the mirror of node 2' 'node 2 \(.*\): it has no mirror of the map that can be used' "${take_over[@]}"
stop node2
mv "$DIR/away.map" "$DIR/node2.img.map"
run_node node2
check 'nothing is written, whatever was missing' test -z "$(wrote)"

takes_over
check 'with all nodes it is taken over' log_has gateway 'volume pool: taken over with the map of epoch 1'
whole_again
is_whole_without 0 1 2 3
check 'writes go on' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"

# The first machine comes back, with its map, and does not know it. Each node refuses it.
rm -f "$DIR/gateway.sock"
start former "$FLASHMOB" gateway "$DIR/gateway.toml"
finish former 20
check 'the first gateway ends, as nodes refuse it' test "$STATUS" -eq 1
check 'and says why' log_has former 'serve this gateway no longer: .*a later gateway is in charge'
check 'the other one was not disturbed' is_all_there
# It has a map now.
stop gateway KILL
takes_over
check 'to take over once more does no harm' is_all_there
