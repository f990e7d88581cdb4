#!/usr/bin/env bash
# Shows that a gateway does not grow by clients killed with requests in flight: what the system says that it has is the same after 10 of them and after 60.
# Tier: slow
# Canary: client-leaks
. "$(dirname "$0")/lib.sh"
need jq

start_cluster 4 8MiB
# abort TIMES OPTION...
abort() {
    local times=$1 i
    shift
    for ((i = 0; i < times; i++)); do
        start victim "$PYTHON" "$TESTS/flood.py" "$URI" --abort "$@"
        wait "${PID[victim]}" 2>/dev/null && fail 'the client was not killed'
        alive gateway || fail "the gateway died of killed client $i"
    done
}
# The allocator keeps what large requests used for a while and gives it back with later ones, so that memory goes up and down by
# steps of 4 MiB; what leaked does not come down again. So the least of some looks counts.
# least ROUNDS: of so many rounds of killed clients; in KiB.
least() {
    local round now least=
    for ((round = 0; round < $1; round++)); do
        abort 3 --connections 4 --outstanding 64 --requests 100
        abort 1 --command write --connections 4 --outstanding 16 --length 262144 --requests 8
        abort 1 --connections 2 --outstanding 8 --length 4194304 --requests 3
        now=$(memory gateway RssAnon)
        if [ -z "$least" ] || [ "$now" -lt "$least" ]; then least=$now; fi
    done
    echo "$least"
}
before=$(least 5)
after=$(least 7)
say "the least of memory: $before KiB over the first 25 clients, $after KiB over the next 35"
at_most 'growth of memory' $((after - before)) 16384 KiB
