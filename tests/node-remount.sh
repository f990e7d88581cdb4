#!/usr/bin/env bash
# Shows that a file system which is shut down below a node and mounted again counts as a restart of its device, and that a restart of the process, also as a service in a sandbox, does not; where the system does not tell, only an end in order does not.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/file_systems.sh"
. "$TESTS/lib/unit.sh"
need_python_nbd

reboots() { copies_say .reboots; }
# reboots_are N
reboots_are() { [ "$(reboots)" = "$1" ]; }

# again NAME COMMAND...: the process of a node is ended by SIGNAL, the command carried out, and the next process started and linked.
again() {
    local name=$1
    shift
    stop "$name" "${SIGNAL:-KILL}"
    "$@"
    run_node "$name"
    wait_for 20 "$name to be linked" is_linked "$name"
}

cat >"$DIR/client.py" <<'CLIENT'
import os, sys, time, nbd
uri, folder, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = nbd.NBD()
client.connect_uri(uri)
def flushes():
    try:
        client.flush()
        return True
    except nbd.Error as error:
        assert error.errno == "EIO", error
        return False
def await_file(name):
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.02)
    os.remove(f"{folder}/{name}")
def write(byte):
    for offset in range(0, length, 1 << 16):
        client.pwrite(bytes([byte]) * (1 << 16), offset)
write(1)
assert flushes()
write(2)
open(f"{folder}/written", "w").close()
await_file("again")
first, second = flushes(), flushes()
assert (first, second) == (sys.argv[4] == "kept", True), (first, second)
if first:
    for offset in range(0, length, 1 << 16):
        assert client.pread(1 << 16, offset) == b"\x02" * (1 << 16), offset
CLIENT
# flushes_after WANTED NAME COMMAND...: a client has written, and not flushed, when the node is started anew; its next flush succeeds, or fails once.
flushes_after() {
    local wanted=$1
    shift
    start client "$PYTHON" "$DIR/client.py" "$URI" "$DIR" $((4 << 20)) "$wanted"
    written() { test -e "$DIR/written" || ! alive client; }
    wait_for 20 'the client to have written' written
    rm "$DIR/written"
    again "$@"
    touch "$DIR/again"
    finish client 60
    [ "$STATUS" -eq 0 ] || { cat "$DIR/client.log" >&2; return 1; }
}

for type in ext4 xfs; do
    mount_new $type "$DIR/$type"
    NODES=(node0 node1)
    DATA=$DIR/$type/node0.img start_node node0 32MiB
    start_node node1 32MiB
    NODE_SIZE=32MiB start_gateway 'layout = "mapped"' 'copies = 2' 'evict_after = "2s"' 'timeout = "10s"'
    admin_address
    whole_again
    again node0 true
    check "$type: a process that was killed is no restart of the device" reboots_are 0
    check "$type: writes" "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 16 --model "$DIR/model"
    shut_down "$DIR/$type"
    again node0 mount_again "$DIR/$type"
    check "$type: a file system that was mounted again is one" reboots_are 1
    check 'its node is written to again' copies '.reboots == 1'
    whole_again
    stop node1 KILL
    check "$type: every byte is right on it alone" is_all_there
    stop node0 TERM
    stop gateway TERM
    rm -f "$DIR"/node1.img* "$DIR/model" "$DIR"/gateway.toml.*

    NODES=(plain)
    DATA=$DIR/$type/plain.img start_node plain 32MiB
    NODE_SIZE=32MiB start_gateway
    admin_address
    check "$type, without copies: the flush behind a killed process succeeds" flushes_after kept plain true
    check "$type, without copies: the flush behind another mount fails once" flushes_after lost plain eval 'shut_down "$DIR/$type"; mount_again "$DIR/$type"'
    stop plain TERM
    unit_program plain "$DIR/$type"
    rm -f "$DIR/$type"/plain*
    chown "$UNIT_USER" "$DIR/$type"
    rm -f "$DIR/gateway.toml.extents"
    run_node plain
    stop gateway TERM
    run_gateway
    volume_ready
    admin_address
    check "$type: so does that behind a service in a sandbox that was killed" flushes_after kept plain true
    SIGNAL=TERM check "$type: and behind one that was stopped" flushes_after kept plain unit_stopped
    check "$type: not behind another mount" flushes_after lost plain eval 'shut_down "$DIR/$type"; mount_again "$DIR/$type"'
    stop plain TERM
    stop gateway TERM
    rm -f "$DIR"/gateway.toml.*
    unset 'NODE_PROGRAM[plain]'
done

overlay_new "$DIR/overlay"
NODES=(untold)
DATA=$DIR/overlay/untold.img start_node untold 32MiB
check 'a node says that its system does not tell' log_has untold 'does not tell whether what is in memory outlives this process'
NODE_SIZE=32MiB start_gateway
admin_address
SIGNAL=TERM check 'untold: the flush behind an end in order succeeds' flushes_after kept untold true
SIGNAL=TERM check 'untold: and behind another' flushes_after kept untold true
check 'untold: that behind a killed process fails once' flushes_after lost untold true
