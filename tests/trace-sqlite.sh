#!/usr/bin/env bash
# Shows that trace sqlite counts system calls as strace does and block events as the kernel's own text does, that every layer has something, and that nothing stays of it.
# Tier: test
# Runs beside others.
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_root 'tracefs, loop devices'
need jq python3 strace mkfs.ext4 losetup setpriv

# A mount of its own to look from: whether the machine has mounted tracefs is not for a test to change.
TRACEFS=$DIR/tracefs
mkdir "$TRACEFS"
mount -t tracefs none "$TRACEFS" 2>"$DIR/tracefs.out" || fail "this kernel has no tracefs: $(cat "$DIR/tracefs.out")"
at_end 'umount "$TRACEFS"'
TEXT=$TRACEFS/instances/text-$$
at_end '[ ! -d "$TEXT" ] || { echo 0 >"$TEXT/tracing_on"; rmdir "$TEXT"; }'
trace=("$FLASHMOB" -q trace sqlite)
ext4=(--loop ext4 --scheduler mq-deadline --pairs 0)

# ---- the same run, counted by strace and by the kernel ----

mkdir "$TEXT"
echo mono >"$TEXT/trace_clock"
echo 8192 >"$TEXT/buffer_size_kb"
for event in block_bio_queue block_rq_insert block_rq_issue block_rq_complete; do echo 1 >"$TEXT/events/block/$event/enable"; done
mkdir "$DIR/strace"
check '100 INSERTs in DELETE mode on ext4 and mq-deadline, watched by strace and the kernel' \
    strace -ff -o "$DIR/strace/of" "${trace[@]}" "${ext4[@]}" --inserts 100 --csv "$DIR/spans.csv" --save "$DIR/strace.json"
echo 0 >"$TEXT/tracing_on"
cat "$TEXT/trace" >"$DIR/text"
cat "$TEXT"/per_cpu/cpu*/stats | awk '/overrun|dropped/ { lost += $NF } END { exit lost > 0 }' || fail "the kernel's own text lost events"
rmdir "$TEXT"
check 'counts are equal, system calls by name and block events by kind' "$PYTHON" "$TESTS/trace_counts.py" "$DIR/spans.csv" "$DIR/strace" "$DIR/text" \
    "$(jq -r '.measurement.runs[0].system.device' "$DIR/strace.json")"
sed 's/^/      /' "$DIR/check.out" >&2
check 'no event was lost' jq -e '.measurement.runs[0].losses | .lost == 0 and .unreadable_bytes == 0 and .events > 10000' "$DIR/strace.json"

# ---- whose work it was; how much of the time is nobody's is for trace-overhead.sh ----

check 'journal modes and levels in one go' "${trace[@]}" "${ext4[@]}" --inserts 200 --journal DELETE,WAL --synchronous FULL,OFF --save "$DIR/modes.json"
# work MODE LAYER WORK ROLE: how often.
work() {
    jq --arg mode "$1" --arg layer "$2" --arg work "$3" --arg role "$4" \
        '[.measurement.runs[] | select(.name == $mode) | .files[] | select(.layer == $layer and .work == $work and .role == $role) | .count] | add // 0' "$DIR/modes.json"
}
[ "$(work 'DELETE, FULL' sqlite xSync journal)" = 400 ] || fail "DELETE: the journal is synchronised $(work 'DELETE, FULL' sqlite xSync journal) times, and not 400"
[ "$(work 'WAL, FULL' sqlite xSync wal)" = 200 ] || fail "WAL: the log is synchronised $(work 'WAL, FULL' sqlite xSync wal) times, and not 200"
[ "$(work 'DELETE, OFF' sqlite xSync journal)" = 0 ] || fail 'OFF waits for the disk'
pass 'each mode waits for the disk as often as SQLite says'
for layer in application sqlite system_call file_system page_cache block driver; do
    jq -e --arg layer $layer '.measurement.runs[] | select(.name == "DELETE, FULL") | any(.layers[]; .layer == $layer and .spans > 0)' \
        "$DIR/modes.json" >/dev/null || fail "the layer $layer has nothing"
done
pass 'every layer has something'

