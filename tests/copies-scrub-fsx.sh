#!/usr/bin/env bash
# Shows that fsx finds no wrong byte on a volume with copies whose nodes' flash flips, zeroes and misplaces blocks and loses writes, while scrubs find and mend all of them.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/fsx.sh"
OPERATIONS=${OPERATIONS:-30000}
seeded

# Damage is planted through the page cache: without this, a node could answer it from its memory mapping before anything has looked at it.
NODE_OPTIONS=(--mapped off)
start_copies 8 8MiB 'evict_after = "2s"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
for node in 0 1 2 3 4 5 6 7; do cp "$DIR/node$node.img" "$DIR/before$node.img"; done
check 'and filled again' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
# It uses an eighth, and heals what it overwrites; damage is everywhere.
start_fsx "$OPERATIONS" 4194304

rounds=0 planted=0
while alive fsx; do
    fsx_goes_on 200
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
finish_fsx
pass "$OPERATIONS operations of fsx, $planted blocks damaged in $rounds rounds, no wrong byte"
found=$(copies_say .scrub_corrupt)
[ "$found" -ge 100 ] || fail "scrubs found $found blocks before fsx was over: OPERATIONS=$OPERATIONS are too few"
check "scrubs found $found of them, and all are mended" copies ".mended >= $found and .unreadable == 0"
blockdev --flushbufs "$LOOP"
"$FLASHMOB" volume scrub "$ADMIN" pool --now --output json >"$DIR/scrub.json"
check 'a last scrub finds nothing' jq -e '.found_blocks == 0 and .bad == [] and .left_out == 0' "$DIR/scrub.json"
