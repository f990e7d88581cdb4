#!/usr/bin/env bash
# Shows that a cluster that has data gets keys: who has them reads and writes, nobody else gets in, lost and open keys are refused, and a stolen key is void after `flashmob key rotate`.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
need nbdcopy jq openssl setpriv

MIB=32
NODE_SIZE=${MIB}MiB
VOLUME=('layout = "mapped"' 'copies = 2' 'timeout = "60s"')
key=("$FLASHMOB" key)
KEYS=$DIR/gateway.keys

nodes_stop() { for node in "${NODES[@]}"; do stop "$node"; done; }
nodes_run() { for node in "${NODES[@]}"; do run_node "$node"; done; }
same() { nbdcopy "$UNIX_URI" "$DIR/back.img" && cmp "$DIR/image" "$DIR/back.img"; }
# gateway_refused WHAT PATTERN CONFIG: a gateway with that configuration gets to no node.
gateway_refused() {
    start stranger "$FLASHMOB" gateway "$3"
    started stranger "$2"
    ! log_has stranger 'linked|ready' || fail "$1: it is linked"
    stop stranger
    pass "$1"
}

# A cluster with data, and no keys.
start_cluster 3 ${MIB}MiB "${VOLUME[@]}"
size=$(nbdinfo --size "$URI")
head -c "$size" /dev/urandom >"$DIR/image"
check 'an image is copied to a volume without keys' nbdcopy --flush "$DIR/image" "$URI"
stop gateway
nodes_stop
cp "$DIR/gateway.toml" "$DIR/plain.toml"

check 'key init' "${key[@]}" init "$DIR/gateway.toml"
cluster=$(sed -nE "s/^the cluster's key: ([0-9a-f]{64})$/\1/p" "$DIR/check.out")
check 'the configuration names them' grep -qx 'keys = "gateway.keys"' "$DIR/gateway.toml"
check 'they are their owner'"'"'s alone' [ "$(find "$KEYS" -perm /077 | wc -l)" -eq 0 ]
refused 'they are never overwritten' 'exists: the cluster has keys' "${key[@]}" init "$DIR/gateway.toml"
for node in "${NODES[@]}"; do NODE_ARGS[$node]+=" --cluster $cluster"; done
nodes_run
check 'nodes have keys of their own' [ "$(find "$DIR" -name 'node*.key' -perm 600 | wc -l)" -eq 3 ]

gateway_refused 'no node is used whose key is not pinned' 'a key that is not known here: .*`flashmob join .*gateway.toml`.*`flashmob key pin .*gateway.toml EXTENT KEY`' "$DIR/gateway.toml"
for node in "${NODES[@]}"; do check "the key of $node is pinned" pin "$node"; done
check 'key show names them' jq -e --arg cluster "$cluster" '.cluster == $cluster and .generation == 1 and (.nodes | length) == 3' \
    <("${key[@]}" show "$DIR/gateway.toml" --output json)
run_gateway
volume_ready
check 'the data is there' same
check 'it can be written' nbdcopy --flush "$DIR/image" "$UNIX_URI"
stop gateway

# Who is kept out.
gateway_refused 'a gateway without keys' 'this node needs keys' "$DIR/plain.toml"
cp "$DIR/plain.toml" "$DIR/other.toml"
check 'another cluster has keys, too' "${key[@]}" init "$DIR/other.toml"
cp "$KEYS/nodes" "$DIR/other.keys/nodes"
gateway_refused 'a gateway of another cluster that knows the nodes' 'belongs to another cluster' "$DIR/other.toml"
stop node0
other=$("${key[@]}" show "$DIR/other.toml" --output json | jq -r .cluster)
# shellcheck disable=SC2086 # the arguments are words
refused 'a node is not given to another cluster unasked' 'belongs to cluster.*--repin' \
    "$FLASHMOB" node ${NODE_ARGS[node0]/$cluster/$other} --listen 127.0.0.1:0

