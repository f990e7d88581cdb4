#!/usr/bin/env bash
# Shows that SIGTERM under load ends a gateway and a node with status 0 without waiting for clients, and that nothing acknowledged is lost.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

# drained PROCESS SIGNAL
drained() {
    local begun=${EPOCHREALTIME/./}
    stop "$1" "$2"
    [ "$STATUS" -eq 0 ] || fail "$1 ended with status $STATUS on SIG$2"
    # It takes well below a second. Ten times a patient 5 s: no clients or links may keep it from leaving, which would be for ever.
    at_most "$1 drained on SIG$2 with status 0" $(((${EPOCHREALTIME/./} - begun) / 1000)) 50000 ms
}

start_cluster 3 8MiB
for signal in TERM INT; do
    start_load load --extents 3 --connections 4 --depth 16 --reads 30 --model "$DIR/model"
    load_seconds load 1
    drained gateway $signal
    finish load 30
    [ -s "$DIR/load.out" ] || fail 'the load did not end by itself'
    no_wrong_byte load
    expect_result load "requests were answered rightly or not at all, $(result load .uncertain) writes are open" '(.errors | keys - ["ESHUTDOWN"]) == [] and .disconnects == 4'
    run_gateway
    volume_ready
    check 'nothing acknowledged is lost' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
done

# A node: what it had is answered, the rest waits for it.
start_load load --extents 3 --connections 2 --depth 16 --reads 30 --model "$DIR/model"
load_seconds load 1
drained node1 TERM
run_node node1
next_phase load
extent_served load 1 200
end_load load
no_wrong_byte load
expect_result load 'no request failed while the node was away' '.errors == {} and .disconnects == 0 and .unanswered == 0'

# Idle clients and idle links keep nobody from leaving.
start idle "$PYTHON" -c "
import sys; sys.path.insert(0, '$TESTS')
import nbdproto; client = nbdproto.Client('$URI', timeout_s=60); print('connected', file=sys.stderr, flush=True); client.sock.recv(1)"
started idle connected
drained gateway TERM
drained node0 INT
drained node1 TERM
drained node2 TERM
