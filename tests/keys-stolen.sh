#!/usr/bin/env bash
# Shows that somebody who has taken charge of a volume with copies by a stolen key, with the largest numbers that there are, is out once the key is rotated and the map recovered; and that neither a later key nor an older map alone takes charge.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
need jq

NODE_SIZE=16MiB
MAP=$DIR/gateway.toml.pool.map
recover=("$FLASHMOB" volume recover)
# with_largest MAP GENERATION: gives a map that was recovered just now the largest numbers of a generation: its first start, which is elsewhere and counts twice, has the last epoch.
with_largest() {
    "$PYTHON" - "$@" <<'PY'
import struct, sys, zlib
path, limit = sys.argv[1], (int(sys.argv[2]) + 1) << 48
epoch = limit - 3
version = epoch + limit - 100
def batch(part, number, records):
    head = struct.pack("<4sBBHIQ", b"FMap", 1, part, 0, len(records), number)
    return head + struct.pack("<I", zlib.crc32(head + records)) + records
data = open(path, "rb").read()
part, (length,) = data[5], struct.unpack_from("<I", data, 8)
assert part == 2, "a snapshot of one batch"
snapshot = bytearray(data[24:24 + length])
struct.pack_into("<Q", snapshot, 30, version)
open(path, "wb").write(batch(2, 0, bytes(snapshot)) + batch(3, version + 1, struct.pack("<BQQ", 4, epoch, 1)))
PY
}
# refused_for TEXT: the gateway is started, and no node takes it.
refused_for() {
    run_gateway
    wait_for 20 "the gateway to be refused: $1" grep -qE "$1" "$DIR/gateway.log"
    stop gateway KILL
}

start_keyed_copies
cp "$MAP" "$DIR/backup.map"
stop gateway KILL

# The thief has a map of the nodes' mirrors. Its second start would have a number of the next generation.
sed -E 's/^keys = .*/keys = "stolen.keys"/; s|, "unix:[^"]*"||' "$DIR/gateway.toml" >"$DIR/stolen.toml"
check 'the thief makes a map of the mirrors' "${recover[@]}" "$DIR/stolen.toml" pool --yes
check 'and gives it the largest numbers of its key' with_largest "$DIR/stolen.toml.pool.map" 1
start stolen "$FLASHMOB" gateway "$DIR/stolen.toml" --take-over
for node in node0 node1 node2; do wait_for 20 "the thief to be linked to $node" grep -qF "${ADDR[$node]}: linked" "$DIR/stolen.log"; done
stop stolen KILL
start stolen "$FLASHMOB" gateway "$DIR/stolen.toml"
wait_for 20 'larger ones to be refused' grep -q 'numbers of generation 2 of the keys, and its key is of generation 1' "$DIR/stolen.log"
stop stolen KILL

refused_for 'a later gateway is in charge'
check 'the gateway gets a key of the next generation' "$FLASHMOB" key rotate "$DIR/gateway.toml"
refused_for 'a later gateway is in charge'
pass 'which alone does not put its map in charge'
mv "$MAP" "$DIR/own.map"
cp "$DIR/backup.map" "$MAP"
refused_for 'a later gateway is in charge'
pass 'nor an older one'
rm "$MAP"

refused 'a map of two states is not recovered unasked' 'another state of the map' "${recover[@]}" "$DIR/gateway.toml" pool --from-map "$DIR/own.map" --yes
check 'the own map is recovered with the next key' "${recover[@]}" "$DIR/gateway.toml" pool --from-map "$DIR/own.map" --accept-loss --yes
check 'it says of which' grep -q 'the map is the given one' "$DIR/check.out"
gateway_again
check 'its numbers are of that generation' copies ".epoch >= $((2 << 48)) and .epoch < $((3 << 48))"
whole_again
URI=$UNIX_URI
check 'every byte is there' is_all_there

start stolen "$FLASHMOB" gateway "$DIR/stolen.toml"
started stolen 'replaced or revoked'
check 'the thief is out' test "$(grep -c 'replaced or revoked' "$DIR/stolen.log")" -ge 1
stop stolen KILL

# A key that is stolen again, and used for the largest numbers: with it alone no map is recovered.
stop gateway KILL
mv "$MAP" "$DIR/own.map"
check 'the thief has the next key' cp -r "$DIR/gateway.keys/." "$DIR/stolen.keys"
rm "$DIR/stolen.toml.pool.map"
check 'and a map' "${recover[@]}" "$DIR/stolen.toml" pool --yes
check 'and the largest numbers' with_largest "$DIR/stolen.toml.pool.map" 2
start stolen "$FLASHMOB" gateway "$DIR/stolen.toml" --take-over
for node in node0 node1 node2; do wait_for 20 "the thief to be linked to $node" grep -qF "${ADDR[$node]}: linked" "$DIR/stolen.log"; done
# One that is started again has the thief's mirror.
stop node1 KILL
run_node node1
stop stolen KILL
refused 'the same key has no later numbers' 'key rotate --generation 3' "${recover[@]}" "$DIR/gateway.toml" pool --from-map "$DIR/own.map" --accept-loss --yes
check 'so it is rotated' "$FLASHMOB" key rotate "$DIR/gateway.toml" --generation 3
check 'and the map recovered' "${recover[@]}" "$DIR/gateway.toml" pool --from-map "$DIR/own.map" --accept-loss --yes
gateway_again
whole_again
URI=$UNIX_URI
check 'every byte is there again' is_all_there
