#!/usr/bin/env bash
# Shows that `flashmob bench nbd` measures nbdkit, nbd-server, qemu-nbd and a gateway, finds a planted wrong byte, asks before it writes, and stops on Ctrl-C with figures.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need curl nbdkit nbd-server qemu-nbd jq nbdcopy

SIZE=16777216
head -c $SIZE /dev/urandom >"$DIR/image"
cp "$DIR/image" "$DIR/planted"
# One byte that differs, whatever it was.
at=9000001
old=$(od -An -tu1 -j $at -N 1 "$DIR/image" | tr -d ' ')
printf "\\x$(printf %02x $(((old + 1) % 256)))" | dd of="$DIR/planted" bs=1 seek=$at conv=notrunc status=none

# bench STATUS URI OPTION...: runs a load with JSON into $DIR/bench.json and expects that exit status.
bench() {
    local expected=$1 status=0
    shift
    "$FLASHMOB" bench nbd "$@" --output json >"$DIR/bench.json" 2>"$DIR/bench.log" || status=$?
    [ "$status" -eq "$expected" ] || { cat "$DIR/bench.log" >&2; fail "status $status, not $expected: bench nbd $*"; }
}

# holds WHAT FILTER: passes if the filter is true of the last result.
holds() {
    jq -e "$2" "$DIR/bench.json" >/dev/null || { jq -c 'del(.result.latency_ns.histogram)' "$DIR/bench.json" >&2; fail "$1"; }
    pass "$1"
}

# measure NAME URI: what every server must let it do.
measure() {
    local name=$1 uri=$2
    bench 0 "$uri" --verify "$DIR/image" --requests 20000 --connections 2
    holds "$name: 20,000 reads of 4 KiB, every byte right" \
        '.result.reads == 20000 and .result.verified_bytes == 20000 * 4096 and .result.wrong_bytes == 0'
    bench 0 "$uri" --verify "$DIR/image" --outstanding 1 --block-size 512 --time 0.3 --warmup 0.1
    holds "$name: one outstanding, 512 B" '.result.reads > 0 and .result.latency_ns.max > 0 and .result.elapsed_s < 2'
}

listens() { "$FLASHMOB" bench nbd "$1" --requests 1; }
start nbdkit nbdkit --foreground --unix "$DIR/nbdkit.sock" --readonly file "$DIR/image"
NBDKIT="nbd+unix:///?socket=$DIR/nbdkit.sock"
start qemu qemu-nbd --persistent --read-only --format raw --shared 8 --socket "$DIR/qemu.sock" "$DIR/image"
QEMU="nbd+unix:///?socket=$DIR/qemu.sock"
printf '[generic]\nunixsock = %s\nallowlist = true\n[image]\nexportname = %s\nreadonly = true\n' "$DIR/nbdserver.sock" "$DIR/image" >"$DIR/nbdserver.conf"
start nbdserver nbd-server -C "$DIR/nbdserver.conf" -p "$DIR/nbdserver.pid"
at_end '[ ! -s "$DIR/nbdserver.pid" ] || kill "$(cat "$DIR/nbdserver.pid")"'
NBDSERVER="nbd+unix:///image?socket=$DIR/nbdserver.sock"
start_cluster 4 4MiB
check 'the image is in the volume' nbdcopy --flush "$DIR/image" "$URI"
for uri in "$NBDKIT" "$QEMU" "$NBDSERVER"; do wait_for 20 "$uri" listens "$uri"; done

measure nbdkit "$NBDKIT"
measure qemu-nbd "$QEMU"
measure nbd-server "$NBDSERVER"
measure gateway "$URI"
measure 'gateway, unix socket' "$UNIX_URI"

bench 0 "$URI" --verify "$DIR/image" --verify-sample 1/16 --requests 32000
holds 'a sample of 1/16 is compared' '.result.verified_bytes / 4096 | . > 1500 and . < 2500'
for uri in "$NBDKIT" "$URI"; do
    bench 4 "$uri" --verify "$DIR/planted" --pattern sequential --requests 4096
    holds 'the planted wrong byte is found, and nothing else' \
        ".result.wrong_bytes == 1 and .result.first_wrong_offset_bytes == $at"
done

refused 'writes without consent' 'allow-writes' "$FLASHMOB" bench nbd "$URI" --write
refused 'writes to what is read-only' 'read-only' "$FLASHMOB" bench nbd "$NBDKIT" --write --allow-writes
refused 'a server that is not there' 'cannot connect' "$FLASHMOB" bench nbd "nbd+unix:///?socket=$DIR/nobody"
refused 'a range beyond the end' 'the range ends' "$FLASHMOB" bench nbd "$URI" --range 0..1GiB
bench 0 "$URI" --write --allow-writes --verify "$DIR/image" --range 4MiB..8MiB --requests 5000
holds '5,000 writes inside a range' '.result.writes == 5000 and .result.reads == 0'
bench 0 "$URI" --verify "$DIR/image" --pattern sequential --requests 4096
holds 'the volume is as it was' '.result.wrong_bytes == 0 and .result.verified_bytes == 4096 * 4096'

start load "$FLASHMOB" bench nbd "$URI" --time 600 --output json
admin_address
reads_served() { curl -fsS "http://$ADMIN/status" | jq -e '[.stages[] | select(.name == "total").count] | add >= $least' --argjson least "$1"; }
served=$(curl -fsS "http://$ADMIN/status" | jq '[.stages[] | select(.name == "total").count] | add')
wait_for 20 'some reads' reads_served $((served + 100))
stop load INT
[ "$STATUS" -eq 130 ] || fail "stopped by Ctrl-C it ended with status $STATUS, not 130"
expect_result load 'Ctrl-C gives the figures so far' '.result.interrupted and .result.reads > 0'
