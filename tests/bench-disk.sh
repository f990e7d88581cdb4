#!/usr/bin/env bash
# Shows that `flashmob bench disk` makes a real file, measures it cold, warm and direct and says which it was, in every form of output, and refuses what it must not do.
# Tier: test
. "$(dirname "$0")/lib.sh"
need jq

FILE=$DIR/bench
# disk STATUS OPTION...: runs the benchmark with JSON into $DIR/disk.json and expects that exit status.
disk() {
    local expected=$1 status=0
    shift
    "$FLASHMOB" bench disk "$@" --output json >"$DIR/disk.json" 2>"$DIR/disk.log" || status=$?
    [ "$status" -eq "$expected" ] || { cat "$DIR/disk.log" >&2; fail "status $status, not $expected: bench disk $*"; }
}
# holds WHAT FILTER: passes if the filter is true of the last result.
holds() {
    jq -e "$2" "$DIR/disk.json" >/dev/null || { jq -c 'del(.. | .histogram?)' "$DIR/disk.json" >&2; fail "$1"; }
    pass "$1"
}

disk 0 "$FILE" --size 64MiB --block-size 1,4k --threads 1,2 --reads 200 --repeat 2
holds 'four combinations, twice each, 200 reads each time' \
    '.measurement.points | length == 4 and all(.repetitions | length == 2 and all(.requests == 200 and .errors == 0))'
holds 'cold: nothing of the file was in memory' 'all(.measurement.points[].repetitions[]; .cached_before_bytes == 0)'
holds 'device, kernel and place are named' '.device.kernel != null and .device.cpus > 0 and .measurement.file.place.filesystem != null'
[ "$(stat -c %s "$FILE")" -eq $((64 << 20)) ] || fail 'the file has another size'
[ "$(du -B1 "$FILE" | cut -f1)" -ge $((64 << 20)) ] || fail 'the file has holes'
pass 'the file has real blocks'

disk 0 "$FILE" --cache warm --reads 20000 --repeat 1
# The kernel may take some of it back at once, for others or to have reserves.
holds 'warm: it was in memory' '.measurement.points[0].repetitions[0].cached_before_bytes > 60000000'
if [ "$(stat -f -c %T "$DIR")" != tmpfs ]; then
    disk 0 "$FILE" --cache direct --reads 200 --repeat 1 --threads 4
    holds 'direct: the page cache stays as it is' '.measurement.points[0].repetitions[0] | .requests == 200 and .errors == 0'
fi
cat "$FILE" >/dev/null
disk 0 "$FILE" --reads 500 --repeat 1
holds 'what was in memory is dropped before a cold repetition' '.measurement.points[0].repetitions[0].cached_before_bytes == 0'
disk 0 "$FILE" --range 8MiB --reads 20000 --repeat 1
holds 'reads that memory answered are called that' 'any(.measurement.points[0].warnings[]; .code == "served_from_cache")'
disk 0 "$FILE" --pattern sort,shuffle,rand --block-size 1 --reads 64 --repeat 3 --seed 7
holds "P3's orders" '[.measurement.points[].parameters.pattern] == ["sort", "shuffle", "rand"]'
disk 0 "$FILE" --engine io_uring --depth 1,8 --reads 300 --repeat 1
holds 'io_uring at two depths' '.measurement.points | length == 2 and all(.repetitions[0].requests == 300)'
disk 0 "$FILE" --write --sync fdatasync --threads 2 --reads 50 --repeat 1
holds 'writes into what the benchmark made' '.measurement.points[0] | .parameters.sync == "fdatasync" and .repetitions[0].requests == 50'
disk 0 "$FILE" --write --engine io_uring --depth 4 --sync fdatasync --reads 50 --repeat 1
holds 'writes through io_uring' '.measurement.points[0].repetitions[0] | .requests == 50 and .errors == 0'
disk 0 "$FILE" --reads 10 --repeat 1
holds 'after writes it is still known as its own' '.measurement.file.made_by_benchmark'

"$FLASHMOB" bench disk "$FILE" --reads 200 --repeat 2 --output ndjson >"$DIR/events" 2>"$DIR/events.log"
check 'every line of NDJSON is an event, the last one the result' \
    jq -es 'all(.[]; .event) and .[0].event == "begin" and .[-1].event == "end" and (map(select(.event == "repetition")) | length == 2)' "$DIR/events"
