#!/usr/bin/env bash
# Shows that who hears all packets of a cluster with keys, while an image is copied in and out and its status is read, hears no byte of the image and no name; without keys the same is heard.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/two_hosts.sh"
need_netns 'a gateway and its nodes on two hosts'
need nbdcopy curl jq python3

two_hosts fw

# With the usual buffer a slow machine would miss some.
if ! "${GATEWAY_HOST[@]}" python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW).setsockopt(socket.SOL_SOCKET, 33, 64 << 20)' 2>"$DIR/buffer.out"; then
    echo "    not run: no large buffer for packets here: $(tail -n 1 "$DIR/buffer.out")" >&2
    exit "$NOT_RUN"
fi

# All that passes the wire, byte by byte.
cat >"$DIR/hear.py" <<'END'
import socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("eth0", 3))
wire.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
with open(sys.argv[1], "wb", buffering=0) as out:
    print("listening", file=sys.stderr, flush=True)
    while True:
        out.write(wire.recv(1 << 18) + b"\n")
END
# hears NAME
hears() {
    start heard "${GATEWAY_HOST[@]}" python3 "$DIR/hear.py" "$DIR/$1.bytes"
    started heard listening
}
heard() { LC_ALL=C grep -aqi -- "$2" "$DIR/$1.bytes"; }

SECRET='a line of a private letter'
head -c 8000000 < <(yes "$SECRET") >"$DIR/letter"
truncate -s 8M "$DIR/letter"
volume() {
    printf 'listen = ["%s:10809"]\nadmin = "%s:10810"\n[[volume]]\nname = "volume-with-a-name"\n' "$GATEWAY" "$GATEWAY"
    printf '[[volume.node]]\naddress = "%s:%s"\n[[volume.node]]\naddress = "%s:%s"\n' "$NODE" "$1" "$NODE" "$2"
}
# serve NODE PORT OPTION...
serve() {
    start "$1" "${NODE_HOST[@]}" "$FLASHMOB" node --data "$DIR/$1.img" --size 4MiB --name "name-of-$1" --memory 16MiB --listen "$NODE:$2" "${@:3}"
    started "$1" ready
}
extent_of() { sed -nE 's/.* extent ([0-9a-f]{32}): .*/\1/p' "$DIR/$1.log" | head -n 1; }
# copied TITLE URI
copied() {
    check "$1: an image is copied in" "${NODE_HOST[@]}" nbdcopy --flush "$DIR/letter" "$2"
    check "$1: and out" "${NODE_HOST[@]}" nbdcopy "$2" "$DIR/back"
    check "$1: it is the same" cmp "$DIR/letter" "$DIR/back"
}

# Without keys, so that the test hears what it listens for.
serve plain0 7411 --insecure
serve plain1 7412 --insecure
volume 7411 7412 >"$DIR/plain.toml"
hears plain
start gateway "${GATEWAY_HOST[@]}" "$FLASHMOB" gateway --insecure "$DIR/plain.toml"
started gateway 'volume volume-with-a-name ready'
copied 'without keys' "nbd://$GATEWAY/volume-with-a-name"
check 'without keys: status' "${NODE_HOST[@]}" "$FLASHMOB" status "$GATEWAY:10810"
EXTENT=$(extent_of plain0)
for secret in "$SECRET" volume-with-a-name "$EXTENT" name-of-plain0; do
    plain_heard() { heard plain "$secret"; }
    wait_for 20 "'$secret' on the air" plain_heard
done
pass 'without keys: the image, the volume, the extent and the device are heard'
for name in heard gateway plain0 plain1; do stop "$name"; done

cluster_keys
hears keyed
serve node0 7421 --cluster "$CLUSTER"
serve node1 7422 --cluster "$CLUSTER" --join "$GATEWAY:10810"
for node in node0 node1; do check "the key of $node is pinned" pin "$node"; done
{ echo 'keys = "gateway.keys"'; volume 7421 7422; } >"$DIR/gateway.toml"
check 'a client gets a certificate' "$FLASHMOB" client add "$DIR/gateway.toml" a-client-with-a-name --volume volume-with-a-name --admin all --out "$DIR/alice"
start gateway "${GATEWAY_HOST[@]}" "$FLASHMOB" gateway "$DIR/gateway.toml"
started gateway 'volume volume-with-a-name ready'
copied 'with keys' "nbds://$GATEWAY/volume-with-a-name?tls-certificates=$DIR/alice"
check 'with keys: status by certificate' "${NODE_HOST[@]}" "$FLASHMOB" status "https://$GATEWAY:10810" --credentials "$DIR/alice"
check 'with keys: status by token' "${NODE_HOST[@]}" curl -sf -o "$DIR/body" --cacert "$DIR/alice/ca-cert.pem" -H "Authorization: Bearer $(cat "$DIR/alice/token")" "https://$GATEWAY:10810/status"
started node1 'joined .*: the extent belongs'
stop heard
check 'all of it was heard' [ "$(stat -c %s "$DIR/keyed.bytes")" -gt 16000000 ]
for secret in "$SECRET" volume-with-a-name "$(extent_of node0)" "$(extent_of node1)" name-of-node "$(cat "$DIR/alice/token")" a-client-with-a-name Authorization; do
    [ -n "$secret" ] || fail 'there is nothing to look for'
    ! heard keyed "$secret" || fail "'$secret' is heard with keys"
done
pass 'with keys: none of it is heard'
