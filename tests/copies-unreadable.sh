#!/usr/bin/env bash
# Shows that a block that the flash cannot read, while it reads others, counts as corrupt: clients read another copy's bytes, which heal it, and on the only current copy it costs that block alone.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need losetup truncate
need_root 'the flash of a node is a loop device'

IMAGE=$DIR/image SIZE=$((8 << 20))
blocks() { "$PYTHON" "$TESTS/blocks.py" "$URI" "$IMAGE" "$@"; }
# cut NODE: its flash loses its last two blocks, so that reads of them are I/O errors until they are written.
cut() { truncate -s $((SIZE - 8192)) "$DIR/$1.flash"; }
is_long_again() { [ "$(stat -c %s "$DIR/$1.flash")" = $SIZE ]; }
is_behind() { copies '.behind_chunks == 2'; }
# listed BLOCK...: exactly these are listed as unreadable.
listed() {
    local expected
    expected=$(printf '%s\n' "$@" | jq -nc '[inputs * 4096]')
    "$FLASHMOB" volume show "$ADMIN" pool --output json | jq -e --argjson expected "$expected" '
        [.volumes[0].copies.scrub.bad[] | select(.flaw == "unreadable") | range(.offset_bytes; .offset_bytes + .bytes; 4096)] | sort == ($expected | sort)' >/dev/null
}
# last NODE NUMBER: the number in the volume of that block of the node's flash, counted from its end.
last() { "$PYTHON" - "$IMAGE" "$DIR/$1.flash" "$2" <<'CODE'
import sys
image, flash, number = open(sys.argv[1], "rb").read(), open(sys.argv[2], "rb").read(), int(sys.argv[3])
block = flash[len(flash) - number * 4096 :][:4096]
places = [at // 4096 for at in range(0, len(image), 4096) if image[at : at + 4096] == block]
assert len(places) == 1, places
print(places[0])
CODE
}
# are_well: no device is said to fail.
are_well() { curl -sf "http://$ADMIN/status" | jq -e '[.gateway.findings[] | select(.cause == "device")] == []'; }

NODES=(node0 node1)
declare -A DEVICE=()
# The kernel lets go of a device once its node has ended.
at_end 'for name in "${!DEVICE[@]}"; do if alive $name; then stop $name KILL; fi; losetup -d "${DEVICE[$name]}"; done'
for node in "${NODES[@]}"; do
    truncate -s $SIZE "$DIR/$node.flash"
    DEVICE[$node]=$(losetup -f --show "$DIR/$node.flash")
    mkdir "$DIR/$node.state"
    # Reads go to the flash each time.
    DATA=${DEVICE[$node]} start_node "$node" 8MiB --direct --state-dir "$DIR/$node.state"
done
NODE_SIZE=8MiB start_gateway 'layout = "mapped"' 'copies = 2' 'evict_after = "1s"' 'timeout = "20s"' 'scrub = "off"' 'compare = "off"'
admin_address
whole_again
check 'the volume is filled' blocks fill

# The other copy is there. Clients read from the home of a chunk, and now and then from the other copy.
for node in "${NODES[@]}"; do
    before=$(copies_say .mended) blocks=("$(last "$node" 1)" "$(last "$node" 2)")
    cut "$node"
    heals() {
        blocks read "${blocks[@]}" || fail "a client reads something else beside unreadable blocks on $node"
        copies ".mended >= $before + 2"
    }
    wait_for 30 "what clients meet on $node to be healed" heals
    check 'the log of the node names what they met' log_has "$node" 'the block at [0-9]+ cannot be read, and others near it can'
    check 'every byte is right' blocks verify
    check "the flash of $node has them" is_long_again "$node"
done
# Nobody reads these before the scrub.
before=$(copies_say .mended)
cut node1
check 'a scrub finds them and heals them' "$FLASHMOB" volume scrub "$ADMIN" pool --now
check 'both blocks are written anew' copies ".mended == $before + 2 and .behind_chunks == 0"
check 'the flash has them' is_long_again node1
check 'a node with an unreadable block is no node whose device fails' are_well
for node in "${NODES[@]}"; do
    stop "$node" KILL
    check "every byte is right without $node" blocks verify
    node_again "$node"
done

# This is the only current copy. Node 0 has the bytes of one of the two blocks; the other changed while it was away.
HEALED=$(last node1 1) LOST=$(last node1 2)
stop node0 KILL
others=()
for ((chunk = 0; chunk < 2; chunk++)); do [ $((LOST / 1024)) = $chunk ] || others+=($((chunk * 1024 + 7))); done
check 'a block of each chunk changes' blocks write "$LOST" "${others[@]}"
wait_for 20 'node 0 to be behind' is_behind
cut node1
check 'both blocks are errors alone while no other copy is there' blocks verify "$HEALED" "$LOST"
run_node node0
wait_for 60 'all chunks to be current' are_whole
check 'the block that no copy has is listed, and nothing else' listed "$LOST"
check 'it is an error, and nothing else is' blocks verify "$LOST"
check 'no chunk was given up' copies '.adopted == 0'
for node in node0 node1; do
    stop "$node" KILL
    check "so without $node" blocks verify "$LOST"
    node_again "$node"
done
check 'a write of the whole block heals it' blocks write "$LOST"
check 'so it is listed no more' listed
check 'and the flash has it' is_long_again node1
for node in node0 node1; do
    stop "$node" KILL
    check "every byte is right without $node" blocks verify
    node_again "$node"
done
