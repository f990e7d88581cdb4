#!/usr/bin/env bash
# Shows that either end of `flashmob bench net` may be a real iperf3: in every mode both report the same sums, within 3 %.
# Tier: slow
# Canary: bytes-overcounted
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/iperf3.sh"
need jq iperf3 ss

unset FLASHMOB_LAB
# ours FILE: what the client flashmob says that both ends counted.
ours() {
    jq -c '.measurement.points[0].repetitions[0] | [.flows[] | {way: .direction, sent: .sent_bytes, received: .received_bytes}]' "$1"
}
# client WHAT WAY OPTION...: flashmob measures to a real iperf3, whose own report must say the same.
client() {
    local what=$1 way=$2 port
    shift 2
    start_iperf3 server -1 -J
    port=$IPERF3_PORT
    timeout 120 "$FLASHMOB" bench net --connect 127.0.0.1 --port "$port" --time 1 "$@" --output json >"$DIR/ours.json" 2>"$DIR/client.log" ||
        { cat "$DIR/client.log" >&2; fail "$what: flashmob failed"; }
    finish server 30
    jq -e '.measurement.points[0].repetitions[0].peer == "iperf3"' "$DIR/ours.json" >/dev/null || fail "$what: the other end was not known as iperf3"
    # What the server counted itself: what it received on the way up, what it sent on the way down.
    jq -en --slurpfile f "$DIR/ours.json" --slurpfile i "$DIR/server.out" --arg way "$way" '
        def close($x; $y): $y > 0 and (($x - $y) | fabs) <= 0.03 * ([$x, $y] | max);
        $f[0].measurement.points[0].repetitions[0].flows as $ours | $i[0].end as $e |
        def own($way): $ours[] | select(.direction == $way);
        if $way == "up" then close(own("up").received_bytes; $e.sum_received.bytes)
        elif $way == "down" then close(own("down").sent_bytes; $e.sum_sent.bytes)
        else close(own("up").received_bytes; [$e.streams[].receiver | select(.sender | not).bytes] | add)
            and close(own("down").sent_bytes; [$e.streams[].sender | select(.sender).bytes] | add) end' >/dev/null ||
        { jq -c .end.streams "$DIR/server.out" >&2; judged_fail "$what: flashmob says $(ours "$DIR/ours.json")"; }
    pass "flashmob to iperf3, $what: $(ours "$DIR/ours.json" | jq -r '[.[] | "\(.way) \(.received / 1e6 | floor) MB"] | join(", ")')"
}

# server WHAT WAY OPTION...: a real iperf3 measures to flashmob; what flashmob told it must be what it counted itself.
server() {
    local what=$1 way=$2 port
    shift 2
    start flashmob "$FLASHMOB" bench net --server --one-off --bind 127.0.0.1 --port 0
    started flashmob 'listening on 127\.0\.0\.1:[0-9]+'
    port=$(sed -nE 's/.*listening on 127\.0\.0\.1:([0-9]+).*/\1/p' "$DIR/flashmob.log" | head -n 1)
    timeout 120 iperf3 -c 127.0.0.1 -p "$port" -t 1 -J "$@" >"$DIR/theirs.json" || { jq -r .error "$DIR/theirs.json" >&2; fail "$what: iperf3 failed"; }
    finish flashmob 30
    [ "$STATUS" -eq 0 ] || fail "$what: flashmob's server ended with status $STATUS"
    # What the log says flashmob counted, as rates in Mbit/s.
    local line received sent
    line=$(grep -E 'received|sent' "$DIR/flashmob.log" | tail -n 1)
    received=$(sed -nE 's|.*received ([0-9.]+) Mbit/s.*|\1|p' <<<"$line")
    sent=$(sed -nE 's|.*sent ([0-9.]+) Mbit/s.*|\1|p' <<<"$line")
    jq -en --slurpfile i "$DIR/theirs.json" --arg way "$way" --arg received "${received:-0}" --arg sent "${sent:-0}" '
        def close($x; $y): (($x - $y) | fabs) <= 0.03 * ([$x, $y] | max);
        $i[0].end as $e |
        def got($sum): $sum.bits_per_second / 1e6;
        if $way == "up" then close($received | tonumber; got($e.sum_received)) and $e.sum_received.bytes > 0
        elif $way == "down" then close($sent | tonumber; got($e.sum_sent)) and $e.sum_received.bytes > 0
        else close($received | tonumber; got($e.sum_received)) and close($sent | tonumber; got($e.sum_sent_bidir_reverse)) and $e.sum_received_bidir_reverse.bytes > 0 end' >/dev/null ||
        { jq -c '.end | {sum_sent, sum_received, sum_sent_bidir_reverse, sum_received_bidir_reverse}' "$DIR/theirs.json" >&2; judged_fail "$what: iperf3 says otherwise than flashmob: $line"; }
    pass "iperf3 to flashmob, $what: ${received:+received $received Mbit/s }${sent:+sent $sent Mbit/s}"
}

busy_begin
client 'TCP' up
client 'TCP -R' down -R
client '-P 4' up -P 4
client '--bidir' both --bidir
client '-C cubic -w 64K' up -C cubic -w 64K
client '-u -b 20M' up -u -b 20M
client '-u -R -b 20M -P 2' down -u -R -b 20M -P 2

server 'TCP' up
server 'TCP -R' down -R
server '-P 4' up -P 4
server '--bidir' both --bidir
server '-C cubic -w 64K' up -C cubic -w 64K
server '-u -b 20M' up -u -b 20M
server '-u -b 20M --udp-counters-64bit -l 1000' up -u -b 20M --udp-counters-64bit -l 1000
