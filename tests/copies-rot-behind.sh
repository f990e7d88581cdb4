#!/usr/bin/env bash
# Shows that a block that rots on the only current copy, while the other is behind, costs that block at most: what the other copy has of it heals it, what no copy has is an error alone, and no chunk stays behind.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# blocks WHAT [BLOCK...]: one by one; IMAGE has what the volume must hold.
IMAGE=$DIR/image
blocks() { "$PYTHON" "$TESTS/blocks.py" "$URI" "$IMAGE" "$@"; }
# flip NODE BLOCK: a bit of a block of the volume flips on the flash of a node.
flip() {
    [ "$("$PYTHON" "$TESTS/rot.py" everywhere "$IMAGE" "$DIR/$1.img" --at $(($2 * 4096)) --bit)" = 1 ] ||
        fail "block $2 is not once on $1"
}
# of_chunk CHUNK BLOCK: the number of a block of a chunk of 4 MiB.
of_chunk() { echo $(($1 * 1024 + $2)); }
# is_behind: all four chunks lack something on a node.
is_behind() { copies '.behind_chunks == 4'; }
# listed BLOCK...: exactly these are listed as unreadable.
listed() {
    local expected
    expected=$(printf '%s\n' "$@" | jq -nc '[inputs * 4096]')
    "$FLASHMOB" volume show "$ADMIN" pool --output json | jq -e --argjson expected "$expected" '
        [.volumes[0].copies.scrub.bad[] | select(.flaw == "unreadable") | range(.offset_bytes; .offset_bytes + .bytes; 4096)] | sort == ($expected | sort)' >/dev/null
}

# Reads go to the file each time: nothing is found in what the page cache has.
NODE_OPTIONS=(--direct)
start_copies 2 16MiB 'evict_after = "1s"' 'timeout = "20s"' 'scrub = "off"' 'compare = "off"'
check 'the volume is filled' blocks fill

# Node 0 is away while one block of each chunk changes. Meanwhile another block of two chunks rots on node 1, of which node 0 has the bytes.
stop node0 KILL
check 'a block of each chunk changes' blocks write "$(of_chunk 0 7)" "$(of_chunk 1 7)" "$(of_chunk 2 7)" "$(of_chunk 3 7)"
wait_for 20 'node 0 to be behind' is_behind
healed=("$(of_chunk 1 300)" "$(of_chunk 2 300)")
for block in "${healed[@]}"; do flip node1 "$block"; done
check 'what rotted is an error alone while no other copy is there' blocks verify "${healed[@]}"
run_node node0
wait_for 60 'all chunks to be current' are_whole
check 'no block is unreadable' listed
check 'two blocks were healed' copies '.mended == 2 and .resynced == 4'
check 'every byte is right' blocks verify
for node in node0 node1; do
    stop "$node" KILL
    check "every byte is right without $node" blocks verify
    node_again "$node"
done

# Once more. Of one of the blocks that rot node 0 has older bytes: it was changed as well.
stop node0 KILL
lost=$(of_chunk 3 500)
check 'a block of each chunk changes' blocks write "$(of_chunk 0 8)" "$(of_chunk 1 8)" "$(of_chunk 2 8)" "$lost"
wait_for 20 'node 0 to be behind' is_behind
flip node1 "$lost"
flip node1 "$(of_chunk 3 501)"
run_node node0
wait_for 60 'all chunks to be current' are_whole
check 'the block that no copy has is listed' listed "$lost"
check 'it is an error, and nothing else is' blocks verify "$lost"
for node in node0 node1; do
    stop "$node" KILL
    # Without node 1 it is node 0 that was started again, and has the block marked.
    check "so without $node" blocks verify "$lost"
    node_again "$node"
done
if "$FLASHMOB" volume scrub "$ADMIN" pool --now --output json >"$DIR/scrub.json"; then fail 'a scrub says that nothing is wrong'; fi
check 'a scrub lists it and nothing else' listed "$lost"
check 'a write of the whole block heals it' blocks write "$lost"
check 'so it is listed no more' listed
check 'and every byte is right' blocks verify
for node in node0 node1; do
    stop "$node" KILL
    check "also without $node" blocks verify
    node_again "$node"
done
check 'no copy of a chunk was given up' copies '.adopted == 0'
