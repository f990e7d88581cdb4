#!/usr/bin/env bash
# Shows that fio's NBD engine verifies what it wrote at random, over four connections at once.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need fio jq

# Each job has a connection and a quarter of its own, so that no job overwrites what another verifies.
# fio WHAT OPTION...: --ioengine must come before --uri.
run_fio() {
    local what=$1
    shift
    fio --ioengine=nbd --uri="$URI" --thread --numjobs=4 --size=8M --offset_increment=8M --group_reporting \
        --verify_fatal=1 --verify_state_save=0 --output-format=json --output="$DIR/fio.json" "$@" >"$DIR/fio.log" 2>&1 ||
        { cat "$DIR/fio.log" >&2; tail -n 5 "$DIR/fio.json" >&2; fail "$what"; }
    # The engine prints lines of its own before the JSON.
    sed -i '/^{/,$!d' "$DIR/fio.json"
    jq -e '[.jobs[].error] | all(. == 0)' "$DIR/fio.json" >/dev/null || fail "$what: fio reports an error"
    pass "$what: $(jq -r '.jobs[0] | "\(.read.total_ios) reads, \(.write.total_ios) writes"' "$DIR/fio.json")"
}

start_cluster 4 8MiB
cd "$DIR" # fio leaves files where it runs
run_fio 'random writes of 4 KiB, verified' --name=write --rw=randwrite --bs=4k --iodepth=32 --verify=crc32c --do_verify=1
run_fio 'random reads and writes of mixed size for 4 s' --name=mixed --rw=randrw --bsrange=512-64k --bs_unaligned=0 --iodepth=16 \
    --verify=crc32c --verify_backlog=256 --time_based --runtime=4
run_fio 'odd sizes, with flushes' --name=odd --rw=randwrite --bs=3000 --iodepth=8 --verify=crc32c --do_verify=1 --fsync=64 --io_size=2M
run_fio 'requests of 1 MiB' --name=large --rw=randwrite --bs=1M --iodepth=4 --verify=crc32c --do_verify=1
