#!/usr/bin/env bash
# Shows that with a full disk under the map of a volume with copies only changes that need the map fail, with ENOSPC, and that a damaged map is refused.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need mkfs.ext4
need_root 'a small file system is mounted'

# The map lies where systemd would have a service keep it: in a file system of its own, in blocks of 1 KiB.
export STATE_DIRECTORY=$DIR/state
MAP=$STATE_DIRECTORY/gateway.toml.pool.map
truncate -s 1M "$DIR/state.img"
mkfs.ext4 -q -b 1024 -m 0 -N 32 -O ^has_journal "$DIR/state.img"
mkdir "$STATE_DIRECTORY"
mount -o loop "$DIR/state.img" "$STATE_DIRECTORY"
at_end 'if alive gateway; then stop gateway KILL; fi; umount "$STATE_DIRECTORY"'
all_is_there() { is_all_there --block 16384; }
map_is_full() { log_has gateway 'no space left for the map'; }

# With 28 chunks the map ends shortly before the end of its first block, whether what a start adds comes in one batch or in four.
start_copies 4 56MiB 'evict_after = "2s"' 'timeout = "10s"'
stop gateway
gateway_again
whole_again
# The room that it reserved for changes, and for the next file, is taken away, and then all the rest.
truncate -s "$(stat -c %s "$MAP")" "$MAP"
truncate -s 0 "$MAP.new"
for size in 1M 1K 1K 1K 1K 1K 1K; do
    sync -f "$STATE_DIRECTORY"
    head -c $size /dev/zero 2>/dev/null >>"$STATE_DIRECTORY/ballast" || true
done
# A node has 14 chunks, at 12 bytes each in the map.
[ $(($(stat -c %s "$MAP") % 1024)) -gt 856 ] || fail "the map's $(stat -c %s "$MAP") bytes leave room for changes in their last block: take another number of chunks"
check 'the disk under the map is full' test "$(stat -f -c %a "$STATE_DIRECTORY")" -eq 0
start_load load --extents 4 --connections 2 --depth 8 --reads 50 --block 16384 --model "$DIR/model"
for extent in 0 1 2 3; do extent_served load $extent 100; done

# A node dies: its copies must be declared behind in the map before what they lack is acknowledged.
next_phase load
stop node2 KILL
wait_for 30 'the map to be full' map_is_full
# What waits for that when the map becomes full is not answered, and fails after the timeout with EIO. Later changes are refused at once.
have_failed() { jq -e '[.phase_extents[].errors] | add > 500' "$DIR/load.progress"; }
wait_for 30 'writes to fail' have_failed
check 'it is told, with the place' copies ".map_trouble == \"no space left for the map $(realpath "$MAP"); free some on its file system\""
end_load load
no_wrong_byte load
expect_result load 'with a full map and all nodes there, no request failed' 'all(.phases[0].extents[]; .errors == {})'
expect_result load 'changes that need the map failed with ENOSPC' '.errors.ENOSPC > 400'
# 4 extents, 2 connections, 8 requests each.
expect_result load 'what was under way failed with EIO, and nothing else' '(.errors.EIO // 0) <= 64 and (.errors | del(.EIO, .ENOSPC)) == {}'
expect_result load 'every request was answered' '.unanswered == 0 and .disconnects == 0'
check 'all is read while the map is full and a node is dead' all_is_there

# A load that is refused goes on as soon as there is space; the node comes back, and is made equal.
start_load freed --extents 4 --connections 2 --depth 8 --reads 50 --block 16384 --model "$DIR/model" --seed 2
wait_for 30 'writes to fail again' eval 'jq -e "[.phase_extents[].errors] | add > 50" "$DIR/freed.progress"'
next_phase freed
rm "$STATE_DIRECTORY/ballast"
wait_for 20 'the map to be written' copies '.map_trouble == null'
next_phase freed
for extent in 0 1 2 3; do extent_served freed $extent 100; done
node_again node2
end_load freed
no_wrong_byte freed
expect_result freed 'no request failed when there was space again' 'all(.phases[2].extents[]; .errors == {})'
expect_result freed 'before, with ENOSPC alone' '.errors | keys == ["ENOSPC"]'
check 'what is there is what was written' all_is_there
for node in node0 node1 node3; do
    stop $node KILL
    check "it is all there without $node" all_is_there
    node_again $node
done

# starts_with_map FILE: the gateway is killed, and started with that map.
starts_with_map() {
    stop gateway KILL
    cp "$1" "$MAP"
    gateway_again
}
# The gateway is killed in the middle of writing a change: the beginning of one is at the end of the map.
{ cat "$MAP"; printf 'FMap\1\3\0\0'; head -c 30 /dev/urandom; } >"$DIR/torn.map"
starts_with_map "$DIR/torn.map"
check 'a torn tail is dropped' log_has gateway 'the last 38 bytes are a change that was being written'
check 'and nothing else' all_is_there
whole_again

# Bytes of the last change are missing. It said that a copy is equal again: that copy is made equal once more.
changes() { "$PYTHON" "$TESTS/nbdload.py" "$URI" --requests 500 --block 16384 --reads 0 --model "$DIR/model" --seed "$1"; }
stop node3 KILL
check 'changes while a node is dead' changes 3
check 'its copies are behind' copies '.behind_chunks > 0'
node_again node3
stop gateway KILL
truncate -s -1 "$MAP"
gateway_again
check 'a change that is not whole is dropped' log_has gateway 'bytes are a change that was being written'
whole_again
check 'and all is there' all_is_there

# Any other damage is refused. Nothing is guessed.
stop node3 KILL
check 'changes while a node is dead' changes 4
node_again node3
stop gateway KILL
cp "$MAP" "$DIR/good.map"
# flipped BYTE: the good map with one byte changed.
flipped() {
    "$PYTHON" - "$1" "$DIR/good.map" "$MAP" <<'FLIP'
import sys
at, data = int(sys.argv[1]), bytearray(open(sys.argv[2], "rb").read())
data[at] ^= 1
open(sys.argv[3], "wb").write(data)
FLIP
}
SECOND=$(LC_ALL=C grep -abo FMap "$DIR/good.map" | sed -n 2p | cut -d: -f1)
refuses() { refused "$1" "$2" "$FLASHMOB" gateway "$DIR/gateway.toml"; }
flipped 100
refuses 'damage of the snapshot is refused, with record, byte and remedy' 'snapshot is damaged at its record 0 \(byte 0\); move the file away, and recover the map'
flipped $((SECOND + 30))
refuses 'damage of a change that is not the last is refused, with record, byte and remedy' "record [0-9]+ of the map \\(byte $SECOND\\) is damaged; move the file away, and recover the map"
cp "$DIR/good.map" "$MAP"
gateway_again
check 'with the map as it was, all is there' all_is_there
