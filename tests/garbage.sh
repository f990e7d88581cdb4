#!/usr/bin/env bash
# Shows that a peer that speaks garbage to the gateway or to a node is dropped with one log line, and with none for the same again, while the service goes on.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

start_cluster 2 8MiB
start_load load --extents 2 --depth 4 --model "$DIR/model"

# garbage PROCESS ADDRESS PROTOCOL: each kind is dropped, and adds one line to the process's log.
garbage() {
    local process=$1 address=$2 kind before count=0
    lines() { wc -l <"$DIR/$process.log"; }
    one_more() { [ "$(lines)" -gt "$before" ]; }
    for kind in $("$PYTHON" "$TESTS/garbage.py" --list "$3"); do
        before=$(lines)
        "$PYTHON" "$TESTS/garbage.py" "$address" "$kind" || fail "$process and '$kind'"
        wait_for 5 "a line about '$kind' in $process.log" one_more
        [ "$(lines)" -eq $((before + 1)) ] || fail "$process wrote $(($(lines) - before)) lines about '$kind': $(tail -n +$((before + 1)) "$DIR/$process.log")"
        alive "$process" || fail "$process died of '$kind'"
        count=$((count + 1))
    done
    pass "$process dropped $count kinds of garbage with one line each"
    before=$(lines)
    for _ in 1 2 3 4 5; do "$PYTHON" "$TESTS/garbage.py" "$address" random || fail "$process and the same again"; done
    # At most: where a minute ends meanwhile, the rest is summed up, and the reason logged once more.
    [ "$(lines)" -le $((before + 2)) ] || fail "$process wrote $(($(lines) - before)) lines about five times the same: $(tail -n +$((before + 1)) "$DIR/$process.log")"
    pass "$process logs the same reason of an address once"
}
garbage gateway "127.0.0.1:$PORT" nbd
garbage node1 "${ADDR[node1]}" node
next_phase load
extent_served load 0 200
extent_served load 1 200
end_load load
no_wrong_byte load
expect_result load 'the service went on without an error' '.errors == {} and .disconnects == 0 and .unanswered == 0'
