#!/usr/bin/env bash
# Shows that who can write to etcd changes no data of a cluster with keys: a forged batch that makes a stale copy the current one, and a map that a replaced key has signed, are refused with their keys; an earlier state of the map is refused by the node that knows more. A gateway goes on with its own map when its key is rotated, whatever was put there, and says what it cannot write. A map that is missing is not begun anew, and one that is larger than memory is refused without being kept. An unsigned map is signed once, and only if that is asked for; a rotated key signs it anew. Plain etcd elsewhere is refused.
# Tier: slow
# Needs etcd; a minute.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/etcd.sh"
need_etcd
need_python_nbd

NODE_SIZE=16MiB
start_keyed 2 "$NODE_SIZE" 'layout = "mapped"' 'copies = 2' 'evict_after = "1s"' 'timeout = "60s"' 'reconnect_max = "500ms"'
admin_address
whole_again
URI=$UNIX_URI
stop gateway
start_etcd 1
# forge_map COMMAND [FILE]: what the attacker does.
forge_map() { "$PYTHON" "$TESTS/forge_map.py" "$ETCD_MEMBERS" "$@"; }
GATEWAY=("$FLASHMOB" gateway "$DIR/gateway.toml" --map "etcd://$ETCD_MEMBERS")
# serve NAME [OPTION...]: a gateway with its map in etcd, until it serves.
serve() {
    local name=$1
    shift
    rm -f "$DIR/gateway.sock"
    start "$name" "${GATEWAY[@]}" "$@"
    started "$name" 'volume pool ready'
    ADMIN=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/$name.log" | tail -n 1)
}
fill() { "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"; }
bytes_of() { sha256sum "$DATA_DIR/$1.img" | cut -d ' ' -f 1; }
is_signed() { [ "$(forge_map kinds)" = FMch ]; }

serve one
whole_again
check 'its map is signed in etcd' is_signed
check 'a volume is filled' fill
is_settled() { copies '.open_chunks == 0'; }
wait_for 60 'chunks to settle' is_settled
forge_map save "$DIR/earlier"
stop node1
check 'a node is away, and the volume is written again' fill
check 'one copy is behind' copies '.behind_chunks > 0'
stop one
forge_map save "$DIR/latest"
good=$(bytes_of node0)

# The attack: the copy that lacks it all becomes the current one.
key=$(forge_map forge)
run_node node1
refused 'a forged batch, with its key' "key $key: it is not signed" "${GATEWAY[@]}"
check 'the good copy is as it was' test "$(bytes_of node0)" = "$good"
forge_map restore "$DIR/latest"

# A whole earlier state, which this cluster has signed. A node that knows less would take it.
stop node1
forge_map restore "$DIR/earlier"
refused 'an earlier state of the map, by the node that knows more' 'another gateway|lacks|earlier|same epoch|map is old' "${GATEWAY[@]}"
check 'the good copy is as it was' test "$(bytes_of node0)" = "$good"
forge_map restore "$DIR/latest"
run_node node1
serve two
whole_again
check 'every byte is there' is_all_there
stop two

# What builds without signatures have left.
forge_map unsign
check 'a map without signatures' test "$(forge_map kinds)" = FMap
refused 'is refused' '--accept-unsigned' "${GATEWAY[@]}"
refused 'no standby signs what it finds' 'cannot be used with' "${GATEWAY[@]}" --standby --accept-unsigned pool
refused 'nor a volume that there is not' 'has no volume with that name' "${GATEWAY[@]}" --accept-unsigned spare
serve three --accept-unsigned pool
check 'and signed if that is asked for' is_signed
whole_again
check 'every byte is there' is_all_there
stop three

