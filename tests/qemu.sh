#!/usr/bin/env bash
# Shows that qemu-img converts an image in and out and finds it equal, and that qemu-io's patterns read back.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need qemu-img qemu-io

start_cluster 4 8MiB
head -c $((20 * 1048576)) /dev/urandom >"$DIR/in.raw"
truncate -s 32M "$DIR/in.raw"
check 'a qcow2 image is made' qemu-img convert -f raw -O qcow2 "$DIR/in.raw" "$DIR/in.qcow2"
check 'convert in' qemu-img convert -n -f qcow2 -O raw "$DIR/in.qcow2" "$URI"
check 'compare with the image' qemu-img compare -f qcow2 -F raw "$DIR/in.qcow2" "$URI"
check 'convert out' qemu-img convert -f raw -O raw "$URI" "$DIR/out.raw"
check 'what came out is what went in' cmp "$DIR/in.raw" "$DIR/out.raw"
check 'compare over the unix socket' qemu-img compare -f raw -F raw "$DIR/in.raw" "$UNIX_URI"

# qio WHAT COMMAND...: qemu-io exits 0 when a pattern differs, so its words count too.
qio() {
    local what=$1 args=()
    shift
    local command
    for command in "$@"; do args+=(-c "$command"); done
    qemu-io -f raw "${args[@]}" "$URI" >"$DIR/qemu-io.out" 2>&1 || { cat "$DIR/qemu-io.out" >&2; fail "$what"; }
    if grep -Eiq 'failed|error' "$DIR/qemu-io.out"; then cat "$DIR/qemu-io.out" >&2; fail "$what"; fi
    pass "$what"
}
qio 'patterns across the border of two nodes' 'write -P 0xa5 8386560 4096' 'read -P 0xa5 8386560 4096' 'flush'
qio 'odd places' 'write -P 0x11 1 511' 'write -P 0x22 513 7' 'read -P 0x11 1 511' 'read -P 0x22 513 7'
qio 'FUA' 'write -f -P 0x33 16384 16384' 'read -P 0x33 16384 16384'
qio 'write-zeroes, kept and unmapped' 'write -P 0x44 1M 1M' 'write -z 1M 64k' 'write -z -u 1600k 64k' \
    'read -P 0 1M 64k' 'read -P 0x44 1112k 488k' 'read -P 0 1600k 64k' 'read -P 0x44 1664k 384k'
qio 'discard' 'discard 2M 1M'
qio 'many at a time' 'aio_write -P 0x55 4M 64k' 'aio_write -P 0x66 5M 64k' 'aio_flush' 'aio_read -P 0x55 4M 64k' 'aio_read -P 0x66 5M 64k' 'aio_flush'
check 'bench: 20,000 reads, 64 at a time' qemu-img bench -f raw -c 20000 -d 64 -s 4096 -t none "$URI"
