#!/usr/bin/env bash
# Shows that a node as its systemd unit runs it, a user without rights in a sandbox, records a flush that failed in memory, that one without such a folder has the spare file beside its extent for it, and that the units name what they need.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/unit.sh"
need_python_nbd
need losetup mkfs.ext4

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

for unit in "$ROOT"/packaging/systemd/*.service; do
    check "$(basename "$unit") keeps its folder in memory when it is started again" grep -qx 'RuntimeDirectoryPreserve=yes' "$unit"
done
