# A volume with two copies: nodes, a gateway and its NBD export; sourced by run.
# shellcheck shell=bash disable=SC2154 # what run sets
flashmob_port() { [ -n "$AIR" ] && echo 10800 || echo $((20800 + $1)); }
flashmob_node() {
    local size=$((SIZE_MIB * 2 / NODES * 2 + 8))
    "$FLASHMOB" -q node --insecure --data "$DIR/node$1.img" --size "${size}MiB" --listen "${ADDRESS:?}:$(flashmob_port "$1")" >>"$DIR/node$1.log" 2>&1 &
    echo $! >"$DIR/flashmob$1.pid"
    wait $!
}
flashmob_start() {
    local n size=$((SIZE_MIB * 2 / NODES * 2 + 8))
    {
        echo "listen = [\"unix:$DIR/gateway.sock\"]"
        echo 'admin = "127.0.0.1:20790"'
        printf '[[volume]]\nname = "pool"\nlayout = "mapped"\ncopies = 2\nscrub = "off"\ncompare = "off"\ntimeout = "60s"\n'
        for ((n = 0; n < NODES; n++)); do
            printf '[[volume.node]]\naddress = "%s:%s"\nsize = "%sMiB"\n' "${ADDRESSES[n]}" "$(flashmob_port $n)" "$size"
        done
    } >"$DIR/gateway.toml"
    "$FLASHMOB" -q gateway "$DIR/gateway.toml" >"$DIR/gateway.log" 2>&1 &
    echo $! >"$DIR/gateway.pid"
    wait_whole 60 || { cat "$DIR/gateway.log" >&2; exit 1; }
}
flashmob_whole() {
    curl -sf http://127.0.0.1:20790/status | jq -e '.gateway.volumes[0].copies | .fewest_current == .copies and .behind_chunks == 0 and
        .doubtful_chunks == 0 and .uncompared_chunks == 0' >/dev/null 2>&1
}
flashmob_fio() { echo "--ioengine=nbd --uri=nbd+unix:///pool?socket=$DIR/gateway.sock"; }
flashmob_end() { kill "$(cat "$DIR/gateway.pid")" 2>/dev/null || true; }
