#!/usr/bin/env bash
# Shows that a greedy client does not keep a modest one waiting, and a slow node no requests to others.
. "$(dirname "$0")/lib.sh"
need jq nbdcopy

FAIRNESS=${FAIRNESS:-${CARGO_TARGET_DIR:-$ROOT/target}/release/fairness}
[ -x "$FAIRNESS" ] || fail "$FAIRNESS does not exist; run: make programs"
# Ratios of p99, the modest client beside the load against alone, medians over rounds. 3 is wanted; a machine whose cores are all
# busy adds a multiple of that by itself, so that ratios are printed for people and judged generously.
RATIO_MAX=10
ROUNDS=${ROUNDS:-3}

# measure WHAT KEY=VALUE...: the modest client alone and beside a load; figures in $DIR/WHAT.json.
measure() {
    local what=$1
    shift
    "$FAIRNESS" "$URI" "rounds=$ROUNDS" ms=300 "$@" >"$DIR/$what.json" 2>"$DIR/measure.out" || { cat "$DIR/measure.out" >&2; fail "$what"; }
    say "$what: $(jq -r '"p50 \(.alone_p50_us) us alone, \(.beside_p50_us) us beside (\(.ratio_p50) x); p99 \(.alone_p99_us) us, \(.beside_p99_us) us (\(.ratio_p99) x); the load: \(.greedy_reads_per_s) reads/s, p50 \(.greedy_p50_us) us"' "$DIR/$what.json")"
}

# What is judged is time, and a machine that does other things for a moment adds to it. What fairness prevents happens each time
# without it, so one quiet run of up to 5 is enough.
# shown WHAT NAME LIMIT UNIT KEY=VALUE...: measures until figure NAME is at most LIMIT, a jq expression over the same figures.
shown() {
    local what=$1 name=$2 limit=$3 unit=$4 try
    shift 4
    for try in 1 2 3 4 5; do
        measure "$what" "$@"
        jq -e ".$name <= ($limit)" "$DIR/$what.json" >/dev/null && break
    done
    at_most "$what: $name ($try of 5 tries)" "$(figure "$what" "$name")" "$(jq "$limit" "$DIR/$what.json")" "$unit"
}

# figure WHAT NAME
figure() { jq ".$2" "$DIR/$1.json"; }

# full SIZE: the volume holds bytes, all of them in the page cache.
full() {
    head -c "$1" /dev/urandom >"$DIR/in.img"
    check 'an image is written' nbdcopy "$DIR/in.img" "$URI"
    rm "$DIR/in.img"
}

# A greedy client beside a modest one, the extent in the gateway's own process.
cat >"$DIR/gateway.toml" <<TOML
listen = "127.0.0.1:0"
[[volume]]
name = "pool"
[[volume.node]]
path = "local.img"
size = "64MiB"
TOML
run_gateway
volume_ready
full 64M
measure one_hop_two_threads_spin spin=2
# The modest client's p99 is about the greedy one's p50 at most, whose reads stand in line behind each other. Both are measured at the same
# time, so that it matters less how busy the machine is. (Not its p50: between two of the greedy one's bursts it is answered so often that a
# low p50 shows nothing. A high one shows much: see below.)
shown one_hop beside_p99_us '.greedy_p50_us * 1.5' us
stop gateway
rm "$DIR"/gateway.toml*

# The same over two nodes.
start_cluster 2 32MiB 'layout = "striped"' 'stripe = "64KiB"'
full 64M
measure two_hops_two_threads_spin spin=2
# Its p99 is not judged here: four processes and two clients on two cores wait for a processor longer than for each other (see the
# row with two threads that only spin). Its p50 is: without fairness it waits for most of what the greedy client has queued.
shown two_hops beside_p50_us '.greedy_p50_us * 0.4' us
stop gateway
for node in node0 node1; do stop "$node"; done
rm -f "$DIR"/node* "$DIR"/gateway.toml*
ADDR=()

# All of the load on one of four nodes, which is behind a slow network; the modest client asks the other three.
NODES=(node0 node1 node2 node3)
for node in "${NODES[@]}"; do start_node "$node" 16MiB; done
start proxy "$PYTHON" "$TESTS/slow_proxy.py" "${ADDR[node3]}" 4000000
started proxy 'listening on'
NODE_HOST[3]=$(sed -n 's/^listening on //p' "$DIR/proxy.log")
start_gateway 'layout = "linear"'
full 48M
# Who waits for the slow node waits by orders of magnitude longer than who does not.
shown slow_node beside_p50_us '.greedy_p50_us / 20' us greedy=0.75-1 modest=0-0.75
shown slow_node ratio_p99 "$RATIO_MAX" 'times that alone' greedy=0.75-1 modest=0-0.75
