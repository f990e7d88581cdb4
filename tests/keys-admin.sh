#!/usr/bin/env bash
# Shows that in a cluster with keys the admin port answers others inside TLS alone, each according to its right, that nodes announce themselves there and by multicast DNS without saying who they are, and that a gateway follows them all the same; with curl, between two network namespaces.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/two_hosts.sh"
need_netns 'a gateway and its nodes on two hosts'
need curl openssl jq python3

two_hosts fa

cluster_keys
# serve NODE PORT [OPTION...]
serve() {
    local name=$1 port=$2
    shift 2
    start "$name" "${NODE_HOST[@]}" "$FLASHMOB" node --data "$DIR/$name.img" --size 8MiB --cluster "$CLUSTER" --name "name-of-$name" \
        --listen "$NODE:$port" --memory 16MiB "$@"
    started "$name" ready
}
serve node0 7411 --admin "$NODE:9101"
serve node1 7412 --join "$GATEWAY:10810" --announce off
for node in node0 node1; do check "the key of $node is pinned" pin "$node"; done
{
    printf 'keys = "gateway.keys"\nlisten = ["unix:%s/gateway.sock"]\nadmin = "%s:10810"\n' "$DIR" "$GATEWAY"
    printf '[[volume]]\nname = "pool"\nlayout = "mapped"\ncopies = 2\n[[volume.node]]\naddress = "%s:7411"\nsize = "8MiB"\n[[volume.node]]\naddress = "%s:7412"\nsize = "8MiB"\n' "$NODE" "$NODE"
} >"$DIR/gateway.toml"
start gateway "${GATEWAY_HOST[@]}" "$FLASHMOB" gateway "$DIR/gateway.toml"
volume_ready
check 'the gateway says that its port is HTTPS' log_has gateway "admin on https://$GATEWAY:10810/"

# add NAME [OPTION...]: a client, whose folder is $DIR/NAME.
add() { "$FLASHMOB" client add "$DIR/gateway.toml" "$1" --out "$DIR/$1" "${@:2}"; }
check 'a client that may read metrics' add prometheus --admin metrics
check 'one that may read' add laptop --admin read
check 'one that may do everything' add operator --admin all --volume pool
check 'one that may do nothing there' add nbd --volume pool
check 'they are listed with their rights' jq -e '[.clients[] | .admin] == ["metrics", "read", "all", null]' \
    <("$FLASHMOB" client list "$DIR/gateway.toml" --output json)
check 'the token is there' [ -s "$DIR/laptop/token" ]
check 'it is its owner'"'"'s alone' [ "$(find "$DIR/laptop" "$DIR/gateway.keys" -perm /077 | wc -l)" -eq 0 ]
refused 'a client has some right' 'required arguments were not provided' "$FLASHMOB" client add "$DIR/gateway.toml" none --out "$DIR/none"

# status_of CLIENT WAY PATH [OPTION...]: what curl gets: the status, and the body in body.
status_of() {
    local client=$1 way=$2 path=$3
    shift 3
    local proof=(--cacert "$DIR/$client/ca-cert.pem")
    [ "$way" = token ] && proof+=(-H "Authorization: Bearer $(cat "$DIR/$client/token")")
    [ "$way" = certificate ] && proof+=(--cert "$DIR/$client/client-cert.pem" --key "$DIR/$client/client-key.pem")
    "${NODE_HOST[@]}" curl -s -o "$DIR/body" -w '%{http_code}' "${proof[@]}" "$@" "https://$GATEWAY:10810$path" || true
}
# gets STATUS CLIENT WAY PATH [OPTION...]
gets() {
    local expected=$1 found
    shift
    found=$(status_of "$@")
    [ "$found" = "$expected" ] || { cat "$DIR/body" >&2; fail "$*: $found, not $expected"; }
    pass "$1 by $2: $3 is answered with $expected"
}
change=(-X POST -H 'Content-Type: application/json' -d '{"volume":"pool","now":false,"stop":true}')
for way in certificate token; do
    gets 200 prometheus "$way" /metrics
    check 'they are metrics' grep -q '^flashmob_' "$DIR/body"
    gets 403 prometheus "$way" /status
    gets 200 laptop "$way" /status
    gets 200 laptop "$way" /trace
    gets 403 laptop "$way" /volumes/scrub "${change[@]}"
    gets 200 operator "$way" /volumes/scrub "${change[@]}"
    gets 403 operator "$way" /join -X POST -H 'Content-Type: application/json' -d '{"address":":1"}'
