#!/usr/bin/env bash
# Shows that a link whose buffers are too small for its path is named in status with the remedy, that flashmob sizes them itself where it may, and that links have the congestion control that was chosen.
# Tier: slow
# Canary: buffer-never-set
. "$(dirname "$0")/lib.sh"
need_netns 'a lab whose network can be configured'
need jq

check_refused() { refused "$1 names those that there are" 'has no congestion control .nosuch.*reno' "${@:2}"; }
check_refused 'an unknown congestion control of a node' "$FLASHMOB" node --data "$DIR/refused.img" --size 1MiB --listen 127.0.0.1:0 --congestion nosuch
printf 'congestion = "nosuch"\nlisten = "127.0.0.1:0"\n[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "10.77.0.2:7411"\n' >"$DIR/refused.toml"
check_refused 'an unknown congestion control of a gateway' "$FLASHMOB" gateway "$DIR/refused.toml"

# In the lab: the air has 100 Mbit/s and 32 ms there and back, so a path holds 400 KB. The kernel's maximum for receiving is 128 KiB.
cat >"$DIR/inside.sh" <<'INSIDE'
set -eu
echo '4096 65536 131072' >/proc/sys/net/ipv4/tcp_rmem
# one NAME SOCKET_LINE: a gateway of its own, reads for some seconds, and what both ends say meanwhile.
one() {
    local name=$1
    shift
    {
        printf 'listen = "127.0.0.1:10809"\nadmin = "127.0.0.1:10810"\ncongestion = "cubic"\n[[volume]]\nname = "pool"\n[volume.socket]\n'
        printf '%s\n' "$@"
        printf '[[volume.node]]\naddress = "10.77.0.2:7411"\n'
    } >"$name.toml"
    "$FLASHMOB" gateway "$name.toml" 2>"$name.gateway.log" &
    local gateway=$! i
    for i in $(seq 500); do
        grep -q 'volume pool ready' "$name.gateway.log" && break
        sleep 0.02
    done
    "$FLASHMOB" -q bench nbd nbd://127.0.0.1/pool --block-size 256KiB --outstanding 16 --time 4 --output json >"$name.load.json" 2>"$name.load.log" &
    local load=$!
    # A look takes a second at least, and only the second one compares.
    sleep 3.5
    "$FLASHMOB" status 127.0.0.1:10810 --output json >"$name.status.json"
    "$FLASHMOB" status 127.0.0.1:10810 >"$name.status.txt"
    "$FLASHMOB" status 10.77.0.2:7412 --output json >"$name.node.json"
    wait $load
    kill $gateway
    wait $gateway || true
}
one kernel 'buffers = "kernel"'
one path ''
one set 'receive_buffer = "64KiB"'
INSIDE
export FLASHMOB

in_lab() {
    (cd "$DIR" && timeout 60 "$FLASHMOB" -q lab run --nodes 1 --no-gateway --air wan,rate=100Mbit,delay=16ms \
        --node-command "exec '$FLASHMOB' node --insecure --data /dev/shm/extent.img --size 64MiB --listen \$ADDRESS:7411 --admin \$ADDRESS:7412 --congestion reno" \
        -- bash "$DIR/inside.sh" >"$DIR/lab.out" 2>"$DIR/lab.log")
}
# link NAME FILTER: of the gateway's link.
link() { jq -r ".gateway.volumes[0].nodes[0].links[0].path | $2" "$DIR/$1.status.json"; }

busy_begin
late=0
in_lab || late=$?
[ $late -eq 0 ] || [ $late -eq 75 ] || { tail -n 20 "$DIR"/lab.* "$DIR"/*.gateway.log >&2; fail 'the lab runs'; }
# On a busy machine the last second may have been too slow for a buffer to hold it back. The lab says itself if it was late.
check() {
    local what=$1
    shift
    "$@" >"$DIR/check.out" 2>&1 || { [ $late -eq 0 ] || void "$what: the lab was late"; judged_fail "$what ($*)"; }
    pass "$what"
}

check 'a receive maximum that is too small is named as what limits the link' [ "$(link kernel '.limits[0].buffer')" = receive ]
check 'with the command that mends it' grep -q 'sysctl -w net.ipv4.tcp_rmem="4096 65536 [0-9]*"' <(link kernel '.limits[0].remedy')
check 'for people as well' grep -q 'receive here' "$DIR/kernel.status.txt"
check 'in the warnings too' jq -e 'any(.warnings[]; contains("receiver-limited") and contains("tcp_rmem"))' "$DIR/kernel.status.json"
check "the node's kernel knows that the gateway's window holds it back" jq -e 'any(.node.paths[].path; .is_limited_by_peer)' "$DIR/kernel.node.json"
check 'where it may, flashmob sizes the buffer itself' [ "$(link path .receive_buffer_bytes)" -ge 524288 ]
check 'and says so' grep -q 'a buffer of 131072 bytes limited the link' "$DIR/path.gateway.log"
check 'then nothing limits the link' [ "$(link path '.limits | length')" -eq 0 ]
check 'a buffer that the configuration made too small is named, and the key' grep -q 'remove receive_buffer from' <(link set '.limits[0].remedy')
check 'the gateway has the congestion control that was chosen' [ "$(link path .congestion)" = cubic ]
check 'and the node its own' jq -e 'all(.node.paths[].path; .congestion == "reno")' "$DIR/path.node.json"
