#!/usr/bin/env bash
# Shows that nbdinfo sees the volume as it is: size, flags, block sizes, multi-conn, the list of exports; over TCP and a unix socket.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdinfo jq

start_cluster 3 8MiB
nbdinfo --json "$URI" >"$DIR/info.json"
say "$(jq -c '.exports[0] | del(.contexts)' "$DIR/info.json")"
# shown WHAT FILTER
shown() { jq -e "$2" "$DIR/info.json" >/dev/null || fail "$1"; pass "$1"; }
shown 'the protocol is fixed newstyle' '.protocol | startswith("newstyle-fixed")'
shown 'structured replies are negotiated' '.structured == true'
shown 'the size is the sum of the nodes' '.exports[0]["export-size"] == 3 * 8 * 1048576'
shown 'it is writable' '.exports[0].is_read_only == false'
shown 'several connections may share it' '.exports[0].can_multi_conn == true'
shown 'flush and FUA are offered' '.exports[0].can_flush and .exports[0].can_fua'
shown 'trim and write-zeroes are offered' '.exports[0].can_trim and .exports[0].can_zero'
shown 'any alignment is allowed' '.exports[0].block_size_minimum == 1'
shown 'the preferred block is one page or more' '.exports[0].block_size_preferred >= 4096'
shown 'requests of 32 MiB are allowed' '.exports[0].block_size_maximum == 33554432'

check 'the size alone over the unix socket' test "$(nbdinfo --size "$UNIX_URI")" -eq $((24 * 1048576))
nbdinfo --list --json "nbd://127.0.0.1:$PORT" >"$DIR/info.json"
shown 'the list has the one volume' '[.exports[]["export-name"]] == ["pool"]'
refused 'an export that does not exist' 'nosuch|no export|unknown|not found|No such file' nbdinfo "nbd://127.0.0.1:$PORT/nosuch"
check 'the server lives on' nbdinfo "$URI"

# A volume whose node is missing is refused with a reason, not with a hang.
stop gateway
stop node1
write_config
run_gateway
refused 'a volume that waits for a node' 'not ready' env LIBNBD_DEBUG=1 nbdinfo "$URI"
run_node node1
volume_ready
check 'the same volume when the node has come' nbdinfo "$URI"

stop gateway
start_gateway 'read_only = true'
nbdinfo --json "$URI" >"$DIR/info.json"
shown 'a read-only volume says so' '.exports[0].is_read_only == true'
