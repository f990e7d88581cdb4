#!/usr/bin/env bash
# Shows that `flashmob reproduce p1 --in simulator --quick` judges C4 to C9 with figures, keeps a result that report reads, overwrites none, keeps what there is on Ctrl-C, and explains wrong arguments.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

mkdir "$DIR/tmp"
export TMPDIR=$DIR/tmp
P1=("$FLASHMOB" reproduce p1 --in simulator --quick)
# P1's sweep takes longest where batches are large; shorter repetitions are enough to see that all of it is done. Without an option the gateway is a
# station of the same Wi-Fi, as in P1.
for gateway in wireless wired; do
    [ $gateway = wired ] && options=(--gateway wired) || options=()
    timeout 280 "${P1[@]}" "${options[@]}" --time 0.2 --save "$DIR/results" -o "$DIR/$gateway.html" --output json >"$DIR/$gateway.json" 2>"$DIR/$gateway.log" ||
        { cat "$DIR/$gateway.log" >&2; fail "reproduce p1, $gateway"; }
    # All of it happens in virtual time, so the verdicts are the same on every machine. Where a change of gateway or models changes one, the table
    # is to be changed with it, and the reason belongs into the commit.
    check "$gateway: each verdict is the expected one ($(jq -c '[.claims[] | {(.claim): .verdict}] | add' "$DIR/$gateway.json"))" \
        jq -e --slurpfile expected "$TESTS/expected/p1-simulator.json" "([.claims[] | {(.claim): .verdict}] | add) == \$expected[0].$gateway" "$DIR/$gateway.json"
done
cp "$DIR/wireless.json" "$DIR/p1.json"
cp "$DIR/wireless.html" "$DIR/p1.html"
cp "$DIR/wireless.log" "$DIR/p1.log"
RESULT=$DIR/results/p1-simulator-11n-2014-wireless-nexus7-emmc.json
holds() {
    jq -e "$3" "$1" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?)' "$1" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}
holds "$DIR/p1.json" 'all claims about clusters are judged' '[.claims[].claim] == ["C4", "C5", "C6", "C7", "C8", "C9", "C22", "C23"] and all(.claims[]; .verdict == "holds" or .verdict == "fitted" or .verdict == "does_not_hold" or .claim == "C23")'
holds "$DIR/p1.json" 'each with criterion, figures here and the paper'"'"'s' 'all(.claims[] | select(.claim != "C23"); (.criterion | length > 0) and (.here | test("[0-9]")) and (.paper | length > 0))'
holds "$DIR/p1.json" 'where it was, with which models, and that nothing was cut short' '.paper == "p1" and .setting == "simulator" and .air == "11n-2014" and .flash == "nexus7-emmc" and .quick and (.interrupted | not) and .void_repetitions == 0'
holds "$RESULT" 'all of section 3 is one result: n, m, k with I/O and without' \
    '.preset == "p1" and (.interrupted | not) and ([.measurement.points[].parameters] | length == 136
        and (map(.nodes) | unique == [1, 2, 4, 8]) and (map(.links) | unique == [1, 4, 8, 16, 32]) and (map(.no_io) | unique == [false, true]) and all(.[]; .block_bytes == 1))'
holds "$RESULT" 'marked as modelled' '.measurement.setting == "simulator" and any(.warnings[]; .code == "modelled")'
check 'the page has the claims' grep -q 'id="C9"' "$DIR/p1.html"
check 'and says that they rest on models' grep -q '(modelled)' "$DIR/p1.html"
check 'a line for each run where there is no terminal' grep -Eq '8/8 auto without I/O' "$DIR/p1.log"
check 'flashmob report reads the result' "$FLASHMOB" report "$RESULT" -o "$DIR/again.html"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
pass 'nothing is left in the temporary directory'

# stopped NAME SIGNAL: ends a run after its first part, with everything in $DIR/NAME.*.
stopped() {
    local name=$1 signal=$2 kept=$DIR/$1/p1-simulator-11n-2014-wireless-nexus7-emmc.json
    start "$name" "${P1[@]}" --time 0.2 --repeat 3 --save "$DIR/$name" -o "$DIR/$name.html"
    wait_for 60 'the result of the first run' test -s "$kept"
    stop "$name" "$signal"
    [ "$STATUS" -eq 130 ] || fail "SIG$signal ended it with status $STATUS, not 130"
    holds "$kept" "SIG$signal keeps what was measured, and says so" '.interrupted and (.measurement.points | length >= 20 and length < 136)'
    check 'the table is of that' grep -Eq '^C4  (holds|does not hold|not measured)' "$DIR/$name.out"
    check 'it says that it was stopped' log_has "$name" 'stopped early'
    check 'and the page is there' test -s "$DIR/$name.html"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
}
stopped int INT

before=$(sha256sum <"$RESULT")
refused 'a result of before' 'already exists.*another directory with --save' "${P1[@]}" --save "$DIR/results" -o "$DIR/p1.html"
[ "$before" = "$(sha256sum <"$RESULT")" ] || fail 'it was changed'
refused 'a page that is a directory' 'give a file in it with -o' "${P1[@]}" -o "$DIR"
refused 'a page where there is no directory' 'create it, or give another -o' "${P1[@]}" -o "$DIR/no/where.html"
refused 'an air that there is not' "no modelled air '11m'.*did you mean '11" "${P1[@]}" --air 11m
refused 'a flash that there is not' "no modelled device 'emcc'.*did you mean 'emmc'" "${P1[@]}" --flash emcc
refused 'a place that there is not' "invalid value 'tablets'.*--in" "$FLASHMOB" reproduce p1 --in tablets
refused 'quick and full' 'cannot be used with' "${P1[@]}" --full
refused 'a paper that there is not' 'p2' "$FLASHMOB" reproduce p2
