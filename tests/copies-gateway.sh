#!/usr/bin/env bash
# Shows that QEMU's NBD client works on while the gateway is killed in the middle of writes and started again, six times: no error, no wrong byte.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need nbdcopy
need_root 'FUSE'
seeded
KILLS=${KILLS:-6}

start_copies 4 32MiB 'evict_after = "1s"' 'timeout = "60s"'
start_qemu
start_file
# Half of the volume through QEMU's export, with many requests at a time; the other half through a file, to the byte.
HALF=$((32 << 20))
LOAD_URI=$QEMU_URI start_load requests --bytes $HALF --connections 2 --depth 8 --reads 30 --model "$DIR/model" --seed "$SEED"
start file "$PYTHON" "$TESTS/fileload.py" "$FILE" --from $HALF --seed "$SEED" --progress "$DIR/file.progress"

# goes_on COUNT: waits until both have so many more answers.
goes_on() {
    local name
    declare -A before
    for name in requests file; do before[$name]=$(jq .phase_done "$DIR/$name.progress" || echo 0); done
    for name in requests file; do
        wait_for 30 "$1 answers of $name" progressed "$name" $((before[$name] + $1))
    done
}
progressed() { alive "$1" || fail "$1 ended"; jq -e ".phase_done >= $2" "$DIR/$1.progress"; }

wait_for 30 'the first answers of file' test -s "$DIR/file.progress"
for ((kill = 1; kill <= KILLS; kill++)); do
    draw 100
    goes_on $((20 + DRAWN))
    stop gateway KILL
    gateway_again
    [ $((kill % 2)) -ne 0 ] || whole_again
done
goes_on 200
kill -TERM "${PID[file]}"
finish file 60
[ "$STATUS" -eq 0 ] || { cat "$DIR/file.out" >&2; fail 'a wrong byte or an error in the file'; }
expect_result file "no wrong byte in $(result file .reads) reads of the file, no error" \
    '.mismatches == [] and .errors == [] and .reads > 0 and .writes > 0 and .syncs > 0'
end_load requests
no_wrong_byte requests
expect_result requests 'no request failed' '.errors == {} and .unanswered == 0 and .disconnects == 0 and .uncertain == 0'
check 'the gateway was killed and started' copies ".epoch == $((KILLS + 1))"
whole_again
check 'what was written is there, read past QEMU' is_all_there --bytes $HALF
cp "$FILE" "$DIR/whole.raw"
fusermount3 -u "$DIR/fuse"
finish nbdfuse 20
check 'QEMU ends' stop qemu

# Each copy alone has what the file had.
for node in "${NODES[@]}"; do
    stop "$node" KILL
    nbdcopy "$URI" "$DIR/without.raw"
    check "it is all there without $node" cmp "$DIR/whole.raw" "$DIR/without.raw"
    node_again "$node"
done
