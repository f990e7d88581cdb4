#!/usr/bin/env bash
# Shows that every mode of P1 gives the right bytes: batches of 1, 10, 100 and auto, one link and three, reads of 1 byte and of 4 KiB, blocks that straddle stripes.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

start_cluster 3 4MiB 'layout = "striped"' 'stripe = "4KiB"'
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --block 12288 --model "$DIR/model"
for mode in '1 1' '10 1' '100 1' '"auto" 1' '100 3' '"auto" 3'; do
    read -r batch links <<<"$mode"
    stop gateway
    start_gateway 'layout = "striped"' 'stripe = "4KiB"' "batch = $batch" "links = $links"
    for bytes in 1 4096; do
        check "batch $batch, $links links, reads of $bytes B and writes of 12 KiB" "$PYTHON" "$TESTS/nbdload.py" "$URI" \
            --requests 2000 --connections 2 --depth 128 --block 12288 --read-bytes $bytes --reads 90 --model "$DIR/model"
        jq -e '.errors == {} and .unanswered == 0 and .reads + .writes >= 2000' "$DIR/check.out" >/dev/null || fail "$(cut -c1-600 "$DIR/check.out")"
    done
    # One at a time: a batch that waits to be full would never be sent, and its request fail.
    check "batch $batch, $links links, one outstanding" "$PYTHON" "$TESTS/nbdload.py" "$URI" \
        --requests 100 --depth 1 --block 12288 --read-bytes 1 --model "$DIR/model"
    jq -e '.errors == {} and .unanswered == 0 and .reads + .writes >= 100' "$DIR/check.out" >/dev/null || fail "$(cut -c1-600 "$DIR/check.out")"
done
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --block 12288 --model "$DIR/model"
