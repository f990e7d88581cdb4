#!/usr/bin/env bash
# Shows that a node that is slow but answers makes a copy slow and fails nothing of it, however much is outstanding.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdcopy

start_node node0 24MiB
start_node node1 24MiB
NODES=(node0 node1)
start proxy "$PYTHON" "$TESTS/slow_proxy.py" "${ADDR[node1]}" 2000000
started proxy 'listening on'
NODE_HOST[1]=$(sed -n 's/^listening on //p' "$DIR/proxy.log")
# The copy takes about three times the timeout, and nbdcopy keeps more outstanding than the node serves in that time.
start_gateway 'timeout = "4s"'
head -c 48M /dev/urandom >"$DIR/in.img"
check 'nbdcopy writes over a slow node' nbdcopy --flush "$DIR/in.img" "$URI"
check 'and reads back' nbdcopy "$URI" "$DIR/out.img"
check 'what was written' cmp "$DIR/in.img" "$DIR/out.img"
if log_has gateway 'did not answer in time'; then fail 'requests failed'; fi
pass 'no request failed'
