#!/usr/bin/env bash
# Shows that a map is recovered from mirrors alone that a gateway of the cluster has signed: a node that falsifies its own is found out, and a key that was replaced comes after the next one. Who has not heard of that is listed.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
need jq openssl

NODE_SIZE=16MiB
MAP=$DIR/gateway.toml.pool.map
recover=("$FLASHMOB" volume recover "$DIR/gateway.toml" pool)
mirror_of() { echo "$DIR/$1.img.map"; }
# falsify NODE HOW: changes a mirror as its node may: `unsigned` is the gateway's own map, without a signature; `changed` has another number in a
# signed part, and the checksum that goes with it.
falsify() {
    "$PYTHON" - "$(mirror_of "$1")" "$MAP" "$2" <<'PY'
import struct, sys, zlib
mirror, own, how = sys.argv[1:]
data = bytearray(open(mirror, "rb").read())
assert data[:4] == b"FMsg", "it is signed"
if how == "unsigned":
    data = bytearray(open(own, "rb").read())
else:
    signer, = struct.unpack_from("<H", data, 6)
    content, = struct.unpack_from("<I", data, 56)
    data[64 + signer + content // 2] ^= 1
    struct.pack_into("<I", data, 60, zlib.crc32(data[:60] + data[64:64 + signer + content + 64]))
open(mirror, "wb").write(data)
PY
}
# claim NODE FOLDER COUNT: gives a node a mirror with more decisions than it had, signed with the gateway's key in that folder: what its thief can do.
claim() {
    "$PYTHON" - "$(mirror_of "$1")" "$2" "$3" <<'PY'
import hashlib, os, struct, subprocess, sys, tempfile, zlib
mirror, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
data, content = open(mirror, "rb").read(), b""
while len(data) >= 64:
    (signer,), (length,) = struct.unpack_from("<H", data, 6), struct.unpack_from("<I", data, 56)
    if len(data) < 64 + signer + length + 64:
        break  # it was not written whole
    head, content = data[:60], content + data[64 + signer:64 + signer + length]
    data = data[64 + signer + length + 64:]
version, = struct.unpack_from("<Q", head, 48)
homes = count * (bytes([10]) + bytes(16))
batch = struct.pack("<4sBBHIQ", b"FMap", 1, 3, 0, len(homes), version + 1)
content += batch + struct.pack("<I", zlib.crc32(batch + homes)) + homes
grant = open(os.path.join(folder, "gateway.grant"), "rb").read()
head = head[:6] + struct.pack("<H", len(grant)) + head[8:40] + struct.pack("<QQI", 2**64 - 1, version + count, len(content))
with tempfile.NamedTemporaryFile() as message:
    message.write(b"flashmob-mirror/1" + head + grant + hashlib.sha256(content).digest())
    message.flush()
    command = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", os.path.join(folder, "gateway.key"), "-in", message.name]
    signature = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
body = grant + content + signature
open(mirror, "wb").write(head + struct.pack("<I", zlib.crc32(head + body)) + body)
PY
}
# OpenSSL of before version 3 signs no messages with such keys.
signs() { [[ $(openssl pkeyutl -help 2>&1) == *-rawin* ]]; }
# signed_by FILE: the mirrors that have this grant, at their beginning.
signed_by() {
    local node
    for node in node0 node1 node2; do
        if cmp -s -n "$(wc -c <"$1")" "$1" <(tail -c +65 "$(mirror_of "$node")"); then echo "$node"; fi
    done
}
all_signed_by() { [ "$(signed_by "$1" | wc -l)" = 3 ]; }
# falsified NODE HOW: a node that was stopped comes back with a falsified mirror.
falsified() {
    stop "$1" KILL
    check "$1 falsifies its mirror ($2)" falsify "$1" "$2"
    run_node "$1"
}

start_keyed_copies
cp "$DIR/gateway.keys/gateway.grant" "$DIR/first.grant"
wait_for 20 'all mirrors to be signed' all_signed_by "$DIR/first.grant"
# Within a second, one may be of before all nodes were linked: what it does not know it does not miss.
knows_all() {
    local node
    for node in node0 node1 node2; do shown_by "$node"; done | "$PYTHON" -c '
import sys
mirror = open(sys.argv[1], "rb").read()
sys.exit(not all(bytes.fromhex(line.split()[0]) in mirror for line in sys.stdin))' "$(mirror_of "$1")"
}
all_know_all() { knows_all node0 && knows_all node1 && knows_all node2; }
wait_for 20 'all mirrors to know all nodes' all_know_all
stop gateway KILL
mv "$MAP" "$DIR/own.map"
cp "$DIR/own.map" "$MAP"

falsified node0 unsigned
rm "$MAP"
falsified node1 changed
refused 'a map of one mirror is not recovered unasked' '--accept-loss' "${recover[@]}" --dry-run
check 'who has falsified theirs is told' test "$(grep -c 'not signed by a gateway of this cluster' "$DIR/check.out")" = 2
falsified node2 changed
refused 'nothing is recovered from falsified mirrors' 'is used with --accept-unsigned only' "${recover[@]}" --accept-loss --yes
check 'but for somebody who accepts that' "${recover[@]}" --accept-unsigned --accept-loss --dry-run
stop node2 KILL
check 'node2 gets back what it had' cp "$DIR/own.map" "$(mirror_of node2)"
run_node node2
refused 'a mirror from before the cluster had keys is not used unasked' 'is used with --accept-unsigned only' "${recover[@]}" --accept-loss --yes
check 'but with --accept-unsigned' "${recover[@]}" --accept-unsigned --accept-loss --yes
gateway_again
whole_again
URI=$UNIX_URI
check 'every byte is there' is_all_there
wait_for 20 'all mirrors to be signed again' all_signed_by "$DIR/first.grant"

# One that OpenSSL has signed with the gateway's key is believed: it is as docs/map-format.md has it.
if signs; then
    stop gateway KILL
    stop node1 KILL
    rm "$MAP"
    check 'the mirror of node 1 is signed by OpenSSL' claim node1 "$DIR/gateway.keys" 500
    run_node node1
    check 'and believed' "${recover[@]}" --dry-run --output json
    check 'as it has more decisions than others' jq -e '.from_node == 1 and .nodes[1].version > .nodes[0].version + 400' "$DIR/check.out"
    check 'the map is recovered from it' "${recover[@]}" --yes
    gateway_again
    whole_again
    URI=$UNIX_URI
    check 'and every byte is there' is_all_there
fi

# A key that was replaced. Node 2 is away, and has a mirror that was signed with it.
stop node2 KILL
check 'the gateway gets a key of the next generation' "$FLASHMOB" key rotate "$DIR/gateway.toml"
both_signed_by_next() { [ "$(signed_by "$DIR/gateway.keys/gateway.grant" | tr '\n' ' ')" = 'node0 node1 ' ]; }
wait_for 20 'the others to have mirrors that are signed with it' both_signed_by_next
check 'the one of node 2 is of the key before' test "$(signed_by "$DIR/first.grant")" = node2
wait_for 20 'the mirrors to be in step' copies '.mirrors == 2'
# behind: the nodes that may still accept an earlier key, by the gateway's status.
behind() { curl -sf "http://$ADMIN/status" | jq -r '.warnings[] | capture("node (?<node>[^ ]*): .*may still accept keys before generation 2").node'; }
check 'who has not heard of the key is listed' test "$(behind)" = "${ADDR[node2]}"
stop gateway KILL
rm "$MAP"
if signs; then check 'who has stolen it claims 500 decisions more' claim node2 "$DIR/stolen.keys" 500; fi
run_node node2
if signs; then refused 'node 2 is of another state' '--accept-loss' "${recover[@]}" --yes; fi
"${recover[@]}" --yes --accept-loss --output json >"$DIR/told.json" || fail 'the map is not recovered'
check 'the map is that of the latest key' jq -e '.from_node != null and .from_node < 2' "$DIR/told.json"
if signs; then
    check 'although node 2 has more' jq -e '.nodes[2].is_branched and .nodes[2].version > .nodes[.from_node].version + 400' "$DIR/told.json"
fi
gateway_again
whole_again
URI=$UNIX_URI
check 'every byte is there again' is_all_there
curl -sf "http://$ADMIN/status" >"$DIR/status.json" || fail 'no status'
check 'nobody is listed any more' jq -e '[.warnings[] | select(contains("may still accept keys"))] == [] and ([.gateway.volumes[0].nodes[].key_generation] == [2, 2, 2])' "$DIR/status.json"
wait_for 20 'all to have mirrors that are signed with the next key' all_signed_by "$DIR/gateway.keys/gateway.grant"
