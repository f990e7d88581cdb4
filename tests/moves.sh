#!/usr/bin/env bash
# Shows that a node is drained under load, though gateway, source and target are killed meanwhile, that it can be switched off then with every byte in its place, and that nodes are filled evenly when it is back.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
seeded

# node NUMBER FILTER: whether a node of the volume is as the filter of jq says.
node() { curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "$1" ".volumes[0].nodes[\$n] | $2" >/dev/null; }
copies_on() { curl -sf "http://$ADMIN/volumes" | jq ".volumes[0].nodes[$1].member.copies"; }
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
# posted BODY: the HTTP status of that request to move copies.
posted() { curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$1" "http://$ADMIN/volumes/move"; }
# moves_on: waits until fewer copies are left on node 2, and says how many are when somebody is killed.
moves_on() {
    local before
    before=$(copies_on 2)
    wait_for 120 "fewer than $before copies to be left" node 2 ".member.copies < $before or .member.copies == 0"
    say "$(copies_on 2) copies are left on node 2"
}
# is_held NODE: how many bytes its file holds.
is_held() { du --block-size=1 "$DIR/$1.img" | cut -f1; }

start_copies 4 192MiB 'size = "288MiB"' 'evict_after = "3s"' 'timeout = "60s"'
check 'the volume is as large as is configured' test $((288 << 20)) = "$(volume show --output json | jq '.volumes[0].size_bytes')"
start_qemu
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
LOAD_URI=$QEMU_URI start_load load --extents 4 --connections 2 --depth 8 --reads 60 --model "$DIR/model" --seed "$SEED"

check 'what would move is told' volume drain 2 --dry-run --output json
jq -e --argjson copies "$(copies_on 2)" '.copies == $copies and .bytes == $copies * 4194304 and .air_bytes > 2 * .bytes' "$DIR/check.out" >/dev/null ||
    fail "$(copies_on 2) copies were to be moved, and it was told $(cat "$DIR/check.out")"
check 'and nothing is done' node 2 '.member.is_leaving | not'
check 'a node is drained under load' volume drain 2 --no-wait
check 'that is told' grep -q 'node 2 is being drained' <(volume show)
refused 'another has no room on the others' 'would have no room on other nodes' "$FLASHMOB" volume drain "$ADMIN" pool 1
check 'a node that is not there is not found' test 404 = "$(posted '{"volume":"pool","node":4}')"
check 'an unknown key is a bad request' test 400 = "$(posted '{"volume":"pool","node":2,"for":7}')"

# The gateway goes on after it was killed; the node that is left, and one that gets copies, are made equal first.
moves_on
stop gateway KILL
gateway_again
check 'the gateway has not forgotten it' node 2 .member.is_leaving
moves_on
stop node2 KILL
run_node node2
wait_for 20 'the node that is drained to be linked' is_linked node2
moves_on
stop node3 KILL
run_node node3
wait_for 20 'the node that gets copies to be linked' is_linked node3
check 'whoever waits learns that it is empty' timeout 300 "$FLASHMOB" volume drain "$ADMIN" pool 2
grep -q 'node 2 .* can be switched off$' "$DIR/check.out" || fail "it was told $(cat "$DIR/check.out")"
check 'it has no copies' node 2 '.member | .copies == 0 and .is_drained'
on_page() { curl -sf "http://$ADMIN/live" | jq -e '.nodes[2] | .is_leaving and .is_drained' >/dev/null; }
check 'the page shows it as drained' on_page
whole_again
# The mirror of the map and the sums of what is gone are left.
gives_back() { [ "$(is_held node2)" -lt $((4 << 20)) ]; }
wait_for 60 'the bytes of what has moved to be given back' gives_back
next_phase load
stop node2
for extent in 0 1 2 3; do extent_served load $extent 100; done
check 'nothing misses the node that is switched off' are_whole

run_node node2
wait_for 20 'the node to be linked' is_linked node2
check 'the node may have copies again' volume drain 2 --cancel
# A node that was out often rests for a minute.
has_steps() { volume rebalance --dry-run | grep '^volume pool: [1-9][0-9]* copies are to be moved' >/dev/null; }
wait_for 90 'copies to be moved to the node' has_steps
check 'nodes are filled evenly' timeout 300 "$FLASHMOB" volume rebalance "$ADMIN" pool
for number in 0 1 2 3; do
    check "node $number has its share" node $number '.member.copies | . >= 35 and . <= 37'
done
check 'then nothing is left to do' grep -q '^volume pool: nothing has to be moved$' <(volume rebalance --dry-run)
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'QEMU ends' stop qemu
whole_again
# What has moved is whole on each node alone.
is_whole_without 0 1 2 3

# A node is removed to which none was ever added: the configuration still names it, and the gateway starts without it.
check 'a node is drained for good' timeout 300 "$FLASHMOB" volume drain "$ADMIN" pool 3
check 'and removed' volume remove 3
stop node3
stop gateway
gateway_again
started gateway 'is node 3 in the configuration, and none in the map'
check 'the others have their places' node 2 '.state == "ready" and .member.copies > 0'
check 'the removed one is not shown' grep -q '^volume pool, .*, 3 nodes$' <(volume show)
whole_again
check 'and every byte is right' is_all_there
