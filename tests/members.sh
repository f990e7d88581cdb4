#!/usr/bin/env bash
# Shows that nodes are added to a volume and removed from it under load, though gateway and new node are killed meanwhile; that data on a node is not overwritten unasked; that the map names the nodes from then on, after restarts and recovery, with every byte in its place.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
seeded

# node NUMBER FILTER: whether a node of the volume is as the filter of jq says.
node() { curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "$1" ".volumes[0].nodes[\$n] | $2" >/dev/null; }
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
# posted WHAT BODY: the HTTP status of that request.
posted() { curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$2" "http://$ADMIN/volumes/$1"; }
# has_copies NUMBER LEAST
has_copies() { node "$1" ".member.copies >= $2"; }
is_balanced() { curl -sf "http://$ADMIN/volumes" | jq -e '.volumes[0].copies.moves | (.is_balancing | not) and .left_copies == 0' >/dev/null; }

start_copies 3 96MiB 'size = "128MiB"' 'evict_after = "3s"' 'timeout = "60s"'
start_qemu
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
LOAD_URI=$QEMU_URI start_load load --extents 3 --connections 2 --depth 8 --reads 60 --model "$DIR/model" --seed "$SEED"

# Requests that cannot be carried out.
refused 'a node that the volume has is not added' 'is node 1 of volume .pool. already' "$FLASHMOB" volume add "$ADMIN" pool "${ADDR[node1]}"
refused 'a word is no address' 'is no address of a node' "$FLASHMOB" volume add "$ADMIN" pool 'no host'
refused 'a node with copies is not removed' 'drain it first' "$FLASHMOB" volume remove "$ADMIN" pool 1
check 'an unknown volume is not found' test 404 = "$(posted add '{"volume":"other","address":"127.0.0.1:9"}')"
check 'a node that is not there is not found' test 404 = "$(posted remove '{"volume":"pool","node":3}')"
check 'an unknown key is a bad request' test 400 = "$(posted add '{"volume":"pool","address":"127.0.0.1:9","for":7}')"

# An empty node.
start_node node3 96MiB --join "$ADMIN"
offers() { curl -sf "http://$ADMIN/status" | jq -e --arg at "${ADDR[$1]}" '[.gateway.findings[] | select(.cause == "newcomer") | .command | endswith(" pool " + $at)] == [true]' >/dev/null; }
is_not_offered() { ! offers "$1"; }
wait_for 20 'a node that has joined to be offered' offers node3
check 'the page of the status says so' grep -q "${ADDR[node3]} has joined, and is in no volume" <("$FLASHMOB" status "$ADMIN")
check 'an empty node is added under load' volume add "${ADDR[node3]}"
grep -q 'is node 3 of volume pool, with 96 MiB' "$DIR/check.out" || fail "it was told $(cat "$DIR/check.out")"
check 'it is not offered any more' is_not_offered node3
wait_for 60 'copies to be moved to it' has_copies 3 2
stop gateway KILL
gateway_again
started gateway 'of its map alone: node 3 '
check 'the gateway has not forgotten it' node 3 '.member.is_joining | not'
wait_for 20 'the new node to be linked' is_linked node3
stop node3 KILL
run_node node3
wait_for 120 'the nodes to be filled evenly' is_balanced
check 'the new node has its share' has_copies 3 14

# One that holds data.
truncate -s 96MiB "$DIR/node4.img"
head -c 4096 /dev/urandom | dd of="$DIR/node4.img" bs=4096 seek=9000 conv=notrunc status=none
before=$(sha256sum <"$DIR/node4.img")
start_node node4 96MiB
refused 'a node that holds data is not used' 'its extent holds data' "$FLASHMOB" volume add "$ADMIN" pool "${ADDR[node4]}"
check 'that is told' grep -q 'node 4 is not used: its extent holds data' <(volume show)
check 'its data is as it was' test "$before" = "$(sha256sum <"$DIR/node4.img")"
check 'it may be removed again' volume remove 4
check 'it has no links any more' node 4 '.state == "removed"'
refused 'its extent has a place in the volume still' '--forget' "$FLASHMOB" volume add "$ADMIN" pool "${ADDR[node4]}" --overwrite
check 'it may be removed again' volume remove 5
stop node4
NODE_ARGS[node4]+=' --forget'
run_node node4
check 'it may be added again, as another node' volume add "${ADDR[node4]}" --overwrite
check 'it is used then' node 6 '.member.is_joining | not'
wait_for 120 'copies to be moved to it' has_copies 6 2

# One that the configuration names leaves.
check 'a node is drained' timeout 300 "$FLASHMOB" volume drain "$ADMIN" pool 0
check 'and removed' volume remove 0
stop node0
wait_for 120 'the nodes to be filled evenly' is_balanced
stop gateway
gateway_again
started gateway 'is node 0 in the configuration, and none in the map'
NODE_ARGS[node0]+=' --forget'
run_node node0
check 'it may come again, after a start of the gateway' volume add "${ADDR[node0]}"
check 'with another number' node 7 '.state == "ready" and (.member.is_joining | not)'
wait_for 120 'copies to be moved to it' has_copies 7 2
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'QEMU ends' stop qemu
whole_again
wait_for 120 'the nodes to be filled evenly' is_balanced
is_whole_without 1 2 3 6 7
check 'a name is that of who has it now' volume pause "${ADDR[node0]}"
grep -q '^node 7 ' "$DIR/check.out" || fail "it was told $(cat "$DIR/check.out")"
volume resume "${ADDR[node0]}" >/dev/null
whole_again

# The gateway's disk is lost: mirrors name the nodes that the configuration does not.
stop gateway
rm "$DIR"/gateway.toml.*.map "$DIR/gateway.toml.extents"
check 'the map is recovered' "$FLASHMOB" volume recover "$DIR/gateway.toml" pool --yes
gateway_again
whole_again
check 'all nodes are there' node 7 '.state == "ready" and .member.copies > 0'
check 'every byte is right' is_all_there
