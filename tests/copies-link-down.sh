#!/usr/bin/env bash
# Shows that no node is put out when the bridge between gateway and nodes is down for 10 s: requests wait, none fails, and it goes on.
# Tier: test
# Runs beside others.
# The gateway and its clients have a network of their own, so that nothing of this is seen in the machine's.
if [ "${OWN_NETWORK:-}" != 1 ] && [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
    OWN_NETWORK=1 exec unshare --net "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
need_netns 'a bridge between a gateway and four nodes'
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/silence.sh"
. "$TESTS/lib/machines.sh"

start_switch
for i in 0 1 2 3; do
    node=node$i
    NODES+=("$node")
    add_machine "$node" $((i + 1))
    ADDR[$node]=$HOST.$((i + 1)):7411
    start "$node" ip netns exec "$NET-$node" "$FLASHMOB" node --data "$DIR/$node.img" --insecure --size 32MiB --listen "${ADDR[$node]}"
    started "$node" 'ready'
done

fall_silent() { on switch ip link set br0 down; }
# Each link finds out for itself, when TCP sends again: they do not come back all at the same time.
come_back() { on switch ip link set br0 up; }

NODE_SIZE=32MiB
start_gateway 'layout = "mapped"' 'copies = 2' "${SILENCE_LINES[@]}"
admin_address
whole_again
silence
