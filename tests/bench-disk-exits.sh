#!/usr/bin/env bash
# Shows that no way out of `flashmob bench disk` leaves a half-made file or another I/O scheduler: Ctrl-C, SIGTERM, SIGKILL, a full disk.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq losetup mkfs.ext4
need_root 'a loop device with a file system of its own is made'

truncate -s 512M "$DIR/disk.img"
LOOP=$(losetup --find --show "$DIR/disk.img")
at_end 'losetup --detach "$LOOP"'
mkfs.ext4 -q "$LOOP"
mkdir "$DIR/mnt"
mount "$LOOP" "$DIR/mnt"
at_end 'umount "$DIR/mnt"'
QUEUE=/sys/block/${LOOP#/dev/}/queue/scheduler
scheduler() { sed 's/.*\[\(.*\)\].*/\1/' "$QUEUE"; }
is_scheduler() { [ "$(scheduler)" = "$1" ]; }
nothing_but() { [ "$(find "$DIR/mnt" -mindepth 1 ! -name lost+found | sed "s|$DIR/mnt/||" | sort | tr '\n' ' ')" = "$1" ]; }
WAS=$(scheduler)
# A loop device keeps its scheduler for whoever uses it next.
at_end 'echo "$WAS" >"$QUEUE" 2>/dev/null'
echo none >"$QUEUE" 2>/dev/null || true
# reads_done COUNT: so many reads of the device since it was made.
reads_done() { [ "$(awk '{ print $1 }' "/sys/block/${LOOP#/dev/}/stat")" -ge "$1" ]; }
BEFORE=$(scheduler)
OTHER=mq-deadline
[ "$BEFORE" != mq-deadline ] || OTHER=none

"$FLASHMOB" bench disk "$DIR/mnt/bench" --size 64MiB --scheduler none,mq-deadline,bfq,kyber --reads 100 --repeat 2 --output json >"$DIR/disk.json" 2>"$DIR/disk.log"
check 'every scheduler that the kernel has was measured' \
    jq -e --arg known "$(tr -d '[]' <"$QUEUE")" '[.measurement.points[].parameters.scheduler] | length > 1 and all(. as $s | $known | split(" ") | index($s))' "$DIR/disk.json"
check 'a normal end puts the scheduler back' is_scheduler "$BEFORE"

for signal in INT TERM HUP KILL; do
    start "sweep-$signal" "$FLASHMOB" bench disk "$DIR/mnt/bench" --scheduler $OTHER --time 60 --repeat 1 --save "$DIR/$signal.json"
    wait_for 20 "scheduler $OTHER" is_scheduler $OTHER
    wait_for 20 'some reads' reads_done $(($(awk '{ print $1 }' "/sys/block/${LOOP#/dev/}/stat") + 100))
    stop "sweep-$signal" $signal
    wait_for 10 "the scheduler after SIG$signal" is_scheduler "$BEFORE"
    pass "SIG$signal puts the scheduler back"
    [ $signal = KILL ] && continue
    [ "$STATUS" -eq 130 ] || fail "SIG$signal ended it with status $STATUS, not 130"
    check "SIG$signal saves the result so far" jq -e '.interrupted and .measurement.points[0].repetitions[0].requests > 0' "$DIR/$signal.json"
done

# Slow enough to be in the middle when the signal comes.
half_made() { find "$DIR/mnt" -name '.half*' | grep -q . || [ "$(df --output=used -B1M "$DIR/mnt" | tail -1)" -gt 80 ]; }
for signal in INT TERM KILL; do
    rm -f "$DIR/mnt"/*half*
    sync
    start "make-$signal" bash -c "ulimit -v unlimited; exec nice -n 19 '$FLASHMOB' bench disk '$DIR/mnt/half' --size 380MiB --reads 1 --repeat 1"
    wait_for 20 'the file to be half made' half_made || true
    stop "make-$signal" $signal
    if [ $signal = KILL ] && ! nothing_but 'bench '; then
        # A temporary file that nobody could remove is removed by the next run.
        "$FLASHMOB" bench disk "$DIR/mnt/half" --size 1MiB --reads 1 --repeat 1 --remove >/dev/null 2>&1
    fi
    nothing_but 'bench ' || nothing_but 'bench half ' || { ls -la "$DIR/mnt" >&2; fail "SIG$signal left something half-made"; }
    [ ! -e "$DIR/mnt/half" ] || [ "$(stat -c %s "$DIR/mnt/half")" -eq $((380 << 20)) ] || fail "SIG$signal left a half-made file"
    pass "SIG$signal while the file is made leaves no half-made file"
    rm -f "$DIR/mnt/half"
done

refused 'a disk that is too small' 'lacks .* are free' "$FLASHMOB" bench disk "$DIR/mnt/large" --size 600MiB --reads 1
nothing_but 'bench ' || fail 'a file is left of what did not fit'
# Another device, that nobody has mounted.
head -c 8M /dev/urandom >"$DIR/other.img"
OTHER=$(losetup --find --show "$DIR/other.img")
at_end 'losetup --detach "$OTHER"'
before=$(sha256sum <"$OTHER")
refused 'a write to a block device' 'block device' "$FLASHMOB" bench disk "$OTHER" --write --allow-overwrite --reads 1
[ "$before" = "$(sha256sum <"$OTHER")" ] || fail 'the block device was written'
"$FLASHMOB" bench disk "$OTHER" --reads 50 --repeat 1 --output json >"$DIR/device.json" 2>"$DIR/device.log"
check 'a block device may be read' jq -e '.measurement.points[0].repetitions[0].requests == 50' "$DIR/device.json"

# Somebody without rights: it goes on without, and says so.
chmod 711 "$DIR"
chmod 755 "$DIR/mnt"
chmod 644 "$DIR/mnt/bench"
cp "$FLASHMOB" "$DIR/flashmob"
setpriv --reuid=65534 --regid=65534 --clear-groups "$DIR/flashmob" bench disk "$DIR/mnt/bench" --scheduler bfq --reads 50 --repeat 1 --output json \
    >"$DIR/nobody.json" 2>"$DIR/nobody.log" || { cat "$DIR/nobody.log" >&2; fail 'without rights it does not measure'; }
check 'without root: measured with the scheduler that is there, and said so' \
    jq -e '.measurement.points[0] | .parameters.scheduler == null and .repetitions[0].requests == 50' "$DIR/nobody.json"
check 'with the reason' jq -e 'any(.warnings[]; .code == "scheduler" and (.message | contains("needs root")))' "$DIR/nobody.json"
check 'cold: dropped and seen to be, or said that nobody knows' jq -e \
    '.measurement.points[0].repetitions[0].cached_before_bytes == 0 or any(.warnings[]; .code == "cache_not_dropped")' "$DIR/nobody.json"
refused 'a file in a folder that is not ours' 'Permission denied' setpriv --reuid=65534 --regid=65534 --clear-groups \
    "$DIR/flashmob" bench disk "$DIR/mnt/mine" --size 1MiB

# Pages that another program has locked cannot be dropped.
cat >"$DIR/lock.py" <<'PY'
import ctypes, mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
assert libc.mlock(at, size) == 0, os.strerror(ctypes.get_errno())
print("locked", flush=True)
time.sleep(600)
PY
start lock "$PYTHON" "$DIR/lock.py" "$DIR/mnt/bench"
wait_for 20 'the file to be locked in memory' grep -q locked "$DIR/lock.out"
"$FLASHMOB" bench disk "$DIR/mnt/bench" --reads 50 --repeat 1 --output json >"$DIR/locked.json" 2>"$DIR/locked.log"
check 'what stays in memory is called that' jq -e 'any(.warnings[]; .code == "cache_not_dropped")
    and any(.measurement.points[0].warnings[]; .code == "served_from_cache") and .measurement.points[0].repetitions[0].cached_before_bytes > 60000000' "$DIR/locked.json"
stop lock
