# Volumes with copies: their state, what happens to their nodes, and a client that waits while the gateway is away; sourced after lib.sh.
# shellcheck shell=bash
need jq curl

# copies FILTER: whether the volume's copies are as the filter of jq says.
copies() { curl -sf "http://$ADMIN/status" | jq -e ".gateway.volumes[0].copies | $1" >/dev/null; }
# copies_say FILTER: a value of them.
copies_say() { curl -sf "http://$ADMIN/status" | jq -r ".gateway.volumes[0].copies | $1"; }
# Nothing is behind or unknown: a node may go.
are_whole() { copies '.fewest_current == .copies and .behind_chunks == 0 and .doubtful_chunks == 0 and .uncompared_chunks == 0'; }
# whole_again: waits until all copies are equal.
whole_again() { wait_for 60 'all copies to be equal' are_whole; }

# is_linked NODE: whether the gateway has a link to it.
is_linked() {
    curl -sf "http://$ADMIN/status" |
        jq -e --arg name "${ADDR[$1]}" '.gateway.volumes[0].nodes[] | select(.name == $name) | .state == "ready"' >/dev/null
}

# start_copies COUNT SIZE [VOLUME LINE...]: a cluster whose volume has two copies, which have been compared.
start_copies() {
    local count=$1 size=$2
    shift 2
    NODE_SIZE=$size
    start_cluster "$count" "$size" 'layout = "mapped"' 'copies = 2' "$@"
    admin_address
    whole_again
}

# gateway_again: starts a gateway that was stopped or killed.
gateway_again() {
    run_gateway
    volume_ready
    admin_address
}

# node_again NODE: starts a node that was stopped or killed, and waits until nothing is missing any more.
node_again() {
    run_node "$1"
    wait_for 20 "$1 to be linked" is_linked "$1"
    whole_again
}

# is_all_there [OPTION...]: every byte is what was written, and every read was answered. OF_MODEL: options where the model is of a part of the volume.
OF_MODEL=()
is_all_there() {
    "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model" "${OF_MODEL[@]}" "$@" >"$DIR/verify.json" &&
        jq -e '.mismatches == 0 and .errors == {} and .unanswered == 0 and .reads > 0' "$DIR/verify.json"
}

# is_whole_without NUMBER...: every byte is right without each of these nodes of the volume.
is_whole_without() {
    local number
    for number in "$@"; do
        check "node $number is taken away" "$FLASHMOB" volume pause "$ADMIN" pool "$number"
        check "and every byte is right without node $number" is_all_there
        check "node $number was not used" is_paused "$number"
        "$FLASHMOB" volume resume "$ADMIN" pool "$number" >/dev/null
        whole_again
    done
}
is_paused() { curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "$1" '.volumes[0].nodes[$n].member.is_paused' >/dev/null; }

# kill_all NAME...: SIGKILL to all of them at once.
kill_all() {
    local name pids=()
    for name in "$@"; do pids+=("${PID[$name]}"); done
    kill -KILL "${pids[@]}"
    for name in "$@"; do
        wait "${PID[$name]}" 2>/dev/null || true
        unset "PID[$name]"
    done
}

# draw N: a number below N in DRAWN; SEED repeats it. In a variable, for a subshell would draw the same again.
draw() { DRAWN=$((RANDOM % $1)); }
# seeded: says the random seed, and uses it.
seeded() {
    SEED=${SEED:-$((EPOCHSECONDS % 32768))}
    RANDOM=$SEED
    say "random seed: SEED=$SEED"
}

# start_qemu: qemu-storage-daemon as a client of the volume that waits while the gateway is away, and sends again what was not answered. It
# shows the volume as an NBD export, QEMU_URI. CLIENT_OF: where the volume is, if not at the gateway's socket.
start_qemu() {
    need qemu-storage-daemon
    QEMU_URI="nbd+unix:///pool?socket=$DIR/qemu.sock"
    start qemu qemu-storage-daemon \
        --blockdev "node-name=pool,driver=nbd,${CLIENT_OF:-server.type=unix,server.path=$DIR/gateway.sock},export=pool,reconnect-delay=300,discard=unmap" \
        --nbd-server "addr.type=unix,addr.path=$DIR/qemu.sock,max-connections=8" \
        --export type=nbd,id=nbd,node-name=pool,name=pool,writable=on
    shows_volume() { ! alive qemu || [ -S "$DIR/qemu.sock" ]; }
    wait_for 20 'qemu-storage-daemon to show the volume' shows_volume
    alive qemu || fail 'qemu-storage-daemon ended'
}

# start_file: what QEMU shows as a file, FILE. Not QEMU's own FUSE export: version 7.2 writes wrong bytes when there are several writes at a
# time, as a later one overwrites the buffer of one that waits.
start_file() {
    need nbdfuse fusermount3
    [ -c /dev/fuse ] || fail '/dev/fuse is missing: this test needs FUSE'
    FILE=$DIR/fuse/nbd
    mkdir "$DIR/fuse"
    at_end end_file
    start nbdfuse nbdfuse "$DIR/fuse" "$QEMU_URI"
    wait_for 20 'nbdfuse to mount' test -f "$FILE"
}

# end_file: ends it on every way out. What waits for QEMU would wait for ever, so that is killed if it is still there, which fails it.
end_file() {
    if alive qemu; then stop qemu KILL; fi
    ! grep -qF " $DIR/fuse " /proc/mounts || fusermount3 -u "$DIR/fuse" 2>/dev/null || fusermount3 -uz "$DIR/fuse"
    if alive nbdfuse; then finish nbdfuse 20; fi
}
