#!/usr/bin/env bash
# Shows that `flashmob push reproduce` measures on a device without root what P1, P3, P4 and P5 need no root for, writes one page here, keeps results when it is stopped or the device vanishes, and leaves nothing there.
# Tier: test
# Runs beside others.
#
# The devices are those of push.sh. Their shell is no root where this test is; the figures are this machine's.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/adb.sh"
mkdir "$DIR/tmp"
# Others than root look into it.
chmod 755 "$DIR"
holds() {
    jq -e "$3" "$1" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?, .timeline?, .begins_s?, .durations_ms?)' "$1" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}
# nothing_there WHAT: no file of a measurement is left on the device.
nothing_there() {
    [ ! -e "$(there phone)/flashmob.d/reproduce" ] || fail "$1: left behind: $(ls -A "$(there phone)/flashmob.d/reproduce")"
    [ -z "$(ls -A "$DIR/tmp")" ] || fail "$1: left here: $(ls -A "$DIR/tmp")"
    pass "$1: nothing is left, there and here"
}
REPRODUCE=(env TMPDIR="$DIR/tmp" "$FLASHMOB" push --binary "$BINARY" reproduce)

adb start-server >/dev/null 2>&1
about phone model '"Pixel 3a"' uid 2000
plug_in phone
refused 'nothing to measure without a way by Wi-Fi' 'nothing to measure: P4: the device has no address on Wi-Fi' "$DIR/push" reproduce --papers p4 -o "$DIR/none.html"
about phone free_kib 2000000
refused 'too little space there' 'not enough space: 1.91 GiB are free.*give --scale 0\.1' "$DIR/push" reproduce -o "$DIR/none.html"
about phone free_kib 100000000
refused 'a page that cannot be written' 'does not exist; create it' "$DIR/push" reproduce -o "$DIR/nosuch/page.html"
refused 'a paper that is not about one device' 'p1, p3, p4, p5' "$DIR/push" reproduce --papers p2

# Flash and INSERTs.
timeout 900 "${REPRODUCE[@]}" --papers p5,p3,p1 --scale 0.001 --inserts 20 --save "$DIR/results" -o "$DIR/phone.html" --output json >"$DIR/phone.json" 2>"$DIR/phone.log.txt" || { cat "$DIR/phone.log.txt" >&2; fail 'push reproduce'; }
holds "$DIR/phone.json" 'the claims of P1 about one device, of P3 and of P5 are there' '[.claims[].claim] == ["C1", "C2", "C3", "C10", "C11", "C12", "C13", "C18", "C19", "C20", "C21"] and .paper == "p1, p3, p5"'
# Repetitions on a busy machine may differ by too much for a verdict.
holds "$DIR/phone.json" 'what needs no root is judged' '[.claims[] | select(.claim | IN("C2", "C3", "C10", "C11", "C19"))] | length == 5 and all(.verdict | IN("holds", "does_not_hold", "too_few_repetitions")) and all(.on_phone == "")'
holds "$DIR/phone.json" 'writes are counted by SQLite itself, against those of a phone' '.claims[] | select(.claim == "C19") | .here | test("^8 writes to the journal and 2 to the database.*SQLite.s own calls")'
holds "$DIR/phone.json" 'what needs root is not measured, with the command that does' '[.claims[] | select(.claim | IN("C12", "C13", "C21"))] | length == 3 and all(.verdict == "not_measured") and all(.on_phone | test("`adb root`, then `flashmob push reproduce --papers p[35]`"))'
holds "$DIR/phone.json" 'and is named' '.setting == "device" and .device == "Pixel 3a" and (.is_root | not) and any(.left_out[]; test("not root on the device: .*C12, C13.*C20, C21.*adb root"))'
grep -q '1/6 random reads over block sizes and threads (P1); about [0-9]* ' "$DIR/phone.log.txt" || { cat "$DIR/phone.log.txt" >&2; fail 'no progress'; }
grep -q '6/6 INSERTs, round 3 (P5)' "$DIR/phone.log.txt" || { cat "$DIR/phone.log.txt" >&2; fail 'no third round'; }
pass 'each step is told, with the time that is left'
check 'the page has its claims' grep -q 'id="C19"' "$DIR/phone.html"
check 'and names the device' grep -q 'Pixel 3a' "$DIR/phone.html"
for paper in p1 p3 p5; do
    holds "$DIR/results/$paper.json" "the result of $paper is kept, and is the device's" ".preset == \"$paper\" and .label == \"Pixel 3a\" and .device.system == \"Android 13\" and (.interrupted | not)"
