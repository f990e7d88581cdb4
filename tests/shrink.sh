#!/usr/bin/env bash
# Shows that a volume shrinks under load to what is trimmed, or with --yes to any size; that nothing else is lost, though the gateway is killed meanwhile; what clients that are connected see; and that the room is free again.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdinfo
need_python_nbd
seeded

MIB=$((1 << 20))
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
resize() { volume resize --size "$@"; }
size() { nbdinfo --size "$URI"; }
# client CODE: Python with a client, h, of the volume.
client() { "$PYTHON" -c "import errno, nbd; h = nbd.NBD(); h.set_strict_mode(0); h.connect_uri('$URI'); $1"; }
# at_mib N: what is written there, 64 KiB of it.
write_at() { client "h.pwrite(bytes([$1]) * 65536, $1 << 20); h.flush()"; }
trim_from() { client "[h.trim(4 << 20, at << 20) for at in range($1, $2, 4)]; h.flush()"; }
reads() { client "assert h.pread(65536, $1 << 20) == bytes([$2]) * 65536"; }
used_kib() { du -k -c "$DIR"/node?.img | awk 'END { print $1 }'; }
is_free_again() { resize 96MiB --dry-run; }

start_copies 3 64MiB 'size = "96MiB"' 'evict_after = "3s"' 'timeout = "60s"'
check 'that it could be smaller is told' resize 48MiB --dry-run
grep -q 'has 96 MiB, and holds nothing behind 48 MiB$' "$DIR/check.out" || fail "it was told $(cat "$DIR/check.out")"
check 'and nothing is done' test "$(size)" = $((96 * MIB))
refused 'a part of a chunk is not had' '72 MiB would be' "$FLASHMOB" volume resize "$ADMIN" pool --size 70MiB
refused 'nothing is no size' '4 MiB would be' "$FLASHMOB" volume resize "$ADMIN" pool --size 0

check 'its first half is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --bytes $((48 * MIB)) --model "$DIR/model"
start_load load --extents 3 --connections 2 --depth 8 --reads 60 --bytes $((48 * MIB)) --model "$DIR/model" --seed "$SEED"
for at in 48 70 95; do write_at $at; done
refused 'what holds data is kept' 'holds data, at byte [0-9]* for example' "$FLASHMOB" volume resize "$ADMIN" pool --size 48MiB
trim_from 48 92
refused 'also if it is at the very end' "at byte $((95 * MIB)) for example" "$FLASHMOB" volume resize "$ADMIN" pool --size 48MiB
check 'it is there' reads 95 95
check 'and the volume is as large' test "$(size)" = $((96 * MIB))

# Trimmed, it shrinks. A client that is connected keeps to the size that it was told.
check 'what was trimmed is cut off, and clients that are connected get errors there' client '
import json, subprocess
h.trim(4 << 20, 92 << 20)
answer = subprocess.run(["'"$FLASHMOB"'", "volume", "resize", "'"$ADMIN"'", "pool", "--size", "48MiB", "--output", "json"], capture_output=True, check=True)
assert json.loads(answer.stdout) == {"volume": "pool", "from_bytes": 96 << 20, "size_bytes": 48 << 20}, answer.stdout
for call, wanted in ((lambda: h.pread(512, 48 << 20), errno.EINVAL), (lambda: h.pwrite(bytes(512), 95 << 20), errno.ENOSPC), (lambda: h.trim(1024, (48 << 20) - 512), errno.ENOSPC)):
    try:
        call()
        raise SystemExit("behind the end")
    except nbd.Error as error:
        assert error.errnum in (wanted, errno.EINVAL), error
h.pread(512, (48 << 20) - 512)'
check 'others have the new size' test "$(size)" = $((48 * MIB))
wait_for 30 'its room to be free' is_free_again
check 'it is taken again' resize 96MiB
check 'and reads as zeros' reads 70 0

# Given up, whatever it holds; its bytes are given back to the flash.
for at in $(seq 48 95); do write_at "$at"; done
before=$(used_kib)
check 'what holds data is given up with --yes' resize 48MiB --yes
grep -q 'had 96 MiB, and has 48 MiB; the rest of its room is free$' "$DIR/check.out" || fail "it was told $(cat "$DIR/check.out")"
wait_for 30 'its room to be free' is_free_again
is_given_back() { [ $((before - $(used_kib))) -ge $((48 * 2 * 64)) ]; }
wait_for 10 'the bytes to be given back' is_given_back
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
whole_again
stop gateway KILL
gateway_again
started gateway 'the configuration says 96 MiB, and the map 48 MiB, which counts'
check 'it is as small after the gateway was killed' test "$(size)" = $((48 * MIB))

# One node is away: the other copies say what is there.
whole_again
check 'it grows again' resize 64MiB
stop node1 KILL
check 'it shrinks without a node' resize 48MiB
node_again node1

# Killed while it shrinks, again and again: it has one of the sizes, and not the old one if it was told.
for round in 1 2 3 4 5; do
    whole_again
    is_larger() { resize 64MiB; }
    wait_for 60 'room to be free' is_larger
    write_at 60
    (resize 48MiB --yes >"$DIR/resize.out" 2>&1 || true) &
    resizing=$!
    wait_for 5 'the request to be on its way' test -e "$DIR/resize.out"
    draw 30
    sleep "0.0$DRAWN"
    stop gateway KILL
    wait $resizing
    gateway_again
    after=$(size)
    case $after in
        $((64 * MIB)))
            ! grep -q 'and has 48 MiB' "$DIR/resize.out" || fail "it was told $(cat "$DIR/resize.out"), and has $after bytes"
            check "it has what it had ($round)" reads 60 60
            ;;
        $((48 * MIB))) ;;
        *) fail "it has $after bytes" ;;
    esac
    rm "$DIR/resize.out"
done
pass 'it has one of its sizes, when the gateway is killed meanwhile'
whole_again
for number in 0 1 2; do
    check "node $number is taken away" volume pause "$number"
    check "and every byte is there" is_all_there --bytes $((48 * MIB))
    volume resume "$number" >/dev/null
    whole_again
done
