# Changes of a volume with copies, at a drawn moment of which somebody is killed; sourced after lib/copies.sh. The volume has nodes 0 to 3, each with room
# for the copies of another, and SIZE_MIB. Nodes are NODE_SIZE large.
# shellcheck shell=bash
OPERATIONS=${OPERATIONS:-drain balance add replace resize shrink} VICTIMS=${VICTIMS:-gateway source target all}

# node NUMBER FILTER: whether a node of the volume is as the filter of jq says.
node() { curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "$1" ".volumes[0].nodes[\$n] | $2" >/dev/null; }
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
is_balanced() { curl -sf "http://$ADMIN/volumes" | jq -e '.volumes[0].copies.moves | (.is_balancing | not) and .left_copies == 0' >/dev/null; }
has_steps() { volume rebalance --dry-run | grep '^volume pool: [1-9][0-9]* copies are to be moved' >/dev/null; }
size() { curl -sf "http://$ADMIN/volumes" | jq '.volumes[0].size_bytes'; }

# is_under_way: whether what the operation began is not over.
is_under_way() {
    case $operation in
        drain) node 2 '.member.copies > 0' ;;
        balance) ! is_balanced ;;
        add) ! has_its_share ;;
        replace) copies '.behind_chunks > 0' ;;
        resize | shrink) kill -0 "$RESIZING" 2>/dev/null ;;
    esac
}
# Moments are drawn from the beginning of an operation, of which all take longer. A resize takes some milliseconds.
declare -A MOMENTS_MS=([drain]=700 [balance]=900 [add]=1500 [replace]=500 [resize]=8 [shrink]=12)
# strike VICTIM SOURCE TARGET: kills it, or nobody if it is "none", at a drawn moment, and starts it again. False if all was over by then: nobody is killed.
strike() {
    local name victims=()
    [ "$1" != none ] || return 0
    draw "${MOMENTS_MS[$operation]}"
    sleep "$(awk -v ms="$DRAWN" 'BEGIN { print ms / 1000 }')"
    is_under_way || return 1
    case $1 in
        gateway) victims=(gateway) ;;
        source) victims=("$2") ;;
        target) victims=("$3") ;;
        all) victims=(gateway "${NODES[@]}") ;;
    esac
    kill_all "${victims[@]}"
    say "$operation $round, $1 after $DRAWN ms"
    for name in "${victims[@]}"; do
        [ "$name" = gateway ] || run_node "$name"
    done
    [[ " ${victims[*]} " != *' gateway '* ]] || gateway_again
    for name in "${NODES[@]}"; do wait_for 30 "$name to be linked" is_linked "$name"; done
}
# in_its_middle SOURCE TARGET: the victim is killed while what was begun is under way.
in_its_middle() { strike "$victim" "$@" || fail "$operation $round was over after $DRAWN ms, before $victim could be killed: its moments are too late for this machine"; }
# until_done COMMAND...: a command that waits for the end of what was begun, which it may have to begin again after a kill.
until_done() { check "$operation $round, $victim killed: it ends" timeout 300 "$@"; }

# resize_to MIB: once there is room for it, or it is no longer in use.
resize_to() {
    can_be() { volume resize --size "$1"MiB --dry-run >/dev/null 2>&1; }
    wait_for 120 "the volume to be ready for $1 MiB" can_be "$1"
    volume resize --size "$1"MiB >/dev/null
}
# struck_resize FROM TO: in MiB, with the victim killed in its middle. That is missed now and then, and the size is changed again.
struck_resize() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        resize_to "$1"
        wait_for 120 "the volume to be ready for $2 MiB" volume resize --size "$2"MiB --dry-run
        BEGAN=$EPOCHREALTIME
        volume resize --size "$2"MiB >"$DIR/resize.out" 2>&1 &
        RESIZING=$!
        if strike "$victim" node1 node2; then
            # With somebody killed there may be no answer.
            wait "$RESIZING" || [ "$victim" != none ] || fail "$operation: $(cat "$DIR/resize.out")"
            resize_to "$2"
            check "$operation $round, $victim killed: it has that size" test "$(size)" = $(($2 << 20))
            return
        fi
        wait "$RESIZING" || fail "$operation: $(cat "$DIR/resize.out")"
    done
    fail "$operation $round was over 50 times before $victim could be killed"
}

# change OPERATION VICTIM ROUND: the change, in whose middle the victim is killed, or "none"; in the end all is as it was, and copies are whole. It
# lasted from BEGAN to ENDED, in s since the epoch.
change() {
    local operation=$1 victim=$2 round=$3 number
    case $operation in
        drain)
            BEGAN=$EPOCHREALTIME
            volume drain 2 --no-wait >/dev/null
            in_its_middle node2 node1
            until_done "$FLASHMOB" volume drain "$ADMIN" pool 2
            check 'it has no copies' node 2 '.member | .copies == 0 and .is_drained'
            volume drain 2 --cancel >/dev/null
            ;;
        balance)
            # A node that was out often rests for a minute.
            wait_for 120 'copies to be moved' has_steps
            BEGAN=$EPOCHREALTIME
            volume rebalance --no-wait >/dev/null
            in_its_middle node0 node2
            until_done "$FLASHMOB" volume rebalance "$ADMIN" pool
            check 'node 2 has its share' node 2 '.member.copies | . >= 40'
            ;;
        add)
            rm -f "$DIR"/node4.img*
            unset "ADDR[node4]"
            start_node node4 "$NODE_SIZE"
            NODES+=(node4)
            BEGAN=$EPOCHREALTIME
            volume add "${ADDR[node4]}" >"$DIR/added"
            number=$(sed -nE 's/.* is node ([0-9]+) of volume.*/\1/p' "$DIR/added")
            has_its_share() { node "$number" '.member.copies >= 30' && is_balanced; }
            in_its_middle node0 node4
            wait_for 300 'the nodes to be filled evenly' has_its_share
            pass "$operation $round, $victim killed: node $number has its share"
            whole_again
            check 'it is drained again' timeout 300 "$FLASHMOB" volume drain "$ADMIN" pool "$number"
            check 'and removed' volume remove "$number"
            stop node4
            NODES=(node0 node1 node2 node3)
            ;;
        replace)
            stop node3 KILL
            rm -f "$DIR"/node3.img*
            run_node node3
            wait_for 30 'the fresh extent to be seen' node 3 '.state == "refused" and .member.offered != null'
            BEGAN=$EPOCHREALTIME
            volume replace 3 --yes --no-wait >/dev/null
            in_its_middle node1 node3
            ;;
        resize)
            struck_resize "$SIZE_MIB" $((SIZE_MIB * 7 / 6))
            ;;
        shrink)
            struck_resize $((SIZE_MIB * 7 / 6)) "$SIZE_MIB"
            ;;
    esac
    whole_again
    ENDED=$EPOCHREALTIME
    [ "$operation" != resize ] || resize_to "$SIZE_MIB"
}