# Another key.
SIGNED=$DIR/gateway.toml.pool.signed
serve four --accept-unsigned pool
check 'a signed map is used with that option, too' is_signed
cp "$SIGNED" "$DIR/stale.signed"
check 'the gateway keeps the generation of its key' grep -qx 1 "$SIGNED"
forge_map save "$DIR/before"
check 'the key is rotated' "$FLASHMOB" key rotate "$DIR/gateway.toml"
wait_for 20 'the map to be signed with it' log_has four 'the map is signed with a key of generation 2'
whole_again
check 'the volume is written' fill
stop four KILL
forge_map save "$DIR/latest"
forge_map restore "$DIR/before"
refused 'what the key before has signed' 'generation 1, which was replaced: generation 2' "${GATEWAY[@]}"
cp "$SIGNED" "$DIR/own.signed"
cp "$DIR/stale.signed" "$SIGNED"
refused 'the same at another gateway, which knows that key as the last' 'generation 1, which was replaced: generation 2' "${GATEWAY[@]}"
cp "$DIR/own.signed" "$SIGNED"
forge_map restore "$DIR/latest"
serve five
whole_again
check 'every byte is there' is_all_there
check 'it is not told to be insecure' test "$(curl -sf "http://$ADMIN/status" | jq '[.gateway.findings[]? | select(.found | test("insecure"))] | length')" = 0
stop five
check 'the key is rotated while no gateway runs' "$FLASHMOB" key rotate "$DIR/gateway.toml"
mv "$SIGNED" "$DIR/own.signed"
refused 'a gateway that has not ended last does not take the map' 'start the gateway first that has ended last' "${GATEWAY[@]}"
mv "$DIR/own.signed" "$SIGNED"
serve six
check 'the one that has signs it' log_has six 'the map is signed with a key of generation 3'
whole_again
check 'every byte is there' is_all_there

# A gateway that runs has its own map, whatever is there, and says what it cannot write.
forge_map junk
mkdir "$SIGNED.new"
touch "$SIGNED.new/in-the-way"
check 'the key is rotated' "$FLASHMOB" key rotate "$DIR/gateway.toml"
wait_for 20 'the map to be signed with it over junk' log_has six 'the map is signed with a key of generation 4'
is_told() { curl -sf "http://$ADMIN/status" | jq -e '[.gateway.findings[]? | select(.cause == "map" and (.found | contains("pool.signed")))] | length == 1' >"$DIR/told.json"; }
wait_for 20 'status to say that the file of the generation cannot be written' is_told
rm -r "$SIGNED.new"
is_written() { ! is_told && grep -qx 4 "$SIGNED"; }
wait_for 20 'the file to be written' is_written
check 'the volume is written' fill
stop six
serve seven
whole_again
check 'every byte is there' is_all_there
stop seven

# A map that is missing, or does not end.
forge_map save "$DIR/latest"
forge_map behead
refused 'a map that is missing is not begun anew' 'map/head is missing.*pool.signed' "${GATEWAY[@]}"
mv "$SIGNED" "$DIR/own.signed"
good=$(bytes_of node0)
start eight "${GATEWAY[@]}"
wait_for 20 'nodes to refuse the new map of a gateway that knows none' log_has eight 'belongs to the volume with the map'
stop eight KILL
check 'a copy is as it was' test "$(bytes_of node0)" = "$good"
mv "$DIR/own.signed" "$SIGNED"
forge_map restore "$DIR/latest"
FLOOD_MIB=300
forge_map flood "$FLOOD_MIB"
# peak_mib COMMAND...: the most memory that it had.
peak_mib() { "$PYTHON" -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)' "$@" 2>"$DIR/peak.log"; }
peak=$(peak_mib "${GATEWAY[@]}")
check "a snapshot of $FLOOD_MIB MiB that nobody has signed is refused" grep -q 'not what a gateway of this cluster has signed' "$DIR/peak.log"
check "with less memory than a third of it: $peak MiB" test "$peak" -lt $((FLOOD_MIB / 3))
forge_map restore "$DIR/latest"
serve nine
whole_again
check 'every byte is there' is_all_there
stop nine

# An address that may be somebody else's.
refused 'plain etcd elsewhere' 'ca, cert and key' "$FLASHMOB" gateway "$DIR/gateway.toml" --map etcd://192.0.2.1:2379
elsewhere=$(ip -o -4 addr show scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
if [ -n "$elsewhere" ]; then
    forge_map save "$DIR/latest"
    stop etcd0
    rm -r "$DIR/etcd0.data"
    ETCD_HOST=$elsewhere
    start_etcd 1
    forge_map restore "$DIR/latest"
    GATEWAY=("$FLASHMOB" gateway "$DIR/gateway.toml" --map "etcd://$ETCD_MEMBERS")
    refused 'plain etcd at an address that others reach' 'ca, cert and key' "${GATEWAY[@]}"
    serve ten --insecure
    curl -sf "http://$ADMIN/status" >"$DIR/status.json"
    is_told() { jq -e --arg at "$ETCD_MEMBERS" '[.gateway.findings[].found | select(contains("anyone who can reach etcd at " + $at))] | length == 1' "$DIR/status.json"; }
    check 'with --insecure status says so' is_told
else
    say 'not shown: --insecure, as this machine has no address that others reach'
fi
