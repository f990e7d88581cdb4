#!/usr/bin/env bash
# Shows that links cut in the middle of a frame, again and again, cost no byte and no request: everything is sent again and answered once.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

NODES=()
for i in 0 1 2; do
    NODES+=("node$i")
    start_node "node$i" 4MiB
done
start proxy "$PYTHON" "$TESTS/cutting_proxy.py" "${ADDR[node1]}" 50000 2000000
started proxy 'listening on'
NODE_HOST[1]=$(sed -n 's/^listening on //p' "$DIR/proxy.log")
start_gateway 'links = 2' 'timeout = "10s"'
start_load load --extents 3 --connections 2 --depth 16 --model "$DIR/model"
cut_often() { log_has proxy '^cut 20$'; }
wait_for 60 '20 cuts' cut_often
kill -USR1 "${PID[proxy]}"
next_phase load
extent_served load 1 500
end_load load
no_wrong_byte load
expect_result load "no request failed over $(grep -c '^cut' "$DIR/proxy.log") cuts" '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
