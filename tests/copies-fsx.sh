#!/usr/bin/env bash
# Shows that fsx finds no wrong byte on a volume with copies while its gateway is killed and started again, and its nodes are killed one after another.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
# FSX names the program: `cargo install fsx`.
FSX=${FSX:-fsx}
need losetup blockdev
need_root 'FUSE and a loop device'
command -v "$FSX" >/dev/null || { echo "    not run: 'fsx' is not installed; cargo install fsx, or FSX=PATH" >&2; exit $NOT_RUN; }
OPERATIONS=${OPERATIONS:-10000}
seeded

start_copies 4 16MiB 'evict_after = "1s"' 'timeout = "60s"'
start_qemu
start_file
LOOP=$(losetup -f --show --direct-io=on "$FILE")
at_end 'if alive qemu; then stop qemu KILL; fi; losetup -d "$LOOP"'
# As a block device: nothing changes its size.
cat >"$DIR/fsx.toml" <<'TOML'
blockmode = true
nosizechecks = true
flen = 16777216
[opsize]
align = 512
[weights]
close_open = 0
truncate = 0
posix_fallocate = 0
read = 10
write = 10
mapread = 5
mapwrite = 5
invalidate = 5
fsync = 1
fdatasync = 1
punch_hole = 0
TOML
mkdir "$DIR/found"
start fsx "$FSX" -f "$DIR/fsx.toml" -P "$DIR/found" -S "$SEED" -N "$OPERATIONS" "$LOOP"
changes() { curl -sf "http://$ADMIN/status" | jq '[.gateway.requests[] | select(.[0] == "write") | .[1]] | add'; }
has_changed() { ! alive fsx || [ "$(changes)" -ge "$1" ]; }
# goes_on: waits until fsx has written more. What it reads then comes from the volume, not from the page cache.
goes_on() {
    wait_for 60 'fsx to write' has_changed $(($(changes) + 300))
    blockdev --flushbufs "$LOOP"
}

kills=0
goes_on
while alive fsx; do
    stop gateway KILL
    gateway_again
    goes_on
    node=node$((kills % 4))
    stop "$node" KILL
    goes_on
    node_again "$node"
    goes_on
    kills=$((kills + 1))
done
finish fsx 60
[ "$STATUS" -eq 0 ] || { tail -n 30 "$DIR/fsx.out" "$DIR/fsx.log" >&2; fail "fsx ended with $STATUS"; }
[ "$kills" -gt 1 ] || fail "fsx was over before the faults: OPERATIONS=$OPERATIONS are too few"
pass "$OPERATIONS operations of fsx, the gateway and a node killed $kills times, no wrong byte"
whole_again
