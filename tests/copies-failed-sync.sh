#!/usr/bin/env bash
# Shows that what a flash lost with a failed flush is not taken for written when the node's process alone is started again: copies are made equal, and without copies a flush fails once more.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdcopy cmp losetup
need_python_nbd
need_root 'a loop device lies on a small file system'

# A block device that loses what its file system has no room for. Its pages stay in memory while somebody has it open.
mkdir "$DIR/small" "$DIR/state" "$DIR/run"
export XDG_RUNTIME_DIR=$DIR/run
unset RUNTIME_DIRECTORY
mount -t tmpfs -o size=40M tmpfs "$DIR/small"
LOOP=
at_end 'for name in "${!PID[@]}"; do stop $name KILL; done; release; umount "$DIR/small"'
release() {
    if alive holder; then stop holder KILL; fi
    [ -z "$LOOP" ] || losetup -d "$LOOP"
    LOOP=
}
# flash: a new device, which has 4 MiB of room.
flash() {
    release
    rm -f "$DIR"/small/* "$DIR"/state/*
    truncate -s 32M "$DIR/small/flash"
    LOOP=$(losetup -f --show "$DIR/small/flash")
    start holder sh -c "exec sleep 1000 <$LOOP"
    head -c 36M /dev/zero >"$DIR/small/ballast"
}
# nodes: one with a file, one with the device.
nodes() {
    rm -f "$DIR"/node0.img* "$DIR"/gateway.toml.*
    NODES=(node0 node1)
    start_node node0 32MiB
    DATA=$LOOP start_node node1 32MiB --state-dir "$DIR/state" --admin 127.0.0.1:0
    NODE1_ADMIN=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/node1.log" | head -n 1)
}
node1_warns() { curl -sf "http://$NODE1_ADMIN/status" | jq -e --arg text "$1" '.warnings | any(contains($text))'; }
# process_again: the process of the node ends, and is started again; its kernel goes on, and there is room by now.
process_again() {
    rm "$DIR/small/ballast"
    stop node1 KILL
    run_node node1
    check 'the next process drops what the flash may lack' log_has node1 'a flush had failed: the page cache was dropped'
    wait_for 20 'it to be linked' is_linked node1
}
# is_recorded FOLDER
is_recorded() { find "$1" -name '*.syncs' | grep -q .; }

head -c 16M /dev/urandom >"$DIR/image"
flash
nodes
NODE_SIZE=32MiB start_gateway 'layout = "mapped"' 'copies = 2' 'evict_after = "2s"' 'timeout = "10s"'
admin_address
whole_again
check 'an image goes in and is flushed, as the other copy has it' nbdcopy --flush -- "$DIR/image" "$URI"
check 'the device has failed the flush' log_has node1 'a write to the flash failed'
check 'its node says so' node1_warns 'flushes fail until the node is restarted'
check 'it is recorded beside the extent' is_recorded "$DIR/state"
check 'and in memory' is_recorded "$DIR/run"
check 'its copies are behind' copies '.behind_chunks > 0'
process_again
whole_again
check 'the owner has been told' log_has gateway "node ${ADDR[node1]}: .*its device fails flushes"
# From the flash of that node alone, read by a process that has nothing in memory.
stop node1 TERM
stop holder KILL
run_node node1
whole_again
stop node0 KILL
check 'all is on the flash of that copy alone' sh -c "nbdcopy -- '$URI' '$DIR/back' && cmp -n 16777216 '$DIR/image' '$DIR/back'"
stop gateway TERM
stop node1 TERM

flash
nodes
NODE_SIZE=
start_gateway
admin_address
cat >"$DIR/client.py" <<'CLIENT'
import os, sys, time, nbd
uri, folder = sys.argv[1:]
def flush(client):
    try:
        client.flush()
        return True
    except nbd.Error as error:
        assert error.errno == "EIO", error
        return False
def tell(name):
    open(f"{folder}/{name}", "w").close()
def await_file(name):
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.05)
client = nbd.NBD()
client.connect_uri(uri)
for at in range(0, 16 << 20, 1 << 20):
    client.pwrite(b"\x77" * (1 << 20), (32 << 20) + at)
assert not flush(client), "the device has no room"
assert not flush(client), "and none is believed from then on"
tell("failed")
await_file("again")
assert not flush(client), "what was acknowledged is lost"
assert flush(client), "that is told once"
read = client.pread(16 << 20, 32 << 20)
assert read != b"\x77" * (16 << 20), "what the flash has is read"
client.pwrite(b"\x78" * (1 << 20), 32 << 20)
assert flush(client)
assert client.pread(1 << 20, 32 << 20) == b"\x78" * (1 << 20)
client.shutdown()
CLIENT
start client "$PYTHON" "$DIR/client.py" "$URI" "$DIR"
wait_for 20 'the flush to fail' test -e "$DIR/failed"
process_again
touch "$DIR/again"
finish client 30
[ "$STATUS" -eq 0 ] || { cat "$DIR/client.log" >&2; fail 'the client of a linear volume'; }
pass 'without copies, the flush after the restart fails once, and reads show what the flash has'
