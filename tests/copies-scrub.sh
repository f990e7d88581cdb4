#!/usr/bin/env bash
# Shows that a scrub finds and mends blocks that eight nodes' flash flipped, zeroed, put in the wrong place or did not write, without any of them being read by a client; that it lists what cannot be mended, durably, and that debugfs names the files there.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdcopy mke2fs debugfs cmp

# damage WHAT FILE ...: changes blocks of a data file in the way of a bad flash, and drops it from the page cache. Prints how many.
damage() { "$PYTHON" "$TESTS/rot.py" "$@"; }
# scrub [OPTION...]: a scrub from its beginning to its end, whatever this machine's battery does; its JSON is in scrub.json.
scrub() { "$FLASHMOB" volume scrub "$ADMIN" pool --now --output json "$@" >"$DIR/scrub.json"; }
scrubbed() { jq -e "$1" "$DIR/scrub.json" >/dev/null; }
# shown FILTER: whether the volume is as the filter of jq says.
shown() { "$FLASHMOB" volume show "$ADMIN" pool --output json | jq -e ".volumes[0] | $1" >/dev/null; }

# Damage is planted through the page cache: without this, a node could answer it from its memory mapping before anything has looked at it.
NODE_OPTIONS=(--mapped off)
start_copies 8 8MiB 'evict_after = "2s"' 'timeout = "60s"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
for node in 5 6; do cp "$DIR/node$node.img" "$DIR/before$node.img" && cp "$DIR/node$node.img.sums" "$DIR/before$node.img.sums"; done
check 'and filled again' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'nothing is wrong' scrub
check 'and that is what it says' scrubbed '.found_blocks == 0 and .mended_blocks == 0 and .left_out == 0 and .bad == []'
mkdir "$DIR/right"
cp "$DIR"/node?.img "$DIR/right/"
are_right() { for node in 0 1 2 3 4 5 6 7; do cmp "$DIR/node$node.img" "$DIR/right/node$node.img" || return 1; done; }

# 100 and more, at places that differ from node to node.
planted=0
for what in '0 flipped' '1 zeroed' '2 misplaced' '5 old' '7 flipped'; do
    read -r node kind <<<"$what"
    older=()
    [ "$kind" != old ] || older=("$DIR/before5.img")
    planted=$((planted + $(damage "$kind" "$DIR/node$node.img" "${older[@]}" --count 21 --first $((3 + 13 * node)))))
done
[ "$planted" -ge 100 ] || fail "only $planted blocks were damaged"
! are_right >/dev/null 2>&1 || fail 'nothing was damaged'
check "$planted damaged blocks are found" scrub
check 'all of them, and all are mended' scrubbed ".found_blocks == $planted and .mended_blocks == $planted and .bad == []"
check 'by the scrub, not by reads' copies '.corrupt == 0 and .unreadable == 0 and .evictions == 0'
check 'every node has its bytes again' are_right
check 'the log names a node' log_has gateway 'node [0-9.:]+: its flash returned other bytes'

# Once more, beside a client that writes and reads all over the volume.
start load "$PYTHON" "$TESTS/nbdload.py" "$URI" --depth 8 --reads 50 --model "$DIR/model" --progress "$DIR/progress.json"
wait_for 20 'the client to write' jq -e '.phase_done > 200' "$DIR/progress.json"
for node in 0 3 4; do damage flipped "$DIR/node$node.img" --count 20 --first $((5 + 11 * node)) >/dev/null; done
check 'a scrub goes through beside a client' scrub
check 'nothing is listed' scrubbed '.bad == [] and .left_out == 0'
stop load
check 'the client saw no wrong byte' jq -e '.mismatches == 0 and .errors == {} and .unanswered == 0' "$DIR/load.out"
check 'nothing is left to be found' scrub
check 'indeed nothing' scrubbed '.found_blocks == 0 and .bad == []'
check 'every byte is right' is_all_there

