#!/usr/bin/env bash
# Shows that nodes and gateway stay inside their memory: idle, under 8 links with 1,024 outstanding reads of 32 KiB, under a flood of 32 MiB requests, and with 64 connections.
. "$(dirname "$0")/lib.sh"
need jq

MIB=1024 # in KiB, as /proc says it
# flood WHAT OPTION...: must be answered to the last request, without an error.
flood() {
    local what=$1
    shift
    timeout 120 "$PYTHON" "$TESTS/flood.py" "$URI" "$@" >"$DIR/flood.json" 2>"$DIR/flood.err" || { tail -n 5 "$DIR/flood.err" >&2; fail "$what"; }
    jq -e '.errors == 0' "$DIR/flood.json" >/dev/null || fail "$what: $(cat "$DIR/flood.json")"
    pass "$what: $(jq -r '"\(.answered) answers in \(.seconds) s"' "$DIR/flood.json")"
}

# One node, so that it gets everything; files on tmpfs would count nothing here, page cache neither.
GATEWAY_LINES=('memory = "128MiB"')
start_cluster 1 64MiB 'links = 8'
at_most 'a node, idle' "$(memory node0 VmRSS)" $((24 * MIB)) KiB
flood '8 connections with 1,024 outstanding reads of 32 KiB' --connections 8 --outstanding 1024 --length 32768 --requests 2048
at_most 'the node, peak' "$(memory node0 VmHWM)" $((64 * MIB)) KiB
flood '8 connections with 1,024 outstanding writes of 32 KiB' --command write --connections 8 --outstanding 1024 --length 32768 --requests 1024
at_most 'the node, peak' "$(memory node0 VmHWM)" $((64 * MIB)) KiB
flood '4 connections with 8 outstanding reads of 32 MiB' --connections 4 --outstanding 8 --length 33554432 --requests 12
at_most 'the node, peak' "$(memory node0 VmHWM)" $((64 * MIB)) KiB
flood '4 connections with 8 outstanding writes of 32 MiB' --command write --connections 4 --outstanding 8 --length 33554432 --requests 12
at_most 'the node, peak' "$(memory node0 VmHWM)" $((64 * MIB)) KiB

flood '64 connections with 64 outstanding reads of 32 KiB' --connections 64 --outstanding 64 --length 32768 --requests 128
flood '64 connections, slow readers' --slow --connections 64 --outstanding 256 --length 32768 --requests 256
flood '64 connections with 4 outstanding writes of 1 MiB' --command write --connections 64 --outstanding 4 --length 1048576 --requests 8
flood '64 connections with 2 outstanding reads of 32 MiB' --connections 64 --outstanding 2 --length 33554432 --requests 2
at_most 'the gateway, peak' "$(memory gateway VmHWM)" $((192 * MIB)) KiB
at_most 'the node, peak' "$(memory node0 VmHWM)" $((64 * MIB)) KiB
