#!/usr/bin/env bash
# Shows that nodes and gateways of an earlier version work together with those of this one, or refuse with a sentence, and that extents go from one to the other.
# Tier: slow
# OLD names the earlier program, say that of the last commit before volumes with copies, 1a7b952.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
OLD=${OLD:-}
[ -x "$OLD" ] || { echo "    not run: OLD names no program of an earlier version" >&2; exit $NOT_RUN; }
need nbdcopy cmp
NEW=$FLASHMOB

# cluster NODE-PROGRAM GATEWAY-PROGRAM: two nodes, and a linear volume over them, whose bytes are compared.
cluster() {
    local n
    NODE_BINARIES=("$1") FLASHMOB=$2 NODES=(one two)
    NODE_PROGRAM=()
    rm -f "$DIR/gateway.toml.extents"
    for n in "${NODES[@]}"; do start_node "$n" 16MiB; done
    start_gateway "${@:3}"
}
end_cluster() {
    stop gateway TERM
    stop one TERM
    stop two TERM
}
copied() {
    nbdcopy -- "$DIR/image" "$URI" && nbdcopy -- "$URI" "$DIR/back" && cmp "$DIR/image" "$DIR/back"
}
head -c 33554432 /dev/urandom >"$DIR/image"

cluster "$OLD" "$NEW"
check 'earlier nodes, this gateway: an image is copied in and out' copied
end_cluster
cluster "$NEW" "$OLD"
check 'these nodes open the extents, and the earlier gateway reads and writes them' copied
end_cluster
cluster "$OLD" "$NEW"
check 'the earlier nodes open them again' sh -c "nbdcopy -- '$URI' '$DIR/back' && cmp '$DIR/image' '$DIR/back'"
end_cluster

# Copies need nodes that know them.
rm -f "$DIR"/*.img* "$DIR/gateway.toml.extents"
NODE_BINARIES=("$OLD") FLASHMOB=$NEW NODES=(one two) NODE_PROGRAM=() NODE_SIZE=32MiB
for n in "${NODES[@]}"; do start_node "$n" 32MiB; done
write_config 'layout = "mapped"' 'copies = 2' 'timeout = "8s"'
run_gateway
wait_for 20 'what the gateway says of earlier nodes' log_has gateway "${ADDR[one]}.*(version|earlier|older|update|upgrade)"
say "$(grep -E "${ADDR[one]}" "$DIR/gateway.log" | tail -n 1)"
pass 'a volume with copies over earlier nodes is refused with a sentence'
stop gateway TERM
for n in "${NODES[@]}"; do
    stop "$n" TERM
    NODE_PROGRAM[$n]=$NEW
    run_node "$n"
done
run_gateway
volume_ready
check 'with nodes of this version at the same extents it works' copied
stop gateway TERM

# An earlier gateway must not write to extents with copies behind the map's back.
FLASHMOB=$OLD NODE_SIZE=
write_config
run_gateway
wait_for 20 'a refusal' log_has gateway "node ${ADDR[one]}: refused: .*copies"
say "$(grep -E "${ADDR[one]}: refused" "$DIR/gateway.log" | tail -n 1)"
check 'an earlier gateway gets no volume from extents with copies' sh -c "! grep -q 'volume pool ready' '$DIR/gateway.log'"
