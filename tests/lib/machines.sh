# Several machines on one switch: network namespaces, and a bridge between them; sourced after lib.sh, in a network of the test's own (OWN_NETWORK).
# shellcheck shell=bash
HOST=198.51.100

# on NAME COMMAND...: runs a command on that machine; `switch` is where the bridge is.
on() {
    local net=$NET-$1
    shift
    ip netns exec "$net" "$@"
}
# plug PORT: puts a cable into the switch.
plug() { on switch sh -c "ip link set $1 master br0 && ip link set $1 up"; }

# start_switch: with the machine that runs the test at $HOST.100.
start_switch() {
    NET=fs$$ MACHINES=()
    at_end 'for net in switch "${MACHINES[@]}"; do ip netns del "$NET-$net" 2>/dev/null; done'
    ip netns add "$NET-switch"
    on switch sh -c 'ip link add br0 type bridge && ip link set br0 up'
    ip link set lo up
    ip link add eth0 type veth peer name here netns "$NET-switch"
    ip addr add $HOST.100/24 dev eth0
    ip link set eth0 up
    plug here
}

# add_machine NAME NUMBER: one more, at $HOST.NUMBER.
add_machine() {
    MACHINES+=("$1")
    ip netns add "$NET-$1"
    ip link add eth0 netns "$NET-$1" type veth peer name "$1" netns "$NET-switch"
    on "$1" sh -c "ip addr add $HOST.$2/24 dev eth0 && ip link set lo up && ip link set eth0 up"
    plug "$1"
}

# unplug NAME: pulls the machine's cable out of the switch; `plug` puts it in again. Connections stay as they are: nobody is told.
unplug() { on switch ip link set "$1" nomaster; }
