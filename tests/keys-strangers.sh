#!/usr/bin/env bash
# Shows that thousands of silent and trickling connections at the ports of a node and of a gateway slow a client by little, take a bounded memory, and keep nobody out.
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
need jq curl nbdinfo

SILENT=${SILENT:-1000}
TRICKLING=${TRICKLING:-1000}
ROUNDS=${ROUNDS:-8}
# Of the p99 of reads, one outstanding.
BOUND=2
NODE_SIZE=16MiB
ulimit -n 8192 || fail 'not enough open files are allowed'

start_keyed 2 $NODE_SIZE 'timeout = "60s"'
admin_address
check 'a client gets a certificate' "$FLASHMOB" client add "$DIR/gateway.toml" alice --volume pool --out "$DIR/alice"
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$UNIX_URI" --fill --depth 64 --model "$DIR/model"
before=$(memory node0 RssAnon) gateway_before=$(memory gateway RssAnon)
LOAD_URI=$UNIX_URI start_load load --extents 1 --depth 1 --reads 100 --model "$DIR/model"

PLACES=("${ADDR[node0]}" "${ADDR[node1]}" "127.0.0.1:$PORT")

# Alone and beside strangers in turn, so that both see the same machine.
come() {
    for place in "${PLACES[@]}"; do
        start "strangers${place##*:}" "$PYTHON" "$TESTS/strangers.py" "$place" --silent "$SILENT" --trickling "$TRICKLING" \
            --open "$DIR/open${place##*:}" --again "${AGAIN:-5}"
    done
    for place in "${PLACES[@]}"; do wait_for 20 "strangers at $place" test -s "$DIR/open${place##*:}"; done
}
go() { for place in "${PLACES[@]}"; do stop "strangers${place##*:}"; rm -f "$DIR/open${place##*:}"; done; }
busy_begin
dropped=0
for ((round = 0; round < ROUNDS; round++)); do
    next_phase load
    load_seconds load 1.5
    # What makes it fail: a client that shares a processor with something greedy.
    [ -z "${CANARY:-}" ] || { for spin in 1 2 3 4 5 6; do start "spin$round.$spin" "$PYTHON" -c 'while True: pass'; done; }
    come
    next_phase load
    load_seconds load 1.5
    go
    [ -z "${CANARY:-}" ] || for spin in 1 2 3 4 5 6; do stop "spin$round.$spin" KILL; done
    for place in "${PLACES[@]}"; do dropped=$((dropped + $(cat "$DIR/strangers${place##*:}.out"))); done
done
end_load load
no_wrong_byte load
expect_result load 'no request failed' '.errors == {} and .unanswered == 0 and .disconnects == 0'
# The first phase is the start; then alone and beside in turn.
mapfile -t p99 < <(jq '.phases[1:][] | .extents[0].p99_ms' "$DIR/load.out")
ratios=()
for ((round = 0; round < ROUNDS; round++)); do ratios+=("$(jq -n "${p99[2 * round + 1]} / ${p99[2 * round]}")"); done
say "p99 alone, beside: ${p99[*]} ms; $dropped strangers were dropped for newcomers"
sign_test 'the p99 beside strangers' $BOUND "${ratios[@]}"

# Memory, with all of them there; and nobody is kept out.
come
check 'a client gets in beside them' nbdinfo --size "nbds://127.0.0.1:$PORT/pool?tls-certificates=$DIR/alice"
at_most 'memory of a node beside them' "$(($(memory node0 RssAnon) - before))" 4096 KiB
at_most 'memory of the gateway beside them' "$(($(memory gateway RssAnon) - gateway_before))" 16384 KiB
stop gateway
run_gateway
volume_ready
pass 'a gateway that starts again gets its links beside them'
go
