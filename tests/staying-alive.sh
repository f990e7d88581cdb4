#!/usr/bin/env bash
# Shows that a node tells battery, heat and room, says what is near a limit and why it paused, and that links in use are kept awake and idle ones are not.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

# told PERCENT CHARGING: what an app writes, beside and renamed.
told() {
    printf '{"written_at_unix_ms":%s,"battery_percent":%s,"charging":%s,"battery_celsius":31.5,"screen_on":false,"network":"wifi"}' \
        "${EPOCHREALTIME%.*}000" "$1" "$2" >"$DIR/state.new"
    mv "$DIR/state.new" "$DIR/state.json"
}
# gateway_says FILTER, node_says FILTER: true of /status; $a is the first node's entry in the gateway's.
gateway_says() { curl -fsS "http://$ADMIN/status" | jq -e ".gateway.volumes[0].nodes[0] as \$a | $1" >/dev/null; }
node_says() { curl -fsS "http://$NODE_ADMIN/status" | jq -e "$1" >/dev/null; }

told 81 true
NODES=(node0 node1)
start_node node0 8MiB --device-state "$DIR/state.json" --admin 127.0.0.1:0
start_node node1 8MiB
NODE_ADMIN=$(sed -nE 's|.*admin on http://(127.0.0.1:[0-9]+).*|\1|p' "$DIR/node0.log" | head -n 1)
at_end 'kill -CONT ${PID[node0]} 2>/dev/null'
start_gateway
admin_address
wait_for 10 'the condition at the gateway' gateway_says '$a.condition | .battery_percent == 81 and .charging and .celsius == 31.5'
pass 'the gateway tells what an app told the node'
check 'room in the file system is told, and what the sparse extent has yet to take' gateway_says \
    '$a.condition | .free_bytes > 0 and .unallocated_bytes > 4000000 and .size_bytes == 8388608'
check 'so does a node without an app' gateway_says '.gateway.volumes[0].nodes[1].condition.free_bytes > 0'
check 'the node itself tells the same' node_says '.node.condition | .battery_percent == 81 and (.pauses | type) == "array"'

# A link in use is kept awake; one that nobody uses is not.
check 'the volume is used' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
frames() { curl -fsS "http://$ADMIN/status" | jq '[.gateway.volumes[].nodes[].links[].alive_frames] | add'; }
wait_for 10 'frames that keep a link awake' gateway_says '[$a.links[].alive_frames] | add > 0'
is_still() { local before; before=$(frames); sleep 0.5; [ "$(frames)" = "$before" ]; }
wait_for 10 'the end of frames that keep a link awake' is_still
pass "$(frames) frames kept the links awake after the last request, and then none"

# Near a limit, and a process that stands still meanwhile.
told 9 false
wait_for 15 'the warning at the gateway' log_has gateway 'its battery is at 9 % and not charging: plug it in'
check 'the node says so as well' log_has node0 'this device: its battery is at 9 %'
check 'and so does the table for people' "$FLASHMOB" status "$ADMIN"
grep -Eq '^127.*  +9 % +on battery +31\.5 °C' "$DIR/check.out" || { cat "$DIR/check.out" >&2; fail 'the table of devices'; }
check 'and a gauge' sh -c "curl -fsS http://$ADMIN/metrics | grep -Eq '^flashmob_node_beyond_limit.*limit=\"battery\".* 1'"
# A node that nobody uses looks at its clocks every half minute only; that its loop turns for /status is no use.
again() { check "$1" "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"; }
again 'the volume is used again'
kill -STOP "${PID[node0]}"
sleep 4.2 # it is the length of the pause that is shown
kill -CONT "${PID[node0]}"
wait_for 15 'why it paused' log_has node0 'paused [0-9.]+ s: the process was stopped.*screen off, not charging, battery 9 %'
wait_for 15 'the pause at the gateway' gateway_says '$a.condition | .pauses_total >= 1 and (.pauses[0].reason | test("stopped"))'
pass "a pause is told with its reason: $(curl -fsS "http://$NODE_ADMIN/status" | jq -r '.node.condition.pauses[-1] | "\(.lasted_seconds) s, \(.reason)"')"

# What cannot be believed is not believed, and nothing else happens.
again 'and again'
printf '{"battery_percent":' >"$DIR/state.json"
wait_for 15 'doubt about the file' log_has node0 'device-state .*: ignored'
wait_for 15 'an unknown battery' gateway_says '$a.condition | .battery_percent != 9'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
