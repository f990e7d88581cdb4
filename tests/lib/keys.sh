# Clusters with keys; scripts that have one source this file.
# shellcheck shell=bash

# shown_by NODE: its extent and its key, as it prints them.
shown_by() { sed -nE 's/.*flashmob key pin CONFIG.toml ([0-9a-f]{32} [0-9a-f]{64}).*/\1/p' "$DIR/$1.log" | head -n 1; }

# pin NODE [OPTION...]: pins the key that the node prints.
pin() {
    # shellcheck disable=SC2046 # two words
    "$FLASHMOB" key pin "$DIR/gateway.toml" $(shown_by "$1") "${@:2}"
}

# cluster_keys: gives keys to a configuration that names no node that there is. Sets CLUSTER to the cluster's public key.
cluster_keys() {
    printf '[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "127.0.0.1:1"\n' >"$DIR/gateway.toml"
    check 'key init' "$FLASHMOB" key init "$DIR/gateway.toml"
    CLUSTER=$("$FLASHMOB" key show "$DIR/gateway.toml" --output json | jq -r .cluster)
}

# start_keyed N SIZE [VOLUME LINE...]: as start_cluster, with keys.
start_keyed() {
    local count=$1 size=$2 i
    shift 2
    cluster_keys
    # shellcheck disable=SC2034 # write_config has it
    GATEWAY_LINES=('keys = "gateway.keys"')
    NODES=()
    for ((i = 0; i < count; i++)); do
        NODES+=("node$i")
        start_node "node$i" "$size" --cluster "$CLUSTER"
        pin "node$i" >/dev/null
    done
    start_gateway "$@"
}

# start_keyed_copies: three nodes with keys, of NODE_SIZE, a full volume with two copies, and the gateway's keys in stolen.keys, too. For those that source
# copies.sh as well.
start_keyed_copies() {
    start_keyed 3 "$NODE_SIZE" 'layout = "mapped"' 'copies = 2' 'timeout = "60s"' 'reconnect_max = "500ms"'
    admin_address
    whole_again
    URI=$UNIX_URI
    check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
    wait_for 20 '3 nodes to have a mirror of the map' copies '.mirrors == 3'
    cp -r "$DIR/gateway.keys" "$DIR/stolen.keys"
}
