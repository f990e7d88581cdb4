#!/usr/bin/env bash
# Records what tests/recorded.rs reads, on the kernel at hand, as root: record.sh RECORD OUT
#
# RECORD is the example: cargo build --release -p flashmob-trace --example record. Six INSERTs on ext4 on a loop device, twice: once under strace, which
# counts system calls, once captured, while another instance of tracefs counts the rest. Look for names of strangers in OUT before it is committed:
# strings OUT/*.raw
set -euo pipefail
record=$(realpath "$1") out=$(realpath -m "$2")
work=/tmp/flashmob text=/sys/kernel/tracing/instances/text-$$
mkdir "$work" "$text"
truncate -s 64M "$work/image"
loop=$(losetup -f --show "$work/image")
trap 'cd /; umount "$work/m" || true; losetup -d "$loop"; rm -rf "$work"; rmdir "$text"' EXIT
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
mkdir "$work/m"
mount "$loop" "$work/m"
cd "$work/m"
IFS=: read -r major minor <"/sys/block/${loop#/dev/}/dev"
device=$((major << 20 | minor))
echo 'create table t(a integer primary key, b text);' | sqlite3 db
for _ in 1 2 3 4 5 6; do
    printf "insert into t(b) values('%s');\n" "$(head -c 100 /dev/zero | tr '\0' x)"
done >"$work/sql"
cp db "$work/db"
sync
sleep 0.3
strace -f -o "$work/strace" sqlite3 db ".read $work/sql"
cp "$work/db" db
sync
sleep 0.3

events='ext4:ext4_sync_file_enter ext4:ext4_sync_file_exit ext4:ext4_allocate_blocks jbd2:jbd2_start_commit jbd2:jbd2_end_commit
    filemap:mm_filemap_add_to_page_cache block:block_bio_queue block:block_rq_insert block:block_rq_issue block:block_rq_complete'
for event in $events; do
    field=dev
    [ "${event%%:*}" != filemap ] || field=s_dev
    echo "$field == $device" >"$text/events/${event/://}/filter"
    echo 1 >"$text/events/${event/://}/enable"
done
sqlite=$(ldd "$(command -v sqlite3)" | awk '/libsqlite3/ { print $3 }')
NAMES=1 SQLITE=$sqlite DEVICES=$device "$record" "$out" -- sqlite3 db ".read $work/sql"
echo 0 >"$text/tracing_on"
for event in $events; do
    echo "$(grep -c " ${event#*:}: " "$text/trace") $event"
done >"$out/expected.txt"
for call in openat pwrite64 fdatasync unlink; do
    count=$(grep -cE "^[0-9]+ +$call\(" "$work/strace")
    printf '%s\n' "$count syscalls:sys_enter_$call" "$count syscalls:sys_exit_$call"
done >>"$out/expected.txt"
cat "$out/expected.txt"
