#!/usr/bin/env bash
# Shows that `flashmob reproduce p4` measures two hosts over modelled paths, that C14 to C17 and C24 to C26 are judged with figures, that what it kept makes a report again, and that wrong arguments and Ctrl-C are answered.
# Tier: slow
# Canary: receive-max-never-set
. "$(dirname "$0")/lib.sh"
need_netns 'a lab for two hosts'
need jq tcpdump

mkdir "$DIR/tmp"
export TMPDIR=$DIR/tmp
P4=("$FLASHMOB" reproduce p4 --rtt 0,64 --repeat 2 --time 0.4)
busy_begin
timeout 900 "${P4[@]}" --save "$DIR/results" -o "$DIR/p4.html" --output json >"$DIR/p4.json" 2>"$DIR/p4.log" || { cat "$DIR/p4.log" >&2; fail 'reproduce p4'; }
NET=$DIR/results/p4-net.json
holds() {
    jq -e "$3" "$1" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?, .intervals?, .series?)' "$1" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}
# C14, C16 and C17 follow from windows and the path. C15 needs three repetitions; C24 to C26 compare rates of so short a time, and are judged one way or the other.
# What was late counts nowhere: a point may then be missing, or have one repetition, which is too few.
late=$(jq .void_repetitions "$DIR/p4.json")
if [ "$late" -gt 0 ] && ! jq -e 'all(.claims[]; .verdict != "not_measured") and all(.claims[] | select(.claim | IN("C14", "C16", "C17")); .verdict != "too_few_repetitions")' "$DIR/p4.json" >/dev/null; then
    void "the lab was late in $late of 68 measurements"
fi
holds "$DIR/p4.json" 'each claim is judged' '[.claims[].claim] == ["C14", "C15", "C16", "C17", "C24", "C25", "C26"] and all(.claims[]; .verdict | IN("holds", "does_not_hold", "too_few_repetitions"))
    and .claims[1].verdict == "too_few_repetitions"'
for claim in C14 C16 C17; do
    verdict=$(jq -r ".claims[] | select(.claim == \"$claim\") | .verdict" "$DIR/p4.json")
    [ "$verdict" = holds ] || judged_fail "$claim: $verdict, $(jq -r ".claims[] | select(.claim == \"$claim\") | .here" "$DIR/p4.json")"
    pass "$claim holds"
done
holds "$DIR/p4.json" 'each with criterion, figures here and the paper'"'"'s' 'all(.claims[]; (.criterion | length > 0) and (.here | test("[0-9]")))'
holds "$NET" 'both ways, three congestion controls, loss and both maxima are one result' \
    '.preset == "p4" and (.interrupted | not) and .measurement.setting == "lab" and ([.measurement.points[].parameters] | length == 34
        and (map(.path.rtt_ms) | unique == [0, 64]) and (map(.path.loss_percent) | unique == [0, 1]) and (map(.direction) | unique == ["down", "up"])
        and (map(.congestion // empty) | unique == ["bbr", "cubic", "reno"]) and (map(.client_receive_max_bytes) | unique == [24576, 245760]) and (map(select(.server_receive_max_bytes == 24576)) | length == 2 and all(.[]; .client_receive_max_bytes == 24576 and .path.rtt_ms == 0)))'
# The lab runs in real time: what was late counts nowhere, and the claims must rest on what is left.
rate() { # rate DIRECTION RTT CLIENT-MAX
    jq "[.measurement.points[] | select(.parameters | .protocol == \"tcp\" and .direction == \"$1\" and .path.rtt_ms == $2 and .client_receive_max_bytes == $3 and .path.loss_percent == 0 and .congestion == \"cubic\")
        | .summary.${1}_bits_per_second.median][0]" "$NET"
}
holds <(echo "[$(rate down 0 24576), $(rate down 64 24576), $(rate up 64 24576), $(rate down 64 245760)]") \
    'receiving with the small maximum collapses over 64 ms; sending, and receiving with ten times that, does not' '.[1] < .[0] / 3 and .[2] > .[1] * 3 and .[3] > .[1] * 3'
for name in small tenfold own; do
    holds "$DIR/results/p4-packets-$name.json" "packets were captured ($name)" '.measurement.kind == "capture" and .measurement.flows[0].up.data_packets > 50 and any(.warnings[]; .code == "modelled")'
done
holds "$DIR/results/p4-packets-small.json" 'and say that the receiver held it back' '.measurement.flows[0].up.verdict.cause == "receiver_limited"'
check 'the page has the claims' grep -q 'id="C17"' "$DIR/p4.html"
check 'flashmob report reads what was kept' "$FLASHMOB" report "$DIR"/results/*.json -o "$DIR/again.html"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
pass 'nothing is left in the temporary directory'

start p4int "${P4[@]}" --save "$DIR/int" -o "$DIR/int.html"
wait_for 60 'the result of the first lab' test -s "$DIR/int/p4-net.json"
stop p4int INT
[ "$STATUS" -eq 130 ] || fail "SIGINT ended it with status $STATUS, not 130"
holds "$DIR/int/p4-net.json" 'SIGINT keeps what was measured, and says so' '.interrupted and (.measurement.points | length >= 6 and length < 34)'
refused 'a result of before' 'already exists.*another directory with --save' "${P4[@]}" --save "$DIR/results" -o "$DIR/p4.html"
refused 'a page that is a directory' 'give a file in it with -o' "${P4[@]}" -o "$DIR"
refused 'a receive maximum below the least' 'must be 4KiB to' "${P4[@]}" --receive-max 4095
refused 'a rate that no path has' 'give 1000 to 100G' "${P4[@]}" --path-rate 10
refused 'a round trip that is none' 'invalid value' "$FLASHMOB" reproduce p4 --rtt x
