#!/usr/bin/env bash
# Shows that a volume grows under load, though the gateway is killed meanwhile; that new room reads as zeros; what clients that are connected see; and that what cannot be is refused.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdinfo qemu-img
need_python_nbd
seeded

volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
resize() { volume resize --size "$@"; }
posted() { curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$1" "http://$ADMIN/volumes/resize"; }
size() { nbdinfo --size "$URI"; }
# at OFFSET BYTE: 64 KiB of it are written there.
write_at() { "$PYTHON" -c "import nbd; h = nbd.NBD(); h.connect_uri('$URI'); h.pwrite(bytes([$2]) * 65536, $1); h.flush()"; }
# reads OFFSET BYTE: whether 64 KiB of it are there.
reads() { "$PYTHON" -c "import nbd; h = nbd.NBD(); h.connect_uri('$URI'); assert h.pread(65536, $1) == bytes([$2]) * 65536"; }

start_copies 3 64MiB 'size = "64MiB"' 'evict_after = "3s"' 'timeout = "60s"'
# Free room counts once it was looked through.
fits() { resize 96MiB --dry-run; }
wait_for 60 'free room to be looked through' fits
refused 'there is no room for more than the nodes have' '96 MiB would fit' "$FLASHMOB" volume resize "$ADMIN" pool --size 100MiB
refused 'a part of a chunk is not had' '72 MiB would be' "$FLASHMOB" volume resize "$ADMIN" pool --size 70MiB
check 'an unknown volume is not found' test 404 = "$(posted '{"volume":"other","size_bytes":8388608}')"
check 'a part of a chunk is a bad request' test 400 = "$(posted '{"volume":"pool","size_bytes":1}')"
check 'room is told' resize 80MiB --dry-run
grep -q 'has 64 MiB, and there is room for 80 MiB$' "$DIR/check.out" || fail "it was told $(cat "$DIR/check.out")"
check 'and nothing is done' test "$(size)" = $((64 << 20))

start_qemu
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
LOAD_URI=$QEMU_URI start_load load --extents 3 --connections 2 --depth 8 --reads 60 --model "$DIR/model" --seed "$SEED"

# A client that is connected keeps to the size that it was told; a new one has the whole of it.
check 'clients see the new size once they connect anew' "$PYTHON" -c '
import errno, nbd, subprocess, time
h = nbd.NBD()
h.connect_uri("'"$URI"'")
h.pread(512, (64 << 20) - 512)
for attempt in range(60):  # A node may be silent for a moment.
    command = ["'"$FLASHMOB"'", "volume", "resize", "'"$ADMIN"'", "pool", "--size", "80MiB"]
    if subprocess.run(command, check=attempt == 59).returncode == 0:
        break
    time.sleep(1)
assert h.get_size() == 64 << 20
try:
    h.set_strict_mode(0)
    h.pread(512, 64 << 20)
    raise SystemExit("a read behind the end that it was told")
except nbd.Error as error:
    assert error.errnum == errno.EINVAL, error
new = nbd.NBD()
new.connect_uri("'"$URI"'")
assert new.get_size() == 80 << 20
assert new.pread(16 << 20, 64 << 20) == bytes(16 << 20)'
check 'so does QEMU' test $((80 << 20)) = "$(qemu-img info --output json "$URI" | jq '.["virtual-size"]')"
for offset in 64 72 79; do write_at $((offset << 20)) "$offset"; done
stop gateway KILL
gateway_again
started gateway 'the configuration says 64 MiB, and the map 80 MiB, which counts'
check 'it is as large after the gateway was killed' test "$(size)" = $((80 << 20))
for offset in 64 72 79; do check "and has what was written at $offset MiB" reads $((offset << 20)) "$offset"; done

# Killed while it grows, again and again: it has one of the sizes, and never less than was told.
start_node node3 64MiB
check 'a node makes more room' volume add "${ADDR[node3]}"
for mib in 84 88 92 96 100; do
    before=$(size)
    (resize ${mib}MiB >"$DIR/resize.out" 2>&1 || true) &
    resizing=$!
    wait_for 5 'the request to be on its way' test -e "$DIR/resize.out"
    stop gateway KILL
    wait $resizing
    gateway_again
    after=$(size)
    [ "$after" -ge "$before" ] || fail "the volume had $before bytes, and has $after"
    grep -q 'has .* MiB; clients' "$DIR/resize.out" && [ "$after" -lt $((mib << 20)) ] && fail "it was told $(cat "$DIR/resize.out"), and has $after bytes"
done
pass 'it is never smaller than was told, when the gateway is killed meanwhile'
is_resized() { resize 128MiB; }
wait_for 240 'room for all' is_resized
check 'it has the whole size' test "$(size)" = $((128 << 20))
write_at $((127 << 20)) 127
end_load load
no_wrong_byte load
expect_result load 'no request failed meanwhile' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'QEMU ends' stop qemu
whole_again
for number in 0 1 2 3; do
    check "node $number is taken away" volume pause "$number"
    for offset in 64 72 79 127; do check "what was written at $offset MiB is there without node $number" reads $((offset << 20)) "$offset"; done
    check "and every byte before" is_all_there --bytes $((64 << 20))
    volume resume "$number" >/dev/null
    whole_again
done
