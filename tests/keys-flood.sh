#!/usr/bin/env bash
# Shows that a new client, gateway, device and reader of the status get in within seconds beside a thousand connections a second from one IPv6 network, 200 a second from fresh IPv4 addresses, and 200 silent ones from one address; and that a node that starts then hears of a revocation.
# Tier: slow
# Canary: none-in-code
[ -n "${IN_NAMESPACE:-}" ] || [ "$(id -u)" -ne 0 ] || exec unshare -n env IN_NAMESPACE=1 "$0" "$@"
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
need_root 'a network namespace'
need jq curl nbdinfo ip sysctl unshare
ulimit -n 16384 || fail 'not enough open files are allowed'

TRIES=${TRIES:-20}
LIMIT=5
NBD=10809 NODE=7421 JOIN=7413 ADMIN_PORT=10810
ip link set lo up
ip -6 route add local fd00:9::/64 dev lo
sysctl -qw net.ipv6.ip_nonlocal_bind=1

# client N: connections of this namespace come from another address from now on.
client() {
    local address=127.20.$((RANDOM % 250)).$((1 + $1)) to
    for to in 127.0.0.0/8 127.0.0.1; do ip route change local $to dev lo src "$address" table local; done
}

# within SECONDS COMMAND...: sets TOOK, in ms; false if it takes longer.
within() {
    local limit=$1 begun=${EPOCHREALTIME/./} status=0
    shift
    timeout "$limit" "$@" >"$DIR/try.out" 2>&1 || status=$?
    TOOK=$(((${EPOCHREALTIME/./} - begun) / 1000))
    return $status
}

# beside WHAT RATE LIMIT KNOCK... -- COMMAND...: TRIES times, each from an address of its own, beside strangers.
beside() {
    local what=$1 rate=$2 limit=$3 knock=() in=0 longest=0 number reached
    shift 3
    while [ "$1" != -- ]; do knock+=("$1"); shift; done
    shift
    busy_begin
    rm -f "$DIR/knocks"
    start knock "$PYTHON" "$TESTS/knock.py" "${knock[@]}" --rate "$rate" --seconds $((3 + TRIES * (limit + 1))) --ready "$DIR/knocks"
    wait_for 10 'strangers' test -e "$DIR/knocks"
    for ((number = 0; number < TRIES; number++)); do
        client "$number"
        if "$@" "$limit" "$number"; then in=$((in + 1)); fi
        [ "$TOOK" -le "$longest" ] || longest=$TOOK
    done
    # It goes on for a while; what it has reached so far is asked for by its end.
    kill -TERM "${PID[knock]}" 2>/dev/null || true
    finish knock 30
    reached=$(tail -n 1 "$DIR/knock.out")
    say "$what: $in of $TRIES within $limit s, the longest $longest ms; $reached strangers a second"
    awk -v r="${reached:-0}" -v w="$rate" 'BEGIN { exit !(r >= 0.9 * w) }' || void "$what: only ${reached:-0} of $rate strangers a second came"
    [ "$in" -eq "$TRIES" ] || judged_fail "$what: $in of $TRIES"
    pass "$what"
}

cluster_keys
serve_node() {
    start node0 "$FLASHMOB" node --data "$DIR/node0.img" --size 16MiB --listen "[::]:$NODE" --cluster "$CLUSTER" "$@"
    started node0 'ready'
}
serve_node
pin node0 >/dev/null
printf '%s\n' "listen = [\"[::]:$NBD\", \"unix:$DIR/gateway.sock\"]" "admin = \"[::]:$ADMIN_PORT\"" 'keys = "gateway.keys"' \
    '[[volume]]' 'name = "pool"' 'timeout = "60s"' 'reconnect_max = "500ms"' '[[volume.node]]' "address = \"127.0.0.1:$NODE\"" >"$DIR/gateway.toml"
begin_gateway
volume_ready
check 'a client gets a certificate' "$FLASHMOB" client add "$DIR/gateway.toml" alice --volume pool --admin read --out "$DIR/alice"

