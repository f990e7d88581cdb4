#!/usr/bin/env bash
# Shows that `flashmob simulate` gives every combination in virtual time in the published form, the same for the same seed, readable by report; that Ctrl-C keeps what is there; wrong arguments are explained.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

# simulate NAME OPTION...: the result as JSON in $DIR/NAME.json.
simulate() {
    local name=$1
    shift
    timeout 280 "$FLASHMOB" simulate "$@" --output json >"$DIR/$name.json" 2>"$DIR/$name.log" || { cat "$DIR/$name.log" >&2; fail "simulate $*"; }
}
# holds NAME WHAT FILTER: passes if the filter is true of a result.
holds() {
    jq -e "$3" "$DIR/$1.json" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?)' "$DIR/$1.json" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}

SWEEP=(--nodes 1,4 --links 1,4 --batch 1,10,auto --warmup 2 --time 4 --repeat 2)
simulate sweep "${SWEEP[@]}" --label 'drawn tablets'
holds sweep 'every combination, twice each' '[.measurement.points[].parameters | [.nodes, .links, .batch]] | length == 12 and (unique | length == 12)'
holds sweep 'each answered requests, none failed and none is void' \
    'all(.measurement.points[]; (.repetitions | length == 2) and all(.repetitions[]; .requests > 0 and .errors == 0 and (.is_void | not)))'
holds sweep 'it is of the simulator, with air and flash named, and a warning that it is modelled' \
    '.format == "flashmob-result" and .label == "drawn tablets" and (.measurement | .kind == "cluster" and .setting == "simulator" and .air.profile == "11n-2014" and .flash.profile == "nexus7-emmc") and any(.warnings[]; .code == "modelled")'
holds sweep 'figures hang together' \
    'all(.measurement.points[]; .parameters as $p | all(.repetitions[]; .latency_ns.count == .requests and .bytes == .requests * $p.block_bytes and .packets.sent > 0 and .air.frames > 0 and .air.busy_fraction <= 1
        and (.requests_per_second * .elapsed_s - .requests | fabs) < 1 and (if ($p.batch | type) == "object" then .batches.pieces <= .batches.sent * $p.batch.fixed else true end)))'
holds sweep 'the rate is that of requests outstanding and latency (Little), within 10 %' \
    'all(.measurement.points[]; .parameters.outstanding as $out | all(.repetitions[]; (.requests_per_second * .latency_ns.mean / 1e9 / $out) as $part | $part > 0.9 and $part < 1.1))'
# Schemas: what they require is there, and nothing that they do not know. The unit tests hold all of it against them.
jq -e --slurpfile schema "$ROOT/schema/result-1.json" '($schema[0].required - keys | length == 0) and (keys - ($schema[0].properties | keys) | length == 0)' "$DIR/sweep.json" >/dev/null ||
    fail 'the result is not as schema/result-1.json says'
pass 'the result has the fields that schema/result-1.json names'

simulate again "${SWEEP[@]}" --label 'drawn tablets'
same='del(.started_unix_s, .elapsed_s, .measurement.points[].repetitions[].begin_s)'
cmp -s <(jq -S "$same" "$DIR/sweep.json") <(jq -S "$same" "$DIR/again.json") || fail 'the same seed gives two results'
simulate other "${SWEEP[@]}" --label 'drawn tablets' --seed 2
! cmp -s <(jq -S "$same | del(.seed)" "$DIR/sweep.json") <(jq -S "$same | del(.seed)" "$DIR/other.json") || fail 'another seed changes nothing'
pass 'the same seed gives the same result, another one another'

simulate network --nodes 4 --no-io --batch 1,10 --links 4 --time 0.5
holds network 'without I/O there is no limit of flash, and ten requests in a batch bring more' \
    'all(.measurement.points[]; .parameters.no_io and .summary.flash_fraction == null) and (.measurement.points | .[1].summary.requests_per_second.median > 3 * .[0].summary.requests_per_second.median)'
