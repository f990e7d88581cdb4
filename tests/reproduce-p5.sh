#!/usr/bin/env bash
# Shows that `flashmob reproduce p5` measures INSERTs on several file systems, judges C18 to C21, says which writes vanish with other settings, names the file system that the kernel lacks, and works without rights.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq setpriv mkfs.ext4

mkdir "$DIR/tmp"
export TMPDIR=$DIR/tmp
holds() {
    jq -e "$3" "$1" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?, .timeline?, .list?, .begins_s?, .durations_ms?)' "$1" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}
# shown PAGE WHAT PATTERN: the page says it.
shown() { tr '\n' ' ' <"$1" | sed 's/<[^>]*>//g' | grep -Eq "$3" || fail "the page does not say: $3"; pass "$2"; }
# writes RUN ROLE: calls that write to such a file, for each insert.
WRITES='def writes($role): .operations.count as $n | ([.files[] | select(.role == $role and (.work == "pwrite64" or .work == "write") and .layer == "system_call") | .count] | add // 0) / $n;'

if [ "$(id -u)" -eq 0 ]; then
    P5=("$FLASHMOB" reproduce p5 --journal DELETE,WAL --synchronous FULL,OFF --inserts 30 --rounds 2)
    timeout 280 "${P5[@]}" --systems ext4,ext4-nojournal,f2fs --save "$DIR/results" -o "$DIR/p5.html" --output json >"$DIR/p5.json" 2>"$DIR/p5.log" || { cat "$DIR/p5.log" >&2; fail 'reproduce p5'; }
    holds "$DIR/p5.json" 'the claims of P5 are judged or say what is missing' '[.claims[].claim] == ["C18", "C19", "C20", "C21"] and all(.claims[:3][]; .verdict | IN("holds", "does_not_hold", "too_few_repetitions")) and .claims[3].verdict == "not_measured"'
    # C20 is about this machine's disk and time. How often SQLite writes is not, nor that two rounds are too few for C18 and 30 inserts for C21.
    holds "$DIR/p5.json" 'verdicts that rest on counts are the expected ones' '[.claims[] | {(.claim): .verdict}] | add | .C18 == "too_few_repetitions" and .C19 == "does_not_hold" and .C21 == "not_measured"'
    holds "$DIR/p5.json" 'the figures of C19 are those of SQLite' '.claims[] | select(.claim == "C19") | .here | test("^ext4: 8 writes to the journal and 2 to the database for each insert")'
    holds "$DIR/p5.json" 'each with criterion, figures here and the paper'"'"'s' 'all(.claims[]; (.criterion | length > 0) and (.here | test("[0-9]")) and (.paper | length > 0))'
    if grep -qw f2fs /proc/filesystems || modprobe -qn f2fs 2>/dev/null; then
        pass 'this kernel may have f2fs'
    else
        holds "$DIR/p5.json" 'a file system that the kernel lacks is missing' '.missing == ["f2fs"] and .systems == ["ext4", "ext4 without journal"]'
        log_has p5 'this kernel .*has no f2fs' || fail 'nothing is said of f2fs'
        pass 'and named'
    fi
    log_has p5 '/6 ext4 without journal, round 2' || fail 'the systems are not measured in turn'
    ! log_has p5 'f2fs, round 2' || fail 'a system that is missing is tried again'
    pass 'the systems are measured in turn'
    EXT4=$DIR/results/p5-ext4.json
    holds "$EXT4" 'each mode at each level, on the first system' '.preset == "p5" and ([.measurement.runs[].name] == ["DELETE, FULL", "DELETE, OFF", "WAL, FULL", "WAL, OFF"])'
    holds "$DIR/results/p5-ext4-nojournal.json" 'each mode on the others' '[.measurement.runs[].name] == ["DELETE, FULL", "WAL, FULL"]'
    holds "$EXT4" 'in WAL the journal and the writes to the database are gone' "$WRITES"'
        .measurement.runs as $r | ($r[0] | writes("journal") >= 7 and writes("database") >= 2) and ($r[2] | writes("journal") < 0.1 and writes("database") < 0.5 and writes("wal") >= 1)'
    holds "$EXT4" 'each insert is parted by its last write to the database' '.measurement.runs[0].after_last_write | .operations >= 28 and .before_ns > 0 and .after_ns > 0 and .commands_before > 0 and .commands_after > 0'
    shown "$DIR/p5.html" 'the page says which writes vanish' 'WAL instead of DELETE: .*Gone in each insert: .*rollback journal: .*8[.0-9]* pwrite64'
    shown "$DIR/p5.html" 'and what a lower level leaves out' 'OFF instead of FULL: .*sync'
    shown "$DIR/p5.html" 'and lays systems side by side' 'ext4 without journal against ext4: '
    check 'flashmob report reads what was kept' "$FLASHMOB" report "$DIR"/results/*.json -o "$DIR/again.html"
    refused 'a result of before' 'already exists.*another directory with --save' "${P5[@]}" --systems ext4 --save "$DIR/results" -o "$DIR/p5.html"
    start p5int "$FLASHMOB" reproduce p5 --systems ext4,xfs --save "$DIR/int" -o "$DIR/int.html"
    wait_for 10 'the first system' log_has p5int '1/6 ext4'
    stop p5int INT
    [ "$STATUS" -eq 130 ] || fail "SIGINT ended it with status $STATUS, not 130"
    pass 'SIGINT ends it'
    chmod 755 "$DIR" && install -d -m 777 "$DIR/theirs" "$DIR/theirs/tmp"
    AS=(env TMPDIR="$DIR/theirs/tmp" setpriv --reuid 65534 --regid 65534 --clear-groups)
    cp "$FLASHMOB" "$DIR/theirs/flashmob"
else
    mkdir -p "$DIR/theirs/tmp"
    AS=(env TMPDIR="$DIR/theirs/tmp")
    ln -s "$(realpath "$FLASHMOB")" "$DIR/theirs/flashmob"
fi

(cd "$DIR/theirs" && timeout 280 "${AS[@]}" ./flashmob reproduce p5 --journal DELETE,WAL --synchronous FULL --inserts 20 --rounds 0 -o p5.html --output json) >"$DIR/few.json" 2>"$DIR/few.log" || { cat "$DIR/few.log" >&2; fail 'reproduce p5 without rights'; }
log_has few 'loop devices need root' || fail 'nothing is said of loop devices'
holds "$DIR/few.json" 'without rights: writes are counted by SQLite itself, the driver is missing' '[.claims[] | {(.claim): .}] | add
    | .C18.verdict == "not_measured" and (.C19.here | test("SQLite.s own calls")) and .C20.verdict == "not_measured" and (.C20.here | test("one system alone"))'
shown "$DIR/theirs/p5.html" 'the page names what is missing' 'Missing of .*root'
[ -z "$(ls -A "$TMPDIR" "$DIR/theirs/tmp" | grep -v -e '^$' -e ':$')" ] || fail "left behind: $(ls -A "$TMPDIR" "$DIR/theirs/tmp")"
pass 'nothing is left in the temporary directories'
refused 'few inserts' 'invalid value' "$FLASHMOB" reproduce p5 --inserts 3
refused 'a system that there is not' 'possible values: ext4' "$FLASHMOB" reproduce p5 --systems ext5
refused 'a folder and systems' 'cannot be used with' "$FLASHMOB" reproduce p5 --folder "$DIR" --systems xfs