nbd() { within "$1" nbdinfo --size "nbds://127.0.0.1:$NBD/pool?tls-certificates=$DIR/alice"; }
status() { within "$1" "$FLASHMOB" status "https://127.0.0.1:$ADMIN_PORT" --credentials "$DIR/alice"; }
# until_said SECONDS NAME PATTERN: sets TOOK, in ms; false if its log has the pattern later than that.
until_said() {
    local begun=${EPOCHREALTIME/./}
    until log_has "$2" "$3" || [ $((${EPOCHREALTIME/./} - begun)) -gt $(($1 * 1000000)) ]; do sleep 0.02; done
    TOOK=$(((${EPOCHREALTIME/./} - begun) / 1000))
    log_has "$2" "$3"
}
# A gateway that starts again at another address.
gateway() {
    stop gateway KILL
    begin_gateway
    until_said "$1" gateway 'volume pool ready'
}
device() {
    local status=0
    start device "$FLASHMOB" node --data "$DIR/device$2.$RANDOM" --size 1MiB --listen 127.0.0.1:0 --token-file "$DIR/token"
    until_said "$1" device 'given to cluster' || status=1
    stop device KILL
    return $status
}

[ -z "${CANARY:-}" ] || { for spin in 1 2 3 4 5 6 7 8; do start "spin$spin" "$PYTHON" -c 'while True: pass'; done; }
start joining "$FLASHMOB" join "$DIR/gateway.toml" --listen "[::]:$JOIN" --advertise 127.0.0.1 --token-out "$DIR/token" --uses 1000 --for 1h
wait_for 20 'a token' test -s "$DIR/token"
NETWORK=(--from fd00:9::)
FRESH=(--from v4)
beside 'the status beside 200 silent connections a second from one address' 200 1 127.0.0.1 $ADMIN_PORT --from 127.5.5.6 -- status
beside 'the status beside 200 fresh addresses a second' 200 $LIMIT 127.0.0.1 $ADMIN_PORT "${FRESH[@]}" --send hello -- status
beside 'a client beside 1,000 a second from one network' 1000 $LIMIT ::1 $NBD "${NETWORK[@]}" --send starttls -- nbd
beside 'a client beside 200 fresh addresses a second' 200 $LIMIT 127.0.0.1 $NBD "${FRESH[@]}" --send starttls -- nbd
beside 'a device beside 1,000 a second from one network' 1000 $LIMIT ::1 $JOIN "${NETWORK[@]}" --send hello -- device
beside 'a device beside 200 fresh addresses a second' 200 $LIMIT 127.0.0.1 $JOIN "${FRESH[@]}" --send hello -- device
beside 'a gateway beside 1,000 a second from one network' 1000 $LIMIT ::1 $NODE "${NETWORK[@]}" --send hello -- gateway
beside 'a gateway beside 200 fresh addresses a second' 200 $LIMIT 127.0.0.1 $NODE "${FRESH[@]}" --send hello -- gateway

# A node that was away while the gateway's key was replaced hears of that when it starts.
stop node0
check 'the key of the gateway is replaced' "$FLASHMOB" key rotate "$DIR/gateway.toml"
started gateway 'keys: generation 2'
start knock "$PYTHON" "$TESTS/knock.py" 127.0.0.1 $ADMIN_PORT --from 127.5.5.6 --rate 200 --seconds 60 --ready "$DIR/knocking"
wait_for 10 'strangers' test -e "$DIR/knocking"
# Where no gateway looks for it.
NODE=7422
serve_node --join "127.0.0.1:$ADMIN_PORT"
started node0 'have keys of generation|linked to the gateway|cannot join'
first() { grep -Eo 'have keys of generation|linked to the gateway|cannot join' "$DIR/node0.log" | head -n 1; }
check 'it hears of that beside 200 silent connections a second, before anybody links' [ "$(first)" = 'have keys of generation' ]
