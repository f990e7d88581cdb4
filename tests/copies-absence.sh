#!/usr/bin/env bash
# Shows that after a node was away only what differs is copied to it: bytes that crossed the network, and those that the gateway tells of.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
BLOCK=4096

start_copies 4 64MiB 'evict_after = "500ms"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --block $BLOCK --depth 64 --model "$DIR/model"
whole_again

# network: bytes to and from all nodes so far.
network() { curl -sf "http://$ADMIN/status" | jq '[.gateway.volumes[0].nodes[].links[] | .bytes_in + .bytes_out] | add'; }
# told WHAT: a counter of the volume, as programs that watch it read it.
told() { curl -sf "http://$ADMIN/metrics" | awk -v what="$1" '$1 ~ "^" what "\\{" { sum += $2 } END { printf "%d", sum }'; }

stop node3 KILL
cp --sparse=always "$DIR/node3.img" "$DIR/before.img"
check 'little is written while node 3 is away' "$PYTHON" "$TESTS/nbdload.py" "$URI" --requests 300 --reads 0 --block $BLOCK --model "$DIR/model"
behind_bytes=$(copies_say '.behind_chunks * .chunk_bytes')
[ "$behind_bytes" -gt 0 ] || fail 'no chunk is behind'
network_before=$(network) copied_before=$(told flashmob_copies_copied_bytes_total)
node_again node3
network_bytes=$(($(network) - network_before))
copied_bytes=$(($(told flashmob_copies_copied_bytes_total) - copied_before))
differing_bytes=$("$PYTHON" - "$DIR/before.img" "$DIR/node3.img" $BLOCK <<'EOF'
import sys
block = int(sys.argv[3])
with open(sys.argv[1], "rb") as before, open(sys.argv[2], "rb") as after:
    pairs = zip(iter(lambda: before.read(block), b""), iter(lambda: after.read(block), b""))
    print(block * sum(a != b for a, b in pairs))
EOF
)
[ "$differing_bytes" -gt 0 ] || fail 'node 3 missed nothing'
say "behind: $behind_bytes bytes of chunks; different: $differing_bytes; copied: $copied_bytes; on the network: $network_bytes"
check 'what differs is copied, and nothing else' test "$copied_bytes" -eq "$differing_bytes"
# Each block is read from one node and written to the other; hashes of both copies are 16 bytes in 4 KiB. The rest: the map's mirror, frames.
at_most 'what crosses the network is twice that, the hashes, and little else' "$network_bytes" \
    $((2 * differing_bytes + behind_bytes / 128 + (1 << 20))) bytes
check 'and not less' test "$network_bytes" -ge $((2 * differing_bytes))
check 'and far less than the chunks that were behind' test "$network_bytes" -lt $((behind_bytes / 8))
check 'every byte is there' is_all_there
for node in node0 node1 node2; do
    stop $node KILL
    check "without $node as well" is_all_there
    node_again $node
done
