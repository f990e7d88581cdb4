#!/usr/bin/env bash
# Shows that a stolen key is void for nodes whose disk is full to the last block once the key was rotated, also after they were killed and started, and that the volume works with the new one.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/full.sh"
need_root 'a small file system is mounted'

at_end 'for name in gateway stranger "${NODES[@]}"; do if alive "$name"; then stop "$name" KILL; fi; done; unmount_disks'
small_disk flash 80M
DATA_DIR=$DIR/flash
NODE_SIZE=16MiB
start_keyed_copies
sed -E 's/^keys = .*/keys = "stolen.keys"/; s|, "unix:[^"]*"||' "$DIR/gateway.toml" >"$DIR/stolen.toml"
fill_disks

# is_void WHEN: who has the stolen key gets to no node.
is_void() {
    start stranger "$FLASHMOB" gateway "$DIR/stolen.toml"
    started stranger 'replaced or revoked'
    ! log_has stranger 'linked|ready' || fail "$1: it is linked"
    stop stranger
    pass "$1: the stolen key is void"
}
works() {
    check "$1: writes work" "$PYTHON" "$TESTS/nbdload.py" "$URI" --requests 300 --model "$DIR/model" --seed 1
    check "$1: all is there" is_all_there
    check "$1: the disk is full" are_full
}

stop gateway KILL
check 'the gateway gets another key' "$FLASHMOB" key rotate "$DIR/gateway.toml"
gateway_again
URI=$UNIX_URI
works 'with the new key'
is_void 'on full disks'
for node in "${NODES[@]}"; do
    stop "$node" KILL
    run_node "$node"
done
whole_again
is_void 'after the nodes were started again'
works 'after the nodes were started again'
