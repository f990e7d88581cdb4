#!/usr/bin/env bash
# Shows that a map moves from its file into etcd, that writes to open chunks make no transactions, that a gateway that ends hands over at once, that a full etcd is an error that names it, and that a slow one is only slow, with nothing lost.
# Tier: slow
# With etcd there it takes two minutes.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/etcd.sh"
need_etcd
need_python_nbd

start_copies 3 64MiB 'evict_after = "1s"' 'timeout = "60s"'
check 'a volume whose map is in a file is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
stop gateway
start_etcd 1 --quota-backend-bytes 4194304
MAP=etcd://$ETCD_MEMBERS
# run NAME [OPTION...]: a gateway with its map in etcd.
run() {
    local name=$1
    shift
    rm -f "$DIR/gateway.sock"
    start "$name" "$FLASHMOB" gateway "$DIR/gateway.toml" --map "$MAP" "$@"
}
# serves NAME: waits until it does, and makes it the one that is asked.
serves() {
    started "$1" 'volume pool ready'
    PORT=$(sed -nE 's|.*listening on nbds?://127\.0\.0\.1:([0-9]+).*|\1|p' "$DIR/$1.log" | tail -n 1)
    URI=nbd://127.0.0.1:$PORT/pool
    ADMIN=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/$1.log" | tail -n 1)
}
# etcd_says PATH [JSON]: asks the only member.
etcd_says() { curl -sf "http://$ETCD_MEMBERS/v3/$1" -d "${2:-{\}}"; }
puts() { curl -sf "http://$ETCD_MEMBERS/metrics" | awk '$1 == "etcd_debugging_mvcc_put_total" || $1 == "etcd_mvcc_put_total" { found = $2 } END { print found }'; }

run one
serves one
check 'its map is put in etcd' log_has one 'its map, .*pool.map, is put in etcd'
check 'and the file is out of use' test -f "$DIR/gateway.toml.pool.map.in-etcd" -a ! -e "$DIR/gateway.toml.pool.map"
whole_again
check 'every byte is there' is_all_there
is_held() { copies '.lease_seconds > 0 and .waiting_for_lease == 0'; }
check 'the lease is told' is_held

# Chunks that are open already.
start_load load --bytes $((8 << 20)) --connections 2 --depth 8 --reads 0 --model "$DIR/model"
before=$(puts)
from_ms=$(($(date +%s%N) / 1000000))
has_written() { jq -e '.phase_done > 100000' "$DIR/load.progress"; }
wait_for 60 'writes to be answered' has_written
took_ms=$(($(date +%s%N) / 1000000 - from_ms))
made=$(($(puts) - before))
end_load load
say "$made puts in $took_ms ms of writes to open chunks"
check 'fewer than two transactions a second' test $((made * 1000)) -lt $((2 * took_ms + 2000))

# Handing over.
run two --standby
wait_for 20 'the second one to stand by' log_has two 'standing by: gateway'
from_ms=$(($(date +%s%N) / 1000000))
stop one
serves two
say "handed over after $(($(date +%s%N) / 1000000 - from_ms)) ms"
check 'every byte is there' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
refused 'another one without --standby is told who is in charge' 'gateway .* is in charge; stop it' "$FLASHMOB" gateway "$DIR/gateway.toml" --map "$MAP"
refused 'a volume without copies is none for etcd' 'has no copies' "$FLASHMOB" gateway "$(dirname "$TESTS")/examples/two-tablets.toml" --map "$MAP"
refused 'etcd is not there' 'etcd at 127.0.0.1:1: ' "$FLASHMOB" gateway "$DIR/gateway.toml" --map etcd://127.0.0.1:1

# doctor CHECK: what flashmob doctor says of etcd.
doctor() { "$FLASHMOB" -q doctor --etcd "$MAP" --only "$1" --output json >"$DIR/doctor.json" 2>"$DIR/doctor.log" || [ $? -eq 3 ]; }
found() { doctor "$1" && jq -e --arg outcome "$2" --arg text "$3" '.checks[0] | .outcome == $outcome and (.found | contains($text))' "$DIR/doctor.json"; }
check 'doctor: there is room' found etcd-space well 'no alarm'
check 'doctor: one member alone is told' found etcd-members wrong 'no member to spare'

# Somebody fills it.
fill() {
    local value
    value=$(head -c 200000 /dev/urandom | base64 -w 0)
    while
        printf '{"key": "%s", "value": "%s"}' "$(head -c 6 /dev/urandom | base64)" "$value" >"$DIR/put.json"
        etcd_says kv/put "@$DIR/put.json" >/dev/null
    do :; done
}
fill
is_full() {
    # Copies fall behind: that is a decision.
    "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/other" >/dev/null 2>&1 || true
    curl -sf "http://$ADMIN/status" | jq -e '.gateway.volumes[0].copies.map_trouble | test("etcd.s database is full")' >/dev/null
}
cp "$DIR/model" "$DIR/other"
stop node2 KILL
wait_for 60 'the full etcd to be told' is_full
check 'doctor: it is full' found etcd-space severe 'is full'
run_node node2
etcd_says kv/deleterange "{\"key\": \"AA==\", \"range_end\": \"Lw==\"}" >/dev/null
etcd_says kv/deleterange "{\"key\": \"MA==\", \"range_end\": \"/w==\"}" >/dev/null
etcd_says kv/compaction "{\"revision\": \"$(etcd_says kv/range '{"key": "AA=="}' | jq -r .header.revision)\", \"physical\": true}" >/dev/null
etcd_says maintenance/defragment >/dev/null
member=$(etcd_says maintenance/status | jq -r .header.member_id)
etcd_says maintenance/alarm "{\"action\": \"DEACTIVATE\", \"memberID\": \"$member\", \"alarm\": \"NOSPACE\"}" >/dev/null
is_well() { copies '.map_trouble == null'; }
wait_for 60 'it to be written again' is_well
whole_again
check 'what was written since is there' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
stop two KILL
run three --standby
serves three
whole_again
check 'and every byte after another start' is_all_there
stop three KILL

# Each of etcd's answers is 50 ms late.
start late "$PYTHON" "$TESTS/slow_proxy.py" "$ETCD_MEMBERS" 1e9 25
started late 'listening on'
MAP=etcd://$(sed -n 's/listening on //p' "$DIR/late.log")
run four --standby
serves four
whole_again
check 'with an etcd that is 50 ms late all is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'doctor: it is slow' found etcd-time wrong 'takes'
stop four KILL
run five --standby
serves five
whole_again
check 'and every byte is there' is_all_there
