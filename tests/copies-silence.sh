#!/usr/bin/env bash
# Shows that no node is put out when all fall silent at once for 10 s, as when an access point restarts: requests wait, none fails, and it goes on.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/silence.sh"

# pids NODE...
pids() { for node in "$@"; do echo "${PID[$node]}"; done; }
# answered: how many answers of node0 the gateway has had.
answered() {
    curl -sf "http://$ADMIN/status" | jq --arg name "${ADDR[node0]}" \
        '.gateway.volumes[0].nodes[] | select(.name == $name) | [.links[].reply_frames] | add'
}
has_answered() { [ "$(answered)" -gt "$1" ]; }

at_end 'kill -CONT $(pids "${NODES[@]}") 2>/dev/null'
fall_silent() {
    # shellcheck disable=SC2046 # process numbers
    kill -STOP $(pids "${NODES[@]}")
    for node in "${NODES[@]}"; do wait_for 5 "$node to stand still" stands_still "$node"; done
}
# They do not come back all at the same time. The first to answer must not be taken for one that answered all the time.
come_back() {
    local before
    before=$(answered)
    kill -CONT "${PID[node0]}"
    wait_for 10 'the first to answer' has_answered "$before"
    sleep 0.5 # ten times as often as the gateway looks for silent nodes, and far less than evict_after
    # shellcheck disable=SC2046
    kill -CONT $(pids node1 node2 node3)
}

start_copies 4 32MiB "${SILENCE_LINES[@]}"
silence
