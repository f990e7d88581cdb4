#!/usr/bin/env bash
# Shows that followed requests tell of every stage across processes: in order, adding up to the latency, clocks within their error; a dead node is counted.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

GATEWAY_LINES=('trace_one_in = 10')
start_cluster 8 8MiB 'timeout = "1s"'
admin_address
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64
# What was written must be on the disk before the page cache can forget it.
sync "$DIR"/node*.img
for image in "$DIR"/node*.img; do dd of="$image" oflag=nocache conv=notrunc,fdatasync count=0 status=none; done

fetch() { curl -fsS -o "$DIR/trace.json" "http://$ADMIN/trace"; }
# enough COUNT: so many samples have ended since the gateway's start.
enough() { fetch && jq -e ".counters.finished >= $1" "$DIR/trace.json"; }
# all WHAT FILTER: passes if the filter is true of every sample.
all() {
    jq -e "[.samples[] | select(.failure == null) | ($2)] | length > 0 and all" "$DIR/trace.json" >/dev/null || {
        jq -c "[.samples[] | select(.failure == null) | select(($2) | not)][0]" "$DIR/trace.json" >&2
        fail "$1"
    }
    pass "$1"
}

start_load load --extents 8 --depth 4
wait_for 20 '200 samples' enough 200
fetch
all 'stages at the gateway are in order' '[.received_ns, .queued_ns, .replied_ns] | . == sort'
all 'each piece says all of its stages, in order, to the node and back' '. as $s | .pieces | length > 0 and all(.way as $w |
    [$s.queued_ns, .batched_ns, $w.sent_ns, $w.node_received_ns, $w.scheduled_ns, $w.flash_start_ns, $w.flash_done_ns, $w.node_replied_ns,
     $w.returned_ns, $s.replied_ns] | . == sort)'
# All processes share one clock here, so the truth is known: no node is ahead, within the few hundred nanoseconds to which a start is known.
all "no node's clock is further off than is said" '.pieces | all(.way | (.clock_offset_ns | fabs) <= .clock_error_ns + 2000)'
all "nor is what a node did" '.pieces | all(.way | ((.node_clock_ns - .node_received_ns) | fabs) <= .clock_error_ns + 2000)'
jq -e '.nodes | length == 8 and all(.clock_error_ns > 0)' "$DIR/trace.json" >/dev/null || fail 'a node has no clock'
pass "eight nodes, clocks known within $(jq '[.nodes[].clock_error_ns] | max / 1000' "$DIR/trace.json") us at worst"
jq -e '[.samples[].pieces[].node] | unique == [range(8)]' "$DIR/trace.json" >/dev/null || fail 'not every node was sampled'
pass 'samples of every node'

check 'flashmob trace cluster' "$FLASHMOB" trace cluster "$ADMIN" --samples 50 --save "$DIR/result.json" --csv "$DIR/spans.csv" \
    --perfetto "$DIR/spans.perfetto" --html "$DIR/page.html" --operations 5
cp "$DIR/check.out" "$DIR/table"
grep -q 'gateway' "$DIR/table" && grep -q "${ADDR[node0]}.*within" "$DIR/table" || fail "the table names no gateway or clock: $(cat "$DIR/table")"
run='.measurement | .. | objects | select(has("timeline")) '
jq -e "[$run | .timeline.operations[] | ((.layers_ns | map(.[1]) | add) / (.end_ns - .begin_ns) - 1 | fabs) < 0.01] | length == 5 and all" \
    "$DIR/result.json" >/dev/null || fail "layers do not add up to the latency"
pass 'layers of each request add up to its latency within 1 %'
jq -e "[$run | .layers[].layer] | index(\"gateway\") != null and index(\"link\") != null and index(\"node\") != null and index(\"store\") != null" \
    "$DIR/result.json" >/dev/null || fail 'a layer is missing'
jq -e "[$run | .timeline.threads[] | select(.name == \"node\") | .place != \"\" and .clock_error_ns > 0] | length > 0 and all" \
    "$DIR/result.json" >/dev/null || fail 'a node has no place or no clock error'
pass 'gateway, link, node and store are told, with the clock errors of places'
[ "$(wc -l <"$DIR/spans.csv")" -gt 300 ] && [ -s "$DIR/spans.perfetto" ] && [ -s "$DIR/page.html" ] || fail 'a file is missing'
pass 'spans as CSV and for Perfetto, and a page'
check 'metrics' curl -fsS -o "$DIR/metrics" "http://$ADMIN/metrics"
[ "$(grep -c '^flashmob_node_clock_error_seconds{.*} [0-9.e-]*$' "$DIR/metrics")" -eq 8 ] || fail 'not eight clock errors in /metrics'
grep -q '^flashmob_trace_samples_total{outcome="finished"} ' "$DIR/metrics" || fail 'no samples in /metrics'
pass 'counted in /metrics'
refused 'a node has no samples' 'gateway' "$FLASHMOB" trace cluster "${ADDR[node0]}"

# One node dies: its samples fail, those of others go on, and none stays.
fetch
before=$(jq .counters.finished "$DIR/trace.json")
stop node3 KILL
has_failed() { fetch && jq -e '.counters.failed > 0' "$DIR/trace.json"; }
wait_for 15 'a failed sample' has_failed
wait_for 15 'more samples of the others' enough $((before + 50))
run_node node3
is_back() { fetch && jq -e '[.samples[-20:][].pieces[] | select(.way != null) | .node] | index(3) != null' "$DIR/trace.json"; }
wait_for 15 'samples of the node again' is_back
end_load load
settled() { fetch && jq -e '.counters | .in_flight == 0 and .begun == .finished + .failed + .abandoned + .untold' "$DIR/trace.json"; }
wait_for 10 'all samples to end' settled
pass "none stays: $(jq -c .counters "$DIR/trace.json")"
