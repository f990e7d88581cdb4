#!/usr/bin/env bash
# Shows that nodes and gateway account for all memory of requests and stay inside their budgets: 8 links with 1,024 outstanding reads of 32 KiB, floods of 32 MiB requests, 64 connections; and that all of it, and every descriptor, is given back.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

# What a budget counts is exact. What the system says that a process has (memory-resident.sh) depends on allocator and page cache as well.
NODE_OPTIONS=(--admin 127.0.0.1:0)
GATEWAY_LINES=('memory = "128MiB"')
start_cluster 1 64MiB 'links = 8'
admin_address
NODE_ADMIN=$(sed -nE 's|.*admin on http://(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/node0.log")

# memory_of ADMIN FILTER: of what it says about its memory.
memory_of() { curl -fsS "http://$1/status" | jq -e ".memory | $2"; }
descriptors() { find "/proc/${PID[$1]}/fd" -mindepth 1 | wc -l; }
# at_start NAME: it has no more descriptors than before.
at_start() { [ "$(descriptors "$1")" -le "${BEFORE[$1]}" ]; }
declare -A BEFORE=()
# The first look of /status opens what stays open.
memory_of "$ADMIN" . >/dev/null && memory_of "$NODE_ADMIN" . >/dev/null
memory_of "$ADMIN" .used_bytes >"$DIR/gateway.used"
memory_of "$NODE_ADMIN" .used_bytes >"$DIR/node0.used"
all_of_status_closed() { local now; now="$(descriptors gateway) $(descriptors node0)"; sleep 0.1; [ "$now" = "$(descriptors gateway) $(descriptors node0)" ]; }
wait_for 5 'the descriptors to stay as they are' all_of_status_closed
BEFORE=([gateway]=$(descriptors gateway) [node0]=$(descriptors node0))

# flood WHAT OPTION...: must be answered to the last request, without an error, within both budgets; and then nothing of it is left.
flood() {
    local what=$1 name admin
    shift
    timeout 280 "$PYTHON" "$TESTS/flood.py" "$URI" "$@" >"$DIR/flood.json" 2>"$DIR/flood.err" || { tail -n 5 "$DIR/flood.err" >&2; fail "$what"; }
    jq -e '.errors == 0' "$DIR/flood.json" >/dev/null || fail "$what: $(cat "$DIR/flood.json")"
    for name in gateway node0; do
        admin=$ADMIN
        [ $name = gateway ] || admin=$NODE_ADMIN
        memory_of "$admin" '.peak_bytes <= .limit_bytes' >/dev/null || fail "$what: $name had $(memory_of "$admin" .)"
        wait_for 10 "$name to give everything back" memory_of "$admin" ".used_bytes == $(cat "$DIR/$name.used")"
        wait_for 10 "$name to close all descriptors" at_start $name
    done
    pass "$what: $(jq -r '"\(.answered) answers"' "$DIR/flood.json"), at most $(memory_of "$ADMIN" .peak_bytes) bytes in the gateway, $(memory_of "$NODE_ADMIN" .peak_bytes) in the node, and none is left"
}

flood '8 connections with 1,024 outstanding reads of 32 KiB' --connections 8 --outstanding 1024 --length 32768 --requests 2048
flood '8 connections with 1,024 outstanding writes of 32 KiB' --command write --connections 8 --outstanding 1024 --length 32768 --requests 1024
flood '4 connections with 8 outstanding reads of 32 MiB' --connections 4 --outstanding 8 --length 33554432 --requests 6
flood '4 connections with 8 outstanding writes of 32 MiB' --command write --connections 4 --outstanding 8 --length 33554432 --requests 6
flood '64 connections with 64 outstanding reads of 32 KiB' --connections 64 --outstanding 64 --length 32768 --requests 128
flood '64 connections, slow readers' --slow --connections 64 --outstanding 256 --length 32768 --requests 256
flood '64 connections with 4 outstanding writes of 1 MiB' --command write --connections 64 --outstanding 4 --length 1048576 --requests 8
flood '64 connections with 2 outstanding reads of 32 MiB' --connections 64 --outstanding 2 --length 33554432 --requests 1
# It has to have been a flood: more was asked for than there is room for. What nodes did each second has a part of the memory.
memory_of "$ADMIN" '.limit_bytes <= 134217728 and .limit_bytes >= 134217728 * 0.9 and .peak_bytes > .limit_bytes / 2' >/dev/null || fail "the gateway was never near its limit: $(memory_of "$ADMIN" .)"
pass 'the gateway was near its limit'
