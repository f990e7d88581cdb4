# PostgreSQL on ext4 on a volume with copies, and pgbench on it; sourced after lib/copies.sh. CLIENTS of pgbench, SCALE of its tables.
# shellcheck shell=bash
CLIENTS=${CLIENTS:-4} SCALE=${SCALE:-3}
need losetup mkfs.ext4 e2fsck setpriv pkill
need_root 'FUSE, a loop device and mount'
# Debian keeps its servers' programs outside of PATH.
PATH=$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)
for program in initdb pg_ctl psql pgbench pg_amcheck; do
    command -v $program >/dev/null || { echo "    not run: '$program' is not installed; Debian's package is postgresql" >&2; exit $NOT_RUN; }
done
# The server refuses to be root.
USER_OF_SERVER=postgres
id $USER_OF_SERVER >/dev/null 2>&1 || USER_OF_SERVER=nobody
as_user() { setpriv --reuid "$USER_OF_SERVER" --regid "$(id -g $USER_OF_SERVER)" --clear-groups -- "$@"; }
sql() { as_user psql -XAtq -c "$1"; }

# start_file_system [OPTION OF LOSETUP...]: ext4 on the volume, or on a part of it. fsync goes all the way: ext4, loop, FUSE, QEMU's NBD client, gateway, nodes.
start_file_system() {
    start_qemu
    start_file
    MOUNTED=$(losetup -f --show --direct-io=on "$@" "$FILE")
    at_end detach
    mkfs.ext4 -q -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 "$MOUNTED"
    mkdir "$DIR/mnt" "$DIR/socket"
    mount "$MOUNTED" "$DIR/mnt"
}
# detach: unmounts it; also what is left of the server, the mount and the device after a failure: without QEMU all of it ends with errors, and does not wait.
detach() {
    if [ -n "${SERVER:-}" ]; then
        local server
        server=$(head -n 1 "$DIR/mnt/data/postmaster.pid" 2>/dev/null)
        [ -z "${PID[pgbench]:-}" ] || pkill -KILL -P "${PID[pgbench]}"
        [ -z "$server" ] || { pkill -KILL -P "$server"; kill -KILL "$server"; }
        if alive qemu; then stop qemu KILL; fi
    fi
    ! mountpoint -q "$DIR/mnt" || umount "$DIR/mnt" || umount -l "$DIR/mnt"
    [ -z "$MOUNTED" ] || losetup -d "$MOUNTED"
    MOUNTED=
}

# start_database: a server on that file system, with the tables of pgbench.
start_database() {
    mkdir "$DIR/mnt/data"
    chmod 755 "$DIR"
    chown "$USER_OF_SERVER" "$DIR/mnt/data" "$DIR/socket"
    SERVER=1
    check 'initdb' as_user initdb -D "$DIR/mnt/data" -A trust -U postgres --data-checksums --wal-segsize=4
    cat >>"$DIR/mnt/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$DIR/socket'
shared_buffers = 16MB
max_wal_size = 64MB
min_wal_size = 16MB
checkpoint_timeout = 30s
CONF
    check 'the server starts' as_user pg_ctl -D "$DIR/mnt/data" -l "$DIR/mnt/data/server.log" -w -t 120 start
    export PGHOST=$DIR/socket PGUSER=postgres PGDATABASE=postgres
    check 'pgbench -i' as_user pgbench -i -q -s "$SCALE"
}

# start_pgbench [OPTION...]: again and again, until end_database. Each run says how many transactions failed.
start_pgbench() { start pgbench run_pgbench "$@"; }
run_pgbench() {
    while [ ! -e "$DIR/enough" ]; do
        as_user pgbench -n -c "$CLIENTS" -j 2 -t 100 "$@" || exit 1
    done
}
transactions() { sql 'SELECT count(*) FROM pgbench_history'; }
beyond() { ! alive pgbench || [ "$(transactions)" -ge "$1" ]; }
# goes_on WHAT [COUNT]: so many transactions are done now.
goes_on() {
    wait_for 60 "transactions: $1" beyond $(($(transactions) + ${2:-200}))
    alive pgbench || { tail -n 20 "$DIR/pgbench.log" "$DIR/pgbench.out" >&2; fail "$1: pgbench ended"; }
}

# end_database: pgbench ends, and the database, its files and the file system have all that it should have. Nothing is mounted any more.
end_database() {
    local done failed sums
    : >"$DIR/enough"
    finish pgbench 120
    [ "$STATUS" -eq 0 ] || { tail -n 30 "$DIR/pgbench.log" "$DIR/pgbench.out" >&2; fail "pgbench ended with $STATUS"; }
    done=$(awk '/^number of transactions actually processed/ { split($NF, n, "/"); sum += n[1] } END { print sum + 0 }' "$DIR/pgbench.out")
    failed=$(awk '/^number of failed transactions/ { sum += $5 } END { print sum + 0 }' "$DIR/pgbench.out")
    check "$done transactions, none failed" test "$failed" -eq 0
    check 'all are in the history' test "$(transactions)" -eq "$done"
    sums="SELECT count(DISTINCT sum) FROM (SELECT sum(abalance) FROM pgbench_accounts UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
        UNION ALL SELECT sum(bbalance) FROM pgbench_branches UNION ALL SELECT sum(delta) FROM pgbench_history) AS sums"
    check "the four sums of TPC-B agree: $(sql 'SELECT sum(delta) FROM pgbench_history')" test "$(sql "$sums")" -eq 1
    check 'pg_amcheck finds nothing' as_user pg_amcheck --install-missing --heapallindexed --parent-check postgres
    check 'the server ends' as_user pg_ctl -D "$DIR/mnt/data" -w -t 120 -m fast stop
    check 'its checksums agree' as_user pg_checksums --check -D "$DIR/mnt/data"
    SERVER=
    check 'unmount' umount "$DIR/mnt"
    check 'e2fsck finds nothing' e2fsck -fn "$MOUNTED"
    detach
}
# end_clients: QEMU and the file that it showed end.
end_clients() {
    fusermount3 -u "$DIR/fuse"
    finish nbdfuse 20
    check 'QEMU ends' stop qemu
}
