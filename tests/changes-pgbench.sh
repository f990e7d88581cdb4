#!/usr/bin/env bash
# Shows that pgbench on ext4 on a volume with copies, and fsx beside it, see no error and no wrong byte while nodes are added, drained and replaced, and the volume is rebalanced, made larger and smaller: first undisturbed, then while the gateway, the source, the target or all of them are killed. Tells how much longer transactions take meanwhile.
# Tier: slow
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/postgres.sh"
. "$TESTS/lib/fsx.sh"
. "$TESTS/lib/changes.sh"
# Two rounds are 48 changes, and half an hour.
ROUNDS=${ROUNDS:-1} CALM_ROUNDS=${CALM_ROUNDS:-1}
need nbdcopy sha256sum
seeded

# The file system has all but the last 16 MiB, fsx these; what is added later nobody uses.
SIZE_MIB=${SIZE_MIB:-384} FSX_BYTES=$((16 << 20))
FSX_AT=$(((SIZE_MIB << 20) - FSX_BYTES))
start_copies 4 $((SIZE_MIB * 5 / 6))MiB "size = \"${SIZE_MIB}MiB\"" 'evict_after = "3s"' 'timeout = "60s"'
# All chunks have copies, so all can move.
head -c $((SIZE_MIB << 20)) /dev/urandom >"$DIR/filling"
check 'the volume is filled' nbdcopy "$DIR/filling" "$UNIX_URI"
rm "$DIR/filling"
start_file_system --sizelimit $FSX_AT
LOOP=$(losetup -f --show --direct-io=on --offset $FSX_AT "$FILE")
# Without QEMU nothing waits for the gateway any more.
at_end 'if [ -n "$LOOP" ]; then if alive qemu; then stop qemu KILL; fi; if alive fsx; then stop fsx KILL; fi; losetup -d "$LOOP"; fi'
# Others write to the volume as well.
fsx_writes() { awk '{ print $5 }' "/sys/block/${LOOP#/dev/}/stat"; }
start_database
start_pgbench --log --log-prefix "$DIR/socket/transactions"
run_fsx 1000000000 $FSX_BYTES

# p99_ms FILE: of the transactions that ended in one of the times that the file has, from and to, in s since the epoch.
p99_ms() {
    cat "$DIR"/socket/transactions.* | awk -v file="$1" 'BEGIN { while ((getline line < file) > 0) { split(line, times, " "); from[++n] = times[1]; to[n] = times[2] } }
        { at = $5 + $6 / 1e6; for (i = 1; i <= n; i++) if (at >= from[i] && at < to[i]) { print $3 / 1000; break } }' |
        sort -g | awk '{ took[NR] = $1 } END { printf "p50 %.1f, p99 %.1f ms of %d transactions\n", took[int(NR * 0.5 + 0.5)], took[int(NR * 0.99 + 0.5)], NR }'
}
# both_go_on WHAT: transactions are done, and fsx writes. What fsx reads then comes from the volume, not from the page cache.
both_go_on() {
    goes_on "$1" 100
    fsx_goes_on 20
    alive fsx || finish_fsx
    blockdev --flushbufs "$LOOP"
}

both_go_on 'before all changes'
FROM=$EPOCHREALTIME
goes_on 'in quiet times' 1000
echo "$FROM $EPOCHREALTIME" >"$DIR/quiet"
for ((round = 1; round <= CALM_ROUNDS; round++)); do
    for operation in $OPERATIONS; do
        change "$operation" none "$round"
        echo "$BEGAN $ENDED" >>"$DIR/during.$operation"
        both_go_on "after $operation"
    done
done
for operation in $OPERATIONS; do say "$operation: $(p99_ms "$DIR/during.$operation"), quiet: $(p99_ms "$DIR/quiet")"; done
count=0
for ((round = 1; round <= ROUNDS; round++)); do
    for victim in $VICTIMS; do
        for operation in $OPERATIONS; do
            change "$operation" "$victim" "$round"
            both_go_on "after $operation with $victim killed"
            count=$((count + 1))
        done
    done
done
pass "$count changes, somebody killed in each: $(transactions) transactions, fsx found no wrong byte"

# What fsx reads after the last change is judged as well.
fsx_goes_on 20
alive fsx || finish_fsx
stop fsx KILL
losetup -d "$LOOP"
LOOP=
end_database
end_clients
whole_again
# Every byte is the same, whichever node is taken away.
of_volume() { nbdcopy "$UNIX_URI" - | sha256sum | cut -d ' ' -f 1; }
ALL=$(of_volume)
for number in 0 1 2 3; do
    check "node $number is taken away" volume pause "$number"
    check "every byte is the same without node $number" test "$(of_volume)" = "$ALL"
    check "node $number was not used" is_paused "$number"
    volume resume "$number" >/dev/null
    whole_again
done
