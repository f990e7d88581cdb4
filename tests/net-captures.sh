#!/usr/bin/env bash
# Shows that net analyze counts as tshark does behind every encapsulation, and says which packet of a capture makes which figure doubtful.
# Tier: test
# Runs beside others.
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need tshark jq

"$PYTHON" "$TESTS/net_captures.py" "$DIR" || fail 'the captures cannot be written'

# analyze NAME: $DIR/NAME.json and $DIR/NAME.txt.
analyze() {
    "$FLASHMOB" net analyze "$DIR/$1.pcap" --save "$DIR/$1.json" >"$DIR/$1.txt" 2>"$DIR/$1.log" || fail "$1: $(cat "$DIR/$1.log")"
}

# has NAME WHAT FILTER: the document fulfils it; $up is the first connection's way up.
has() {
    check "$1: $2" jq -e ".measurement as \$m | (.measurement.flows[0] // {}) as \$flow | (\$flow.up // {}) as \$up | $3" "$DIR/$1.json"
}

analyze plain
has plain 'nothing is doubtful' '$up.doubts == null and $flow.doubts == null and $up.unique_bytes == 168000 and .warnings == []'
for name in plain pppoe mpls snap ppp radiotap ah fragments lost tails; do
    analyze "$name"
    check "$name counts as tshark does" "$PYTHON" "$TESTS/compare_tshark.py" "$DIR/$name.json" "$DIR/$name.pcap"
done
for name in pppoe mpls snap ppp radiotap ah; do
    check "$name is the plain connection" jq -en --slurpfile a "$DIR/plain.json" --slurpfile b "$DIR/$name.json" \
        '$a[0].measurement.flows == $b[0].measurement.flows'
done
has lost 'three segments were sent again' '$up.resent == 3 and $up.missing_bytes == null and $up.doubts == null'
has tails 'forty segments were sent again, which only an empty segment shows' '$up.resent == 40 and $up.retransmissions == 40'
has fragments 'segments count whole' '$up.unique_bytes == 168000 and $m.unreadable_packets == 0 and $m.tcp_packets == 183'
analyze keep-alives
has keep-alives 'they and their answers are no duplicate acknowledgements' \
    '$up.duplicate_acknowledgements == 0 and $flow.down.duplicate_acknowledgements == 0'

# doubtful NAME PREMISE PACKET FIGURE...: the way up has that doubt, and these figures are marked in it and in the table.
doubtful() {
    local name=$1 premise=$2 packet=$3 figure
    shift 3
    has "$name" "$premise is doubtful from packet $packet on" "\$up.doubts[0] | .premise == \"$premise\" and .packet == $packet"
    for figure in "$@"; do
        has "$name" "$figure rests on it" "\$up.doubts[0].figures | index(\"$figure\")"
    done
    check "$name: the table marks it" grep -F '(?)' "$DIR/$name.txt"
    "$FLASHMOB" report "$DIR/$name.json" --output "$DIR/$name.html" >/dev/null 2>&1 || fail "$name: no page"
    check "$name: the page marks it" grep -F '⚠: doubtful, because the capture breaks a premise' "$DIR/$name.html"
}

analyze clock
doubtful clock clock 92 bits_per_second rtt_ms verdict
has clock 'no round trip is negative' '$up.rtt_ms.min > 10 and $up.rtt_ms.max < 30'
check 'clock: the rate is the whole one within 5 %' jq -en --slurpfile a "$DIR/plain.json" --slurpfile b "$DIR/clock.json" \
    '[$a, $b] | map(.[0].measurement.flows[0].up.bits_per_second) | .[1] / .[0] | . > 0.95 and . < 1.05'
analyze dropped
has dropped 'what was acknowledged and not captured is counted' '$up.missing_bytes + $up.unique_bytes == 168000 and $up.missing_bytes > 20000'
doubtful dropped complete "$(jq '.measurement.flows[0].up.doubts[0].packet' "$DIR/dropped.json")" bits_per_second unique_bytes resent verdict
check 'dropped: the whole rate is told' grep -F 'with them the rate is' "$DIR/dropped.txt"
analyze rival
doubtful rival one_connection 4 window_bytes
has rival 'it is one connection' '($m.flows | length) == 1 and $flow.has_opening and $up.unique_bytes == 168000'
analyze twice
doubtful twice once 2 retransmissions rtt_ms
has twice 'the first of each counts' '$up.unique_bytes == 168000 and $up.bytes == 168000 and $up.resent == 0 and $up.copies == 122'

# What cannot be read is named, with the first such packet; advice is given where it helps.
analyze cut
has cut 'the remedy is to capture more of each' '.warnings | map(.message) | any(test("first is packet 1: cut off.*128 bytes"))'
analyze whole-and-short
has whole-and-short 'whole packets are not asked for more of' '.warnings | map(.message) | any(test("malformed")) and all(test("128 bytes") | not)'
analyze zigbee
has zigbee 'the link type is named' '.warnings | map(.message) | any(test("link type 195 \\(ieee802_15_4\\)")) and all(test("128 bytes") | not)'
analyze half-fragments
has half-fragments 'fragments without the others are named' '.warnings | map(.message) | any(test("fragments of IP packets without the others"))'

# A full disk: the analysis is printed, and the file is what failed.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    mkdir "$DIR/full"
    status=0
    unshare -m sh -c "mount -t tmpfs -o size=16k none '$DIR/full' && head -c 12k /dev/zero >'$DIR/full/rest' &&
        exec '$FLASHMOB' net analyze '$DIR/plain.pcap' --save '$DIR/full/result.json'" >"$DIR/full.txt" 2>"$DIR/full.log" || status=$?
    [ "$status" -eq 1 ] || fail "a full disk: status $status: $(cat "$DIR/full.log")"
    check 'a full disk: the file is named' grep -F 'No space left' "$DIR/full.log"
    check 'a full disk: the analysis is shown all the same' grep -F '10.0.0.1:40000 > 10.0.0.2:5001' "$DIR/full.txt"
fi
