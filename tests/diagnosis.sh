#!/usr/bin/env bash
# Shows that a gateway names the node and the cause of ten planted troubles within 5 s, ten times each, and nothing in a cluster that is idle, saturated, or rebuilding.
# Tier: slow
# Canary: none-in-code
# TRIALS=n: so many of each. SEED=n: where the nodes and severities are drawn from. QUIET=n: seconds without a word. ONLY=NAME: loopback, flash, lab, quiet or rebuild.
# PLANTS='NAME...': of those on loopback these alone.
. "$(dirname "$0")/lib.sh"
need jq
TRIALS=${TRIALS:-10}
SEED=${SEED:-1}
QUIET=${QUIET:-60}
# As a canary it plants nothing, and has to miss it.
export PLANTED=$((1 - ${CANARY:-0}))
NODES_MAX=4
EXTENT=$((64 << 20))

is_wanted() { [ -z "${ONLY:-}" ] || [ "$ONLY" = "$1" ]; }
# draw EXPRESSION: a number of the seed of this trial.
draw() { "$PYTHON" -c "import random; print(random.Random('$SEED $trial').$1)"; }
diagnose() { "$PYTHON" "$TESTS/diagnosis.py" "$ADMIN" "$@"; }

# group NUMBER: puts a node into control groups of its own, whose limits are not set yet.
CGROUPS=/sys/fs/cgroup
group() {
    local name=flashmob-diagnosis-$$-$1 folder
    rm -f "$DIR/group$1"
    if [ -d $CGROUPS/memory ]; then
        echo "memory $CGROUPS/memory/$name/memory.limit_in_bytes -1" >"$DIR/group$1"
        echo "processor $CGROUPS/cpu/$name/cpu.cfs_quota_us -1" >>"$DIR/group$1"
        folder="$CGROUPS/memory/$name $CGROUPS/cpu/$name"
    else
        echo '+cpu +memory' >$CGROUPS/cgroup.subtree_control 2>/dev/null || return 1
        echo "memory $CGROUPS/$name/memory.max max" >"$DIR/group$1"
        echo "processor $CGROUPS/$name/cpu.max max 100000" >>"$DIR/group$1"
        folder=$CGROUPS/$name
    fi
    for folder in $folder; do
        mkdir "$folder" 2>/dev/null && echo "${PID[node$1]}" >"$folder/cgroup.procs" || return 1
    done
}
# Processes leave a group before it can be removed.
no_groups() {
    local folder pid
    for folder in $CGROUPS/{memory/,cpu/,}flashmob-diagnosis-$$-*; do
        [ -d "$folder" ] || continue
        while read -r pid; do echo "$pid" >"${folder%/*}/cgroup.procs"; done <"$folder/cgroup.procs" || true
        rmdir "$folder" || true
    done
}
at_end no_groups

# begin [NODE OPTION...]: a cluster at work.
begin() {
    local i name
    for ((i = 0; i < NODES_MAX; i++)); do
        name=node$i
        NODES[i]=$name
        [ -s "$DIR/$name.img" ] || head -c $EXTENT /dev/urandom >"$DIR/$name.img"
        # What the page cache has is charged to this script.
        sync "$DIR/$name.img"; dd if="$DIR/$name.img" iflag=nocache count=0 2>/dev/null
        start_node "$name" $EXTENT --device-state "$DIR/state$i.json" "$@"
    done
    rm -f "$DIR"/gateway.toml.extents
    start_gateway
    admin_address
    for name in "${NODES[@]}"; do echo "${PID[$name]}"; done >"$DIR/pids"
    HAS_GROUPS=1
    for ((i = 0; i < NODES_MAX; i++)); do group $i || HAS_GROUPS=; done
    echo $EXTENT >"$DIR/extent"
    echo "$URI" >"$DIR/uri"
    start load "$FLASHMOB" -q bench nbd "$URI" --block-size 4KiB --outstanding 16 --time 1h
}
end() {
    local name
    for name in load gateway "${NODES[@]}"; do stop "$name"; done
    no_groups
}

if is_wanted loopback; then
    begin
    plants=(${PLANTS:-pause battery heat queue})
    if [ -z "$HAS_GROUPS" ]; then
        say 'not tried: a throttled processor and a small page cache, which need control groups'
    elif [ -z "${PLANTS:-}" ]; then
        plants+=(processor cache)
    fi
    for ((trial = 0; trial < TRIALS; trial++)); do
        diagnose "$FLASHMOB" "$DIR" $((SEED * 1000 + trial)) "${plants[@]}" >>"$DIR/trials" || MISSED=1
    done
    end
fi

if is_wanted flash; then
    begin --model nexus7-emmc
    for ((trial = 0; trial < TRIALS; trial++)); do
        diagnose "$FLASHMOB" "$DIR" 0 >>"$DIR/trials" # quiet before
        node=$(draw 'randrange(4)') slower=$(draw 'uniform(3, 12)')
        well=${NODE_ARGS[node$node]}
        stop "node$node"
        [ "$PLANTED" = 0 ] || NODE_ARGS[node$node]="$well --model-slower $slower"
        run_node "node$node"
        diagnose one flash "$node" "$slower times as slow" >>"$DIR/trials" || MISSED=1
        stop "node$node"
        NODE_ARGS[node$node]=$well
        run_node "node$node"
    done
    end
