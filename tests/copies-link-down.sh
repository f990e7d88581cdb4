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

NET=fs$$
HOST=198.51.100
# in_net NAME COMMAND...
in_net() {
    local net=$NET-$1
    shift
    ip netns exec "$net" "$@"
}
at_end 'for net in bridge node0 node1 node2 node3; do ip netns del "$NET-$net" 2>/dev/null; done'
ip netns add "$NET-bridge"
in_net bridge sh -c 'ip link add br0 type bridge && ip link set br0 up'
# plug PORT: brings up its end at the bridge.
plug() { in_net bridge sh -c "ip link set $1 master br0 && ip link set $1 up"; }
ip link set lo up
ip link add eth0 type veth peer name gateway netns "$NET-bridge"
ip addr add $HOST.100/24 dev eth0
ip link set eth0 up
plug gateway

for i in 0 1 2 3; do
    node=node$i
    NODES+=("$node")
    ip netns add "$NET-$node"
    ip link add eth0 netns "$NET-$node" type veth peer name "$node" netns "$NET-bridge"
    in_net "$node" sh -c "ip addr add $HOST.$((i + 1))/24 dev eth0 && ip link set lo up && ip link set eth0 up"
    plug "$node"
    ADDR[$node]=$HOST.$((i + 1)):7411
    start "$node" ip netns exec "$NET-$node" "$FLASHMOB" node --data "$DIR/$node.img" --insecure --size 32MiB --listen "${ADDR[$node]}"
    started "$node" 'ready'
done

fall_silent() { in_net bridge ip link set br0 down; }
# Each link finds out for itself, when TCP sends again: they do not come back all at the same time.
come_back() { in_net bridge ip link set br0 up; }

NODE_SIZE=32MiB
start_gateway 'layout = "mapped"' 'copies = 2' "${SILENCE_LINES[@]}"
admin_address
whole_again
silence
