#!/usr/bin/env bash
# Shows that a standby takes over a volume with copies while every node's disk is full to the last block, again and again, and that nodes are killed and started meanwhile.
# Tier: test
if [ "${OWN_NETWORK:-}" != 1 ] && [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
    OWN_NETWORK=1 exec unshare --net "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
need_netns 'two gateways on machines of their own'
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/etcd.sh"
. "$TESTS/lib/machines.sh"
. "$TESTS/lib/two_gateways.sh"
. "$TESTS/lib/full.sh"
need_etcd
LEASE_S=4

at_end 'for name in one two node0 node1 node2; do if alive $name; then stop $name KILL; fi; done; unmount_disks'
for i in 0 1 2; do
    small_disk disk$i 24M
    truncate -s 16M "$DIR/disk$i/flash.img"
    # The files beside an extent are beside the real one.
    ln -s "disk$i/flash.img" "$DIR/node$i.img"
done
two_gateways

# on_active ARGUMENTS...: a client of the gateway in charge.
on_active() { "$PYTHON" "$TESTS/nbdload.py" "${NBD[$ACTIVE]}" --model "$DIR/model" "$@" >"$DIR/load.json" && jq -e '.errors == {} and .unanswered == 0' "$DIR/load.json"; }
seed=0
works() {
    seed=$((seed + 1))
    check "$1: overwrites work" on_active --requests 300 --reads 30 --seed $seed
    check "$1: all is there" on_active --verify
    check "$1: with the right bytes" jq -e '.mismatches == 0 and .reads > 0' "$DIR/load.json"
    check "$1: no disk has got room" are_full
}
go_on() { works "gateway $ACTIVE took over"; }
run_node_again() {
    start "$1" "$FLASHMOB" node --data "$DIR/$1.img" --insecure --size 16MiB --listen "${ADDR[$1]}"
    started "$1" 'ready'
}

check 'the volume is filled' on_active --fill --depth 64
fill_disks
works 'disks that filled up'
for round in 1 2 3; do
    kill_active
    for node in node0 node1 node2; do
        stop $node KILL
        run_node_again $node
        linked_again() { log_has $node 'linked to the gateway'; }
        wait_for 30 "$node to be linked" linked_again
    done
    works "nodes killed and started, $round"
done
check 'nobody had to do without room' eval '! grep -h "no room\|No space left" "$DIR"/node*.log*'
