#!/usr/bin/env bash
# Shows that a node and a gateway as their systemd units run them, a user without rights in a sandbox with a filter of system calls, have all that they need: what is mapped and locked in memory, io_uring, the start of the device, keys, a socket; and that a node records a flush that failed in memory, or in the spare file beside its extent.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/unit.sh"
need_python_nbd
need losetup mkfs.ext4 jq nbdcopy

# A file system on a device that loses what its own file system has no room for.
mkdir "$DIR/small" "$DIR/state"
mount -t tmpfs -o size=64M tmpfs "$DIR/small"
LOOP=
at_end 'for name in "${!PID[@]}"; do stop $name KILL; done; umount "$DIR/state" 2>/dev/null; [ -z "$LOOP" ] || losetup -d "$LOOP"; umount "$DIR/small"'
truncate -s 120M "$DIR/small/flash"
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 "$DIR/small/flash"
LOOP=$(losetup -f --show "$DIR/small/flash")
mount "$LOOP" "$DIR/state"

cat >"$DIR/client.py" <<'CLIENT'
import sys, nbd
client = nbd.NBD()
client.connect_uri(sys.argv[1])
for at in range(0, 48 << 20, 1 << 20):
    client.pwrite(b"\x77" * (1 << 20), at)
try:
    client.flush()
except nbd.Error as error:
    sys.exit(0 if error.errno == "EIO" else 3)
sys.exit(4)
CLIENT
# loses: the flush of a client fails, as the device has no room.
loses() {
    head -c 64M /dev/zero >"$DIR/small/ballast" 2>/dev/null || true
    timeout 120 "$PYTHON" "$DIR/client.py" "$URI"
}
records() { find "$1" -maxdepth 1 -name '*.syncs' -size +0 | grep -q .; }
has_failure() { grep -Eq '^failed = [1-9]' "$1"; }

NODES=(a)
unit_program a "$DIR/state"
[ -n "$RUNTIME" ] || fail "$UNIT has no RuntimeDirectory"
DATA=$DIR/state/a.img start_node a 64MiB
pass 'a node starts in the sandbox of its unit'
check 'as a user without rights' sh -c "grep -Eq '^Uid:[[:space:]]*$UNIT_USER' /proc/${PID[a]}/status && grep -q '^CapEff:[[:space:]]*0*$' /proc/${PID[a]}/status"
check 'which cannot write elsewhere' sh -c "! nsenter -t ${PID[a]} -m touch /usr/x 2>/dev/null"
start_gateway
check 'a flush fails' loses
check 'it is recorded in memory' records "$RUNTIME"
check 'so the node does not ask for a restart of the device' sh -c "! grep -q 'cannot be recorded' '$DIR/a.log'"
stop a KILL
unit_stopped
rm -f "$DIR/state"/*.syncs "$DIR/state"/*.spare "$DIR/small/ballast"
run_node a
check 'the next process drops what the flash lacks, by the record in memory alone' log_has a 'a flush had failed: the page cache was dropped'
stop a TERM
stop gateway TERM
rm -rf "$RUNTIME"

# As on Android: no folder in memory, and the flash takes no new file.
rm -f "$DIR/state"/a.* "$DIR"/gateway.toml.*
sed -i '/RUNTIME_DIRECTORY=/s/RUNTIME_DIRECTORY="[^"]*"//' "$DIR/unit-a"
unset 'ADDR[a]'
run_node a
check 'a spare file lies beside the extent' test -s "$DIR/state/a.img.spare"
start_gateway
chattr +i "$DIR/state" 2>/dev/null || say 'the folder of the extent takes new files here'
check 'a flush fails' loses
chattr -i "$DIR/state" 2>/dev/null || true
check 'the spare file has it' has_failure "$DIR/state/a.img.spare"
stop a KILL
rm -f "$DIR/state"/*.syncs "$DIR/small/ballast"
run_node a
check 'the next process knows by the spare file alone' log_has a 'a flush had failed: the page cache was dropped'

stop a TERM
stop gateway TERM

# The units forbid some calls, and must not forbid others.
cat >"$DIR/calls.py" <<'CALLS'
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
EPERM = 1
def fails_with(result):
    return ctypes.get_errno() if result < 0 else 0
page = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
told = ctypes.create_string_buffer(1)
assert fails_with(libc.mincore(ctypes.c_void_p(address), 4096, told)) == 0, "mincore"
assert fails_with(libc.mlock(ctypes.c_void_p(address), 4096)) == 0, "mlock"
# io_uring_setup without parameters: a bad address, where it is allowed.
assert sys.argv[2] == "off" or fails_with(libc.syscall(425, 1, None)) != EPERM, "io_uring"
with open("/proc/sys/kernel/random/boot_id") as boot_id:
    assert len(boot_id.read()) == 37
for forbidden in (lambda: os.chown(sys.argv[1], -1, -1), lambda: os.sched_setaffinity(0, {0}), lambda: os.nice(0), lambda: os.setuid(os.getuid())):
    try:
        forbidden()
    except PermissionError:
        continue
    raise AssertionError("a forbidden system call succeeds")
with open("/proc/self/uid_map") as users:
    assert sys.argv[3] == "no" or len(users.readlines()) == 2, "users beside root and its own"
CALLS
# Some machines switch io_uring off for users without rights, and containers forbid it to all.
io_uring_is_off() {
    [ "$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0)" != 0 ] ||
        "$PYTHON" -c 'import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); sys.exit(not (libc.syscall(425, 1, None) < 0 and ctypes.get_errno() in (1, 38)))'
}
io_uring=on
! io_uring_is_off || io_uring=off
mkdir "$DIR/state/calls"
has_filter() { command -v systemd-analyze >/dev/null; }
has_filter || say 'not tried: the filter of system calls, whose sets systemd-analyze knows'
for UNIT in "$ROOT"/packaging/systemd/*.service; do
    unit_program calls "$DIR/state" "$PYTHON"
    ! has_filter || check "$(basename "$UNIT"): what is needed can be called, and what is forbidden cannot" "$DIR/unit-calls" "$DIR/calls.py" "$DIR/state/calls" $io_uring "$(directive PrivateUsers | grep . || echo no)"
done

# A node serves from its mapping, and with io_uring.
UNIT=$ROOT/packaging/systemd/flashmob-node@.service
rm -f "$DIR/state"/b.* "$DIR"/gateway.toml.*
unit_program b "$DIR/state"
NODES=(b)
DATA=$DIR/state/b.img start_node b 32MiB --admin 127.0.0.1:0
head -c 4M /dev/urandom >"$DIR/image"
truncate -s 32M "$DIR/image"
start_gateway
check 'an image is written to a node in its sandbox' nbdcopy --flush "$DIR/image" "$URI"
check 'small reads' "$PYTHON" -c '
import nbd, sys
client = nbd.NBD()
client.connect_uri(sys.argv[1])
data = open(sys.argv[2], "rb").read(4 << 20)
for at in range(0, 4 << 20, 4096):
    assert client.pread(512, at) == data[at:at + 512]' "$URI" "$DIR/image"
node_admin=$(sed -nE 's/.*admin.*(127\.0\.0\.1:[0-9]+).*/\1/p' "$DIR/b.log" | head -n 1)
check 'come from its mapping, of which mincore tells what is in memory' jq -e '[.. | .mapped_reads? // empty] | add > 0' <("$FLASHMOB" status "$node_admin" --output json)
stop gateway TERM
stop b TERM
NODE_ARGS[b]+=" --engine io_uring --direct"
if [ $io_uring = off ]; then
    say 'not tried: io_uring, which this machine has switched off'
