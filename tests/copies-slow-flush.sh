#!/usr/bin/env bash
# Shows that a node whose flash takes half a minute for a flush is not put out, that others go on meanwhile, and that the flush ends well though it takes longer than the timeout.
# Tier: slow
# Canary: slow-flush-evicts
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need losetup
need_python_nbd
need_root 'a loop device is made slow'
THROTTLE=/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device
[ -w "$THROTTLE" ] || { echo "    not run: this kernel has no $THROTTLE, which slows writeback" >&2; exit $NOT_RUN; }

# A block device that writes 2 MiB/s.
mkdir "$DIR/state"
truncate -s 64M "$DIR/flash"
LOOP=$(losetup -f --show "$DIR/flash")
DEVICE=$(lsblk -dno MAJ:MIN "$LOOP" | tr -d ' ')
at_end 'echo "$DEVICE 0" >"$THROTTLE"; for name in "${!PID[@]}"; do stop $name KILL; done; losetup -d "$LOOP"'
echo "$DEVICE $((2 << 20))" >"$THROTTLE"

export XDG_RUNTIME_DIR=$DIR
NODES=(node0 node1)
start_node node0 64MiB
DATA=$LOOP start_node node1 64MiB --state-dir "$DIR/state"
NODE_SIZE=64MiB start_gateway 'layout = "mapped"' 'copies = 2' 'evict_after = "3s"' 'timeout = "10s"'
admin_address
whole_again
cat >"$DIR/client.py" <<'CLIENT'
import json, sys, threading, time, nbd
uri = sys.argv[1]
def connected():
    client = nbd.NBD()
    client.connect_uri(uri)
    return client
first, second = connected(), connected()
for at in range(0, 48 << 20, 1 << 20):
    first.pwrite(b"\x77" * (1 << 20), at)
begun, is_over, slowest, writes = time.monotonic(), threading.Event(), 0.0, 0
flush = threading.Thread(target=lambda: (first.flush(), is_over.set()))
flush.start()
while not is_over.wait(0.05):
    at = time.monotonic()
    second.pwrite(b"\x78" * 4096, (50 << 20) + writes % 1024 * 4096)
    slowest, writes = max(slowest, time.monotonic() - at), writes + 1
    if time.monotonic() - begun > 90:
        break
flush.join()
assert is_over.is_set(), "the flush failed"
print(json.dumps({"seconds": time.monotonic() - begun, "writes": writes, "slowest": slowest}))
CLIENT
"$PYTHON" "$DIR/client.py" "$URI" >"$DIR/client.json" || fail 'the flush failed'
say "$(cat "$DIR/client.json")"
check 'the flush took longer than a request may' jq -e '.seconds > 10' "$DIR/client.json"
check 'nobody was put out for it' copies '.behind_chunks == 0 and .evictions == 0'
check 'writes went on beside it' jq -e '.writes > 50' "$DIR/client.json"