done
gets 401 nbd certificate /metrics
gets 401 nbd nothing /metrics
gets 401 nbd nothing /status -H 'Authorization: Bearer guessed'
gets 401 nbd nothing /join -X POST -H 'Content-Type: application/json' -d '{"address":":1"}'
refused 'TLS 1.2 is not spoken' 'alert|version' "${NODE_HOST[@]}" curl -sS --tls-max 1.2 --cacert "$DIR/nbd/ca-cert.pem" "https://$GATEWAY:10810/"
plain=$("${NODE_HOST[@]}" curl -s -w '%{http_code}' "http://$GATEWAY:10810/status")
check 'plain HTTP is refused, and told what to do' grep -q 'use https://.*403' <<<"${plain//$'\n'/ }"
local_get=$("${GATEWAY_HOST[@]}" curl -s -o /dev/null -w '%{http_code}' "http://$GATEWAY:10810/status")
check 'also from this machine by that address' [ "$local_get" = 403 ]

# The program's own commands.
check 'status with credentials' "${NODE_HOST[@]}" "$FLASHMOB" status "https://$GATEWAY:10810" --credentials "$DIR/laptop"
check 'volume show with credentials' "${NODE_HOST[@]}" "$FLASHMOB" volume show "https://$GATEWAY:10810" --credentials "$DIR/laptop"
check 'status on the gateway'"'"'s machine, by its configuration' "${GATEWAY_HOST[@]}" "$FLASHMOB" status "$DIR/gateway.toml"
refused 'who may read changes nothing' "laptop may not do this.*right 'all'" "${NODE_HOST[@]}" "$FLASHMOB" volume scrub "https://$GATEWAY:10810" pool --stop --credentials "$DIR/laptop"
check 'who may do everything does' "${NODE_HOST[@]}" "$FLASHMOB" volume scrub "https://$GATEWAY:10810" pool --stop --credentials "$DIR/operator"
check 'so does the gateway'"'"'s machine' "${GATEWAY_HOST[@]}" "$FLASHMOB" volume scrub "$DIR/gateway.toml" pool --stop
refused 'HTTPS needs credentials' 'give --credentials DIR' "${NODE_HOST[@]}" "$FLASHMOB" status "https://$GATEWAY:10810"
refused 'plain HTTP says what is missing' 'use https://' "${NODE_HOST[@]}" "$FLASHMOB" status "$GATEWAY:10810"
cp -r "$DIR/laptop" "$DIR/changed"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=flashmob gateway authority' -days 9 -keyout "$DIR/own.key" \
    -out "$DIR/changed/ca-cert.pem" 2>/dev/null
refused 'a gateway of another authority is not believed' 'of another authority' "${NODE_HOST[@]}" "$FLASHMOB" status "https://$GATEWAY:10810" --credentials "$DIR/changed"

check 'a client is revoked' "$FLASHMOB" client revoke "$DIR/gateway.toml" laptop
gets 401 laptop token /status
refused 'its certificate gets an alert' 'alert|reset|Send failure|Recv failure' "${NODE_HOST[@]}" curl -sS --cacert "$DIR/laptop/ca-cert.pem" --cert "$DIR/laptop/client-cert.pem" \
    --key "$DIR/laptop/client-key.pem" "https://$GATEWAY:10810/status"
gets 200 prometheus token /metrics

# A node's own port.
node_status() { "${GATEWAY_HOST[@]}" curl -s -o "$DIR/body" -w '%{http_code}' --cacert "$DIR/node0.img.admin/ca-cert.pem" "$@" "https://$NODE:9101/metrics" || true; }
check 'a node is read with its token' [ "$(node_status -H "Authorization: Bearer $(cat "$DIR/node0.img.admin/token")")" = 200 ]
check 'and by status' "${GATEWAY_HOST[@]}" "$FLASHMOB" status "https://$NODE:9101" --credentials "$DIR/node0.img.admin"
check 'by nobody else' [ "$(node_status)" = 401 ]
check 'not with a token of the gateway' [ "$(node_status -H "Authorization: Bearer $(cat "$DIR/operator/token")")" = 401 ]
check 'its folder is its owner'"'"'s alone' [ "$(find "$DIR/node0.img.admin" -perm /077 | wc -l)" -eq 0 ]

# Announcements.
started node1 'joined .*: the extent belongs to one of its volumes'
pass 'a node announces itself to its gateway inside TLS'
extent=$(shown_by node0)
extent=${extent%% *}
cat >"$DIR/listen.py" <<'END'
import socket, struct, sys
group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
group.bind(("", 5353))
group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + socket.inet_aton(sys.argv[1]))
with open(sys.argv[2], "wb") as out:
    print("listening", file=sys.stderr, flush=True)
    while True:
        out.write(group.recv(9000))
        out.flush()
