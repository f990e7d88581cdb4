#!/usr/bin/env bash
# Shows that a linear volume becomes one with copies in place, with checksums of all that it holds, and that this goes on after gateway, nodes or the command were killed at drawn moments. MOMENTS and SEED draw others.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/load.sh"

MOMENTS=${MOMENTS:-5}
COUNT=3 MIB=48
MAP=$DIR/gateway.toml.pool.map
convert=("$FLASHMOB" volume convert "$DIR/gateway.toml" pool)
MAPPED=('layout = "mapped"' 'copies = 1' 'timeout = "60s"')
# Each node's metrics are asked for: the gateway does not know what has no checksums yet.
NODE_OPTIONS=(--admin 127.0.0.1:0)

# metric NODE NAME: of a node.
metric() {
    local admin
    admin=$(sed -nE 's|.*http://(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/$1.log" | head -n 1)
    curl -sf "http://$admin/metrics" | awk -v name="flashmob_extent_$2" '$1 == name || index($1, name "{") == 1 { print $2 }'
}
# sum_of NAME: of all nodes.
sum_of() {
    local node sum=0 value
    for node in "${NODES[@]}"; do
        value=$(metric "$node" "$1")
        [ -n "$value" ] || return 1
        sum=$((sum + value))
    done
    echo "$sum"
}
are_summed() { [ "$(sum_of units_without_checksums)" = 0 ]; }
# summed: without being asked, unless this machine has a battery, which may not be charging.
summed() {
    if grep -qsx Battery /sys/class/power_supply/*/type; then
        "$FLASHMOB" volume scrub "$ADMIN" pool --now --no-wait >/dev/null
    fi
    wait_for 60 'all that the nodes hold to have checksums' are_summed
}
# mapped NODE: it has its place in the volume with copies.
mapped() { grep -q '^layout = "mapped:4194304"' "$DIR/$1.img.flashmob"; }
all_mapped() { mapped node0 && mapped node1 && mapped node2; }
nodes_stop() { kill_all "${NODES[@]}"; }
nodes_run() { for node in "${NODES[@]}"; do run_node "$node"; done; }
# keep_linear, linear_again: the nodes' files as the linear volume has them.
keep_linear() {
    mkdir "$DIR/linear"
    cp "$DIR"/node?.img "$DIR"/node?.img.flashmob "$DIR/model" "$DIR/linear/"
}
linear_again() {
    rm -f "$DIR"/node?.img.* "$DIR"/gateway.toml.pool.* "$DIR"/gateway.toml.extents
    cp "$DIR"/linear/* "$DIR/"
}

seeded
start_cluster $COUNT ${MIB}MiB 'timeout = "60s"'
check 'a linear volume reads as zeros' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
# What was never written is a hole in the nodes' files, and its checksums say so.
check 'two thirds of it are written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model" \
    --bytes $((COUNT * MIB * 2 / 3 * 1048576))
stop gateway
nodes_stop
keep_linear
nodes_run

# What is not possible, and what it says then.
refused 'a linear configuration is not converted' 'layout = "mapped", copies = 1' "${convert[@]}" --yes
check 'the sizes of nodes are told' grep -qF "node 2 (${ADDR[node2]}): size = \"${MIB}MiB\"" "$DIR/check.out"
cp "$DIR/gateway.toml" "$DIR/linear.toml"
NODE_SIZE=${MIB}MiB
write_config "${MAPPED[@]}"
run_gateway
started gateway 'is converted with .flashmob volume convert.'
pass 'a gateway that is started too early is refused, and the command is named'
refused 'no map is made while that gateway runs' 'is in use|uses it' "${convert[@]}" --yes
stop gateway
# The same with extents named in the configuration, which the map knows at once then: the table of one node is even the same.
extent=$(sed -nE 's/^extent_id = "(.*)"/\1/p' "$DIR/node0.img.flashmob")
mkdir "$DIR/named"
sed -e "s|unix:$DIR/|unix:$DIR/named/|" -e "s|^address = \"${ADDR[node0]}\"|&\nextent = \"$extent\"|" "$DIR/gateway.toml" |
    awk '/^\[\[volume.node\]\]/ && ++nodes > 1 { exit } { print }' >"$DIR/named/gateway.toml"
start named "$FLASHMOB" gateway "$DIR/named/gateway.toml"
started named 'is converted with .flashmob volume convert.'
pass 'nothing is converted unasked'
stop named
refused 'a part of a volume is not converted' 'belongs to a volume of 3 extents, and the configuration has 1 nodes' \
    "$FLASHMOB" volume convert "$DIR/named/gateway.toml" pool --yes
check 'a dry run shows the nodes' "${convert[@]}" --dry-run
check 'with their sizes' grep -qE "2 +${ADDR[node2]} +[0-9a-f]{32} +48 MiB" "$DIR/check.out"
refused 'without --yes nothing is written where nobody can be asked' 'confirm it with --yes' "${convert[@]}"
stop node2
refused 'without a node it is not converted' "every node has to be there: ${ADDR[node2]}" "${convert[@]}" --yes
cp "$DIR/node2.img.flashmob" "$DIR/node2.before"
rm "$DIR/node2.img.flashmob"
run_node node2
refused 'nor with an extent that the volume does not have' 'belongs to no volume yet' "${convert[@]}" --yes
stop node2
cp "$DIR/node2.before" "$DIR/node2.img.flashmob"
run_node node2

# A gateway of the linear volume that still runs, perhaps elsewhere: nothing is converted under it.
mkdir "$DIR/other"
sed "s|unix:$DIR/|unix:$DIR/other/|" "$DIR/linear.toml" >"$DIR/other/gateway.toml"
start other "$FLASHMOB" gateway "$DIR/other/gateway.toml"
started other 'volume pool ready'
check 'the map is made' "${convert[@]}" --yes
refused 'once' 'the volume has its map' "${convert[@]}" --yes
run_gateway
started gateway 'a gateway uses this extent of volume .pool., which is to be converted'
pass 'the nodes refuse it while the other gateway runs'
check 'and stay as they are' grep -q '^layout = "linear"' "$DIR/node0.img.flashmob"
stop other
volume_ready
admin_address
wait_for 20 'the nodes to take their new places' all_mapped
pass 'they take their new places when it has ended'
check 'every byte is where it was' is_all_there
summed
pass 'and all have checksums'
start other "$FLASHMOB" gateway "$DIR/other/gateway.toml"
started other 'belongs to a volume with copies'
pass 'a gateway of the linear volume is refused from then on'
stop other
stop node1
"$PYTHON" "$TESTS/rot.py" flipped "$DIR/node1.img" --count 1 --first 5 >/dev/null
run_node node1
wait_for 20 'node1 to be linked' is_linked node1
check 'a bit that flips there is found' "$FLASHMOB" volume scrub "$ADMIN" pool --now --no-wait
found() { [ "$(sum_of checksum_mismatches_total)" -gt 0 ]; }
wait_for 60 'the flipped bit to be found' found

# Again and again from the linear volume, with a client, and something killed at a drawn moment.
for ((moment = 1; moment <= MOMENTS; moment++)); do
    stop gateway KILL
    nodes_stop
    linear_again
    nodes_run
    draw 3
    if [ "$DRAWN" = 0 ]; then
        # The command is killed: the map is there, or it is not.
        draw 30
        (timeout -s KILL "0.0$(printf %02d $((DRAWN + 1)))" "${convert[@]}" --yes || true) >/dev/null 2>&1
    fi
    [ -e "$MAP" ] || "${convert[@]}" --yes >/dev/null 2>&1 || fail "moment $moment: it is not converted"
    draw 5
    case $DRAWN in
        0 | 1) victims=(gateway) ;;
        2) victims=(node0) ;;
        3) victims=(node1 node2) ;;
        4) victims=(gateway "${NODES[@]}") ;;
    esac
    draw 2
    if [ "$DRAWN" = 0 ]; then
        # While the nodes are linked.
        has_load=
        draw 60
        begin_gateway
    else
        # While a client reads and writes, and checksums are made.
        has_load=1
        draw 800
        run_gateway
        volume_ready
        start_load load --depth 4 --connections 2 --model "$DIR/model"
    fi
    after_ms=$DRAWN
    sleep "0.$(printf %03d "$after_ms")"
    kill_all "${victims[@]}"
    what="moment $moment: ${victims[*]} after $after_ms ms${has_load:+ of a load}"
    for victim in "${victims[@]}"; do
        [ "$victim" = gateway ] || run_node "$victim"
    done
    case " ${victims[*]} " in *' gateway '*)
        [ -z "$has_load" ] || finish load 60
        begin_gateway
        ;;
    esac
    gateway_address
    volume_ready
    admin_address
    whole_again
    if [ -n "$has_load" ]; then
        if alive load; then stop load; fi
        jq -e '.mismatches == 0 and .reads > 0' "$DIR/load.out" >/dev/null || fail "$what: the client read a wrong byte, or none"
    fi
    wait_for 20 'the nodes to take their new places' all_mapped
    is_all_there >/dev/null || fail "$what: a byte is wrong"
    summed
    [ "$(sum_of bad_blocks)" = 0 ] || fail "$what: a block does not match its checksum"
    say "$what"
done
pass "every byte was there, and had checksums, after $MOMENTS drawn interruptions"