# Other file systems, as far as this kernel has them.
for kind in ext4-nojournal xfs f2fs; do
    grep -qw "${kind%-nojournal}" /proc/filesystems && command -v "mkfs.${kind%-nojournal}" >/dev/null || continue
    check "$kind" "${trace[@]}" --loop $kind --pairs 0 --inserts 20 --save "$DIR/$kind.json"
    check 'its journal is where it is, or there is none' jq -e --arg kind $kind '.measurement.runs[0] |
        .system.filesystem == ($kind | sub("-.*"; "")) and any(.layers[]; .layer == "driver" and .spans > 0) and
        (($kind == "ext4-nojournal") == (.system.filesystem_options | startswith("no journal"))) and
        ($kind != "ext4-nojournal" or all(.files[]; .role != "filesystem_journal"))' "$DIR/$kind.json"
done

# ---- without rights ----

install -d -o 65534 "$DIR/theirs"
install -m 755 "$FLASHMOB" "$DIR/flashmob"
chmod 711 "$DIR"
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups "$DIR/flashmob" -q trace sqlite)
"${nobody[@]}" "$DIR/theirs" --inserts 50 --pairs 1 --output json >"$DIR/nobody.json" 2>"$DIR/nobody.log" || fail 'without rights it does not run'
check "the application's and SQLite's layers are there" jq -e '.measurement.runs[0] | .operations.count == 50 and
    ([.layers[] | select(.spans > 0) | .layer] | contains(["application", "sqlite"])) and .overhead != null' "$DIR/nobody.json"
check 'the others are named as missing, with the remedy' jq -e '.measurement.runs[0].sources |
    any(.[]; (.is_used | not) and .name == "block" and (.why | test("root")))' "$DIR/nobody.json"
refused 'a file system of its own needs root' 'needs root' "${nobody[@]}" --loop ext4
[ -z "$(ls -A "$DIR/theirs")" ] || fail "the database stays: $(ls -A "$DIR/theirs")"
pass 'no database stays'

# ---- ways out ----

mkdir "$DIR/mine"
echo 'a diary' >"$DIR/mine/flashmob-trace.db"
refused "somebody's file of that name" 'was not made by this workload' "${trace[@]}" "$DIR/mine" --inserts 1
[ "$(cat "$DIR/mine/flashmob-trace.db")" = 'a diary' ] || fail 'it was touched'
refused 'a journal mode that SQLite does not have' "has no journal mode 'DELTE'" "${trace[@]}" "$DIR/mine" --journal DELTE
grep -q f2fs /proc/filesystems || refused 'a file system that this kernel does not have' 'has no f2fs' "${trace[@]}" --loop f2fs
command -v mkfs.xfs >/dev/null || refused 'a tool that is not there' 'apt-get install xfsprogs' "${trace[@]}" --loop xfs

# left PID: no buffer of this process is in the kernel any more.
left() { ! compgen -G "$TRACEFS/instances/flashmob-$1-*" >/dev/null; }
# on_loop NAME: LOOP is the device that a thread of it has mounted and nobody else.
on_loop() {
    local of='s|.* - ext4 /dev/\(loop[0-9]*\) .*|\1|p'
    LOOP=$(comm -13 <(sed -n "$of" /proc/self/mountinfo | sort -u) <(sed -n "$of" /proc/"${PID[$1]}"/task/*/mountinfo 2>/dev/null | sort -u))
    [ -n "$LOOP" ]
}
inserting() { grep -qxs inserts /proc/"${PID[$1]}"/task/*/comm; }
is_free() { [ ! -e "/sys/block/$LOOP/loop/backing_file" ]; }
tracing() { compgen -G "$TRACEFS/instances/flashmob-${PID[$1]}-*" >/dev/null; }
for signal in INT TERM KILL; do
    start run "$FLASHMOB" trace sqlite --loop ext4 --inserts 1000000 --pairs 0 --output json
    wait_for 20 'its INSERTs' inserting run
    tracing run || fail 'it inserts and does not trace'
    on_loop run || fail 'it has no file system of its own'
    pid=${PID[run]}
    stop run "$signal"
    if [ "$signal" = KILL ]; then
        wait_for 10 "the kernel's buffers to go" left "$pid"
    else
        [ "$STATUS" = 130 ] || fail "SIG$signal: it ended with $STATUS"
        left "$pid" || fail "SIG$signal: $(ls $TRACEFS/instances) stays"
        jq -e '.interrupted and .measurement.runs[0].operations.count > 0' "$DIR/run.out" >/dev/null || fail "SIG$signal: what was there is not told"
    fi
    wait_for 10 "$LOOP to be free again" is_free
    pass "after SIG$signal nothing stays"
done