fi

# lab_trial PLANT WEAKNESS NODE HOW [LINE]: in a lab of its own; LINE prepares its gateway's network.
lab_trial() {
    local weak=()
    [ "$PLANTED" = 0 ] || weak=(--weak "$2")
    {
        printf 'listen = "127.0.0.1:10809"\nadmin = "127.0.0.1:10810"\n[[volume]]\nname = "lab"\n[volume.socket]\n%s\n' "${5:+buffers = \"kernel\"}"
        for ((i = 0; i < NODES_MAX; i++)); do printf '[[volume.node]]\naddress = "10.77.0.%s:7411"\n' $((i + 2)); done
    } >"$DIR/lab.toml"
    cat >"$DIR/inside.sh" <<INSIDE
${5:-}
"$FLASHMOB" gateway --forget "$DIR/lab.toml" 2>"$DIR/lab.gateway.log" &
gateway=\$!
for i in {1..500}; do
    grep -q 'volume lab ready' "$DIR/lab.gateway.log" && break
    sleep 0.02
done
"$FLASHMOB" -q bench nbd nbd://127.0.0.1/lab --block-size ${6:-4KiB} --outstanding ${7:-16} --time 20s >/dev/null &
"$PYTHON" "$TESTS/diagnosis.py" 127.0.0.1:10810 one $1 $3 "$4" >>"$DIR/trials"
status=\$?
kill %2 \$gateway
wait
exit \$status
INSIDE
    local status=0
    timeout 60 "$FLASHMOB" -q lab run --nodes $NODES_MAX --air wan,rate=100Mbit,delay=1ms,loss=0% --no-gateway \
        --node-command "exec '$FLASHMOB' node --insecure --data '$DIR'/lab\$NODE.img --size 64MiB --listen \$ADDRESS:7411" \
        --seed $((SEED * 1000 + trial)) "${weak[@]}" -- bash "$DIR/inside.sh" >"$DIR/lab.out" 2>"$DIR/lab.log" || status=$?
    lab_is_well $status || MISSED=1
}
if is_wanted lab && [ "$(id -u)" -eq 0 ]; then
    need_netns 'a lab whose network can be configured'
    for ((trial = 0; trial < TRIALS; trial++)); do
        lab_trial loss 1:loss=5% 3 '5 % of frames'
        delay=$(draw 'uniform(8, 30)')
        lab_trial delay "1:delay=${delay%.*}ms" 3 "${delay%.*} ms each way"
        lab_trial receive-buffer 1:delay=20ms 3 'at most 64 KiB, 20 ms each way' 'echo "4096 65536 65536" >/proc/sys/net/ipv4/tcp_rmem' 256KiB 32
    done
fi
[ ! -s "$DIR/trials" ] || sed 's/^/    /' "$DIR/trials" >&2
[ -z "${MISSED:-}" ] || fail "$(grep -c '^MISSED\|wrongly' "$DIR/trials") of $(grep -c . "$DIR/trials") trials are wrong"
[ ! -s "$DIR/trials" ] || pass "$(grep -c . "$DIR/trials") troubles were named in time, and nothing else"

if is_wanted quiet; then
    rm -f "$DIR/trials"
    begin
    check 'nothing is named while it is at work' diagnose quiet busy "$QUIET"
    stop load
    start load "$FLASHMOB" -q bench nbd "$URI" --block-size 4KiB --outstanding 256 --time 1h
    check 'nor while it is saturated' diagnose quiet busy "$QUIET"
    stop load
    sleep 7 # what it did is over
    check 'nor while it is idle' diagnose quiet idle "$QUIET"
    stop gateway
    for name in "${NODES[@]}"; do stop "$name"; done
    no_groups
fi

if is_wanted rebuild; then
    # With copies, and a node that was away: what is written meanwhile has to be made again there.
    DATA_DIR=$DIR/copies
    mkdir "$DATA_DIR"
    ADDR=()
    NODE_SIZE=1GiB start_cluster $NODES_MAX 1GiB 'layout = "mapped"' 'copies = 2'
    admin_address
    start load "$FLASHMOB" -q bench nbd "$URI" --block-size 4KiB --outstanding 16 --write --allow-writes --pattern random --time 1h
    stop node1 KILL
    behind() { curl -fsS "http://$ADMIN/status" | jq -e ".gateway.volumes[0].copies.behind_chunks $1" >/dev/null; }
    wait_for 30 'chunks that are behind' behind '> 0'
    sleep 10 # so much is written meanwhile
    run_node node1
    check 'nothing is named while it is rebuilt, and written' diagnose quiet rebuilding "$QUIET"
fi
