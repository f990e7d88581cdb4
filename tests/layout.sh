#!/usr/bin/env bash
# Shows that the files of a linear volume, laid end to end, equal what was written; and a striped volume's, dealt out by stripes.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdcopy

# Extents of unequal size, none of them a multiple of the others.
for layout in linear striped; do
    NODES=(a b c)
    sizes=(5MiB 3MiB 9MiB)
    lines=('layout = "linear"')
    if [ $layout = striped ]; then
        sizes=(6MiB 6MiB 6MiB)
        lines=('layout = "striped"' 'stripe = "64KiB"')
    fi
    for i in 0 1 2; do
        DATA=$DIR/$layout$i.img start_node "${NODES[i]}" "${sizes[i]}"
    done
    rm -f "$DIR/gateway.toml.extents" # other nodes than before
    start_gateway "${lines[@]}"
    size=$(nbdinfo --size "$URI")
    head -c "$size" /dev/urandom >"$DIR/in.img"
    check "$layout: a volume of $size bytes is written" nbdcopy --connections=4 --flush "$DIR/in.img" "$URI"
    if [ $layout = linear ]; then
        cat "$DIR"/linear[012].img >"$DIR/files.img"
    else
        "$PYTHON" - "$DIR" <<'PYTHON'
import sys
files = [open(f"{sys.argv[1]}/striped{i}.img", "rb") for i in range(3)]
with open(f"{sys.argv[1]}/files.img", "wb") as out:
    while stripes := b"".join(file.read(65536) for file in files):
        out.write(stripes)
PYTHON
    fi
    check "$layout: the files of the nodes are the bare bytes" cmp "$DIR/in.img" "$DIR/files.img"
    stop gateway
    for node in "${NODES[@]}"; do stop "$node"; unset "ADDR[$node]"; done
done
