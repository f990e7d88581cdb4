#!/usr/bin/env bash
# Shows that a request costs no more system calls and wake-ups, at the gateway and at the nodes, than docs/life-of-a-read.md says under "Cost".
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
need nbdcopy strace

# A gateway that polls before it sleeps makes as many calls as it has time for.
GATEWAY_LINES=('busy_poll_us = 0')
# A node that reads with a system call and not from a mapping: one call more for each read.
[ -z "${CANARY:-}" ] || NODE_OPTIONS=(--mapped off)
start_cluster 2 32MiB
if [ -z "${CANARY:-}" ] && ! log_has node0 'mapped: small reads'; then
    echo '    not run: nodes do not read from a mapping here' >&2
    exit $NOT_RUN
fi
head -c 64M /dev/urandom >"$DIR/in.img"
check 'the volume is filled' nbdcopy "$DIR/in.img" "$URI"
rm "$DIR/in.img"

declare -A COUNTER=()
# begin_count NAME: counts the system calls of all threads of a process from now on.
begin_count() {
    rm -f "$DIR/$1.calls" "$DIR/$1.strace"
    strace -f -c -o "$DIR/$1.calls" -p "${PID[$1]}" 2>"$DIR/$1.strace" </dev/null &
    COUNTER[$1]=$!
    wait_for 5 "strace to follow $1" is_followed "$1"
    if ! kill -0 "${COUNTER[$1]}" 2>/dev/null; then
        echo "    not run: strace may not follow processes here: $(tail -n 1 "$DIR/$1.strace")" >&2
        exit $NOT_RUN
    fi
}
is_followed() { grep -q attached "$DIR/$1.strace" || ! kill -0 "${COUNTER[$1]}" 2>/dev/null; }
at_end 'kill "${COUNTER[@]}" 2>/dev/null'
# end_count NAME: sets COUNTED to how many there were.
end_count() {
    # Not INT: a shell's background processes ignore it.
    kill -TERM "${COUNTER[$1]}" 2>/dev/null || true
    wait "${COUNTER[$1]}" 2>/dev/null || true
    # Not the line with the total: versions of strace differ in its columns.
    COUNTED=$(awk '$1 ~ /^[0-9.]+$/ && $NF != "total" { calls += $4 } END { print calls + 0 }' "$DIR/$1.calls")
    [ "$COUNTED" -gt 0 ] || fail "strace counted nothing of $1: $(tail -n 1 "$DIR/$1.strace")"
}
# sleeps NAME: how often its threads have waited for something.
sleeps() { cat "/proc/${PID[$1]}/task"/*/status 2>/dev/null | awk '$1 == "voluntary_ctxt_switches:" { sum += $2 } END { print sum }'; }
each() { awk -v n="$1" -v of="$2" 'BEGIN { printf "%.2f\n", n / of }'; }

load() { "$FLASHMOB" --quiet bench nbd "$URI" --seed 3 --align 4KiB --allow-writes --block-size 4KiB "$@"; }
# count WHAT REQUESTS OUTSTANDING OPTION...: CALLS and SLEEPS of the gateway and of both nodes, for each request. Sleeps are counted without
# strace, which would make them more.
count() {
    local what=$1 requests=$2 outstanding=$3 name gateway nodes
    shift 3
    local args=(--requests "$requests" --outstanding "$outstanding" "$@")
    declare -gA CALLS=() SLEEPS=()
    # Buffers and pages are what they will be.
    check "$what: the first run" load "${args[@]}"
    busy_begin
    gateway=$(sleeps gateway) nodes=$(($(sleeps node0) + $(sleeps node1)))
    check "$what: wake-ups are counted" load "${args[@]}"
    SLEEPS[gateway]=$(each $(($(sleeps gateway) - gateway)) "$requests")
    SLEEPS[nodes]=$(each $(($(sleeps node0) + $(sleeps node1) - nodes)) "$requests")
    for name in gateway node0 node1; do begin_count $name; done
    check "$what: system calls are counted" load "${args[@]}"
    end_count gateway
    CALLS[gateway]=$(each "$COUNTED" "$requests")
    end_count node0
    nodes=$COUNTED
    end_count node1
    CALLS[nodes]=$(each $((nodes + COUNTED)) "$requests")
    say "$what: calls ${CALLS[gateway]} at the gateway, ${CALLS[nodes]} at nodes; wake-ups ${SLEEPS[gateway]} and ${SLEEPS[nodes]}"
}
# bounds WHAT GATEWAY NODES GATEWAY_SLEEPS NODES_SLEEPS. Beside other work on the machine batches have other sizes.
bounds() {
    judged "$1: system calls of the gateway for each" "${CALLS[gateway]}" "$2"
    judged "$1: system calls of nodes for each" "${CALLS[nodes]}" "$3"
    judged "$1: wake-ups of the gateway for each" "${SLEEPS[gateway]}" "$4"
    judged "$1: wake-ups of nodes for each" "${SLEEPS[nodes]}" "$5"
}

# One at a time: what the code does, and a little for what happens by time. Fewer would be a fault of counting.
count 'one read at a time' 3000 1
bounds 'one read at a time' 6.6 3.3 2.3 1.3
awk -v gateway="${CALLS[gateway]}" -v nodes="${CALLS[nodes]}" 'BEGIN { exit !(gateway > 5 && nodes > 2) }' || fail 'calls were not counted'
count 'one write at a time' 3000 1 --write
# Written by the nodes' loops: a thread for each would be one wake-up more.
bounds 'one write at a time' 6.6 9.6 2.3 1.8
# Many: twice what was counted, as the size of batches is a matter of chance.
count '64 reads at a time' 60000 64
bounds '64 reads at a time' 0.6 0.4 0.2 0.2
count '64 writes at a time' 60000 64 --write
bounds '64 writes at a time' 0.9 2.8 0.3 0.3
