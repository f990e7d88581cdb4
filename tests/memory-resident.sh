#!/usr/bin/env bash
# Shows that what the system says that nodes and gateway have stays inside their memory: idle, under 8 links with 1,024 outstanding reads of 32 KiB, under a flood of 32 MiB requests, and with 64 connections.
# Tier: slow
# Canary: gateway-leaks node-leaks
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

MIB=1024 # in KiB, as /proc says it
# What a process maps of files, its program and a node's extent, is page cache, which the kernel takes back when it wants to: it
# counts as the process's (RssFile), and is not its memory. So what is measured is what cannot be taken back, RssAnon and RssShmem. There
# is no high-water mark for that: it is sampled, every 50 ms.
watch_private() {
    local pid=${PID[$1]} file=$DIR/$1.private peak=0 mapped=0 field value sum _
    while true; do
        sum=0
        while read -r field value _; do
            case $field in
                RssAnon: | RssShmem:) sum=$((sum + value)) ;;
                RssFile:) if [ "$value" -gt "$mapped" ]; then mapped=$value; fi ;;
            esac
        done <"/proc/$pid/status" || return 0
        if [ "$sum" -gt "$peak" ]; then
            peak=$sum
            echo "$peak" >"$file.new" && mv "$file.new" "$file"
        fi
        echo "$mapped" >"$file.mapped.new" && mv "$file.mapped.new" "$file.mapped"
        sleep 0.05
    done
}
# private_peak NAME: the most so far, in KiB.
private_peak() { cat "$DIR/$1.private"; }
# flood WHAT OPTION...: must be answered to the last request, without an error.
flood() {
    local what=$1
    shift
    timeout 280 "$PYTHON" "$TESTS/flood.py" "$URI" "$@" >"$DIR/flood.json" 2>"$DIR/flood.err" || { tail -n 5 "$DIR/flood.err" >&2; fail "$what"; }
    jq -e '.errors == 0' "$DIR/flood.json" >/dev/null || fail "$what: $(cat "$DIR/flood.json")"
    pass "$what: $(jq -r '"\(.answered) answers in \(.seconds) s"' "$DIR/flood.json")"
}

# One node, so that it gets everything; files on tmpfs would count nothing here, page cache neither.
GATEWAY_LINES=('memory = "128MiB"')
start_cluster 1 64MiB 'links = 8'
at_most 'a node, idle' "$(memory node0 VmRSS)" $((24 * MIB)) KiB
watch_private node0 2>/dev/null &
PID[watch]=$!
watch_private gateway 2>/dev/null &
PID[watch_gateway]=$!
wait_for 5 'the first samples' test -s "$DIR/node0.private" -a -s "$DIR/gateway.private"
flood '8 connections with 1,024 outstanding reads of 32 KiB' --connections 8 --outstanding 1024 --length 32768 --requests 2048
at_most 'the node, peak without what it maps' "$(private_peak node0)" $((64 * MIB)) KiB
flood '8 connections with 1,024 outstanding writes of 32 KiB' --command write --connections 8 --outstanding 1024 --length 32768 --requests 1024
at_most 'the node, peak without what it maps' "$(private_peak node0)" $((64 * MIB)) KiB
flood '4 connections with 8 outstanding reads of 32 MiB' --connections 4 --outstanding 8 --length 33554432 --requests 12
at_most 'the node, peak without what it maps' "$(private_peak node0)" $((64 * MIB)) KiB
flood '4 connections with 8 outstanding writes of 32 MiB' --command write --connections 4 --outstanding 8 --length 33554432 --requests 12
at_most 'the node, peak without what it maps' "$(private_peak node0)" $((64 * MIB)) KiB

flood '64 connections with 64 outstanding reads of 32 KiB' --connections 64 --outstanding 64 --length 32768 --requests 128
flood '64 connections, slow readers' --slow --connections 64 --outstanding 256 --length 32768 --requests 256
flood '64 connections with 4 outstanding writes of 1 MiB' --command write --connections 64 --outstanding 4 --length 1048576 --requests 8
# What requests no longer need goes back to the system, else large requests would come on top of what small ones left behind.
given_back() { [ "$(memory gateway RssAnon)" -le $((64 * MIB)) ]; }
wait_for 10 'the gateway giving memory back' given_back
pass "the gateway, its clients gone: $(memory gateway RssAnon) KiB are left of a peak of $(private_peak gateway)"
flood '64 connections with 2 outstanding reads of 32 MiB' --connections 64 --outstanding 2 --length 33554432 --requests 2
# 128 MiB for requests; besides, 256 KiB of spare segments and a receive buffer of at least 64 KiB for each of 64 clients,
# two frames of 1 MiB and spares for each of 8 links, and 8 MiB of buffers to use again.
at_most 'the gateway, peak without what it maps' "$(private_peak gateway)" $((192 * MIB)) KiB
at_most 'the node, peak without what it maps' "$(private_peak node0)" $((64 * MIB)) KiB

[ "$(private_peak node0)" -gt $((4 * MIB)) ] || fail "the samples say $(private_peak node0) KiB: they cannot be right"
mapped_peak=$(cat "$DIR/node0.private.mapped")
[ "$mapped_peak" -gt $((32 * MIB)) ] || fail "only $mapped_peak KiB were ever mapped: the reads did not go that way"
pass "the node mapped $mapped_peak KiB of its file meanwhile"
tables_dropped() { [ "$(memory node0 RssFile)" -le $((24 * MIB)) ]; }
wait_for 20 'the node giving back the page tables of its mapping' tables_dropped
at_most 'the node, mapped, some seconds after the last read' "$(memory node0 RssFile)" $((24 * MIB)) KiB
