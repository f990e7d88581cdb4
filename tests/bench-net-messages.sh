#!/usr/bin/env bash
# Shows that `flashmob bench net` sweeps over lists, in every form of its result, that messages are answered between two flashmobs and a plain iperf3 is told apart, and that both ends say what TCP did.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/iperf3.sh"
need jq iperf3 ss

unset FLASHMOB_LAB
start server "$FLASHMOB" bench net --server --bind 127.0.0.1 --port 0
started server 'listening on 127\.0\.0\.1:[0-9]+'
PORT=$(sed -nE 's/.*listening on 127\.0\.0\.1:([0-9]+).*/\1/p' "$DIR/server.log" | head -n 1)
# net OPTION...: measures with JSON into $DIR/net.json.
net() {
    timeout 280 "$FLASHMOB" bench net --connect "127.0.0.1:$PORT" "$@" --output json >"$DIR/net.json" 2>"$DIR/net.log" || { cat "$DIR/net.log" >&2; fail "bench net $*"; }
}
holds() {
    jq -e "$2" "$DIR/net.json" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?, .intervals?)' "$DIR/net.json" | cut -c1-3000 >&2; fail "$1"; }
    pass "$1"
}

net --messages 40:4k:1,40:4k:32 --time 0.5 --repeat 2
holds 'each depth twice, with a latency for every request' '.measurement.points | length == 2 and all(.[]; (.repetitions | length == 2) and all(.repetitions[]; .exchange.requests > 0 and .exchange.latency_ns.count == .exchange.requests and .exchange.latency_ns.min > 0))'
holds 'bytes of requests and answers are as many as was asked for' 'all(.measurement.points[].repetitions[]; (.flows[1].received_bytes / .flows[0].sent_bytes) as $r | $r > 85 and $r < 120)'
net --messages 100k:100k:8 --streams 2 --time 0.3
holds 'messages that are larger than buffers hold up nobody' '.measurement.points[0].repetitions[0].exchange.requests > 10'

start_iperf3 plain
refused 'a plain iperf3 knows no messages' 'plain iperf3: messages need flashmob at both ends' "$FLASHMOB" bench net -c "127.0.0.1:$IPERF3_PORT" --messages 1:1:1
check 'and it was left in order: it serves the next' timeout 200 "$FLASHMOB" bench net -c "127.0.0.1:$IPERF3_PORT" --time 0.2
stop plain

net --direction up,down,both --streams 1,2 --congestion reno,cubic --time 0.2 --label home --save "$DIR/saved.json"
holds 'lists make all combinations' '[.measurement.points[].parameters | [.direction, .streams, .congestion]] | length == 12 and (unique | length) == 12'
holds 'both ends say what TCP did, with the congestion control that was asked for' \
    'all(.measurement.points[]; .parameters.congestion as $c | all(.repetitions[].streams[]; .sender.congestion == $c and .sender.packets_sent > 0 and .receiver.receive_buffer_bytes > 0 and .sender.packet_bytes > 0))'
holds 'the other end is known' 'all(.measurement.points[].repetitions[]; (.peer | startswith("flashmob ")) and .peer_cpu_s > 0) and .measurement.setting == "network"'
check 'what is saved is the result' jq -e '.label == "home" and .measurement.kind == "net"' "$DIR/saved.json"
net --window 32K --time 0.3
holds 'buffers are as asked for at both ends' '.measurement.points[0].repetitions[0].streams[0] | .sender.send_buffer_bytes == 65536 and .receiver.receive_buffer_bytes == 65536'
net --bytes 3MB
holds 'so many bytes and few more' '.measurement.points[0].repetitions[0].flows[0].received_bytes | . >= 2900000 and . < 4000000'

"$FLASHMOB" bench net -c "127.0.0.1:$PORT" --time 1 --interval 0.25 --bidir -P 2 >"$DIR/lines" 2>"$DIR/lines.log"
check 'lines as iperf3 has them: intervals, directions, sums, both ends' \
    bash -c "grep -Eq '\[SUM\]\[up  \] +0\.[0-9]+-.*bit/s' '$DIR/lines' && grep -Eq '\[down\].*receiver' '$DIR/lines' && grep -q 'RTT' '$DIR/lines'"
"$FLASHMOB" bench net -c "127.0.0.1:$PORT" --time 1 --interval 0.25 --repeat 2 --output ndjson >"$DIR/events" 2>"$DIR/events.log"
check 'every line of NDJSON is an event, the last one the result' jq -es 'all(.[]; .event) and .[0].event == "begin" and .[-1].event == "end"
    and (map(select(.event == "net_interval")) | length >= 6) and (map(select(.event == "net_repetition")) | length == 2)' "$DIR/events"
"$FLASHMOB" bench net -c "127.0.0.1:$PORT" --time 0.2 -P 1,2 >"$DIR/table" 2>"$DIR/table.log"
check 'a sweep is a table' grep -Eq 'way +streams +up +retr +RTT ms' "$DIR/table"
stop server
[ "$STATUS" -eq 0 ] || fail "the server ended with status $STATUS"
