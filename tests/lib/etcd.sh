# An etcd cluster of processes on this machine; sourced after lib.sh.
# shellcheck shell=bash

ETCD_HOST=127.0.0.1 ETCD_SCHEME=http ETCD_CURL=()

# need_etcd: the test is not run without etcd. ETCD names the program, if it is not where programs are.
need_etcd() {
    ETCD=${ETCD:-$(command -v etcd || true)}
    [ -x "$ETCD" ] || { echo "    not run: etcd is not installed; Debian's package is etcd-server" >&2; exit "$NOT_RUN"; }
}

# start_etcd COUNT [OPTION...]: members etcd0... at $ETCD_HOST; sets ETCD_MEMBERS to HOST:PORT,HOST:PORT,...
start_etcd() {
    local count=$1 i ports cluster=''
    shift
    ETCD_OPTIONS=("$@")
    mapfile -t ports < <("$PYTHON" -c '
import socket, sys
kept = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in kept:
    one.bind((sys.argv[2], 0))
    print(one.getsockname()[1])' $((2 * count)) "$ETCD_HOST")
    declare -gA ETCD_AT ETCD_PEER
    ETCD_NAMES=() ETCD_MEMBERS=''
    for ((i = 0; i < count; i++)); do
        ETCD_NAMES+=("etcd$i")
        ETCD_AT[etcd$i]=$ETCD_HOST:${ports[i]} ETCD_PEER[etcd$i]=$ETCD_HOST:${ports[count + i]}
        ETCD_MEMBERS+=${ETCD_MEMBERS:+,}${ETCD_AT[etcd$i]}
        cluster+=${cluster:+,}etcd$i=http://${ETCD_PEER[etcd$i]}
    done
    ETCD_CLUSTER=$cluster
    for name in "${ETCD_NAMES[@]}"; do run_etcd "$name"; done
    wait_for 20 'etcd to have a leader' has_etcd_leader
}

# run_etcd NAME: starts a member, new or stopped.
run_etcd() {
    local client=$ETCD_SCHEME://${ETCD_AT[$1]} peer=http://${ETCD_PEER[$1]}
    start "$1" env ETCD_UNSUPPORTED_ARCH="$(uname -m)" "$ETCD" --name "$1" --data-dir "$DIR/$1.data" \
        --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
        --initial-cluster "$ETCD_CLUSTER" --heartbeat-interval 100 --election-timeout 1000 "${ETCD_OPTIONS[@]}"
}

# etcd_leader: the name of the member that leads; fails if none does.
etcd_leader() {
    local name status
    for name in "${ETCD_NAMES[@]}"; do
        status=$(curl -s "${ETCD_CURL[@]}" --max-time 2 "$ETCD_SCHEME://${ETCD_AT[$name]}/v3/maintenance/status" -d '{}') || continue
        if jq -e '.leader != null and .leader == .header.member_id' <<<"$status" >/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}
has_etcd_leader() { etcd_leader >/dev/null; }
