#!/usr/bin/env bash
# Shows that every NBD command does what the protocol says, at any alignment, and that every bad one gets the errno the protocol names.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need_python_nbd

# Extents and stripes that requests straddle; one volume writable, the same one read-only afterwards.
start_cluster 3 4MiB 'layout = "striped"' 'stripe = "4KiB"'
"$PYTHON" "$TESTS/nbd_commands.py" writable "$URI" "$UNIX_URI" || fail 'see above'
stop gateway
start_gateway 'layout = "striped"' 'stripe = "4KiB"' 'read_only = true'
"$PYTHON" "$TESTS/nbd_commands.py" read-only "$URI" "$UNIX_URI" || fail 'see above'
pass 'all commands'
