#!/usr/bin/env bash
# Shows that a device that fails is named with its node in status, on the page, by doctor and in the metrics: failed flushes, writes and reads, no room, a read-only file system, a device that is gone.
# Tier: test
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/file_systems.sh"
need_python_nbd

# cluster DATA [OPTION...]: three nodes and a volume with two copies; the device of the last one will fail. DATA and options: of node2.
cluster() {
    rm -f "$DIR"/node?.img* "$DIR"/gateway.toml.* "$DIR/gateway.log"
    NODES=(node0 node1 node2)
    start_node node0 24MiB
    start_node node1 24MiB
    DATA=$1 start_node node2 24MiB "${@:2}"
    NODE_SIZE=24MiB start_gateway 'layout = "mapped"' 'copies = 2' 'timeout = "10s"'
    admin_address
    whole_again
    # What was allocated beforehand: a full disk fails what has no room yet.
    "$PYTHON" "$DIR/client.py" "$URI" $((${FILLED_MIB:-36} << 20)) 1
}
cat >"$DIR/client.py" <<'CLIENT'
import sys, nbd
client = nbd.NBD()
client.connect_uri(sys.argv[1])
for offset in range(0, int(sys.argv[2]), 1 << 20):
    client.pwrite(bytes([int(sys.argv[3])]) * (1 << 20), offset)
client.flush()
CLIENT
# changes: everything is written anew and flushed, which succeeds, as other copies are there.
changes() { "$PYTHON" "$DIR/client.py" "$URI" $((36 << 20)) "$1"; }

end_cluster() {
    stop gateway TERM
    for name in node0 node1 node2; do stop $name KILL; done
}
finding() { curl -sf "http://$ADMIN/$1" | jq -e --arg text "$2" "$3 | any(.cause == \"device\" and .severity == \"severe\" and .node == 2 and (.found | contains(\$text)))" >/dev/null; }
warns() { "$FLASHMOB" status "$ADMIN" | grep -E "node ${ADDR[node2]}: its device .*$1"; }
doctor_says() { { "$FLASHMOB" doctor --cluster "$ADMIN" || true; } | grep -F -A 3 cluster-devices | grep -E "${ADDR[node2]} of pool .*$1"; }
metric() { curl -sf "http://$ADMIN/metrics" | grep -E "^flashmob_node_device_fails\{.*node=\"${ADDR[node2]}\".*\} $1\$"; }
# named WHAT
named() {
    is_named() { finding status "$1" .gateway.findings; }
    wait_for 60 "status to name the node whose device $1" is_named "$1"
    check "a device that $1: its node is named by status" warns "$1"
    check 'and on the page' finding live "$1" .findings
    check 'and by doctor' doctor_says "$1"
    check 'and in the metrics' metric 1
}

mount_new ext4 "$DIR/gone"
cluster "$DIR/gone/node2.img"
metric 0 >"$DIR/check.out" || fail 'the metrics say that a device fails that is well'
finding status '' .gateway.findings && fail 'a device that is well is named'
shut_down "$DIR/gone"
check 'writes and a flush succeed beside a device that is gone' changes 2
named 'fails flushes'
end_cluster

# An error of the file system: it is read-only from then on.
mount_new ext4 "$DIR/readonly"
mount -o remount,errors=remount-ro "$DIR/readonly"
cluster "$DIR/readonly/node2.img"
echo 1 >"/sys/fs/ext4/$(basename "${LOOP[$DIR/readonly]}")/trigger_fs_error"
check 'writes and a flush succeed beside a read-only file system' changes 2
named 'is read-only'
end_cluster

# A volume without copies there: for its client that is an I/O error, and not as if it might not write.
mount_new ext4 "$DIR/alone"
mount -o remount,errors=remount-ro "$DIR/alone"
rm -f "$DIR"/gateway.toml.* "$DIR/gateway.log"
NODES=(node0)
unset 'ADDR[node0]'
DATA=$DIR/alone/node0.img start_node node0 8MiB
NODE_SIZE='' start_gateway 'timeout = "10s"'
cat >"$DIR/errno.py" <<'CLIENT'
import errno, sys, nbd
client = nbd.NBD()
client.connect_uri(sys.argv[1])
client.pwrite(bytes(4096), 0)
open(sys.argv[2], "w").write("1")
for change in (lambda: client.pwrite(bytes(4096), 1 << 20), lambda: client.trim(4096, 1 << 20), lambda: client.zero(4096, 1 << 20)):
    try:
        change()
        sys.exit("it was written")
    except nbd.Error as error:
        assert error.errnum == errno.EIO, error
CLIENT
check 'changes on a read-only file system fail with EIO' "$PYTHON" "$DIR/errno.py" "$URI" "/sys/fs/ext4/$(basename "${LOOP[$DIR/alone]}")/trigger_fs_error"
stop gateway TERM
stop node0 KILL

mkdir "$DIR/full"
mount -t tmpfs -o size=40M tmpfs "$DIR/full"
at_end 'umount -l "$DIR/full"'
FILLED_MIB=4 cluster "$DIR/full/node2.img"
dd if=/dev/zero of="$DIR/full/ballast" bs=64K status=none 2>"$DIR/dd.log" || true
check 'writes and a flush succeed beside a full disk' changes 2
named 'is full'
rm "$DIR/full/ballast"
end_cluster

# Sectors that cannot be read: what the loop device has no bytes for.
truncate -s 32M "$DIR/sectors"
mkdir "$DIR/state"
SECTORS=$(losetup -f --show "$DIR/sectors")
at_end 'losetup -d "$SECTORS"'
cluster "$SECTORS" --state-dir "$DIR/state"
truncate -s 64K "$DIR/sectors"
check 'a scrub looks at all copies' "$FLASHMOB" volume scrub "$ADMIN" pool --now
named 'fails reads'
end_cluster
