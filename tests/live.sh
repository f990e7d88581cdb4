#!/usr/bin/env bash
# Shows that a gateway tells what each node did in each second: counts that add up to what clients got, times of every stage, a dead node, its own restart;
# and that `flashmob status --watch` draws it on a terminal.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

start_cluster 2 8MiB
admin_address
# live QUERY FILTER...: a value of the answer.
live() { curl -fsS "http://$ADMIN/live$1" | jq -r "${@:2}"; }
# live_is QUERY FILTER...: whether it is true of the answer.
live_is() { live "$1" -e "${@:2}" >/dev/null; }
# expect WHAT QUERY FILTER...: passes if it is.
expect() {
    live_is "${@:2}" || fail "$1: $(live "$2" -c 'del(.slots, .bounds_us)')"
    pass "$1"
}

expect '/live names the nodes before anybody asks for anything' '' \
    '.schema == 1 and (.nodes | length) == 2 and all(.nodes[]; .state == "ready") and .slots == [] and (.bounds_us | length) == 31'

start_load load --extents 2 --depth 8
load_seconds load 3
end_load load
# Seconds have to end, and nodes tell of their last one after another.
is_quiet() { live_is '' '.next_second > ([.slots[] | .second + .seconds] | max) + 3'; }
wait_for 20 'three quiet seconds' is_quiet
live '' . >"$DIR/live.json"
pieces=$(jq '[.slots[].answered[]] | add' "$DIR/live.json")
asked=$(curl -fsS "http://$ADMIN/status" | jq '[.gateway.requests[] | select(.[0] == "read" or .[0] == "write") | .[1]] | add')
# A request may have two pieces, and flushes are pieces, too.
check "all of $asked requests were counted, in $pieces pieces" test "$pieces" -ge "$asked" -a "$pieces" -le $((asked + asked / 10 + 100))
check 'each time is in one bucket' jq -e '
    def total: if length == 0 then 0 else .[1:] | add end;
    all(.slots[]; . as $s | all(range($s.node | length); . as $n |
        ($s.answered[$n] - $s.read_here[$n]) as $timed |
        # Where a bucket has more than 65,535 of them, all are rounded up.
        ($s.way[$n], $s.at_node[$n] | total | . >= $timed and . <= $timed * 1.01 + 32)))' "$DIR/live.json"
check 'and every stage has times' jq -e '. as $live |
    all("queue", "way", "at_node", "flash"; . as $stage | [$live.slots[][$stage][] | .[1:] | add // 0] | add > 0)' "$DIR/live.json"
check 'half of the pieces took no longer than nearly all' jq -e '
    [.slots[] | [.p50_us, .p99_us] | transpose[] | select(.[0] != null)] | length > 2 and all(.[0] <= .[1] and .[0] > 0)' "$DIR/live.json"

next=$(jq .next_second "$DIR/live.json")
expect 'nothing new since then' "?since=$next" '.slots == []'
last=$(jq '.slots[-1].second' "$DIR/live.json")
check 'a later second is the same one' test "$(live "?since=$last" -c '.slots[0]')" = "$(jq -c '.slots[-1]' "$DIR/live.json")"
check 'the page is served' curl -fsS -D "$DIR/page.head" -o "$DIR/page.html" "http://$ADMIN/"
check 'with a policy that allows nothing from elsewhere' grep -qi "^content-security-policy: default-src 'none'; script-src 'self'" "$DIR/page.head"
grep -oE '(src|href)="[a-z]+\.(js|css|svg)"' "$DIR/page.html" | cut -d'"' -f2 | sort -u >"$DIR/files"
[ "$(grep -c . "$DIR/files")" -ge 3 ] || fail "the page names no files: $(cat "$DIR/page.html")"
while read -r file; do check "and $file of it" curl -fsS -o "$DIR/$file" "http://$ADMIN/$file"; done <"$DIR/files"
check 'a wrong query is refused' test "$(curl -s -o "$DIR/refusal" -w '%{http_code}' "http://$ADMIN/live?since=now")" = 400
grep -q 'since=SECOND' "$DIR/refusal" || fail "the refusal does not say how: $(cat "$DIR/refusal")"

stop node1 KILL
is_away() { live_is '' '[.nodes[].state] == ["ready", "waiting"] or [.nodes[].state] == ["ready", "connecting"]'; }
wait_for 10 'the dead node to show' is_away
expect 'with a sentence' '' '.warnings | any(test("not linked"))'
expect 'and as a finding, the worst' '' '.findings[0] | .cause == "not-linked" and .severity == "severe" and .node == 1 and .command == "flashmob discover"'
run_node node1
is_back() { live_is '' 'all(.nodes[]; .state == "ready")'; }
wait_for 20 'the node to be back' is_back

check 'status --watch draws it on a terminal, until q' "$PYTHON" "$TESTS/terminal.py" '2 of 2 nodes' q "$FLASHMOB" status "$ADMIN" --watch 200ms
check 'and until Ctrl-C' "$PYTHON" "$TESTS/terminal.py" '2 of 2 nodes' $'\x03' "$FLASHMOB" status "$ADMIN" --watch 200ms
start piped "$FLASHMOB" status "$ADMIN" --watch 1s
wait_for 20 'the tables where output is no terminal' grep -q "${ADDR[node0]}" "$DIR/piped.out"
stop piped KILL
check 'elsewhere it prints, without control sequences' sh -c "! grep -q \$(printf '\\033') '$DIR/piped.out'"

start=$(live '' .start)
stop gateway TERM
run_gateway
admin_address
expect 'another start of the gateway is another' '' --arg start "$start" '.start != $start and .slots == []'
