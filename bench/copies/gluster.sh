# GlusterFS with two copies, without its management daemon: bricks, their healers and a mount by volume files of the form that
# `gluster volume create ... replica 2` and `gluster volume set pool group virt` make; sourced by run.
# shellcheck shell=bash disable=SC2154 # what run sets
gluster_port() { [ -n "$AIR" ] && echo 49152 || echo $((29152 + $1)); }
gluster_uuid() { printf '00000000-0000-4000-8000-%012d' $(($1 + 1)); }
# xlator NAME TYPE SUBVOLUMES [OPTION VALUE]...
xlator() {
    printf 'volume %s\n    type %s\n' "$1" "$2"
    local subvolumes=$3
    shift 3
    while [ $# -gt 0 ]; do
        printf '    option %s %s\n' "$1" "$2"
        shift 2
    done
    [ -z "$subvolumes" ] || printf '    subvolumes %s\n' "$subvolumes"
    printf 'end-volume\n'
}
gluster_brick() {
    local n=$1 dir=$DIR/brick$1
    xlator pool-posix storage/posix '' directory "$dir" fips-mode-rchecksum on
    xlator pool-access-control features/access-control pool-posix
    xlator pool-locks features/locks pool-access-control enforce-mandatory-lock off
    xlator pool-upcall features/upcall pool-locks cache-invalidation off
    xlator pool-io-threads performance/io-threads pool-upcall low-prio-threads 32
    xlator pool-index features/index pool-io-threads index-base "$dir/.glusterfs/indices" xattrop-dirty-watchlist trusted.afr.dirty \
        xattrop-pending-watchlist trusted.afr.pool-
    xlator "$dir" debug/io-stats pool-index latency-measurement off count-fop-hits off unique-id "$dir"
    xlator pool-server protocol/server "$dir" transport-type tcp transport.address-family inet transport.socket.bind-address "${ADDRESS:?}" \
        transport.socket.listen-port "$(gluster_port "$n")" "auth.addr.$dir.allow" '*' auth-path "$dir" event-threads 4 transport.tcp-user-timeout 20
}
# gluster_clients KIND: the part that mount and healers share; KIND is mount or heal.
gluster_clients() {
    local n pair healer=()
    [ "$1" = mount ] || healer=(iam-self-heal-daemon yes self-heal-daemon enable data-self-heal on metadata-self-heal on entry-self-heal on \
        background-self-heal-count 0 heal-timeout 5)
    for ((n = 0; n < NODES; n++)); do
        xlator "pool-client-$n" protocol/client '' transport-type tcp transport.address-family inet remote-host "${ADDRESSES[n]}" \
            remote-port "$(gluster_port $n)" remote-subvolume "$DIR/brick$n" ping-timeout 20 event-threads 4 filter-O_DIRECT enable
    done
    for ((pair = 0; pair < NODES / 2; pair++)); do
        n=$((pair * 2))
        xlator "pool-replicate-$pair" cluster/replicate "pool-client-$n pool-client-$((n + 1))" "${healer[@]}" afr-pending-xattr \
            "pool-client-$n,pool-client-$((n + 1))" eager-lock enable quorum-type auto data-self-heal-algorithm full locking-scheme granular \
            shd-max-threads 8 shd-wait-qlength 10000 choose-local off granular-entry-heal on use-anonymous-inode yes
    done
}
gluster_pairs() { for ((pair = 0; pair < NODES / 2; pair++)); do printf 'pool-replicate-%s ' $pair; done; }
gluster_node() {
    mkdir -p "$DIR/brick$1/.glusterfs/indices"
    gluster_brick "$1" >"$DIR/brick$1.vol"
    glusterfsd -N -f "$DIR/brick$1.vol" -l "$DIR/brick$1.log" --xlator-option "*-posix.glusterd-uuid=$(gluster_uuid "$1")" &
    local brick=$!
    echo $brick >"$DIR/gluster$1.pid"
    # Its healer, as each node has one. In a lab the nodes' addresses follow each other.
    if [ -n "$AIR" ]; then
        local m
        ADDRESSES=()
        for ((m = 0; m < NODES; m++)); do ADDRESSES+=("${ADDRESS%.*}.$((${ADDRESS##*.} - $1 + m))"); done
    fi
    { gluster_clients heal; xlator pool debug/io-stats "$(gluster_pairs)"; } >"$DIR/heal$1.vol"
    glusterfs -N -f "$DIR/heal$1.vol" -l "$DIR/heal$1.log" --process-name glustershd \
        --xlator-option "*replicate*.node-uuid=$(gluster_uuid "$1")" &
    echo $! >"$DIR/gluster$1.heal.pid"
    wait $brick
    kill -KILL "$(cat "$DIR/gluster$1.heal.pid")" 2>/dev/null || true
}
gluster_start() {
    sleep 3
    {
        gluster_clients mount
        xlator pool-dht cluster/distribute "$(gluster_pairs)" lookup-optimize off
        xlator pool-shard features/shard pool-dht shard-block-size 4MB
        xlator pool-write-behind performance/write-behind pool-shard strict-O_DIRECT on
        xlator pool-open-behind performance/open-behind pool-write-behind
        xlator pool-md-cache performance/md-cache pool-open-behind
        xlator pool-io-threads performance/io-threads pool-md-cache low-prio-threads 32
        xlator pool debug/io-stats pool-io-threads latency-measurement off count-fop-hits off
    } >"$DIR/mount.vol"
    mkdir -p "$DIR/mount"
    glusterfs -f "$DIR/mount.vol" -l "$DIR/mount.log" --direct-io-mode=enable "$DIR/mount"
    local end=$((SECONDS + 60))
    until truncate -s "${SIZE_MIB}M" "$DIR/mount/image" 2>/dev/null; do
        [ $SECONDS -lt $end ] || { tail -n 20 "$DIR/mount.log" >&2; exit 1; }
        sleep 0.2
    done
}
# Nothing is noted as pending on any brick, and all bricks are there.
gluster_whole() {
    local n
    for ((n = 0; n < NODES; n++)); do
        [ ! -e "$DIR/down$n" ] || return 1
        [ -z "$(find "$DIR/brick$n/.glusterfs/indices" -type f -o -type l 2>/dev/null | grep -vE '/xattrop-[0-9a-f-]*$|/dirty-[0-9a-f-]*$|/entry-changes-[0-9a-f-]*$' | head -n 1)" ] ||
            return 1
    done
}
gluster_fio() { echo "--ioengine=libaio --direct=1 --filename=$DIR/mount/image"; }
gluster_end() { umount -l "$DIR/mount" 2>/dev/null || true; }
