#!/usr/bin/env bash
# Shows that eight nodes in eight network namespaces are found by multicast DNS within 3 s.
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
need_netns 'a switch and nine hosts'
need jq

NET=fs$$
COUNT=8
LOOKER=9
at_end 'for net in bridge $(seq 1 9); do ip netns del "$NET-$net" 2>/dev/null; done'
ip netns add "$NET-bridge"
ip netns exec "$NET-bridge" sh -c 'ip link add br0 type bridge && ip link set br0 up'
for i in $(seq 1 9); do
    ip netns add "$NET-$i"
    ip link add eth0 netns "$NET-$i" type veth peer name "port$i" netns "$NET-bridge"
    ip netns exec "$NET-bridge" sh -c "ip link set port$i master br0 && ip link set port$i up"
    ip netns exec "$NET-$i" sh -c "ip addr add 198.51.100.$i/24 dev eth0 && ip link set lo up && ip link set eth0 up"
done
for i in $(seq 1 $COUNT); do
    start "node$i" ip netns exec "$NET-$i" "$FLASHMOB" node --data "$DIR/node$i.img" --insecure --size 1MiB --listen 0.0.0.0:7411 --name "tab$i" --memory 16MiB
done
for i in $(seq 1 $COUNT); do started "node$i" 'announced by multicast DNS'; done

busy_begin
TOOK=()
for _ in 1 2 3 4 5 6; do
    # What the canary plants: one of the eight is not there for the first 4 s of a search.
    if [ -n "${CANARY:-}" ]; then
        kill -STOP "${PID[node1]}"
        (sleep 4; kill -CONT "${PID[node1]}") &
    fi
    begin=${EPOCHREALTIME/./}
    ip netns exec "$NET-$LOOKER" "$FLASHMOB" discover --output json --nodes $COUNT --wait 30s >"$DIR/found.json" 2>"$DIR/found.err" ||
        { cat "$DIR/found.err" >&2; fail 'the search'; }
    TOOK+=($(((${EPOCHREALTIME/./} - begin) / 1000)))
    [ -z "${CANARY:-}" ] || wait $!
    jq -e '.nodes | length == 8 and all(.[]; .found_by == ["mdns"] and .answers)' "$DIR/found.json" >/dev/null || fail 'not all eight were found by multicast DNS'
done
say "took ${TOOK[*]} ms"
sign_test 'ms until eight nodes are found' 3000 "${TOOK[@]}"
