#!/usr/bin/env bash
# Shows which bytes are holes to NBD clients: nbdinfo --map, nbdcopy of a sparse volume, and qemu-img after writes, trims and zeroes.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdinfo nbdcopy qemu-img qemu-io

# map URI: offset, length and status of each extent, one a line.
map() { nbdinfo --map "$1" | awk '{print $1, $2, $3}'; }
# data_bytes URI: bytes that are not told as holes.
data_bytes() { map "$1" | awk '$3 == 0 {sum += $2} END {print sum + 0}'; }

# Holes are compared by the block below: the file system has to report them as finely.
"$PYTHON" - "$DIR/probe" <<'PROBE' || { say 'the file system of the temporary folder does not report holes in blocks of 4 KiB'; exit "$NOT_RUN"; }
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.truncate(file, 1 << 20)
os.pwrite(file, b'1' * 4096, 1 << 19)
assert os.lseek(file, 0, os.SEEK_DATA) == 1 << 19 and os.lseek(file, 1 << 19, os.SEEK_HOLE) == (1 << 19) + 4096
PROBE

start_cluster 4 64MiB 'layout = "striped"' 'stripe = "64KiB"'
check 'the context is offered' sh -c "nbdinfo '$URI' | grep -q base:allocation"
check 'a new volume is one hole' test "$(map "$URI")" = '0 268435456 3'
qemu-io -f raw -c 'write -P 1 1M 1M' -c 'write -P 2 100M 4k' "$URI" >/dev/null
expected='0 1048576 3
1048576 1048576 0
2097152 102760448 3
104857600 4096 0
104861696 163573760 3'
check 'what is written is data, in the order of the volume' test "$(map "$URI")" = "$expected"
qemu-io -f raw -c 'discard 1M 512k' -c 'write -z -u 1536k 256k' "$URI" >/dev/null
check 'what is trimmed or zeroed is a hole again' test "$(map "$URI" | sed -n 2p)" = '1835008 262144 0'
qemu-io -f raw -c 'discard 0 256M' "$URI" >/dev/null
check 'trimmed as a whole' test "$(map "$UNIX_URI")" = '0 268435456 3'

# A sparse volume is copied by its data alone.
head -c 8388608 /dev/urandom >"$DIR/part"
truncate -s 256M "$DIR/in.img"
for mib in 3 77 130 250; do
    dd if="$DIR/part" of="$DIR/in.img" bs=1M count=2 seek="$mib" conv=notrunc status=none
done
check 'nbdcopy of holes into zeros' nbdcopy --destination-is-zero "$DIR/in.img" "$URI"
check 'only data was written' test "$(data_bytes "$URI")" = 8388608
check 'nbdcopy of holes out' nbdcopy --connections=4 "$URI" "$DIR/out.img"
check 'what came out is what went in' cmp "$DIR/in.img" "$DIR/out.img"
check 'with its holes' test "$(du -k "$DIR/out.img" | cut -f 1)" -lt 12288
check 'qemu-img finds them equal' qemu-img compare -f raw -F raw "$DIR/in.img" "$URI"

# Whatever was done before, what is told as a hole reads as zeros, and nothing is lost.
RANDOM=1
for round in 1 2 3 4 5 6 7 8; do
    commands=()
    for _ in 1 2 3 4 5 6; do
        at=$((RANDOM * 8192 % 268000000 / 512 * 512)) len=$(((RANDOM % 2000 + 1) * 512))
        [ $((at + len)) -le 268435456 ] || continue
        case $((RANDOM % 4)) in
        0) commands+=(-c "discard $at $len") ;;
        1) commands+=(-c "write -z -u $at $len") ;;
        2) commands+=(-c "write -z $at $len") ;;
        *) commands+=(-c "write -P $((RANDOM % 255 + 1)) $at $len") ;;
        esac
    done
    qemu-io -f raw "${commands[@]}" "$URI" >"$DIR/qemu-io.out"
    nbdcopy --no-extents "$URI" "$DIR/bytes.img"
    qemu-img convert -f raw -O raw "$URI" "$DIR/converted.img"
    nbdcopy "$URI" "$DIR/copied.img"
    cmp "$DIR/bytes.img" "$DIR/converted.img" || fail "round $round: qemu-img convert differs"
    cmp "$DIR/bytes.img" "$DIR/copied.img" || fail "round $round: nbdcopy differs"
    qemu-img compare -q -f raw -F raw "$DIR/bytes.img" "$URI" || fail "round $round: qemu-img compare"
    rm "$DIR/bytes.img" "$DIR/converted.img" "$DIR/copied.img"
done
pass '8 rounds of writes, trims and zeroes: each way of copying gives the same bytes'
check 'qemu-img map runs' sh -c "qemu-img map -f raw --output=json '$URI' | grep -q '\"zero\": true'"
