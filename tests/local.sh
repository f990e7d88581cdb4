#!/usr/bin/env bash
# Shows that a gateway serves files of its own machine at once, and reads what is not in the page cache, whatever its size.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdcopy cmp

cat >"$DIR/gateway.toml" <<TOML
listen = "127.0.0.1:0"
[[volume]]
name = "pool"
timeout = "60s"
layout = "striped"
stripe = "1MiB"
[[volume.node]]
path = "a.img"
size = "16MiB"
[[volume.node]]
path = "b.img"
size = "16MiB"
TOML
begun=${EPOCHREALTIME/./}
run_gateway
volume_ready
took_ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
# Well below a second on a machine that does nothing else; nobody has to be waited for.
[ "$took_ms" -lt 20000 ] || fail "the volume was ready after $took_ms ms only"
pass 'the volume is ready at once'
head -c 32M /dev/urandom >"$DIR/in.img"
check 'an image is written' nbdcopy --flush "$DIR/in.img" "$URI"
cat >"$DIR/cold.py" <<PYTHON
import os
import sys
import time
sys.path.insert(0, "$TESTS")
import nbdproto
client = nbdproto.Client("$URI")
image = open("$DIR/in.img", "rb").read()
for size in (1, 4096, 65536, 131072, 262144, 1 << 20, 8 << 20):
    for name in ("a.img", "b.img"):
        fd = os.open("$DIR/" + name, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    begun = time.monotonic()
    result, data = client.call(nbdproto.READ, 3 << 20, size)
    assert result == "OK", (size, result)
    assert data == image[3 << 20:][:size], size
    # A read that is forgotten is woken by nothing before its timeout of 60 s.
    assert time.monotonic() - begun < 20, (size, time.monotonic() - begun)
PYTHON
check 'cold reads of every size are right, and prompt' "$PYTHON" "$DIR/cold.py"
