#!/usr/bin/env bash
# Shows that 50 clients killed with requests in flight cost the gateway nothing: it lives, it keeps no descriptor and no memory of theirs, others go on.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

start_cluster 4 8MiB
admin_address
# memory_is FILTER: true of what the gateway says about memory of requests.
memory_is() { curl -fsS "http://$ADMIN/status" | jq -e ".memory | $1" >/dev/null; }
memory_is '.used_bytes == 0' || fail 'the gateway holds memory for nobody'
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
abort 20 --connections 4 --outstanding 64 --requests 100
abort 10 --connections 2 --outstanding 8 --length 4194304 --requests 3
abort 8 --slow --connections 4 --outstanding 64 --requests 50
pass "50 clients killed; the gateway has $(descriptors) descriptors, $before before"

end_load load
no_wrong_byte load
# What a client held that was killed must not count for ever: then, in the end, others would have none. What the system says that the gateway has is
# for client-abort-resident.sh.
memory_is '.peak_bytes <= .limit_bytes and .peak_bytes > 0' || fail "memory: $(curl -fsS "http://$ADMIN/status" | jq -c .memory)"
wait_for 10 'the gateway to give everything back' memory_is '.used_bytes == 0'
pass 'all memory of requests is given back'
