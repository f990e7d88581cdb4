#!/usr/bin/env bash
# Shows that a volume with copies survives restarts of its gateway and of its nodes while every disk is full to the last block, that of the gateway included.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/full.sh"
need_root 'small file systems are mounted'

COUNT=3
at_end 'for name in gateway "${NODES[@]}"; do if alive "$name"; then stop "$name" KILL; fi; done; unmount_disks'
small_disk gateway-state 8M
export STATE_DIRECTORY=$DIR/gateway-state
for ((i = 0; i < COUNT; i++)); do
    small_disk disk$i 24M
    NODES+=(node$i)
    DATA=$DIR/disk$i/flash.img start_node node$i 16MiB
done
NODE_SIZE=16MiB
start_gateway 'layout = "mapped"' 'copies = 2' 'evict_after = "500ms"' 'timeout = "60s"'
admin_address
whole_again
wait_for 20 'all nodes to have a mirror of the map' copies ".mirrors == $COUNT"
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"

seed=0
# overwrites: blocks that have room change, and all of the volume has what was written last.
overwrites() {
    seed=$((seed + 1))
    "$PYTHON" "$TESTS/nbdload.py" "$URI" --requests 400 --reads 30 --model "$DIR/model" --seed $seed >"$DIR/overwrites.json" &&
        jq -e '.errors == {}' "$DIR/overwrites.json" && is_all_there
}
works() {
    check "$1: reads and overwrites work" overwrites
    check "$1: no disk has got room" are_full
}

fill_disks
works 'disks that filled up'
for round in 1 2 3; do
    stop gateway KILL
    gateway_again
    works "gateway killed and started, $round"
    check "all nodes have a mirror of the map, $round" wait_for 20 mirrors copies ".mirrors == $COUNT"
done
check 'nobody had to do without room' eval '! grep -h "no room" "$DIR"/*.log'

stop gateway TERM
for node in "${NODES[@]}"; do stop "$node" KILL; run_node "$node"; done
gateway_again
works 'all killed and started'

# The map changes: a copy falls behind, and is made equal.
stop node1 KILL
check 'writes without node 1' overwrites
check 'its copies are behind' copies '.behind_chunks > 0'
stop gateway KILL
run_gateway
run_node node1
volume_ready
admin_address
whole_again
works 'a node that was away'

# Others want each block that becomes free.
hogs() { while :; do for disk in "${DISKS[@]}"; do head -c 1K /dev/zero >>"$DIR/$disk/ballast" || true; done; done; }
start hogs hogs
for round in 1 2 3; do
    stop gateway KILL
    stop node2 KILL
    run_node node2
    gateway_again
    check "beside others that fill the disks, $round" overwrites
done
stop hogs KILL
whole_again

# An earlier program has left no room.
stop gateway KILL
for node in "${NODES[@]}"; do stop "$node" KILL; done
rm -f "$DIR"/disk*/flash.img.flashmob.new "$DIR"/disk*/flash.img.map.new "$STATE_DIRECTORY"/*.new
fill_disks
for node in "${NODES[@]}"; do run_node "$node"; check "$node says that it lacks room" log_has "$node" 'cannot write .*flash\.img\.flashmob: No space left on device.*has space'; done
run_gateway
wait_for 20 'the nodes to refuse the gateway' eval '[ "$(grep -c "refused: cannot write .*flash.img.flashmob: No space left" "$DIR/gateway.log")" -ge '$COUNT' ]'
check 'the map is used where it is' log_has gateway 'no room for a new file, so this one is used further; free some'
free_disks
wait_for 60 'the nodes to be linked' log_has gateway 'volume pool ready'
admin_address
whole_again
check 'with some room all is there' overwrites
for node in node0 node1 node2; do
    stop "$node" KILL
    check "it is all there without $node" is_all_there
    run_node "$node"
    whole_again
done
