#!/usr/bin/env bash
# Shows that a real file system with a SQLite database lives on the volume: nbdfuse, loop, ext4; unmounted, checked, and read again after a restart.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdfuse losetup mkfs.ext4 fsck.ext4 sqlite3 fusermount3
need_root 'FUSE, a loop device and mount'
[ -c /dev/fuse ] || fail '/dev/fuse is missing: this test needs FUSE'
losetup -f >/dev/null 2>&1 || fail 'no loop device is free: this test needs /dev/loop-control'

# attach: the volume as a block device, $LOOP.
LOOP=
attach() {
    mkdir -p "$DIR/fuse" "$DIR/mnt"
    start nbdfuse nbdfuse "$DIR/fuse" "$URI"
    wait_for 20 'nbdfuse to mount' test -f "$DIR/fuse/nbd"
    LOOP=$(losetup -f --show --direct-io=on "$DIR/fuse/nbd")
}

detach() {
    mountpoint -q "$DIR/mnt" && umount "$DIR/mnt"
    [ -z "$LOOP" ] || losetup -d "$LOOP"
    LOOP=
    if mountpoint -q "$DIR/fuse"; then fusermount3 -u "$DIR/fuse"; fi
    if alive nbdfuse; then finish nbdfuse 20; fi
}
at_end 'detach'

start_cluster 4 32MiB 'layout = "striped"' 'stripe = "64KiB"'
attach
check 'mkfs.ext4' mkfs.ext4 -q "$LOOP"
check 'mount' mount "$LOOP" "$DIR/mnt"

sqlite3 "$DIR/mnt/data.db" >"$DIR/sqlite.out" <<'SQL'
PRAGMA journal_mode = DELETE;
PRAGMA synchronous = FULL;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, payload BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO item SELECT i, 'item ' || i, randomblob(1000) FROM n;
CREATE INDEX item_name ON item (name);
SQL
# Small transactions of their own, each with its flushes.
for i in {5001..5040}; do echo "INSERT INTO item VALUES ($i, 'item $i', randomblob(3000));"; done | sqlite3 "$DIR/mnt/data.db"
head -c 8M /dev/urandom >"$DIR/mnt/random"
# contents: what must be the same after everything.
contents() {
    sqlite3 "$DIR/mnt/data.db" "SELECT count(*), sum(length(payload)), hex(max(payload)) FROM item;"
    (cd "$DIR/mnt" && sha256sum data.db random)
}
check 'integrity_check of the database' test "$(sqlite3 "$DIR/mnt/data.db" 'PRAGMA integrity_check;')" = ok
contents >"$DIR/before"
check 'unmount' umount "$DIR/mnt"
check 'fsck finds nothing' fsck.ext4 -fn "$LOOP"
detach

stop gateway
[ "$STATUS" -eq 0 ] || fail "the gateway ended with $STATUS"
for node in "${NODES[@]}"; do stop "$node"; run_node "$node"; done
run_gateway
volume_ready
attach
check 'fsck finds nothing after a restart of everything' fsck.ext4 -fn "$LOOP"
check 'mount again' mount -o ro "$LOOP" "$DIR/mnt"
contents >"$DIR/after"
check 'all is as it was' cmp "$DIR/before" "$DIR/after"
check 'integrity_check again' test "$(sqlite3 "file:$DIR/mnt/data.db?immutable=1" 'PRAGMA integrity_check;')" = ok
