#!/usr/bin/env bash
# Shows that PostgreSQL on ext4 on a volume with copies loses nothing and fails nothing while nodes die, freeze, restart, fill up, lose their file, return flipped bits, are drained and exchanged for others, the volume grows, and the gateway dies.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/postgres.sh"
# FAULTS=all: each fault on each node; else on two that are drawn. SEED repeats a run. KINDS names some of the faults.
FAULTS=${FAULTS:-two}
KINDS=${KINDS:-killed frozen restarted filled flipped gateway_killed lost drained exchanged}
NODE_COUNT=8 NODE_BYTES=$((256 << 20))
FROZEN_S=6
[ "$FAULTS" != all ] || FROZEN_S=20
need nbdcopy
seeded

# What is drawn: the nodes of each fault. Those that will be full lie in a small file system each.
choose() {
    local count=2 left=("${ALL[@]}")
    [ "$FAULTS" != all ] || count=$NODE_COUNT
    CHOSEN=()
    while [ ${#CHOSEN[@]} -lt "$count" ]; do
        draw ${#left[@]}
        CHOSEN+=("${left[DRAWN]}")
        left=("${left[@]:0:DRAWN}" "${left[@]:DRAWN+1}")
    done
}
ALL=()
for ((i = 0; i < NODE_COUNT; i++)); do ALL+=("node$i"); done
choose; TO_KILL=("${CHOSEN[@]}")
choose; TO_FREEZE=("${CHOSEN[@]}")
choose; TO_RESTART=("${CHOSEN[@]}")
choose; TO_FILL=("${CHOSEN[@]}")
choose; TO_LOSE=("${CHOSEN[@]}")
choose; TO_FLIP=("${CHOSEN[@]}")
choose; TO_DRAIN=("${CHOSEN[@]}")
choose; TO_EXCHANGE=("${CHOSEN[@]}")

# The cluster.
NODE_SIZE=$NODE_BYTES
for node in "${ALL[@]}"; do
    NODES+=("$node")
    mkdir "$DIR/$node"
    if [[ " ${TO_FILL[*]} " == *" $node "* ]]; then
        # Not tmpfs: its files are never out of the page cache, where nobody would see that a bit flipped.
        truncate -s $((NODE_BYTES + (16 << 20))) "$DIR/$node.ext4"
        mkfs.ext4 -q -m 0 -N 64 -O ^has_journal "$DIR/$node.ext4"
        mount -o loop "$DIR/$node.ext4" "$DIR/$node"
        at_end "if alive $node; then stop $node KILL; fi; umount '$DIR/$node'"
    fi
    DATA=$DIR/$node/extent start_node "$node" $NODE_BYTES
done
# With room for the copies of one node.
write_config 'layout = "mapped"' 'copies = 2' 'size = "768MiB"' 'evict_after = "3s"' 'timeout = "120s"'
gateway_again
whole_again
start_file_system
start_database
start_pgbench

# struck FAULT NODE...: a fault hits one node after another, and all copies are whole again after each.
struck() {
    local what=$1 node
    shift
    [[ " $KINDS " == *" $what "* ]] || return 0
    for node in "$@"; do
        "$what" "$node"
        wait_for 120 'all copies to be equal' are_whole
        goes_on "after $what of $node"
        pass "$node $what: $(transactions) transactions, copies are whole; $(copies_say '"\(.evictions) evictions, \(.copied_bytes) bytes copied"')"
    done
}
# gone NODE: it dies, and the others go on without it.
gone() {
    local before
    before=$(copies_say .evictions)
    stop "$1" KILL
    wait_for 30 "the end of waiting for $1" copies ".evictions > $before"
    goes_on "without $1"
}
killed() {
    gone "$1"
    run_node "$1"
    wait_for 20 "$1 to be linked" is_linked "$1"
}
frozen() {
    freeze "$1"
    sleep $FROZEN_S # it is the length of the freeze that matters
    kill -CONT "${PID[$1]}"
    wait_for 20 "$1 to be linked" is_linked "$1"
}
restarted() {
    stop "$1"
    run_node "$1"
    wait_for 20 "$1 to be linked" is_linked "$1"
}
# The node can overwrite what it has. So new files are written until the file system takes blocks that are new to the node.
filled() {
    local before count=0
    before=$(copies_say .failed_copies)
    head -c 1G /dev/zero >"$DIR/$1/ballast" 2>/dev/null || true
    until copies ".failed_copies > $before"; do
        count=$((count + 1))
        [ $count -le 16 ] || fail "the disk of $1 did not become full"
        { head -c 32M /dev/urandom >"$DIR/mnt/new.$count" && sync "$DIR/mnt/new.$count"; } || fail "a new file while the disk of $1 is full"
    done
    goes_on "while the disk of $1 is full"
    rm "$DIR/mnt/new."* "$DIR/$1/ballast"
}
lost() {
    gone "$1"
    rm "$DIR/$1/extent"*
    run_node "$1"
    is_refused() {
        curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "${1#node}" '.volumes[0].nodes[$n] | .state == "refused" and .member.offered != null'
    }
    wait_for 20 "the fresh extent of $1 to be seen" is_refused "$1"
    check "the fresh extent of $1 takes the place of the lost one" "$FLASHMOB" volume replace "$ADMIN" pool "${1#node}" --yes
}
# Bits flip in blocks that hold data, while the node runs, and all of the volume is read. Only half of them can be found that way, for each chunk is
# read from one of its copies. The others are put back: nobody looks for them yet, and the next fault would leave them alone with their chunks.
flipped() {
    local mended count left
    mended=$(copies_say .mended)
    freeze "$1"
    count=$("$PYTHON" "$TESTS/rot.py" flipped "$DIR/$1/extent" --record "$DIR/flipped")
    kill -CONT "${PID[$1]}"
    check "all of the volume is read, with $count flipped bits on $1" nbdcopy "$UNIX_URI" null:
    # By a read; or by a comparison, if the machine is so busy that the node was put out meanwhile.
    wait_for 30 "flipped bits of $1 to be found, and mended" copies ".mended > $mended"
    wait_for 60 'all copies to be equal' are_whole
    freeze "$1"
    left=$("$PYTHON" "$TESTS/rot.py" restore "$DIR/$1/extent" "$DIR/flipped")
    kill -CONT "${PID[$1]}"
    check "$(copies_say ".mended - $mended") blocks were mended, $left were put back, none was unreadable" copies '.unreadable == 0'
}
# dies_and_returns VICTIM: the gateway or a node is killed, and started again.
dies_and_returns() {
    stop "$1" KILL
    if [ "$1" = gateway ]; then
        gateway_again
    else
        run_node "$1"
        wait_for 20 "$1 to be linked" is_linked "$1"
    fi
}
# drain NODE OPTION...: flashmob volume drain.
drain() { timeout 300 "$FLASHMOB" volume drain "$ADMIN" pool "${1#node}" "${@:2}"; }
copies_on() { curl -sf "http://$ADMIN/volumes" | jq ".volumes[0].nodes[${1#node}].member.copies"; }
has_fewer() { [ "$(copies_on "$1")" -lt "$2" ]; }
# All its copies go to other nodes, and come back. Each time somebody is killed in the middle: the gateway, the node, or another.
drained() {
    local victims=(gateway "$1" "node$(((${1#node} + 1 + RANDOM % (NODE_COUNT - 1)) % NODE_COUNT))") victim before what
    for what in drained 'filled evenly'; do
        before=$(copies_on "$1")
        draw 3
        victim=${victims[DRAWN]}
        if [ "$what" = drained ]; then
            check "$1 is to be drained" drain "$1" --no-wait
            wait_for 60 "copies of $1 to move" has_fewer "$1" "$before"
        else
            check "$1 may have copies again" drain "$1" --cancel
            check 'nodes are to be filled evenly' "$FLASHMOB" volume rebalance "$ADMIN" pool --no-wait
        fi
        say "$victim is killed; $1 has $(copies_on "$1") copies"
        dies_and_returns "$victim"
        if [ "$what" = drained ]; then
            check "$1 is drained, $victim was killed meanwhile" drain "$1"
            check "$1 has no copies" test "$(copies_on "$1")" = 0
        else
            check "nodes are filled evenly, $victim was killed meanwhile" timeout 300 "$FLASHMOB" volume rebalance "$ADMIN" pool
            check "$1 has copies" test "$(copies_on "$1")" -gt 20
        fi
        wait_for 120 'all copies to be equal' are_whole
    done
}
# number_of NODE: its number, whatever it had before.
number_of() {
    curl -sf "http://$ADMIN/volumes" |
        jq --arg at "${ADDR[$1]}" '[.volumes[0].nodes[] | select(.name == $at and .state != "removed")][0].number'
}
evenly() { timeout 300 "$FLASHMOB" volume rebalance "$ADMIN" pool; }
larger() { "$FLASHMOB" volume resize "$ADMIN" pool --size $(($(curl -sf "http://$ADMIN/volumes" | jq '.volumes[0].size_bytes') + (8 << 20))); }
# Another node comes, and takes its share; the gateway or it is killed meanwhile. Then the node goes for good, and the volume grows.
exchanged() {
    local spare=instead_of_$1 victim
    mkdir "$DIR/$spare"
    DATA=$DIR/$spare/extent start_node "$spare" $NODE_BYTES
    check "$spare is added" "$FLASHMOB" volume add "$ADMIN" pool "${ADDR[$spare]}"
    draw 2
    victim=gateway
    [ "$DRAWN" -eq 0 ] || victim=$spare
    say "$victim is killed"
    dies_and_returns "$victim"
    check "nodes are filled evenly, $victim was killed meanwhile" evenly
    check "$1 is drained" timeout 300 "$FLASHMOB" volume drain "$ADMIN" pool "$(number_of "$1")"
    check "$1 is removed" "$FLASHMOB" volume remove "$ADMIN" pool "$(number_of "$1")"
    stop "$1"
    # Its free room is looked through after a start of the gateway.
    wait_for 60 'the volume to grow' larger
    wait_for 120 'all copies to be equal' are_whole
}
gateway_killed() {
    stop gateway KILL
    gateway_again
}

goes_on 'before all faults'
struck killed "${TO_KILL[@]}"
struck frozen "${TO_FREEZE[@]}"
struck restarted "${TO_RESTART[@]}"
struck filled "${TO_FILL[@]}"
struck flipped "${TO_FLIP[@]}"
struck gateway_killed gateway
struck drained "${TO_DRAIN[@]}"
if "$FLASHMOB" volume replace --help >/dev/null 2>&1; then
    struck lost "${TO_LOSE[@]}"
else
    say "left out: a node's file is lost, for there is no 'flashmob volume replace' in this program"
fi
# Others go by the numbers of nodes.
struck exchanged "${TO_EXCHANGE[@]}"
end_database
end_clients
check 'nothing is behind' are_whole
