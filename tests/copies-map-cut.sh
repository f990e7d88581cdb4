#!/usr/bin/env bash
# Shows that a gateway whose map has lost its last decision serves nothing before the node is there that knows it, and goes on by itself with what that node's mirror has; and that a gateway which no node serves any more ends.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

MAP=$DIR/gateway.toml.pool.map
# one_write: a client changes a block of the first chunk.
one_write() { "$PYTHON" "$TESTS/nbdload.py" "$URI" --requests 1 --reads 0 --depth 1 --bytes 4096 --seed "$1" --model "$DIR/model"; }
# goes_on_by_itself: the gateway has taken the decisions, and serves the volume at the same socket.
goes_on_by_itself() {
    wait_for 20 'the gateway to take what the mirror has' log_has gateway 'they are taken from there'
    wait_for 20 'the volume to be ready again' is_ready_again
    check 'it is the same process' alive gateway
    PORT=$(sed -nE 's|.*listening on nbds?://127\.0\.0\.1:([0-9]+).*|\1|p' "$DIR/gateway.log" | tail -n 1)
    URI=nbd://127.0.0.1:$PORT/pool
    ADMIN=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/gateway.log" | tail -n 1)
    whole_again
    check 'every byte is what was written' is_all_there
}
is_ready_again() { [ "$(grep -c 'listening on nbds\?://127' "$DIR/gateway.log")" -ge 2 ]; }

start_copies 2 16MiB 'timeout = "60s"'
wait_for 20 'both nodes to have a mirror of the map' copies '.mirrors == 2'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"

for how in cut flip; do
    # The last that the map says: the copy on node 0 lacks a change, which is acknowledged.
    stop node0 KILL
    check 'a block is changed without node 0' one_write "$RANDOM"
    check 'and its copy there is behind' copies '.behind_chunks > 0'
    stop gateway KILL
    stop node1 KILL
    check "the last batch of the map is damaged: $how" "$PYTHON" "$TESTS/damage_map.py" "$MAP" "$how"

    # Node 0 has the bytes from before. It is there alone, and readers wait.
    run_node node0
    run_gateway
    admin_address
    check 'the damage is told' log_has gateway 'or were damaged since; they are dropped'
    wait_for 20 'node 0 to be linked' is_linked node0
    start reader "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model" --drain 50
    wait_for 20 'what it waits for to be told' log_has gateway 'nothing is served before these nodes are linked'
    check 'and shown' copies '.waits_for | test("waits for the nodes")'
    sleep 4
    check 'the reader waits' alive reader
    run_node node1
    finish reader 60
    check 'no old byte is read' jq -e '.mismatches == 0 and .reads == 0' "$DIR/reader.out"
    goes_on_by_itself
done
for without in 0 1; do is_whole_without "$without"; done

# A backup of the map that nobody has used yet: all nodes are there, and know better.
wait_for 20 'both nodes to have a mirror of the map' copies '.mirrors == 2'
cp "$MAP" "$DIR/backup.map"
stop node0 KILL
check 'a block is changed without node 0' one_write "$RANDOM"
run_node node0
whole_again
check 'and another' one_write "$RANDOM"
sleep 2
stop gateway KILL
cp "$DIR/backup.map" "$MAP"
run_gateway
goes_on_by_itself