END
start heard "${GATEWAY_HOST[@]}" python3 "$DIR/listen.py" "$GATEWAY" "$DIR/heard.bytes"
started heard listening
discovered() {
    "${GATEWAY_HOST[@]}" "$FLASHMOB" discover --wait 3s --output json >"$DIR/found.json" 2>"$DIR/found.err"
    jq -e --arg node "$NODE:7411" 'any(.notes[]; contains("1 node of clusters with keys") and contains($node))' "$DIR/found.json"
} >"$DIR/discovered.out"
wait_for 30 'discover to see a node with keys' discovered
check 'discover sees a node with keys, and not whose it is' jq -e '.nodes == []' "$DIR/found.json"
# says PATTERN: whether it was on the air, in any form.
says() { LC_ALL=C grep -aqi -- "$1" "$DIR/heard.bytes"; }
check 'its mark is on the air' says 'mark=[0-9a-f]\{32\}'
for secret in "$extent" "${extent:0:8}" name-of-node0 8388608 size= volume; do
    ! says "$secret" || fail "multicast DNS says '$secret' of a node with keys"
done
pass 'and nothing else of it'
# The same without keys, so that the test sees what it looks for.
start plain "${NODE_HOST[@]}" "$FLASHMOB" node --data "$DIR/plain.img" --size 8MiB --insecure --name name-of-plain --listen "$NODE:7419" --memory 16MiB
started plain 'announced by multicast DNS'
plain_heard() { says name-of-plain && says size=8388608; }
wait_for 20 'the announcement of a node without keys' plain_heard
pass 'a node without keys says who it is'

# It is followed by its mark.
stop node0
serve node0 7421
started gateway "node at $NODE:7411: moved to $NODE:7421"
pass 'the gateway follows a node to another port by its mark'
stop node1
serve node1 7422 --join "$GATEWAY:10810" --announce off
started gateway "node at $NODE:7412: moved to $NODE:7422"
pass 'and one that joins'

# A node that was away hears at --join that a key was replaced, before it lets a stolen one in.
stop node0
cp -r "$DIR/gateway.keys" "$DIR/stolen.keys"
check 'the gateway'"'"'s key is replaced' "$FLASHMOB" key rotate "$DIR/gateway.toml"
stop gateway
serve node2 7431
check 'the key of node2 is pinned' pin node2
printf 'keys = "gateway.keys"\nlisten = "unix:%s/second.sock"\nadmin = "%s:10820"\n[[volume]]\nname = "second"\n[[volume.node]]\naddress = "%s:7431"\n' \
    "$DIR" "$GATEWAY" "$NODE" >"$DIR/second.toml"
printf 'keys = "stolen.keys"\nlisten = "unix:%s/thief.sock"\n[[volume]]\nname = "thief"\nreconnect_max = "100ms"\n[[volume.node]]\naddress = "%s:7421"\n' \
    "$DIR" "$NODE" >"$DIR/thief.toml"
start second "${GATEWAY_HOST[@]}" "$FLASHMOB" gateway "$DIR/second.toml"
started second 'volume second ready'
start thief "${GATEWAY_HOST[@]}" "$FLASHMOB" gateway "$DIR/thief.toml"
started thief "node $NODE:7421: no link"
serve node0 7421
started thief "node $NODE:7421: refused"
check 'a node that hears of nothing lets the stolen key in, as far as its volume' log_has thief 'refused: the extent belongs to a volume'
stop thief
stop node0
start thief "${GATEWAY_HOST[@]}" "$FLASHMOB" gateway "$DIR/thief.toml"
started thief "node $NODE:7421: no link"
serve node0 7421 --join "$GATEWAY:10820"
started thief 'key was replaced or revoked'
check 'a node that was told of the next generation lets it in no more' log_has node0 'have keys of generation 2 now'
! log_has thief 'refused: the extent belongs to a volume' || fail 'the stolen key was let in first'
pass 'also not for a moment'

# No secret is anywhere that others read.
for token in "$(cat "$DIR/operator/token")" "$(cat "$DIR/prometheus/token")" "$(cat "$DIR/node0.img.admin/token")"; do
    ! grep -qr --include='*.log*' -- "$token" "$DIR" || fail 'a token is in a log'
    ! grep -q -- "$token" "$DIR/gateway.keys/clients" || fail 'a token is in the list of clients'
done
pass 'no token is in a log or a list'
