#!/usr/bin/env bash
# Shows that a node that lost its file is replaced by an empty one under load, that every byte is there, and that nothing is read from the old file ever again.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

volumes() { curl -sf "http://$ADMIN/volumes"; }
# node NUMBER FILTER: whether a node of the volume is as the filter of jq says.
node() { volumes | jq -e --argjson n "$1" ".volumes[0].nodes[\$n] | $2" >/dev/null; }
# find_admin: where the gateway's pages are, and the command that goes there.
find_admin() {
    admin_address
    replace=("$FLASHMOB" volume replace "$ADMIN")
}

start_copies 4 32MiB 'evict_after = "500ms"' 'timeout = "60s"'
find_admin
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"

# What is no replacement is refused, and changes nothing.
refused 'a node that serves its extent is not replaced' 'nothing has to be replaced' "${replace[@]}" pool 1 --yes
refused 'a volume that is not there is named with those that are' "no volume 'other'; there are: pool" "${replace[@]}" other 1 --yes
refused 'and so is a node' "has no node '9'" "${replace[@]}" pool 9 --yes
check 'the page of the volume has a line for each node' test "$("$FLASHMOB" volume show "$ADMIN" | grep -c ready)" -eq 4
check 'its JSON is that of /volumes' jq -e '.schema == 1 and (.volumes[0].nodes | length) == 4 and .volumes[0].nodes[0].member.copies == 8' \
    <("$FLASHMOB" volume show "$ADMIN" pool --output json)

# A node loses its file under load.
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 200; done
stop node2 KILL
mkdir "$DIR/old"
mv "$DIR"/node2.img* "$DIR/old/"
next_phase load
for extent in 0 1 2 3; do extent_served load $extent 500; done
run_node node2
wait_for 20 'the fresh extent to be seen' node 2 '.state == "refused" and .member.offered != null'
refused 'without --yes nothing is given up where nobody can be asked' 'confirm it with --yes' "${replace[@]}" pool 2 --output json
check 'so it is still refused' node 2 '.state == "refused"'
check 'the page says what to do' grep -q 'flashmob volume replace ADDR:PORT pool 2' <("$FLASHMOB" volume show "$ADMIN")
refused 'a page of another site cannot replace it' 'a page of another site' \
    curl -sS --fail-with-body -H 'Host: example.org' -H 'Content-Type: application/json' -d '{}' "http://$ADMIN/volumes/replace"
refused 'nor a form' 'application/json' curl -sS --fail-with-body -d 'volume=pool' "http://$ADMIN/volumes/replace"
refused 'an extent that was not shown is not taken' 'another extent is there now' curl -sS --fail-with-body \
    -H 'Content-Type: application/json' -d '{"volume":"pool","node":2,"extent":"00000000000000000000000000000001"}' "http://$ADMIN/volumes/replace"
# status_of BODY: the HTTP status of that request.
status_of() {
    curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$1" "http://$ADMIN/volumes/replace"
}
check 'a volume that is not there is not found' test 404 = \
    "$(status_of '{"volume":"other","node":2,"extent":"00000000000000000000000000000001"}')"
check 'nor is a node' test 404 = "$(status_of '{"volume":"pool","node":4,"extent":"00000000000000000000000000000001"}')"
check 'what is no extent is a bad request' test 400 = "$(status_of '{"volume":"pool","node":2,"extent":"1"}')"
next_phase load
check 'the fresh extent takes the place of the lost one, under load' "${replace[@]}" pool 2 --yes --output json
mv "$DIR/check.out" "$DIR/replaced.json"
check 'and has all copies when the command ends' node 2 '.state == "ready" and .member.behind == 0 and .member.copies == 8'
check 'and the answer came when the map had it' jq -e '.is_recorded' "$DIR/replaced.json"
refused 'who asks again learns that it is done' 'already; nothing has to be done' curl -sS --fail-with-body \
    -H 'Content-Type: application/json' -d "$(jq '{volume: "pool", node: 2, extent: .taken}' "$DIR/replaced.json")" "http://$ADMIN/volumes/replace"
extent_served load 2 500
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
wait_for 60 'all copies to be equal' are_whole
check 'it was counted' copies '.replaced == 1 and .resynced >= 8'
for other in node0 node1 node3; do
    stop $other KILL
    check "it is all there without $other" is_all_there
    node_again $other
done

# The old file comes back: it is refused, before and after a restart of the gateway.
check 'more is written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
stop node2 KILL
mkdir "$DIR/fresh"
mv "$DIR"/node2.img* "$DIR/fresh/"
mv "$DIR"/old/node2.img* "$DIR/"
run_node node2
wait_for 20 'the old extent to be refused' node 2 '.state == "refused"'
check 'what is there is what was written last' is_all_there
stop gateway KILL
run_gateway
find_admin
wait_for 20 'the old extent to be refused again' node 2 '.state == "refused"'
check 'and still is after a restart of the gateway' is_all_there
stop node2 KILL
mv "$DIR"/fresh/node2.img* "$DIR/"
run_node node2
wait_for 60 'the right extent to be whole' are_whole

# Nothing is given up whose data is nowhere else.
stop node0 KILL
check 'all of it is written without node 0' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
last=$(volumes | jq '[.volumes[0].nodes[] | select(.member.only > 0)][0].number')
pass "node $last has the only copy of some chunks"
stop "node$last" KILL
mkdir "$DIR/lost"
mv "$DIR/node$last.img"* "$DIR/lost/"
run_node "node$last"
wait_for 20 'the fresh extent to be seen' node "$last" '.member.offered != null'
refused 'the only current copies are not given up' 'only current copy of [0-9]+ chunks' "${replace[@]}" pool "$last" --yes
stop "node$last" KILL
mv "$DIR/lost/node$last.img"* "$DIR/"
run_node "node$last"
run_node node0
wait_for 60 'all copies to be equal when the nodes are back' are_whole
check 'and it is all there' is_all_there