# A write that a flash lost together with its checksum: nobody knows which copy is right.
cp "$DIR/node6.img" "$DIR/after6.img"
lost=$(damage lost "$DIR/node6.img" "$DIR/before6.img" --count 6 --first 50)
cp "$DIR/node6.img" "$DIR/lost6.img"
status=0
scrub 2>"$DIR/scrub.log" || status=$?
[ "$status" -eq 1 ] || fail "scrub ended with $status though it had to list blocks"
check "$lost lost writes are listed" scrubbed "(.bad | map(.bytes) | add) == 4096 * $lost and all(.bad[]; .flaw == \"differs\" and (.nodes | contains([6])))"
check 'and left as they are' cmp "$DIR/node6.img" "$DIR/lost6.img"
check 'the other copies, too' scrubbed '.mended_blocks == 0'
stop gateway
gateway_again
check 'the next gateway knows them' shown "([.copies.scrub.bad[].bytes] | add) == 4096 * $lost"
check 'and when they were found' shown '.copies.scrub.compare.done_seconds_ago >= 0 and .copies.scrub.compare.is_running == false'
check 'status warns' "$FLASHMOB" status "$ADMIN"
grep -q "cannot be mended" "$DIR/check.out" || fail "status does not warn: $(cat "$DIR/check.out")"
check 'a write of whole blocks heals them' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'they are listed no more' shown '.copies.scrub.bad == []'
check 'and a scrub agrees' scrub

# What lies at such a place: as docs/copies.md says.
mkdir -p "$DIR/tree/photos"
for n in 1 2 3; do head -c 300000 /dev/urandom >"$DIR/tree/photos/$n.jpg"; done
size=$("$FLASHMOB" volume show "$ADMIN" pool --output json | jq '.volumes[0].size_bytes')
truncate -s "$size" "$DIR/fs.img"
check 'a file system is made' mke2fs -q -F -t ext4 -b 4096 -d "$DIR/tree" "$DIR/fs.img"
check 'and copied into the volume' nbdcopy "$DIR/fs.img" "$URI"
inode=$(debugfs -R 'stat /photos/2.jpg' "$DIR/fs.img" 2>/dev/null | sed -n 's/^Inode: \([0-9]*\).*/\1/p')
block=$(debugfs -R 'blocks /photos/2.jpg' "$DIR/fs.img" 2>/dev/null | awk '{ print $20 }')
count=$(damage everywhere "$DIR/fs.img" "$DIR"/node?.img --at $((block * 4096)))
[ "$count" -eq 2 ] || fail "the block is there $count times"
status=0
scrub 2>"$DIR/scrub.log" || status=$?
[ "$status" -eq 1 ] || fail "scrub ended with $status though a block is nowhere"
check 'a block that no copy has is listed' scrubbed "(.bad | length) == 1 and .bad[0].flaw == \"unreadable\" and .bad[0].offset_bytes == $block * 4096 and .bad[0].bytes == 4096"
offset=$(jq '.bad[0].offset_bytes' "$DIR/scrub.json")
found=$(debugfs -R "icheck $((offset / 4096))" "$DIR/fs.img" 2>/dev/null | awk 'NR == 2 { print $2 }')
[ "$found" = "$inode" ] || fail "debugfs has inode '$found' at block $((offset / 4096)), not $inode"
check 'debugfs names the file' test "$(debugfs -R "ncheck $found" "$DIR/fs.img" 2>/dev/null | awk 'NR == 2 { print $2 }')" = /photos/2.jpg

# Ways to begin and to end.
check 'a scrub is begun and not waited for' "$FLASHMOB" volume scrub "$ADMIN" pool --no-wait
check 'and stopped' "$FLASHMOB" volume scrub "$ADMIN" pool --stop
check 'none is under way' shown '.copies.scrub.compare.is_running == false and all(.nodes[]; .member.scrub.is_running == false)'
refused 'there is no such volume' "no volume 'pond'" "$FLASHMOB" volume scrub "$ADMIN" pond
refused 'now and stop exclude each other' 'cannot be used with' "$FLASHMOB" volume scrub "$ADMIN" pool --now --stop
check 'metrics count' sh -c "curl -sf http://$ADMIN/metrics | grep -q '^flashmob_volume_bad_blocks{volume=\"pool\"} 1$'"
