#!/usr/bin/env bash
# Shows that a file cut short under a node gives EIO there and never zeros, under reads alone and under writes as well, while the rest goes on.
. "$(dirname "$0")/lib.sh"
need jq

# truncated WHAT PERCENT-OF-READS: the second half of node1's file disappears under load.
truncated() {
    local what=$1 reads=$2
    DATA_DIR=$DIR/$reads
    mkdir "$DATA_DIR"
    start_cluster 3 8MiB
    check "$what: the volume is filled" "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DATA_DIR/model"
    # Extents of 4 MiB: the fourth of six is what will be lost.
    start_load load --extents 6 --connections 2 --depth 8 --reads "$reads" --model "$DATA_DIR/model"
    load_seconds load 1
    truncate -s 4M "$DATA_DIR/node1.img"
    next_phase load
    load_seconds load 2
    end_load load
    no_wrong_byte load
    expect_result load "$what: the lost half answers EIO" '.phases[1].extents[3].errors.EIO > 0 and (.phases[1].extents[3].errors | keys) == ["EIO"]'
    expect_result load "$what: nothing of the lost half is served but what was already on its way" '.phases[1].extents[3].good <= 64'
    expect_result load "$what: the other nodes go on without an error" '[.phases[1].extents[0, 1, 4, 5] | .errors == {} and .good > 100] | all'
    expect_result load "$what: every request was answered" '.unanswered == 0 and .disconnects == 0'
    log_has node1 'node1\.img' || fail "$what: the node's log does not name the file"
    # Started again on the shortened file, the node must not make up the rest.
    stop gateway
    stop node1
    # shellcheck disable=SC2086
    refused "$what: a shortened file is not taken for an extent" 'node1\.img.*(4194304|4 ?MiB|short)' "$FLASHMOB" node ${NODE_ARGS[node1]} --listen 127.0.0.1:0
    stop node0
    stop node2
}

truncated 'reads' 100
truncated 'reads and writes' 60
