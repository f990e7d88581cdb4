# A gateway and its nodes on two hosts: network namespaces with one cable between them.
# shellcheck shell=bash

# two_hosts PREFIX: sets GATEWAY and NODE to their addresses, GATEWAY_HOST and NODE_HOST to what goes before a command that runs there.
two_hosts() {
    local net
    NET=$1$$
    GATEWAY=198.51.100.1
    NODE=198.51.100.2
    GATEWAY_HOST=(ip netns exec "$NET-gateway")
    NODE_HOST=(ip netns exec "$NET-node")
    at_end 'for net in gateway node; do ip netns del "$NET-$net" 2>/dev/null; done'
    ip netns add "$NET-gateway"
    ip netns add "$NET-node"
    ip link add eth0 netns "$NET-gateway" type veth peer name eth0 netns "$NET-node"
    for net in "gateway:$GATEWAY" "node:$NODE"; do
        ip netns exec "$NET-${net%:*}" sh -c "ip addr add ${net#*:}/24 dev eth0 && ip link set lo up && ip link set eth0 up"
    done
    interface_up() { "${NODE_HOST[@]}" ip -br link show eth0 | grep -q 'UP '; }
    wait_for 20 'the interface' interface_up
}
