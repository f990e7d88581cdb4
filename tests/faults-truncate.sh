#!/usr/bin/env bash
# Shows that a file cut short under a node gives EIO there and never zeros, under reads alone and under writes as well, while the rest goes on.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq curl

# node_status NODE FILTER: a value of what it tells about itself.
node_status() {
    local address
    address=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/$1.log" | head -n 1)
    curl -sf "http://$address/status" | jq ".node$2"
}

mapped_count() { node_status "$1" .mapped_reads; }
mapped_reads() { [ "$(mapped_count "$1")" -gt 100 ]; }

# truncated WHAT PERCENT-OF-READS: the second half of node1's file disappears under load.
truncated() {
    local what=$1 reads=$2 mapped=$3 extent
    DATA_DIR=$DIR/$mapped-$reads
    NODE_OPTIONS=(--mapped "$mapped" --admin 127.0.0.1:0)
    mkdir "$DATA_DIR"
    start_cluster 3 8MiB
    check "$what: the volume is filled" "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DATA_DIR/model"
    # Extents of 4 MiB: the fourth of six is what will be lost.
    start_load load --extents 6 --connections 2 --depth 8 --reads "$reads" --model "$DATA_DIR/model"
    for extent in 0 1 2 3 4 5; do extent_served load $extent 200; done
    if [ "$mapped" = auto ]; then
        # Several reads in each region before it is asked about.
        wait_for 20 'mapped reads of node1' mapped_reads node1
        pass "$what: $(mapped_count node1) reads of node1 were mapped before the cut"
    else
        [ "$(mapped_count node1)" = 0 ] || fail "$what: --mapped off, and there were mapped reads"
    fi
    cp "$DATA_DIR/node1.img" "$DATA_DIR/node1.kept"
    truncate -s 4M "$DATA_DIR/node1.img"
    next_phase load
    extent_failed load 3 100
    for extent in 0 1 4 5; do extent_served load $extent 200; done
    end_load load
    no_wrong_byte load
    expect_result load "$what: the lost half answers EIO" '.phases[1].extents[3].errors.EIO > 0 and (.phases[1].extents[3].errors | keys) == ["EIO"]'
    expect_result load "$what: nothing of the lost half is served but what was already on its way" '.phases[1].extents[3].good <= 64'
    expect_result load "$what: the other nodes go on without an error" '[.phases[1].extents[0, 1, 4, 5] | .errors == {} and .good > 100] | all'
    expect_result load "$what: every request was answered" '.unanswered == 0 and .disconnects == 0'
    log_has node1 'node1\.img' || fail "$what: the node's log does not name the file"
    alive node1 || fail "$what: node1 has died of it"
    if [ "$mapped" = auto ]; then
        log_has node1 'a mapped page is not readable|truncated while being served' || fail "$what: the log of node1 does not say that its mapping was given up"
        [ "$(node_status node1 .mapped)" = false ] || fail "$what: node1 still reads from its mapping"
    fi
    if [ "$reads" = 100 ]; then
        stop node1
        cp "$DATA_DIR/node1.kept" "$DATA_DIR/node1.img"
        run_node node1
        start_load again --extents 6 --connections 2 --depth 8 --reads 100 --model "$DATA_DIR/model"
        for extent in 0 1 2 3 4 5; do extent_served again $extent 100; done
        end_load again
        no_wrong_byte again
        expect_result again "$what: restored and started again, the node serves as before" '[.phases[0].extents[] | .errors == {} and .good > 50] | all'
        truncate -s 4M "$DATA_DIR/node1.img"
    fi
    # Started again on the shortened file, the node must not make up the rest.
    stop gateway
    stop node1
    # shellcheck disable=SC2086
    refused "$what: a shortened file is not taken for an extent" 'node1\.img.*(4194304|4 ?MiB|short)' "$FLASHMOB" node ${NODE_ARGS[node1]} --listen 127.0.0.1:0
    stop node0
    stop node2
}

truncated 'reads, mapped' 100 auto
truncated 'reads and writes, mapped' 60 auto
truncated 'reads, not mapped' 100 off
