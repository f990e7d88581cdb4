#!/usr/bin/env bash
# Shows that trace run sees a command's I/O in every layer, by name, with its markers and its SQLite, and that it gives the command back its status.
# Tier: test
# Runs beside others.
#
# How much of the time lies in no layer is for trace-overhead.sh.
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_root 'tracefs, loop devices'
need jq python3 mkfs.ext4 losetup setpriv unshare

trace=("$FLASHMOB" -q trace run)
truncate -s 64M "$DIR/image"
mkfs.ext4 -q "$DIR/image"
LOOP=$(losetup -f --show "$DIR/image")
SCHEDULER=/sys/block/${LOOP##*/}/queue/scheduler
WAS=$(sed 's/.*\[\(.*\)\].*/\1/' "$SCHEDULER")
# A loop device keeps its scheduler for whoever uses it next.
at_end 'mountpoint -q "$DIR/mnt" && umount "$DIR/mnt"; echo "$WAS" >"$SCHEDULER"; losetup -d "$LOOP"'
mkdir "$DIR/mnt"
mount "$LOOP" "$DIR/mnt"
echo mq-deadline >"$SCHEDULER"

# sum LAYER WORK FILE FIELD: of what was done to files whose names end so.
sum() {
    jq --arg layer "$1" --arg work "$2" --arg file "$3" --arg field "$4" \
        '[.measurement.runs[0].files[] | select(.layer == $layer and .work == $work and (.file | endswith($file))) | .[$field]] | add // 0' "$DIR/run.json"
}
# same WHAT IS WANTED
same() { [ "$2" = "$3" ] || fail "$1: $2, and not $3"; pass "$1"; }

# ---- a command that writes ----

check 'dd writes 20 blocks and synchronises them' \
    "${trace[@]}" --save "$DIR/run.json" --csv "$DIR/run.csv" -- dd if=/dev/zero of="$DIR/mnt/file" bs=4k count=20 conv=fsync
same 'writes of the file, by name' "$(sum system_call write mnt/file count) $(sum system_call write mnt/file bytes)" '20 81920'
same 'its synchronisation' "$(sum system_call fsync mnt/file count)" 1
same 'what the driver wrote of the file' "$(sum driver write mnt/file bytes)" 81920
[ "$(sum driver flush "cache of ${LOOP##*/}" count)" -gt 0 ] || fail 'no flush of the device was seen'
pass 'flushes of the device'
check 'every operation has all of its time' jq -e '[.measurement.runs[0].timeline.operations[] | .end_ns - .begin_ns - .unattributed_ns - ([.layers_ns[][1]] | add // 0)] | all(. == 0)' "$DIR/run.json"
same 'spans as rows' "$(head -n 1 "$DIR/run.csv" | cut -d, -f1-3)" operation,layer,name

# ---- a command that reads through a mapping ----

cat >"$DIR/mapped.py" <<'P'
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
print(sum(mapped[at] for at in range(0, len(mapped), 4096)))
P
head -c 4M /dev/urandom >"$DIR/mnt/mapped"
sync "$DIR/mnt/mapped"
check 'a file is read through a mapping' "${trace[@]}" --save "$DIR/run.json" -- "$PYTHON" "$DIR/mapped.py" "$DIR/mnt/mapped"
same 'the driver read all of it, by name' "$(sum driver read mnt/mapped bytes)" 4194304
# Older kernels tell no faults, but the pages that they added.
faults=$(sum page_cache fault mnt/mapped count) pages=$(sum page_cache 'add page' mnt/mapped count)
[ $((faults + pages)) -gt 0 ] || fail 'no page of the mapping was seen'
pass 'page faults of the mapping, by name'

# ---- markers, and somebody else's SQLite ----

cat >"$DIR/insert.py" <<'P'
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('create table t(a integer, b text)')
marker = open(os.environ['FLASHMOB_TRACE_MARKER'], 'wb', buffering=0)
for number in range(20):
    marker.write(b'B|%d|insert' % os.getpid())
    db.execute('insert into t values (?, ?)', (number, 'x' * 100))
    marker.write(b'E|%d' % os.getpid())
print('20 rows')
P
"${trace[@]}" --output json -- "$PYTHON" "$DIR/insert.py" "$DIR/mnt/insert.db" >"$DIR/run.json" 2>"$DIR/run.log" || fail "insert.py: $(tail -n 3 "$DIR/run.log")"
same 'what the command prints goes to stderr, the result to stdout' "$(grep -c '20 rows' "$DIR/run.log")" 1
same 'each marker is an operation' "$(jq '.measurement.runs[0].operations.count' "$DIR/run.json")" 20
same 'the journal is deleted after each' "$(sum system_call unlink db-journal count)" 21
check 'database and journal are known as such' jq -e '[.measurement.runs[0].files[] | select(.role == "journal" or .role == "database") | .role] | unique == ["database", "journal"]' "$DIR/run.json"
check 'functions of its SQLite were probed' jq -e '.measurement.runs[0].layers[] | select(.layer == "sqlite") | .spans >= 20' "$DIR/run.json"
check 'the journal of the file system worked for those who waited' jq -e '[.measurement.runs[0].files[] | select(.role == "filesystem_journal" and .layer == "driver") | .count] | add >= 20' "$DIR/run.json"

# ---- ends of the command ----

ends() { local status=0; "${trace[@]}" -- "${@:2}" >"$DIR/check.out" 2>&1 || status=$?; same "status of ${*:2}" $status "$1"; }
ends 7 sh -c 'exit 7'
ends 143 sh -c 'kill -TERM $$'
ends 127 "$DIR/nothing-there"
ends 126 "$DIR/insert.py"
status=0
"${trace[@]}" --pairs 1 -- sh -c 'kill -TERM $$' >"$DIR/check.out" 2>&1 || status=$?
same 'who ends it while it is not traced need not end it again' "$status $(grep -c 'no trace to show' "$DIR/check.out")" '143 1'
"${trace[@]}" --save "$DIR/run.json" true --save x 2>"$DIR/run.log" || fail 'a command that takes --save itself'
check 'the recorded command line keeps the options of the command' jq -e '.command | startswith("flashmob -q trace run ") and endswith(" true --save x") and (contains("run.json") | not)' "$DIR/run.json"
check 'what it costs, by itself' "${trace[@]}" --pairs 2 --save "$DIR/run.json" -- true
check 'both ways in turn' jq -e '.measurement.runs[0].overhead | (.untraced_per_second | length == 2) and (.traced_per_second | length == 2)' "$DIR/run.json"

# ---- a buffer that is too small, and no rights ----

"${trace[@]}" --buffer-size 4KiB --save "$DIR/run.json" -- dd if=/dev/zero of="$DIR/mnt/more" bs=1 count=60000 2>"$DIR/run.log" || fail 'dd with a small buffer'
if [ "$(jq '.measurement.runs[0].losses.lost' "$DIR/run.json")" -gt 0 ]; then
    check 'events that were lost are told, with the remedy' grep -Eiq 'lost.*buffer|buffer.*lost' "$DIR/run.log"
else
    pass 'nothing was lost, even so'
fi
install -m 755 "$FLASHMOB" "$DIR/flashmob"
chmod 711 "$DIR"
setpriv --reuid=65534 --regid=65534 --clear-groups "$DIR/flashmob" -q trace run --output json -- sh -c 'exit 3' >"$DIR/nobody.json" 2>/dev/null && fail 'the status is lost' || same 'without rights the command runs' $? 3
check 'and what is missing is named' jq -e '.measurement.runs[0].sources | all(.[]; .is_used | not) and any(.[]; .why | test("root"))' "$DIR/nobody.json"
unshare --pid --fork "${trace[@]}" --output json -- sh -c 'exit 3' >"$DIR/inside.json" 2>/dev/null && fail 'the status is lost' || same 'in a PID namespace the command runs' $? 3
check 'and what is missing is named' jq -e '.measurement.runs[0].sources | all(.[]; .is_used | not) and any(.[]; .why | test("PID namespace.*--pid=host"))' "$DIR/inside.json"

# ---- nothing stays ----

left() { traced find /sys/kernel/tracing/instances -maxdepth 1 -name "flashmob-$1-*" | wc -l; }
# What asks the tracer alone to end is for the command.
"${trace[@]}" -- sleep 61 >"$DIR/check.out" 2>&1 &
TRACER=$!
wait_for 30 'a command that is traced' pgrep -P $TRACER -x sleep
status=0
kill -TERM $TRACER
wait $TRACER || status=$?
same 'SIGTERM is handed on' "$status $(grep -cm1 'sleep 61' "$DIR/check.out")" '143 1'

"${trace[@]}" -- sleep 60 2>/dev/null &
TRACER=$!
runs() { [ "$(left $TRACER)" -gt 0 ] && pgrep -P $TRACER -x sleep; }
gone() { [ "$(left $TRACER)" = 0 ]; }
wait_for 30 'a command that is traced' runs
SLEEPER=$(pgrep -P $TRACER -x sleep)
kill -9 $TRACER
wait $TRACER 2>/dev/null || true
kill "$SLEEPER" 2>/dev/null || true
wait_for 30 'the end of the instance' gone
pass 'kill -9 leaves no instance'