"$FLASHMOB" bench disk "$FILE" --reads 200 --repeat 1 --save "$DIR/saved.json" --label 'my tablet' >"$DIR/table" 2>"$DIR/table.log"
check 'a table for people' grep -q 'requests/s' "$DIR/table"
check 'what is saved is the result' jq -e '.label == "my tablet" and .format == "flashmob-result"' "$DIR/saved.json"

printf 'file = "bench"\nblock-size = [512, "4k"]\nthreads = 2\nreads = 100\nrepeat = 1\n' >"$DIR/job.toml"
disk 0 --job "$DIR/job.toml" --reads 120
holds 'a job file, and the command line over it' '.measurement.points | length == 2 and all(.repetitions[0].requests == 120)'
printf 'file = "bench"\nthreds = 2\n' >"$DIR/bad.toml"
refused 'an unknown key' "bad.toml:2: unknown key 'threds'; did you mean 'threads'" "$FLASHMOB" bench disk --job "$DIR/bad.toml"
refused 'an absurd range' 'a range of 1 TiB is more than the file has' "$FLASHMOB" bench disk "$FILE" --range 1TiB
refused 'an unknown pattern' "did you mean 'shuffle'" "$FLASHMOB" bench disk "$FILE" --pattern shufle
refused 'no file' 'name a file' "$FLASHMOB" bench disk
refused 'an unknown model' 'nexus7-emmc' "$FLASHMOB" bench disk --model nexus7
refused 'a folder that is not there' 'absent' "$FLASHMOB" bench disk "$DIR/absent/bench" --size 1MiB
refused 'more than the disk has' 'lacks .* are free' "$FLASHMOB" bench disk "$DIR/huge" --size 900TiB
[ ! -e "$DIR/huge" ] || fail 'a file is left of what did not fit'

echo 'a letter to my aunt' >"$DIR/letter"
cp "$DIR/letter" "$DIR/copy"
refused "a write to somebody's file" 'allow-overwrite' "$FLASHMOB" bench disk "$DIR/letter" --block-size 1 --write --reads 1
cmp -s "$DIR/letter" "$DIR/copy" || fail 'the letter was changed'
pass 'and it is as it was'
# Where results go: never over what is measured, never in the place of a device.
refused 'a result in the place of the file' 'it is the file to measure' "$FLASHMOB" bench disk "$FILE" --reads 1 --save "$FILE"
mkfifo "$DIR/pipe"
cat "$DIR/pipe" >"$DIR/piped.json" &
CAT=$!
disk 0 "$FILE" --reads 10 --repeat 1 --save "$DIR/pipe"
wait "$CAT"
[ -p "$DIR/pipe" ] || fail 'the pipe was replaced by a file'
check 'a result goes through a pipe' jq -e '.format == "flashmob-result"' "$DIR/piped.json"
if [ -w /dev/full ]; then
    for form in json ndjson; do
        ! "$FLASHMOB" bench disk "$FILE" --reads 10 --repeat 1 --output $form >/dev/full 2>"$DIR/full.log" || fail "a full disk was not noticed ($form)"
        check "a result that could not be written is an error ($form)" grep -q 'cannot write the result to stdout' "$DIR/full.log"
    done
fi
refused 'a depth that a model does not have' 'leave out --engine io_uring' "$FLASHMOB" bench disk --model nvme --engine io_uring --depth 8
truncate -s 64M "$DIR/holes"
if [ "$(stat -f -c %T "$DIR")" != tmpfs ]; then
    disk 0 "$DIR/holes" --reads 10 --repeat 1
    holds 'holes are called that' 'any(.warnings[]; .code == "served_from_cache" and (.message | contains("no blocks on the disk")))'
fi
disk 0 "$FILE" --scheduler none --reads 10 --repeat 1
holds 'a scheduler: set, or said why not' \
    '(.measurement.points[0].parameters.scheduler == "none") or any(.warnings[]; .code == "scheduler")'
disk 0 "$DIR/gone" --size 4MiB --reads 10 --repeat 1 --remove
[ ! -e "$DIR/gone" ] || fail 'the file is still there'
pass '--remove removes the file'
