#!/usr/bin/env bash
# Shows that a volume of 1 TiB with three copies is served by a small gateway: its memory, the time until it serves after a restart, the size of its map, and how many chunks are open under writes to random places.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need fio df
# So many bytes of extents, and a thousandth of them for checksums, which are allocated.
NODES_COUNT=8 NODE_GIB=400 COPIES=${COPIES:-3}
# Writes a second to random places, for so many seconds.
RATE=${RATE:-1000} SECONDS_OF_LOAD=${SECONDS_OF_LOAD:-30}
MIB=1024 # in KiB, as /proc says it

free_kib=$(df --output=avail "$DIR" | tail -n 1)
[ "$free_kib" -gt $((NODES_COUNT * NODE_GIB * 1024 + (8 << 20))) ] || {
    echo "    not run: needs $((NODES_COUNT * NODE_GIB / 1000 + 8)) GiB in $DIR" >&2
    exit $NOT_RUN
}

# settled_down: nothing is in doubt or behind.
settled_down() { copies '.uncompared_chunks == 0 and .behind_chunks == 0'; }
# figure NAME VALUE UNIT: what was measured.
figure() { say "figure: $1: $2 $3"; }
# since MICROSECONDS: seconds since then.
since() { awk -v then="$1" -v now="${EPOCHREALTIME/./}" 'BEGIN { printf "%.2f", (now - then) / 1e6 }'; }
resident_kib() { awk '/^VmRSS:/ { print $2 }' "/proc/${PID[gateway]}/status"; }
map_bytes() { stat -c %s "$DIR/gateway.toml.pool.map"; }
# ready_again WHAT: starts the gateway, and judges how long it takes to serve.
ready_again() {
    local begun=${EPOCHREALTIME/./} took
    gateway_again
    took=$(since "$begun")
    judged "$1: the gateway is ready" "$took" 2 s
}

NODE_SIZE=${NODE_GIB}GiB
begun=${EPOCHREALTIME/./}
start_cluster $NODES_COUNT $NODE_SIZE 'layout = "mapped"' "copies = $COPIES" 'timeout = "60s"'
admin_address
figure 'a new volume is ready after' "$(since "$begun")" s
busy_begin gateway
CHUNKS=$(copies_say .chunks)
TABLE_KIB=$((CHUNKS * COPIES * 8 / 1024))
pass "the volume has $CHUNKS chunks, more than 1 TiB"
[ "$CHUNKS" -ge 262144 ] || fail 'it is smaller'
until settled_down; do
    [ "${EPOCHREALTIME/./}" -lt $((begun + 1200000000)) ] || fail 'the copies of a new volume are not compared after 20 minutes'
    sleep 0.5
done
figure 'its copies are compared after' "$(since "$begun")" s
figure 'chunks compared without being hashed' "$(copies_say .blank)" ''
figure 'memory then' "$(resident_kib)" KiB
all_settled() { copies '.open_chunks == 0'; }
wait_for 60 'all chunks to settle' all_settled
SNAPSHOT_BYTES=$((CHUNKS * COPIES * 6))

stop gateway TERM
ready_again 'with a map that was made before'

# Writes to random places, nearly each the first in its chunk, and to few chunks, which stay open.
start wide fio --name=wide --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --iodepth=16 --rate_iops="$RATE" --time_based \
    --runtime="$SECONDS_OF_LOAD" --size=1024G --norandommap --randrepeat=0 --output-format=json --output="$DIR/wide.json"
start narrow fio --name=narrow --ioengine=nbd --uri="$URI" --rw=randwrite --bs=4k --iodepth=1 --rate_iops=200 --time_based \
    --runtime="$SECONDS_OF_LOAD" --size=64M --norandommap --randrepeat=0 --output-format=json --output="$DIR/narrow.json"
open_most=0 map_most=0
while alive wide; do
    open=$(copies_say .open_chunks) || open=0
    [ "$open" -le "$open_most" ] || open_most=$open
    map=$(map_bytes)
    [ "$map" -le "$map_most" ] || map_most=$map
    echo "$open $map $(resident_kib)" >>"$DIR/course"
    sleep 1
done
wait "${PID[wide]}" || fail 'fio failed'
wait "${PID[narrow]}" || fail 'fio failed'
unset "PID[wide]" "PID[narrow]"
figure 'open chunks, map bytes, KiB resident, each second' "$(tr '\n' ';' <"$DIR/course")" ''
p99() { jq '.jobs[0].write.clat_ns.percentile["99.000000"] / 1000' "$DIR/$1.json"; }
figure 'writes answered' "$(jq '.jobs[0].write.total_ios' "$DIR/wide.json")" ''
figure 'p50 of first touches' "$(jq '.jobs[0].write.clat_ns.percentile["50.000000"] / 1000' "$DIR/wide.json")" us
figure 'p99 of first touches' "$(p99 wide)" us
figure 'p50 of writes to open chunks' "$(jq '.jobs[0].write.clat_ns.percentile["50.000000"] / 1000' "$DIR/narrow.json")" us
figure 'p99 of writes to open chunks' "$(p99 narrow)" us
figure 'decisions' "$(copies_say '.settled_early')" 'settled early'
figure 'the most chunks open at once' "$open_most" ''
# Writes do not wait for the flushes that settle chunks, so more may be open while a disk stalls.
wait_for 60 'as many open chunks as there may be, at most' copies '.open_chunks <= 4096'
pass 'after the load no more chunks are open than there may be'
at_most 'the map has at most four times its table' "$map_most" $((4 * SNAPSHOT_BYTES + (1 << 20))) bytes
at_most 'the gateway has its budget and the table' "$(awk '/^VmHWM:/ { print $2 }' "/proc/${PID[gateway]}/status")" \
    $((192 * MIB + TABLE_KIB)) KiB

open=$(copies_say .open_chunks)
stop gateway KILL
begun=${EPOCHREALTIME/./}
ready_again "with $open chunks open"
figure 'chunks to compare after the kill' "$(copies_say .uncompared_chunks)" ''
until settled_down; do
    [ "${EPOCHREALTIME/./}" -lt $((begun + 1200000000)) ] || fail 'they are not compared after 20 minutes'
    sleep 0.5
done
figure 'they are compared after' "$(since "$begun")" s
