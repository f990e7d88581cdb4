#!/usr/bin/env bash
# Shows that bytes that a flash returns wrong are found: flipped, zeroed, misplaced and old ones are read from another copy and written again, an older copy of an extent is made equal, and with one copy left it is an error and never wrong bytes.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# damage WHAT FILE [OLDER COPY]: changes a data file in the way of a bad flash, and drops it from the page cache. Prints how many blocks.
damage() { "$PYTHON" "$TESTS/rot.py" "$@"; }

# Reads go to the file each time: nothing is found in what the page cache has.
NODE_OPTIONS=(--direct)
start_copies 4 32MiB 'evict_after = "2s"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
cp "$DIR/node1.img" "$DIR/before.img"
check 'and filled again' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"

for what in flipped zeroed misplaced old; do
    older=()
    [ $what != old ] || older=("$DIR/before.img")
    read -r corrupt mended < <(copies_say '"\(.corrupt + .scrub_corrupt) \(.mended)"')
    blocks=$(damage $what "$DIR/node1.img" "${older[@]}")
    check "every byte is right though $blocks blocks of a node are $what" is_all_there
    # Reads may all have gone to the other copies.
    check 'all blocks are looked at' "$FLASHMOB" volume scrub "$ADMIN" pool --now --output json
    check 'they were found' copies ".corrupt + .scrub_corrupt > $corrupt"
    wait_for 20 "$what blocks to be written again" copies ".mended > $mended"
done
check 'nothing was unreadable' copies '.unreadable == 0 and .evictions == 0'
check 'the log names the node' grep -q "node ${ADDR[node1]}: its flash returned other bytes" "$DIR/gateway.log"

# An older copy of everything that a node has: its extent, its checksums and its identity.
stop node2
mkdir "$DIR/backup"
cp "$DIR"/node2.img* "$DIR/backup/"
node_again node2
check 'more is written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
stop node2
cp "$DIR"/backup/node2.img* "$DIR/"
run_node node2
wait_for 20 'the backup to be noticed' copies '.restored == 1'
check 'nothing is read from it' is_all_there
wait_for 60 'it to be made equal' are_whole
stop node0 KILL
check 'so it is all there without node 0' is_all_there
node_again node0
stop node1 KILL
check 'and without node 1' is_all_there
node_again node1

# An older copy of the extent and its checksums alone: the node refuses to serve it, and says what to do.
stop node3
cp "$DIR/node3.img" "$DIR/node3.img.sums" "$DIR/backup/"
node_again node3
stop node3
cp "$DIR/backup/node3.img" "$DIR/backup/node3.img.sums" "$DIR/"
run_node node3
wait_for 20 'node 3 to be refused' log_has gateway "node ${ADDR[node3]}: refused"
check 'it is all there without it' is_all_there
stop node3
rm "$DIR"/node3.img*
run_node node3
wait_for 20 'an empty extent to be seen' log_has gateway "node ${ADDR[node3]}: refused: it serves another extent"
check 'it is replaced' "$FLASHMOB" volume replace "$ADMIN" pool 3 --yes

# The same blocks are damaged on both copies: an error, and never wrong bytes.
for node in node0 node1 node2 node3; do damage zeroed "$DIR/$node.img" >/dev/null; done
"$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model" >"$DIR/verify.json" || true
check 'what no copy has is an error, and no byte is wrong' jq -e '.mismatches == 0 and (.errors | length) > 0 and .unanswered == 0 and .reads > 0' "$DIR/verify.json"
check 'the log says where' log_has gateway 'the block at byte [0-9]+ matches its checksum on no current copy'
check 'a write of the whole blocks heals them' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'and all of it is there again' is_all_there