else
    run_node b
    run_gateway
    volume_ready
    check 'with io_uring it serves, too' cmp "$DIR/image" <(nbdcopy "$URI" -)
    stop gateway TERM
    stop b TERM
fi

# A gateway with keys, in its own: it reads them, has its map, its records and its socket, and no file that others may read.
UNIT=$ROOT/packaging/systemd/flashmob-gateway.service
. "$TESTS/lib/keys.sh"
rm -rf "$DIR/state"/* "$DIR"/gateway.toml* "$DIR/gateway.keys"
unit_program gateway "$DIR/state"
mkdir -p "$RUNTIME"
cluster_keys
chown -R $UNIT_USER:$UNIT_USER "$DIR/gateway.keys"
NODES=(c d)
for node in "${NODES[@]}"; do
    unset "ADDR[$node]"
    start_node "$node" 16MiB --cluster "$CLUSTER"
    (chown -R 0:0 "$DIR/gateway.keys" && pin "$node" && chown -R $UNIT_USER:$UNIT_USER "$DIR/gateway.keys") >/dev/null
done
GATEWAY_LINES=('keys = "gateway.keys"')
NODE_SIZE=16MiB write_config 'layout = "mapped"' 'copies = 2'
sed -i "s|unix:[^\"]*|unix:$RUNTIME/nbd.sock|" "$DIR/gateway.toml"
chmod 644 "$DIR/gateway.toml"
start gateway "$DIR/unit-gateway" gateway "$DIR/gateway.toml"
volume_ready
size=$(nbdinfo --size "nbd+unix:///pool?socket=$RUNTIME/nbd.sock")
head -c "$size" /dev/urandom >"$DIR/image"
check 'a gateway in its sandbox serves a volume with copies and keys' nbdcopy --flush "$DIR/image" "nbd+unix:///pool?socket=$RUNTIME/nbd.sock"
check 'it is the same' cmp "$DIR/image" <(nbdcopy "nbd+unix:///pool?socket=$RUNTIME/nbd.sock" -)
check 'its socket is for its group' [ "$(stat -c %a "$RUNTIME/nbd.sock")" = 770 ]
check 'its map is there' sh -c "ls '$DIR/state' | grep -q map"
check 'no file of it is for others' [ -z "$(find "$DIR/state" "$RUNTIME" -type f -perm /077)" ]
stop gateway TERM

for unit in "$ROOT"/packaging/systemd/*.service; do
    check "$(basename "$unit") keeps its folder in memory when it is started again" grep -qx 'RuntimeDirectoryPreserve=yes' "$unit"
done
