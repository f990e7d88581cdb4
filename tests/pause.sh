#!/usr/bin/env bash
# Shows that nothing waits for a node that is paused under load, even if its process is gone, that it is made equal when it is used again, and that a node's way and flash are measured meanwhile.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# node NUMBER FILTER: whether a node of the volume is as the filter of jq says.
node() { curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "$1" ".volumes[0].nodes[\$n] | $2" >/dev/null; }
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
# posted PATH BODY: the HTTP status of that request.
posted() { curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$2" "http://$ADMIN/volumes/$1"; }

# Requests to a node that is gone would wait for 20 s.
start_copies 4 32MiB 'evict_after = "20s"' 'timeout = "60s"'
admin_address
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 200; done

check 'a node is paused under load' volume pause 2
check 'its state is told' node 2 .member.is_paused
wait_for 20 'its new link' node 2 '.state == "ready"'
check 'in the table, too' grep -q 'volume resume ADDR:PORT pool 2' <(volume show)
check 'and as a finding' jq -e '.gateway.findings | any(.cause == "paused" and .node == 2)' <("$FLASHMOB" status "$ADMIN" --output json)
check 'who pauses it again learns that it is paused' volume pause 2
# Each chunk has two copies, on two of four nodes.
refused 'another that has chunks with it is not paused' 'too few current copies on other nodes' "$FLASHMOB" volume pause "$ADMIN" pool 1
refused 'nor one that is not there' "has no node '9'" "$FLASHMOB" volume pause "$ADMIN" pool 9
check 'a node that is not there is not found' test 404 = "$(posted pause '{"volume":"pool","node":4}')"
check 'an unknown key is a bad request' test 400 = "$(posted pause '{"volume":"pool","node":2,"for":7}')"
stop node2 KILL
next_phase load
for extent in 0 1 2 3; do extent_served load $extent 500; done
check 'its process is gone, and nothing has waited for it' node 2 '.state != "ready" and .member.is_paused and .member.behind > 0'
run_node node2
wait_for 20 'the node to be linked' node 2 '.state == "ready"'
check 'a node that is back is paused still' node 2 '.member.is_paused'

check 'its way is measured while it is paused' volume measure 2 --only way --output json
jq -e '.[0] | .trouble == null and .aspect == "way" and (.steps | map(.request_bytes)) == [1, 65536] and all(.steps[]; .answers > 0 and .p50_us <= .p99_us)' \
    "$DIR/check.out" >/dev/null || fail "the way was measured as $(cat "$DIR/check.out")"
check 'and the flash of one that is used' volume measure 1 --only flash
grep -q '^flash, reads of 4 KiB  *16 ' "$DIR/check.out" || fail "the flash was measured as $(cat "$DIR/check.out")"
check 'one is measured at a time' test '200 409' = "$(posted measure '{"volume":"pool","node":0,"aspect":"way"}') $(posted measure '{"volume":"pool","node":1,"aspect":"way"}')"
check 'what cannot be measured is a bad request' test 400 = "$(posted measure '{"volume":"pool","node":1,"aspect":"screen"}')"

check 'the node is used again' volume resume 2
wait_for 60 'its copies to be equal' node 2 '(.member.is_paused | not) and .member.behind == 0'
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'every byte is as it was written' is_all_there
# What has been equal is so on each node alone.
check 'the other node is paused now, and every byte is right without it' volume pause 1
check 'as it is read' is_all_there
stop gateway
gateway_again
wait_for 20 'all nodes to be linked' node 1 '.state == "ready"'
check 'a gateway that starts uses all nodes' node 1 '.member.is_paused | not'
