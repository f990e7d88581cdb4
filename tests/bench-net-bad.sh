#!/usr/bin/env bash
# Shows that `flashmob bench net` says within its timeout what is wrong with the other end: nobody, silence, a firewall, a busy server, strangers, an end in the middle; and that its server survives all of them.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

unset FLASHMOB_LAB
start server "$FLASHMOB" bench net --server --bind 127.0.0.1 --port 0
started server 'listening on 127\.0\.0\.1:[0-9]+'
PORT=$(sed -nE 's/.*listening on 127\.0\.0\.1:([0-9]+).*/\1/p' "$DIR/server.log" | head -n 1)
NET=("$FLASHMOB" bench net)

# A peer that plays a part: tests/net_peer.py says its port first.
peer() {
    rm -f "$DIR/peer.out"
    start peer "$PYTHON" "$TESTS/net_peer.py" "$@"
    wait_for 10 'the peer' test -s "$DIR/peer.out"
    PEER=$(head -n 1 "$DIR/peer.out")
}

FREE=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
refused 'nobody listens' 'refused the connection: nothing listens' "${NET[@]}" -c "127.0.0.1:$FREE"
refused 'a name that is none' "'no.such.name.invalid' is not an address, and cannot be resolved" "${NET[@]}" -c no.such.name.invalid
peer full
refused 'packets that are dropped' 'no answer .* within 1 s: a firewall' "${NET[@]}" -c "127.0.0.1:$PEER" --connect-timeout 1
stop peer
peer banner
refused 'an SSH server' "not an iperf3 or flashmob server.*'SSH-2.0" "${NET[@]}" -c "127.0.0.1:$PEER"
stop peer
peer silent
refused 'somebody who says nothing' 'silent for 1 s while waiting for its first message' "${NET[@]}" -c "127.0.0.1:$PEER" --connect-timeout 1
stop peer
peer close
refused 'an end in the middle of the test' 'closed the connection while data was being transferred' "${NET[@]}" -c "127.0.0.1:$PEER" --time 30
stop peer
peer stop
refused 'a peer that moves no more data' 'silent for 10 s while data was being transferred' "${NET[@]}" -c "127.0.0.1:$PEER" --time 60
stop peer
refused 'a congestion control that there is not' "'nosuch' is unknown to this system; this system has .*" "${NET[@]}" -c "127.0.0.1:$PORT" -C nosuch

# Without an address only this device can connect, and a test has a limit.
start own "$FLASHMOB" bench net --server --port 0 --longest 2
started own 'listening on 127\.0\.0\.1:[0-9]+: only this device can connect; --bind 0\.0\.0\.0'
OWN=$(sed -nE 's/.*listening on 127\.0\.0\.1:([0-9]+).*/\1/p' "$DIR/own.log" | head -n 1)
check 'a client of this device is served' "${NET[@]}" -c "localhost:$OWN" --time 0.2
refused 'a test beyond the limit' 'the test is longer than it allows' "${NET[@]}" -c "127.0.0.1:$OWN" --time 3
refused 'a test of bytes is ended at the limit' 'the test is longer than it allows' "${NET[@]}" -c "127.0.0.1:$OWN" --bytes 1T --rate 1M
wait_for 10 'the server to say which limit' log_has own 'asked for a test of 3 s, and the longest allowed here is 2 s; --longest'
stop own INT

# Busy: a test runs, and a second client is told so.
start first "$FLASHMOB" bench net -c "127.0.0.1:$PORT" --time 60 --save "$DIR/part.json"
wait_for 10 'the first interval' grep -q 'bit/s' "$DIR/first.out"
refused 'a busy server' 'busy with another test' "${NET[@]}" -c "127.0.0.1:$PORT"
stop first INT
[ "$STATUS" -eq 130 ] || fail "Ctrl-C ended it with status $STATUS, not 130"
check 'Ctrl-C shows and keeps what was measured' jq -e '.interrupted and .measurement.points[0].repetitions[0].flows[0].sent_bytes > 0' "$DIR/part.json"
wait_for 10 'the server to know' log_has server 'it was stopped there'

# Whoever comes to the server.
for what in half garbage long nothing; do
    "$PYTHON" "$TESTS/net_peer.py" to "$PORT" "$what" >"$DIR/$what.said" || fail "the peer '$what' failed"
done
next_test() { "${NET[@]}" -c "127.0.0.1:$PORT" --time 0.2 --output json >"$DIR/next.json" 2>"$DIR/next.log"; }
wait_for 15 'the server to serve again after all of them' next_test
pass 'half a cookie, garbage, a JSON of 2 GiB, silence: the next client is served'
# A client that is killed without a word.
start killed "$FLASHMOB" bench net -c "127.0.0.1:$PORT" --time 60
wait_for 10 'the first interval' grep -q 'bit/s' "$DIR/killed.out"
stop killed KILL
wait_for 15 'the server to serve again' next_test
pass 'a client that was killed in the middle keeps nobody waiting'
"$FLASHMOB" bench net -c "127.0.0.1:$PORT" --time 1 --interval 0.1 2>"$DIR/pipe.log" | head -n 1 >/dev/null || fail 'a closed pipe is no error'
pass 'whoever reads the lines may go'
stop server INT
[ "$STATUS" -eq 0 ] || fail "the server ended with status $STATUS"
pass 'the server stops when it is asked to'
