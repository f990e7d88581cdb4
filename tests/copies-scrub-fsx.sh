#!/usr/bin/env bash
# Shows that fsx finds no wrong byte on a volume with copies whose nodes' flash flips, zeroes and misplaces blocks and loses writes, while scrubs find and mend all of them.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
# FSX names the program: `cargo install fsx`.
FSX=${FSX:-fsx}
need losetup blockdev
need_root 'FUSE and a loop device'
command -v "$FSX" >/dev/null || { echo "    not run: 'fsx' is not installed; cargo install fsx, or FSX=PATH" >&2; exit $NOT_RUN; }
OPERATIONS=${OPERATIONS:-30000}
seeded

# Damage is planted through the page cache: without this, a node could answer it from its memory mapping before anything has looked at it.
NODE_OPTIONS=(--mapped off)
start_copies 8 8MiB 'evict_after = "2s"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
for node in 0 1 2 3 4 5 6 7; do cp "$DIR/node$node.img" "$DIR/before$node.img"; done
check 'and filled again' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_qemu
start_file
LOOP=$(losetup -f --show --direct-io=on "$FILE")
at_end 'if alive qemu; then stop qemu KILL; fi; losetup -d "$LOOP"'
# As a block device: nothing changes its size. It uses an eighth, and heals what it overwrites; damage is everywhere.
cat >"$DIR/fsx.toml" <<'TOML'
blockmode = true
nosizechecks = true
flen = 4194304
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

rounds=0 planted=0
while alive fsx; do
    wait_for 60 'fsx to write' has_changed $(($(changes) + 200))
    # Each time other nodes, and other places: never both copies of a block at a time.
    draw 8
    node=$DRAWN
    draw 97
    kinds=(flipped zeroed misplaced old)
    kind=${kinds[rounds % 4]}
    older=()
    [ "$kind" != old ] || older=("$DIR/before$node.img")
    planted=$((planted + $("$PYTHON" "$TESTS/rot.py" "$kind" "$DIR/node$node.img" "${older[@]}" --count 20 --first "$DRAWN")))
    "$FLASHMOB" volume scrub "$ADMIN" pool --now --output json >"$DIR/scrub.json" || fail "round $rounds: $(cat "$DIR/scrub.json")"
    jq -e '.bad == [] and .left_out == 0 and .mending_chunks == 0' "$DIR/scrub.json" >/dev/null || fail "round $rounds: $(cat "$DIR/scrub.json")"
    rounds=$((rounds + 1))
done
finish fsx 60
[ "$STATUS" -eq 0 ] || { tail -n 30 "$DIR/fsx.out" "$DIR/fsx.log" >&2; fail "fsx ended with $STATUS"; }
pass "$OPERATIONS operations of fsx, $planted blocks damaged in $rounds rounds, no wrong byte"
found=$(copies_say .scrub_corrupt)
[ "$found" -ge 100 ] || fail "scrubs found $found blocks before fsx was over: OPERATIONS=$OPERATIONS are too few"
check "scrubs found $found of them, and all are mended" copies ".mended >= $found and .unreadable == 0"
blockdev --flushbufs "$LOOP"
"$FLASHMOB" volume scrub "$ADMIN" pool --now --output json >"$DIR/scrub.json"
check 'a last scrub finds nothing' jq -e '.found_blocks == 0 and .bad == [] and .left_out == 0' "$DIR/scrub.json"
