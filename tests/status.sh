#!/usr/bin/env bash
# Shows that a gateway tells its state: /status as JSON, /metrics as Prometheus reads it, `flashmob status` for people; a dead node shows.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

start_cluster 2 8MiB
admin_address
start_load load --extents 2 --depth 8
load_seconds load 0.5
check '/status is JSON' curl -fsS -o "$DIR/status.json" "http://$ADMIN/status"
check 'and names the volume and its nodes' jq -e --arg a "${ADDR[node0]}" --arg b "${ADDR[node1]}" \
    '[.. | strings] | (index("pool") and any(contains($a)) and any(contains($b)))' "$DIR/status.json"
check '/metrics is answered' curl -fsS -D "$DIR/headers" -o "$DIR/metrics" "http://$ADMIN/metrics"
grep -Eiq '^content-type: (text/plain|application/openmetrics-text)' "$DIR/headers" || fail "the content type is $(grep -i content-type "$DIR/headers")"
# Every line is a comment, or a name with labels and a number; every sample's family has a type.
awk '
    /^$/ { next }
    /^# TYPE [a-zA-Z_:][a-zA-Z0-9_:]* (counter|gauge|histogram|summary|untyped)$/ { type[$3] = $4; next }
    /^#/ { next }
    !/^[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\.)*",?)*\})? (-?[0-9.]+([eE][-+]?[0-9]+)?|[-+]?Inf|NaN)$/ { print "no sample: " $0; bad = 1; next }
    {
        name = $1; sub(/\{.*/, "", name); family = name; sub(/_(bucket|sum|count|total)$/, "", family)
        if (!(name in type) && !(family in type)) { print "no type: " name; bad = 1 }
        if (name !~ /^flashmob_/) { print "a foreign name: " name; bad = 1 }
        count++
    }
    END { if (count < 10) { print count + 0 " samples"; bad = 1 } exit bad }
' "$DIR/metrics" >"$DIR/check.out" || { head -n 20 "$DIR/check.out" >&2; fail 'Prometheus could not read /metrics'; }
pass "/metrics has $(grep -vc '^#' "$DIR/metrics") samples, well formed"
check 'an unknown path is 404' test "$(curl -s -o /dev/null -w '%{http_code}' "http://$ADMIN/nosuch")" = 404

check 'the table for people' "$FLASHMOB" status "$ADMIN"
grep -q "${ADDR[node0]}" "$DIR/check.out" || fail 'the table does not name the nodes'
"$FLASHMOB" status "$ADMIN" --output json >"$DIR/status2.json" || fail 'flashmob status --output json'
check 'flashmob status --output json has what /status has' test \
    "$(jq -S -c 'keys' "$DIR/status.json")" = "$(jq -S -c 'keys' "$DIR/status2.json")"
refused 'the status of nobody' 'nothing listens|refused|connect' "$FLASHMOB" status 127.0.0.1:1

before=$("$FLASHMOB" status "$ADMIN" --output json | jq -S -c '[.. | booleans, (strings | select(test("^(up|down|connected|disconnected|connecting|waiting)")))]')
stop node1 KILL
changed() { [ "$("$FLASHMOB" status "$ADMIN" --output json | jq -S -c '[.. | booleans, (strings | select(test("^(up|down|connected|disconnected|connecting|waiting)")))]')" != "$before" ]; }
wait_for 10 'the dead node to show in the status' changed
pass 'a dead node shows in the status'
run_node node1
extent_served load 1 100
end_load load
