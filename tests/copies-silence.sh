#!/usr/bin/env bash
# Shows that no node is put out when all fall silent at once for 10 s, as when an access point restarts: requests wait, none fails, and it goes on.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
SILENCE_S=${SILENCE_S:-10}

served() { jq "[.phase_extents[].good] | add" "$DIR/load.progress"; }
# pids NODE...
pids() { for node in "$@"; do echo "${PID[$node]}"; done; }
# answered: how many answers of node0 the gateway has had.
answered() {
    curl -sf "http://$ADMIN/status" | jq --arg name "${ADDR[node0]}" \
        '.gateway.volumes[0].nodes[] | select(.name == $name) | [.links[].reply_frames] | add'
}
has_answered() { [ "$(answered)" -gt "$1" ]; }

start_copies 4 32MiB 'evict_after = "3s"' 'timeout = "120s"' 'reconnect_max = "500ms"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 4 --connections 2 --depth 8 --reads 30 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 200; done

at_end 'kill -CONT $(pids "${NODES[@]}") 2>/dev/null'
# shellcheck disable=SC2046 # process numbers
kill -STOP $(pids "${NODES[@]}")
for node in "${NODES[@]}"; do wait_for 5 "$node to stand still" stands_still "$node"; done
next_phase load
sleep "$SILENCE_S" # it is the length of the silence that matters
say "answers during the silence: $(served)"
check 'nobody was put out meanwhile' copies '.evictions == 0'
next_phase load
# They do not come back all at the same time. The first to answer must not be taken for one that answered all the time.
before=$(answered)
kill -CONT "${PID[node0]}"
wait_for 10 'the first to answer' has_answered "$before"
sleep 0.5 # ten times as often as the gateway looks for silent nodes, and far less than evict_after
# shellcheck disable=SC2046
kill -CONT $(pids node1 node2 node3)
for extent in 0 1 2 3; do extent_served load $extent 500; done
check 'nor afterwards' copies '.evictions == 0 and .evicted_copies == 0'
end_load load
no_wrong_byte load
expect_result load 'no request failed' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'nothing is behind' are_whole
check 'what is there is what was written' is_all_there
