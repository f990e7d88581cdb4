#!/usr/bin/env bash
# Shows that less than 3 % of the time of INSERTs lies in no layer, of a command with markers and of trace sqlite in every journal mode and level.
# Tier: slow
# Canary: requests-untraced
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_root 'tracefs, loop devices'
need jq python3 mkfs.ext4 losetup

truncate -s 64M "$DIR/image"
mkfs.ext4 -q "$DIR/image"
LOOP=$(losetup -f --show "$DIR/image")
at_end 'mountpoint -q "$DIR/mnt" && umount "$DIR/mnt"; losetup -d "$LOOP"'
mkdir "$DIR/mnt"
mount "$LOOP" "$DIR/mnt"
cat >"$DIR/insert.py" <<'P'
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('create table t(a integer, b text)')
marker = open(os.environ['FLASHMOB_TRACE_MARKER'], 'wb', buffering=0)
for number in range(20):
    marker.write(b'B|%d|insert' % os.getpid())
    db.execute('insert into t values (?, ?)', (number, 'x' * 100))
    marker.write(b'E|%d' % os.getpid())
P

busy_begin
MARKED=() MODES=()
for round in 1 2 3 4 5 6; do
    "$FLASHMOB" -q trace run --output json -- "$PYTHON" "$DIR/insert.py" "$DIR/mnt/$round.db" >"$DIR/run.json" 2>"$DIR/run.log" ||
        fail "insert.py: $(tail -n 3 "$DIR/run.log")"
    [ "$(jq '.measurement.runs[0].operations.count' "$DIR/run.json")" = 20 ] || fail 'not every INSERT is an operation'
    MARKED+=("$(jq '.measurement.runs[0].operations | 100 * .unattributed_ns / .total_ns' "$DIR/run.json")")
    "$FLASHMOB" -q trace sqlite --loop ext4 --scheduler mq-deadline --pairs 0 --inserts 100 --journal DELETE,WAL --synchronous FULL,OFF \
        --save "$DIR/modes.json" >"$DIR/modes.out" 2>&1 || fail "trace sqlite: $(tail -n 3 "$DIR/modes.out")"
    MODES+=("$(jq '[.measurement.runs[] | 100 * .operations.unattributed_ns / .operations.total_ns] | max' "$DIR/modes.json")")
done
say "percent in no layer: marked ${MARKED[*]}; the worst mode ${MODES[*]}"
sign_test 'percent of the time of marked INSERTs in no layer' 3 "${MARKED[@]}"
sign_test 'percent of the time of INSERTs in no layer, in the worst mode' 3 "${MODES[@]}"