# Other programs that speak TLS.
host=${ADDR[node1]%:*} port=${ADDR[node1]##*:}
# said PATTERN COMMAND...: what the command prints, whatever its status.
said() {
    local pattern=$1
    shift
    timeout 60 "$@" </dev/null >"$DIR/said.out" 2>&1 || true
    grep -aEq -- "$pattern" "$DIR/said.out" || { cat "$DIR/said.out" >&2; return 1; }
}
check 'a client with certificates gets an alert' said 'alert number 40' openssl s_client -connect "$host:$port" -alpn flashmob-link/1
check 'TLS 1.2 gets an alert' said 'alert (protocol version|number 70)' openssl s_client -tls1_2 -connect "$host:$port"
# GnuTLS knows raw keys, and is not everywhere (Debian: gnutls-bin).
raw_keys() {
    openssl genpkey -algorithm ed25519 -out "$DIR/own.pem" 2>/dev/null
    openssl pkey -in "$DIR/own.pem" -pubout -out "$DIR/own.pub"
    raw=(gnutls-cli --priority 'NORMAL:-VERS-ALL:+VERS-TLS1.3:-CTYPE-ALL:+CTYPE-RAWPK' --rawpkkeyfile "$DIR/own.pem" --rawpkfile "$DIR/own.pub"
        --insecure -p "$port" "$host")
    check 'another purpose gets an alert' said 'No supported application protocol' "${raw[@]}" --alpn=other
    check 'no session can be resumed: there are no tickets' said 'Handshake was completed' "${raw[@]}" --alpn=flashmob-link/1 --resume
    check 'and none was' bash -c "! grep -aq 'This is a resumed session' '$DIR/said.out'"
    # A key of somebody, proven, and 200 bytes that are no grant. The answer is that of the node.
    show_no_grant() {
        local answer=$1
        shift
        timeout 60 "${raw[@]}" "$@" < <(printf '%0200d' 7; exec sleep 10) >"$DIR/said.out" 2>&1 || true
        grep -aq "$answer" "$DIR/said.out"
    }
    check 'who has a key and no grant is refused' show_no_grant 'are no grant' --alpn=flashmob-link/1
    check 'who names no purpose, too' show_no_grant 'for another purpose'
}
if command -v gnutls-cli >/dev/null; then raw_keys; else say 'not tried: raw keys of another program; gnutls-cli is not installed'; fi

# Keys that are lost, or that others may read.
chmod 644 "$DIR/node0.img.key"
# shellcheck disable=SC2086
refused 'a node whose key others may read' 'others may read .*node0.img.key' "$FLASHMOB" node ${NODE_ARGS[node0]} --listen 127.0.0.1:0
chmod 600 "$DIR/node0.img.key"
mv "$DIR/node0.img.flashmob" "$DIR/identity"
for at in 127.0.0.1:0 0.0.0.0:0; do
    # shellcheck disable=SC2086
    refused "a node that has lost its identity, at $at" 'node0\.img\.flashmob is missing' \
        "$FLASHMOB" node ${NODE_ARGS[node0]%--cluster*} --listen $at
done
check 'which makes no other' test ! -e "$DIR/node0.img.flashmob"
mv "$DIR/identity" "$DIR/node0.img.flashmob"
chmod 644 "$DIR/node0.img.key"
mv "$DIR/node0.img.key" "$DIR/away.key"
cp "$DIR/node0.img.flashmob" "$DIR/identity"
# shellcheck disable=SC2086
refused 'also if it is to forget its volume' 'node0.img.key is missing' "$FLASHMOB" node ${NODE_ARGS[node0]} --forget --listen 127.0.0.1:0
check 'which it does not' cmp "$DIR/identity" "$DIR/node0.img.flashmob"
# shellcheck disable=SC2086
refused 'a node that has lost its key' 'node0.img.key is missing' "$FLASHMOB" node ${NODE_ARGS[node0]} --listen 127.0.0.1:0
mv "$DIR/away.key" "$DIR/node0.img.key"
chmod 600 "$DIR/node0.img.key"
rm "$DIR/node0.img.flashmob"
# shellcheck disable=SC2086
refused 'a node that has lost the name of its cluster' 'node0\.img\.key is the key of a node, and .*names no cluster' \
    "$FLASHMOB" node ${NODE_ARGS[node0]%% --cluster*} --forget --listen 0.0.0.0:0
check 'which gives nothing up' test -e "$DIR/node0.img.sums" -a ! -e "$DIR/node0.img.flashmob"
mv "$DIR/identity" "$DIR/node0.img.flashmob"
# The cluster is in the file beside the extent, too.
NODE_ARGS[node0]=${NODE_ARGS[node0]%% --cluster*}
run_node node0
grep -v '^keys = ' "$DIR/gateway.toml" >"$DIR/unnamed.toml"
cp -r "$KEYS" "$DIR/unnamed.keys"
refused 'a gateway whose configuration does not name its keys any more' 'does not name it' "$FLASHMOB" gateway "$DIR/unnamed.toml"
mv "$KEYS" "$DIR/away"
refused 'a gateway that has lost its keys' 'gateway.keys is missing' "$FLASHMOB" gateway "$DIR/gateway.toml"
mv "$DIR/away" "$KEYS"
chmod 640 "$KEYS/gateway.key"
refused 'a gateway whose key others may read' 'others may read .*gateway.key' "$FLASHMOB" gateway "$DIR/gateway.toml"
chmod 600 "$KEYS/gateway.key"

# Files and folders that others can change, or that others own.
gateway_with() { refused "$1" "$2" "$FLASHMOB" gateway "$DIR/gateway.toml"; }
for name in clients nodes gateway.grant cluster.pub; do
    chmod g+w "$KEYS/$name"
    gateway_with "a gateway with $name that others may change" "others may change .*$name.*chmod go-w"
    refused "and --check says so" "would not start.*others may change .*$name.*chmod go-w" "$FLASHMOB" gateway --check "$DIR/gateway.toml"
    chmod 600 "$KEYS/$name"
done
for name in cluster.key gateway-ca.key client-ca.key; do
    chmod 644 "$KEYS/$name"
    gateway_with "a gateway with a $name that others may read" "others may read .*$name"
    chmod 600 "$KEYS/$name"
done
chmod 660 "$KEYS/nodes"
cp "$KEYS/nodes" "$DIR/nodes"
refused 'no node is unpinned from a list that others may have changed' 'nothing was unpinned.*others may change .*nodes.*chmod go-w' \
    "${key[@]}" unpin "$DIR/gateway.toml" 00112233445566778899aabbccddeeff
check 'which stays as it is' cmp "$KEYS/nodes" "$DIR/nodes"
chmod 600 "$KEYS/nodes"
check 'a configuration whose keys are in order passes --check' "$FLASHMOB" gateway --check "$DIR/gateway.toml"
for mode in 770 707 1777; do
    chmod $mode "$KEYS"
    gateway_with "a gateway whose keys lie in a folder with mode $mode" 'others may change .*gateway.keys .*chmod go-w'
    refused 'nor is a node pinned there' 'others may change' "${key[@]}" unpin "$DIR/gateway.toml" 00112233445566778899aabbccddeeff
done
chmod 700 "$KEYS"
mv "$KEYS/gateway.grant" "$DIR/grant"
mkfifo "$KEYS/gateway.grant"
gateway_with 'a gateway whose grant is a pipe' 'gateway.grant is no regular file'
rm "$KEYS/gateway.grant"
mv "$DIR/grant" "$KEYS/gateway.grant"
chmod 666 "$DIR/node0.img.flashmob"
stop node0
# shellcheck disable=SC2086
refused 'a node whose cluster others may change' 'others may change .*node0.img.flashmob' "$FLASHMOB" node ${NODE_ARGS[node0]} --listen 127.0.0.1:0
chmod 600 "$DIR/node0.img.flashmob"

# A user that has nothing.
NOBODY=65534
as_nobody=(setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups)
of_other_users() {
    local name planted=$DIR/planted
    for name in "$KEYS" "$KEYS/gateway.key" "$KEYS/clients" "$KEYS/gateway.grant"; do
        chown $NOBODY "$name"
        gateway_with "a gateway for which another user made $(basename "$name")" "$(basename "$name") belongs to user $NOBODY.*chown 0"
        chown 0 "$name"
    done
    # Another user lays a key in a shared folder first, and so knows it.
    install -m 755 "$FLASHMOB" "$DIR/flashmob"
    chmod 711 "$DIR"
    install -d -m 1777 "$planted"
    install -m 600 -o $NOBODY "$DIR/node1.img.key" "$planted/e.img.key"
    refused 'a node beside whose data another user has laid a key' "e.img.key belongs to user $NOBODY" \
        "$FLASHMOB" node --data "$planted/e.img" --size 8MiB --listen 127.0.0.1:0 --cluster "$cluster"
    refused 'also if it has no cluster yet' "e.img.key belongs to user $NOBODY" \
        "$FLASHMOB" node --data "$planted/e.img" --size 8MiB --listen 127.0.0.1:0
    refused 'also if it is to have a new key' "e.img.key belongs to user $NOBODY" \
        "$FLASHMOB" node --data "$planted/e.img" --size 8MiB --listen 127.0.0.1:0 --cluster "$cluster" --new-key
    install -d -m 700 -o $NOBODY "$planted/f.img.admin"
    refused 'a node for which another user made the folder of its tokens' "f.img.admin belongs to user $NOBODY" \
        "$FLASHMOB" node --data "$planted/f.img" --size 8MiB --listen 127.0.0.1:0 --cluster "$cluster" --admin 0.0.0.0:0
    # In a shared folder, what is one's own serves; so does what root has installed, with its mode.
    start nobody "${as_nobody[@]}" "$DIR/flashmob" node --data "$planted/g.img" --size 8MiB --listen 127.0.0.1:0 --cluster "$cluster"
    started nobody ready
    stop nobody
    pass 'a node of another user has a key of its own in a shared folder'
    chown 0 "$planted/g.img.key"
    chmod 644 "$planted/g.img.key"
    refused 'not one that root lets everybody read' 'others may read .*g.img.key' \
        "${as_nobody[@]}" "$DIR/flashmob" node --data "$planted/g.img" --size 8MiB --listen 127.0.0.1:0
    install -d -m 755 "$DIR/nobodys"
    cp -r "$KEYS" "$DIR/nobodys/gateway.keys"
    sed '/^listen/s/, "unix:[^"]*"//' "$DIR/gateway.toml" >"$DIR/nobodys/gateway.toml"
    chown -R $NOBODY:$NOBODY "$DIR/nobodys"
    check 'keys that were given to the user of the gateway serve' "${as_nobody[@]}" "$DIR/flashmob" key show "$DIR/nobodys/gateway.toml"
    refused 'root uses none of another user' "gateway.keys.* belongs to user $NOBODY" "${key[@]}" show "$DIR/nobodys/gateway.toml"
}
if [ "$(id -u)" = 0 ]; then of_other_users; else say 'not tried: keys of other users; needs root'; fi
run_node node0

# The gateway's disk is lost, but for the keys.
rm "$DIR"/gateway.toml.*.map "$DIR/gateway.toml.extents"
check 'the map is recovered from nodes that let in the gateway alone' "$FLASHMOB" volume recover "$DIR/gateway.toml" pool --yes
run_gateway
volume_ready
check 'the data is still there' same
stop gateway

# A stolen key.
cp -r "$KEYS" "$DIR/stolen.keys"
sed -E 's/^keys = .*/keys = "stolen.keys"/; s|, "unix:[^"]*"||' "$DIR/gateway.toml" >"$DIR/stolen.toml"
mv "$KEYS/cluster.key" "$DIR/cluster.key"
refused 'the cluster'"'"'s key is needed for another gateway key' 'cluster.key is missing' "${key[@]}" rotate "$DIR/gateway.toml"
check 'the gateway gets another key' "${key[@]}" rotate "$DIR/gateway.toml" --cluster-key "$DIR/cluster.key"
run_gateway
volume_ready
check 'the data is there with it' same
gateway_refused 'the stolen key is void' 'replaced or revoked' "$DIR/stolen.toml"
nodes_stop
nodes_run
gateway_refused 'also for nodes that have started again' 'replaced or revoked' "$DIR/stolen.toml"
check 'and the cluster goes on' same
stop gateway

# A node gets another key.
stop node0
node0_args=${NODE_ARGS[node0]}
NODE_ARGS[node0]+=" --new-key"
run_node node0
NODE_ARGS[node0]=$node0_args
# shellcheck disable=SC2046 # two words
refused 'another key of a node is not taken unasked' 'has another key.*--replace' "${key[@]}" pin "$DIR/gateway.toml" $(shown_by node0)
check 'it is pinned in the place of the old one' pin node0 --replace
run_gateway
volume_ready
check 'the data is there with it' same
stop gateway

# A node that is not trusted any more.
extent=$(sed -nE 's/^extent_id = "(.*)"/\1/p' "$DIR/node2.img.flashmob")
check 'the key of a node is removed' "${key[@]}" unpin "$DIR/gateway.toml" "$extent"
run_gateway
started gateway 'a key that is not known here'
check 'the data is on the others' same
stop gateway

for file in "$KEYS"/*.key "$DIR"/node?.img.key "$DIR/cluster.key"; do
    secret=$(sed -n 2p "$file")
    # The part of the seed: all keys begin in the same way.
    if grep -lF -- "${secret:22:40}" "$DIR"/*.log* "$DIR"/*.out; then fail "$file is in what was written"; fi
done
pass 'no private key is in any log'