simulate cells --nodes 4 --cells 2 --air 11n --read-percent 50 -b 4KiB --time 0.3
holds cells 'several cells, and writes without permission: there is nothing to lose' '.measurement.air.cells == 2 and .measurement.points[0].parameters.read_percent == 50'

simulate nothing --nodes 8 -b 1MiB --read-percent 0 --outstanding 64 --time 0.3
holds nothing 'where nothing is answered it says what to change' '.measurement.points[0] | .repetitions[0].requests == 0 and any(.warnings[]; .message | test("use a longer --time"))'

"$FLASHMOB" simulate --nodes 2 --time 0.3 --save "$DIR/saved.json" >"$DIR/table" 2>"$DIR/table.log" || fail 'a table'
check 'a table for people, called simulated' grep -q 'SIMULATED in virtual time' "$DIR/table"
check 'with the columns of bench cluster' grep -Eq 'nodes +links +batch +block .*requests/s .*packets/s' "$DIR/table"
check 'flashmob report reads what is saved' "$FLASHMOB" report "$DIR/saved.json" "$DIR/sweep.json" -o "$DIR/page.html" --csv "$DIR"
check 'and its page calls it simulated' grep -q '(simulated)' "$DIR/page.html"
[ "$(wc -l <"$DIR/clusters.csv")" -eq 26 ] || fail "clusters.csv has $(wc -l <"$DIR/clusters.csv") lines for 25 repetitions"
"$FLASHMOB" simulate --nodes 2 --time 0.3 --output ndjson >"$DIR/events" 2>"$DIR/events.log" || fail 'events'
check 'every line of NDJSON is an event, the last one the result' jq -es 'all(.[]; .event) and .[0].event == "begin" and .[-1].event == "end"' "$DIR/events"
status=0
"$FLASHMOB" simulate --nodes 2 --time 0.3 --output json 2>"$DIR/gone.log" | head -c 10 >/dev/null || status=${PIPESTATUS[0]}
[ "$status" -eq 0 ] || fail "a reader that goes away: status $status"
pass 'a reader that goes away is no error'

for signal in INT TERM; do
    # So many repetitions that it has to be ended.
    start "long-$signal" "$FLASHMOB" simulate --nodes 1,2 --time 1 --repeat 1000 --output ndjson --save "$DIR/part-$signal.json"
    wait_for 20 'the first repetition' grep -q cluster_repetition "$DIR/long-$signal.out"
    stop "long-$signal" $signal
    [ "$STATUS" -eq 130 ] || fail "SIG$signal ended it with status $STATUS, not 130"
    check "SIG$signal keeps what was simulated" jq -e '.interrupted and .measurement.points[0].repetitions[0].requests > 0' "$DIR/part-$signal.json"
    check 'report reads it' "$FLASHMOB" report "$DIR/part-$signal.json" -o "$DIR/page.html"
done

refused 'an air that there is not' "no modelled air '11m'.*did you mean '11" "$FLASHMOB" simulate --air 11m
refused 'a flash that there is not' "no modelled device 'emcc'.*did you mean 'emmc'" "$FLASHMOB" simulate --flash emcc
refused 'no nodes' "invalid value '0' for '--nodes" "$FLASHMOB" simulate --nodes 0
refused 'too many nodes' '1..=1000' "$FLASHMOB" simulate --nodes 1001
refused 'more cells than nodes' 'no more than nodes' "$FLASHMOB" simulate --nodes 2 --cells 3
refused 'several cells and a wireless gateway' 'must be 1 with a wireless gateway' "$FLASHMOB" simulate --cells 2 --gateway wireless
refused 'a batch of none' 'must be auto, or a number' "$FLASHMOB" simulate --batch 0
refused 'no time' 'give more than 0' "$FLASHMOB" simulate --time 0
refused 'a block that fits in no extent' 'size of a request' "$FLASHMOB" simulate --extent 1KiB -b 4KiB
refused 'more bytes than there is memory for' 'reduce --outstanding' "$FLASHMOB" simulate -b 32MiB
refused 'a place that cannot be written' 'cannot save' "$FLASHMOB" simulate --save "$DIR/no/where.json"
