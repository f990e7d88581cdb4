#!/usr/bin/env bash
# Shows that a node whose file, or partition, has grown brings its new room into the volume while clients use it; that its checksums go on; and that an extent of a volume without copies, and other data, are refused.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdinfo strace
need_python_nbd
seeded

volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
resize() { volume resize --size "$@"; }
# size_of NODE: its bytes, as the gateway has them.
size_of() { curl -sf "http://$ADMIN/volumes" | jq -r --argjson n "$1" '.volumes[0].nodes[$n].size_bytes'; }
# with_size NODE MIB [OPTION...]: it is started anew with such a size.
with_size() {
    local name=$1 mib=$2
    NODE_ARGS[$name]=$(sed "s/ --grow//; s/--size [0-9]*MiB/--size ${mib}MiB/" <<<"${NODE_ARGS[$name]}")
    NODE_ARGS[$name]+=" ${*:3}"
}
fits() { resize "$1" --dry-run; }

start_copies 3 64MiB 'size = "96MiB"' 'evict_after = "3s"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 3 --connections 2 --depth 8 --reads 60 --model "$DIR/model" --seed "$SEED"
wait_for 60 'free room to be looked through' fits 96MiB
refused 'there is no room for more' '96 MiB would fit' "$FLASHMOB" volume resize "$ADMIN" pool --size 100MiB

# One after the other, each with a size that is no multiple of what has checksums together.
for number in 0 1 2; do
    stop "node$number"
    truncate -s 126MiB "$DIR/node$number.img"
    with_size "node$number" 126
    refused "node $number is not other data" 'start the node once with --grow' "$FLASHMOB" node ${NODE_ARGS[node$number]} --listen 127.0.0.1:0
    truncate -s 64MiB "$DIR/node$number.img"
    with_size "node$number" 126 --grow
    node_again "node$number"
    started "node$number" 'the extent had 64 MiB, and has 126 MiB from now on'
    started gateway "node ${ADDR[node$number]}: its extent has grown from 64 MiB to 126 MiB"
    is_known() { [ "$(size_of $number)" = $((126 << 20)) ]; }
    wait_for 10 "the gateway to know that of node $number" is_known
done
wait_for 60 'the new room to be looked through' fits 184MiB
check 'the volume has it' resize 184MiB
check 'clients see it' test "$(nbdinfo --size "$URI")" = $((184 << 20))
write_at() { "$PYTHON" -c "import nbd; h = nbd.NBD(); h.connect_uri('$URI'); h.pwrite(bytes([$1]) * 65536, $1 << 20); h.flush()"; }
reads() { "$PYTHON" -c "import nbd; h = nbd.NBD(); h.connect_uri('$URI'); assert h.pread(65536, $1 << 20) == bytes([$2]) * 65536"; }
check 'the new room is zeros' reads 150 0
for at in 96 150 183; do write_at $at; done
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
whole_again
OF_MODEL=(--bytes $((96 << 20)))
is_whole_without 0 1 2

# Rot in what it had before is found, and mended: its checksums are those of before.
stop node0 KILL
stop gateway KILL
printf 'rot' | dd of="$DIR/node0.img" bs=1 seek=$((5 << 20)) conv=notrunc status=none
run_node node0
gateway_again
started gateway 'the configuration says that node 0 has 64 MiB, and the map 126 MiB, which counts'
wait_for 20 'node0 to be linked' is_linked node0
whole_again
check 'all is scrubbed' volume scrub --now
started node0 'the block at 5242880 does not match its checksum'
is_mended() { curl -sf "http://$ADMIN/volumes" | jq -e '.volumes[0].copies.scrub.bad == []' >/dev/null; }
check 'rot is found and mended' is_mended
check 'every byte is there' is_all_there
for at in 96 150 183; do check "and what was written at $at MiB" reads $at $at; done
# The gateway's disk is lost, and the configuration says what the nodes had at first.
wait_for 20 'mirrors of the map' copies '.mirrors == 3'
stop gateway KILL
rm "$DIR"/gateway.toml.extents "$DIR"/gateway.toml.pool.*
check 'the map is recovered with the sizes that the nodes have' "$FLASHMOB" volume recover "$DIR/gateway.toml" pool --yes
gateway_again
wait_for 20 'all nodes to be linked' is_linked node0
whole_again
check 'every byte is there' is_all_there
for at in 96 150 183; do check "and what was written at $at MiB is read" reads $at $at; done

# A node is killed in the middle of it: before its identity has the new size, and before its checksums have. It goes on with --grow.
stop node1
with_size node1 130
KEPT=${NODE_ARGS[node1]}
with_size node1 130 --grow
# Not all of them are system calls on each processor.
RENAMES=?rename,?renameat,?renameat2
killed_at() {
    local status=0
    timeout 60 strace -f -qq -o "$DIR/renames$1" -e trace=$RENAMES -e inject=$RENAMES:signal=KILL:when="$1" "$FLASHMOB" node ${NODE_ARGS[node1]} --listen 127.0.0.1:0 &>"$DIR/killed$1.log" || status=$?
    [ "$status" = 137 ] && grep -q "$2" "$DIR/renames$1"
}
if strace -qq -o "$DIR/traced" true 2>/dev/null; then
    check 'killed before its identity has it' killed_at 1 'node1.img.flashmob"'
    refused 'it is refused without --grow, as it says what it had' 'but the data has 136314880 .*start the node once with --grow' "$FLASHMOB" node $KEPT --listen 127.0.0.1:0
    check 'killed before its checksums have it' killed_at 2 'node1.img.sums"'
else
    echo '    strace may not follow processes here: nobody is killed in the middle'
fi
node_again node1
started gateway 'its extent has grown from 126 MiB to 130 MiB'
whole_again
is_whole_without 0
for at in 96 150 183; do check "what was written at $at MiB is there" reads $at $at; done
stop gateway

stop node1
truncate -s 100MiB "$DIR/node1.img"
with_size node1 100
refused 'what has become smaller is refused' 'restore the data file' "$FLASHMOB" node ${NODE_ARGS[node1]} --listen 127.0.0.1:0

# A volume without copies has a fixed size.
stop node0
stop node2
rm -f "$DIR"/node*.img*
NODE_SIZE=""
start_cluster 1 8MiB
stop gateway
stop node0
with_size node0 16
refused 'an extent of a volume without copies does not grow' 'whose extents cannot grow' "$FLASHMOB" node ${NODE_ARGS[node0]} --grow --listen 127.0.0.1:0
check 'and its file is as it was' test "$(stat -c %s "$DIR/node0.img")" = $((8 << 20))