done
check 'flashmob report reads them' "$FLASHMOB" report "$DIR"/results/*.json -o "$DIR/again.html"
nothing_there 'after a measurement'
refused 'results of before' 'already exists.*another directory with --save' "${REPRODUCE[@]}" --papers p5 --save "$DIR/results" -o "$DIR/phone.html"

# The network, by the device's own address.
about phone address '"127.0.0.1"'
timeout 900 "${REPRODUCE[@]}" --papers p4 --quick --save "$DIR/net" -o "$DIR/net.html" --output json >"$DIR/net.json" 2>"$DIR/net.log.txt" || { cat "$DIR/net.log.txt" >&2; fail 'push reproduce --papers p4'; }
holds "$DIR/net/p4.json" 'TCP and UDP went both ways, not over adb' '[.measurement.points[].parameters | "\(.protocol) \(.direction)"] == ["tcp up", "tcp down", "udp up", "udp down"] and (.measurement.server | test("^127\\.0\\.0\\.1:")) and all(.measurement.points[]; .repetitions | length == 2)'
check 'they are a figure' grep -q 'Mbit/s that arrived' "$DIR/net.html"

# Stopped in the middle, and gone in the middle. 100,000 INSERTs take longer than this test.
LONG=("${REPRODUCE[@]}" --papers p3,p5 --scale 0.001 --inserts 100000)
start cut "${LONG[@]}" --save "$DIR/cut" -o "$DIR/cut.html"
wait_for 300 'the third step' log_has cut '3/5 INSERTs, round 1'
wait_for 20 'the program there' test -s "$(there phone)/flashmob.d/run.pid"
pid=$(cat "$(there phone)/flashmob.d/run.pid")
stop cut INT
[ "$STATUS" -eq 130 ] || fail "SIGINT ended it with status $STATUS, not 130"
runs_there "$pid" && fail 'the program there runs still'
holds "$DIR/cut/p3.json" 'Ctrl-C keeps what was measured, and says so' '.interrupted and (.measurement.points | length == 5)'
check 'and makes the page' test -s "$DIR/cut.html"
nothing_there 'after Ctrl-C'
start gone "${LONG[@]}" -o "$DIR/gone.html"
wait_for 300 'the third step' log_has gone '3/5 INSERTs, round 1'
wait_for 20 'the program there' test -s "$(there phone)/flashmob.d/run.pid"
unplug phone
finish gone 120
[ "$STATUS" -eq 1 ] || fail "without its device it ended with status $STATUS, not 1"
log_has gone 'the device disconnected: check the cable' || fail 'nothing is said of the device'
check 'a device that vanishes leaves a page of what was measured' grep -q 'id="C10"' "$DIR/gone.html"
plug_in phone
if [ "$(id -u)" -eq 0 ] && [ ${#RUNNER[@]} -eq 0 ]; then
    refused 'what it left running is in the way' 'still runs there.*flashmob push stop' "$DIR/push" reproduce -o "$DIR/none.html"
fi
check 'push stop' push stop
runs_there "$(cat "$(there phone)/flashmob.d/run.pid")" && fail 'the program there runs still'
[ ! -e "$(there phone)/flashmob.d/reproduce" ] || fail 'files are left on the device'
pass 'push stop ends and removes what was left'

# One device.
about tablet
plug_in tablet
refused 'which of them' 'several devices are attached: .*--serial' "$DIR/push" reproduce -o "$DIR/none.html"
refused 'a page of all of them' 'a page is of one device, and 2 are attached' "$DIR/push" --all reproduce -o "$DIR/none.html"
about tablet fault '"unauthorized"'
unplug tablet
plug_in tablet
wait_for 10 'its state' sh -c 'adb devices | grep -q unauthorized'
refused 'not allowed yet' "accept 'Allow USB debugging'" "$DIR/push" --serial "${SERIAL[tablet]}" reproduce -o "$DIR/none.html"
