#!/usr/bin/env bash
# Shows that a node whose partition has grown, as the kernel tells it of a block device, is refused until it is started with --grow, and then brings its new room into the volume while clients use it.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdinfo losetup addpart resizepart delpart blockdev
need_root 'loop devices and partitions'
need_python_nbd
seeded
MIB=$((1 << 20))

# no_partition NUMBER: somebody who looks at new devices may have it open for a moment.
no_partition() {
    local try
    for try in {1..50}; do
        ! delpart "${LOOPS[$1]}" 1 2>/dev/null || return 0
        sleep 0.1
    done
    say "${LOOPS[$1]} keeps its partition after $try tries"
}
# partition NUMBER MIB: a loop device of 256 MiB with one partition, of so many, which begins at 1 MiB.
partition() {
    truncate -s 256MiB "$DIR/disk$1"
    LOOPS[$1]=$(losetup -f --show "$DIR/disk$1") || { echo '    not run: no loop device is to be had here' >&2; exit $NOT_RUN; }
    at_end "if alive node$1; then stop node$1 KILL; fi; no_partition $1; losetup -d ${LOOPS[$1]}"
    # Another may have left it with one.
    delpart "${LOOPS[$1]}" 1 2>/dev/null || true
    addpart "${LOOPS[$1]}" 1 2048 $(($2 * 2048)) || { echo "    not run: no partitions can be made here" >&2; exit $NOT_RUN; }
    [ -b "${LOOPS[$1]}p1" ] || { echo "    not run: no device ${LOOPS[$1]}p1 appears here" >&2; exit $NOT_RUN; }
}
LOOPS=()
for number in 0 1 2; do
    partition $number 64
    NODES+=("node$number")
    mkdir "$DIR/state$number"
    NODE_ARGS[node$number]="--data ${LOOPS[number]}p1 --state-dir $DIR/state$number"
    run_node "node$number"
done
NODE_SIZE=64MiB
write_config 'layout = "mapped"' 'copies = 2' 'size = "96MiB"' 'evict_after = "3s"' 'timeout = "60s"'
gateway_again
whole_again
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 3 --connections 2 --depth 8 --reads 60 --model "$DIR/model" --seed "$SEED"

volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
size_of() { curl -sf "http://$ADMIN/volumes" | jq -r --argjson n "$1" '.volumes[0].nodes[$n].size_bytes'; }
for number in 0 1 2; do
    stop "node$number"
    resizepart "${LOOPS[number]}" 1 $((128 * 2048))
    check "partition $number has grown" test "$(blockdev --getsize64 "${LOOPS[number]}p1")" = $((128 * MIB))
    refused "node $number is not other data" 'start the node once with --grow' "$FLASHMOB" node ${NODE_ARGS[node$number]} --listen 127.0.0.1:0
    KEPT=${NODE_ARGS[node$number]}
    NODE_ARGS[node$number]+=' --grow'
    node_again "node$number"
    started "node$number" 'the extent had 64 MiB, and has 128 MiB from now on'
    is_known() { [ "$(size_of $number)" = $((128 * MIB)) ]; }
    wait_for 10 "the gateway to know that of node $number" is_known
    # And once is enough.
    NODE_ARGS[node$number]=$KEPT
    stop "node$number"
    node_again "node$number"
done
fits() { volume resize --size 184MiB --dry-run; }
wait_for 60 'the new room to be looked through' fits
check 'the volume has it' volume resize --size 184MiB
check 'clients see it' test "$(nbdinfo --size "$URI")" = $((184 * MIB))
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
new_room() { "$PYTHON" -c "import nbd; h = nbd.NBD(); h.connect_uri('$URI'); at, n = 96 << 20, 88 << 20; $1"; }
check 'the new room is zeros' new_room 'assert not any(any(h.pread(1 << 20, at + i)) for i in range(0, n, 1 << 20))'
check 'and can be written' new_room '[h.pwrite(bytes([(i >> 20) + 1]) * 65536, at + i) for i in range(0, n, 1 << 20)]; h.flush()'
whole_again
check 'and read' new_room 'assert all(h.pread(65536, at + i) == bytes([(i >> 20) + 1]) * 65536 for i in range(0, n, 1 << 20))'
OF_MODEL=(--bytes $((96 * MIB)))
is_whole_without 0 1 2
check 'all is scrubbed' volume scrub --now
check 'and no block is bad' jq -e '.volumes[0].copies.scrub.bad == []' <(curl -sf "http://$ADMIN/volumes")
