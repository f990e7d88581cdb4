#!/usr/bin/env bash
# Shows that a volume with copies loses nothing: nodes and the gateway are killed under load, and every byte is what was written; no request fails while a copy is left.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdcopy nbdinfo

start_copies 4 32MiB 'evict_after = "500ms"' 'timeout = "60s"'
check 'half of the room is the volume: 64 MiB' test "$(nbdinfo --size "$URI")" -eq $((64 << 20))
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"

# A node dies and comes back with the data it had.
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 200; done
stop node2 KILL
next_phase load
for extent in 0 1 2 3; do extent_served load $extent 500; done
check 'some chunks have one copy' copies '.fewest_current == 1 and .behind_chunks > 0 and .evictions > 0'
next_phase load
run_node node2
wait_for 60 'the copies to be made equal under load' are_whole
extent_served load 2 500
end_load load
no_wrong_byte load
expect_result load 'no request failed while a node was gone' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'what was made equal was counted' copies '.resynced > 0 and .copied_bytes > 0'
check 'what is there is what was written' is_all_there

# What was made equal is whole: the others of each pair go, one after the other.
for node in node0 node1 node3; do
    stop $node KILL
    check "it is all there without $node" is_all_there
    node_again $node
done

# The gateway dies in the middle of writes: what was acknowledged is there, and copies are compared before they are read.
start_load killed --extents 4 --connections 2 --depth 8 --model "$DIR/model" --seed 3
for extent in 0 1 2 3; do extent_served killed $extent 200; done
cp "$DIR/gateway.toml.pool.map" "$DIR/old.map"
stop gateway KILL
gateway_again
end_load killed
no_wrong_byte killed
check 'what was acknowledged is there' is_all_there
wait_for 60 'the copies to be compared' are_whole
check 'and still is when all copies are equal' is_all_there
check 'copies were compared after the gateway was killed' copies '.compared > 0 and .epoch == 2'

# A second gateway with a copy of the map is refused, unless it is told to take over; then the first serves the volume no longer.
mkdir "$DIR/second"
# The first stands still meanwhile: what it decided after the copy the second would lack.
freeze gateway
cp "$DIR/gateway.toml" "$DIR/gateway.toml.extents" "$DIR/gateway.toml.pool.map" "$DIR/second/"
sed -i "s|unix:$DIR/gateway.sock|unix:$DIR/second.sock|" "$DIR/second/gateway.toml"
refused 'a copy of the map is not taken for the map' 'last used on another machine.*--take-over' \
    "$FLASHMOB" gateway "$DIR/second/gateway.toml"
start second "$FLASHMOB" gateway --take-over "$DIR/second/gateway.toml"
started second 'volume pool ready'
kill -CONT "${PID[gateway]}"
started gateway 'another gateway|later gateway'
refused 'the first gateway answers no read now' 'error|refused|not' nbdcopy "$URI" "$DIR/never"
finish gateway 20
check 'it ends, so that who supervises it starts it again' test "$STATUS" -eq 1
stop second
# It has another home now, and need not be told again.
start third "$FLASHMOB" gateway "$DIR/second/gateway.toml"
started third 'volume pool ready'
stop third

# A map that is older than what nodes know is refused: its marks would show old copies as current.
cp "$DIR/old.map" "$DIR/gateway.toml.pool.map"
run_gateway
started gateway 'later gateway is in charge|map is old'
