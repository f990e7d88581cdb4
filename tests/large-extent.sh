#!/usr/bin/env bash
# Shows that an extent of 6 GiB is right around and beyond 2 and 4 GiB: what is written, trimmed and zeroed there lies in the file at that place and nowhere else.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdinfo
need_python_nbd

start_cluster 1 6GiB
[ "$(nbdinfo --size "$URI")" = $((6 << 30)) ] || fail "the volume has $(nbdinfo --size "$URI") bytes"
pass 'a volume of 6 GiB'
"$PYTHON" "$TESTS/large_extent.py" change "$URI" "$DIR/expected" || fail 'see above'
# What the node does not remember it has to read.
stop node0
run_node node0
volume_again() { nbdinfo --can connect "$URI" && "$PYTHON" "$TESTS/large_extent.py" read "$URI" "$DIR/expected"; }
wait_for 20 'the node to be served again' volume_again
pass 'a node that was started again reads the same'
stop gateway
stop node0
"$PYTHON" "$TESTS/large_extent.py" file "$DATA_DIR/node0.img" "$DIR/expected" || fail 'see above'
kib=$(du -k "$DATA_DIR/node0.img" | cut -f 1)
at_most 'the file keeps its holes' "$kib" 65536 KiB
