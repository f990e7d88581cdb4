#!/usr/bin/env bash
# Shows that 50 clients killed with requests in flight cost the gateway nothing: it lives, it leaks no descriptor and no memory, others go on.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

start_cluster 4 8MiB
# The load has the first 16 MiB, the victims the rest.
HALF=$((16 * 1048576))
start_load load --bytes $HALF --depth 16 --model "$DIR/model"
# Beyond the load the gateway has these descriptors.
descriptors() { find "/proc/${PID[gateway]}/fd" -mindepth 1 | wc -l; }
before=$(descriptors)
no_more_than_before() { [ "$(descriptors)" -le "$before" ]; }

# abort TIMES OPTION...
abort() {
    local times=$1 i
    shift
    for ((i = 0; i < times; i++)); do
        start victim "$PYTHON" "$TESTS/flood.py" "$URI" --abort --start $HALF "$@"
        wait "${PID[victim]}" 2>/dev/null && fail 'the client was not killed'
        alive gateway || fail "the gateway died of killed client $i"
    done
    wait_for 20 'the descriptors of killed clients to be closed' no_more_than_before
}
abort 8 --connections 4 --outstanding 64 --requests 100
abort 4 --command write --connections 4 --outstanding 16 --length 262144 --requests 8
first=$(memory gateway VmRSS)
abort 20 --connections 4 --outstanding 64 --requests 100
abort 10 --connections 2 --outstanding 8 --length 4194304 --requests 3
abort 8 --slow --connections 4 --outstanding 64 --requests 50
pass "50 clients killed; the gateway has $(descriptors) descriptors, $before before"

# The allocator keeps what large requests used for a while and gives it back with later ones, so memory goes up and down
# by 4 MiB steps; what leaked does not come down again. Ten more clients at most until it has.
grown() { echo $(($(memory gateway VmRSS) - first)); }
for ((more = 0; more < 10 && $(grown) > 16384; more++)); do
    abort 1 --connections 2 --outstanding 8 --length 4194304 --requests 3
done
at_most "memory, growth from $first KiB over the last $((38 + more))" "$(grown)" 16384 KiB
end_load load
no_wrong_byte load
