# Two gateways of one volume on machines of their own, `one` and `two`, with etcd and three nodes on this one; sourced after copies.sh, etcd.sh and machines.sh.
# shellcheck shell=bash

# run GATEWAY: starts it; it waits for its turn.
run() { start "$1" ip netns exec "$NET-$1" "$FLASHMOB" gateway "$DIR/$1/cluster.toml" --insecure --standby; }
# last_said GATEWAY: what it has said last of who is in charge.
last_said() { grep -E 'this gateway is in charge|standing by|another gateway is in charge|volume pool ready' "$DIR/$1.log" | tail -n 1; }
in_charge() { [[ $(last_said "$1") == *'volume pool ready'* ]]; }
stands_by() { [[ $(last_said "$1") == *'standing by: gateway'* ]]; }
swap() { local was=$ACTIVE; ACTIVE=$OTHER; OTHER=$was; }
# taken_over: waits until the other one serves.
taken_over() {
    wait_for 30 'the other one to take over' in_charge "$OTHER"
    swap
}

# goes_on COUNT: waits for so many more answers; `answered` of the test says how many there are.
goes_on() {
    local before
    before=$(answered)
    progressed() { [ "$(answered)" -gt $((before + $1)) ]; }
    wait_for 90 'clients to go on' progressed "$1"
}
# kill_active: the one in charge is killed, the other one takes over, and the one that was killed comes back as a standby. `go_on` is the test's.
kill_active() {
    stop "$ACTIVE" KILL
    taken_over
    go_on
    run "$OTHER"
    wait_for 20 'the one that was killed to stand by' stands_by "$OTHER"
}

# two_gateways: starts them with LEASE_S; sets ACTIVE and OTHER, and NBD to where each listens.
two_gateways() {
    local g i
    start_switch
    add_machine one 1
    add_machine two 2
    ETCD_HOST=$HOST.100
    start_etcd 3
    NODE_SIZE=16MiB
    for i in 0 1 2; do
        NODES+=("node$i") ADDR[node$i]=$HOST.100:741$((i + 1))
        start "node$i" "$FLASHMOB" node --data "$DIR/node$i.img" --insecure --size 16MiB --listen "${ADDR[node$i]}"
        started "node$i" 'ready'
    done
    # Each gateway has a folder of its own, with the configuration that is an example; names, addresses, sizes and times alone are others.
    for g in one two; do
        mkdir "$DIR/$g"
        sed -e "s|^name = \"a\"|name = \"$g\"|" -e "s|^endpoints = .*|endpoints = [\"${ETCD_MEMBERS//,/\", \"}\"]|" -e "s|^lease = \"10s\"|lease = \"${LEASE_S}s\"|" \
            -e 's|^copies = 2$|&\nevict_after = "1s"\ntimeout = "60s"|' -e "s|\"192\.168\.1\.1\([123]\)\"|\"$HOST.100:741\1\"|" -e 's|"10GiB"|"16MiB"|' \
            "$TESTS/../examples/two-gateways.toml" >"$DIR/$g/cluster.toml"
        ! grep -F 192.168 "$DIR/$g/cluster.toml" >&2 || fail 'the example has addresses that this test does not know'
        [ "$(grep -cE "^(name = \"$g\"|endpoints = .*\"$HOST\.100:|lease = \"${LEASE_S}s\"|evict_after = |timeout = |size = \"16MiB\")" "$DIR/$g/cluster.toml")" -eq 8 ] || fail "the example lacks a line that this test changes: $(cat "$DIR/$g/cluster.toml")"
    done
    declare -gA NBD=([one]=nbd://$HOST.1:10809/pool [two]=nbd://$HOST.2:10809/pool)
    run one
    wait_for 20 'the first gateway to serve' in_charge one
    run two
    wait_for 20 'the second gateway to stand by' stands_by two
    ACTIVE=one OTHER=two
}
