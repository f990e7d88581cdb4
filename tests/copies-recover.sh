#!/usr/bin/env bash
# Shows that the map of a volume with copies is recovered from its nodes when the disk of its gateway is lost, and that every byte is there.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

MAP=$DIR/gateway.toml.pool.map
recover=("$FLASHMOB" volume recover "$DIR/gateway.toml" pool)
# recovers [OPTION...]: recovers it, for `told`.
recovers() { "${recover[@]}" --yes --output json "$@" >"$DIR/told.json"; }
# told FILTER: what the last recovery told.
told() { jq -e "$1" "$DIR/told.json"; }
# lose_disk: the gateway is killed, and its disk is lost; only the configuration is known.
lose_disk() {
    stop gateway KILL
    rm "$DIR"/gateway.toml.extents "$DIR"/gateway.toml.pool.*
}
# mirrored N: waits until so many nodes have a mirror.
mirrored() { wait_for 20 "$1 nodes to have a mirror of the map" copies ".mirrors == $1"; }

start_copies 4 32MiB 'evict_after = "500ms"' 'timeout = "60s"'
mirrored 4
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
refused 'a map that is there is not made again' 'exists. If it is the' "${recover[@]}" --yes

# The gateway dies in the middle of writes, and its disk is lost.
start_load load --extents 4 --connections 2 --depth 8 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 200; done
lose_disk
finish load 20
check 'a dry run tells what is found' "${recover[@]}" --dry-run
check 'the mirrors of four nodes' test "$(grep -c 'epoch 1, version' "$DIR/check.out")" -eq 4
check 'and writes nothing' test ! -e "$MAP"
refused 'without --yes nothing is written where nobody can be asked' 'confirm it with --yes' "${recover[@]}"
check 'the map is recovered' recovers
check 'from one of the mirrors' told '.is_written and .missing_nodes == [] and .chunks_without_copy == [] and .epoch == 1'
gateway_again
whole_again
check 'every byte is what was written' is_all_there
mirrored 4

# A copy falls behind: that is known from the mirrors of the others.
cp "$DIR/node3.img.map" "$DIR/older.map"
stop node3 KILL
check 'more is written without node 3' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'and its copies are behind' copies '.behind_chunks > 0'
lose_disk
refused 'without node 3 a dry run says what is missing' 'without them --accept-loss is needed' "${recover[@]}" --dry-run
check 'the node is named' grep -q 'missing: the extents of nodes 3' <("${recover[@]}" --dry-run 2>/dev/null)
refused 'and nothing is recovered' 'bring them back' "${recover[@]}" --yes
run_node node3
check 'with it, and its older mirror, the map is recovered' recovers
gateway_again
whole_again
for other in node0 node1 node2; do
    stop $other KILL
    check "nothing is read from what node 3 had: it is all there without $other" is_all_there
    node_again $other
done
mirrored 4

# A mirror that is older than it was, as of a restored file.
lose_disk
stop node3 KILL
cp "$DIR/older.map" "$DIR/node3.img.map"
run_node node3
check 'an older mirror is told from the latest' recovers
check 'as its version is lower' told '.from_node != 3 and ([.nodes[].version] | min) == .nodes[3].version'
gateway_again
whole_again
check 'every byte is there' is_all_there
mirrored 4

# A backup of the map is started, though nothing was lost. In it node 3 is current, which it is not. It is noticed when a node is linked that
# knows better, also after node 3 has been used with it.
stop node3 KILL
cp "$MAP" "$DIR/backup.map"
check 'more is written without node 3' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
mirrored 3
stop gateway KILL
mv "$MAP" "$DIR/latest.map"
mv "$DIR/backup.map" "$MAP"
for node in node0 node1 node2; do stop $node KILL; done
run_node node3
run_gateway
admin_address
mirrored 1
# Something is decided with it: otherwise the gateway would take what the mirrors have.
check 'the older map decides something' "$FLASHMOB" volume rebalance "$ADMIN" pool --no-wait
for node in node0 node1 node2; do run_node $node; done
finish gateway 30
check 'the gateway ends' test "$STATUS" -eq 1
check 'as its older map is refused' grep -q 'an older state of it, and lacks .*volume recover' "$DIR/gateway.log"
# The latest map is not started either: node 3 has what it does not know. Its first start has the number of the older map's.
cp "$DIR/latest.map" "$MAP"
for start in first second; do
    run_gateway
    wait_for 20 "the $start start of the latest map to be refused" grep -qE 'has the same epoch|another state of this' "$DIR/gateway.log"
    stop gateway KILL
done
check 'it says what node 3 was used with' grep -q 'another state of this gateway.s map.*volume recover' "$DIR/gateway.log"
rm "$MAP"
refused 'what it has done on node 3 is known' 'version [0-9]+ of another state of the map' "${recover[@]}" --dry-run
check 'the map is recovered from the nodes that know better' recovers --accept-loss
check 'and not from node 3' told '.from_node != 3 and ([.nodes[].is_branched] == [false, false, false, true])'
gateway_again
whole_again
check 'every byte is there' is_all_there
mirrored 4

# A node is gone for good. That copies are current again may come to the mirrors a second later.
cp "$DIR/gateway.toml" "$DIR/look.toml"
mirrors_say() { "$FLASHMOB" volume recover "$DIR/look.toml" pool --dry-run --output json | jq -e "$1"; }
wait_for 20 'the mirrors to have all copies current' mirrors_say '.chunks_with_fewer == 0'
lose_disk
stop node2 KILL
check 'with --accept-loss a map is recovered without it' recovers --accept-loss
check 'which tells what is left' told '.missing_nodes == [2] and .chunks_without_copy == [] and .chunks_with_fewer > 0'
# Not all of its nodes are there, so it does not say that it is ready.
run_gateway
admin_address
check 'every byte is there' is_all_there
run_node node2
wait_for 20 'node 2 to be linked' is_linked node2
whole_again

# A node's mirror is gone.
lose_disk
stop node1 KILL
mv "$DIR/node1.img.map" "$DIR/gone.map"
run_node node1
refused 'without a node'"'"'s mirror nothing is recovered' 'nodes or their mirrors are missing' "${recover[@]}" --yes
check 'the node is named' grep -q 'nodes 1 have no mirror' <("${recover[@]}" --dry-run 2>/dev/null)
stop node1 KILL
mv "$DIR/gone.map" "$DIR/node1.img.map"
run_node node1

# What does not belong together is refused.
cp "$DIR/gateway.toml" "$DIR/right.toml"
sed -i "s/${ADDR[node0]}/x/; s/${ADDR[node1]}/${ADDR[node0]}/; s/address = \"x\"/address = \"${ADDR[node1]}\"/" "$DIR/gateway.toml"
refused 'nodes in another order are' 'is node [01] of the volume' "${recover[@]}" --yes
cp "$DIR/right.toml" "$DIR/gateway.toml"
for node in node0 node1 node2 node3; do
    stop $node KILL
    rm "$DIR/$node.img.map"
    run_node $node
done
refused 'without mirrors nothing can be recovered' 'no node keeps a mirror' "${recover[@]}" --yes
