#!/usr/bin/env bash
# Shows that clients of one address that keepalived moves go on when the gateway in charge is killed, stands still or is cut off: QEMU with reconnect-delay.
# Tier: slow
# One round of each fault takes a minute and a half; RUNS=3 repeats them. Needs etcd and keepalived.
if [ "${OWN_NETWORK:-}" != 1 ] && [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
    OWN_NETWORK=1 exec unshare --net "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
need_netns 'two gateways on machines of their own'
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/etcd.sh"
. "$TESTS/lib/machines.sh"
. "$TESTS/lib/load.sh"
. "$TESTS/lib/two_gateways.sh"
need_etcd
PATH=$PATH:/usr/sbin
command -v keepalived >/dev/null || { echo '    not run: keepalived is not installed' >&2; exit "$NOT_RUN"; }
need_python_nbd
RUNS=${RUNS:-1}
FAULTS=${FAULTS:-kill freeze cut}
LEASE_S=${LEASE_S:-4}
ADDRESS=$HOST.50

two_gateways
# A process that stands still ends by SIGKILL alone.
at_end 'for file in "$DIR"/*/vrrp.pid; do [ ! -s "$file" ] || kill -KILL "$(cat "$file")" 2>/dev/null || true; done'
number=0
for g in one two; do
    number=$((number + 1))
    sed "s/192\.168\.1\.9\$/$HOST.$number/; s/^\( *\)192\.168\.1\.10\$/\1$HOST.$((3 - number))/; s|192\.168\.1\.8/|$ADDRESS/|" \
        "$TESTS/../examples/keepalived.conf" >"$DIR/$g/keepalived.conf"
    start "keepalived-$g" ip netns exec "$NET-$g" keepalived --vrrp --dont-fork --log-console --log-detail --use-file "$DIR/$g/keepalived.conf" \
        --pid "$DIR/$g/keepalived.pid" --vrrp_pid "$DIR/$g/vrrp.pid"
done
has_address() { on "$1" ip -br addr show dev eth0 | grep -F "$ADDRESS/" >/dev/null; }
wait_for 20 'the address to be at the gateway in charge' has_address $ACTIVE

CLIENT_OF="server.type=inet,server.host=$ADDRESS,server.port=10809"
start_qemu
URI=$QEMU_URI
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 3 --connections 2 --depth 8 --reads 50 --model "$DIR/model"
answered() { jq "[.phase_extents[].good] | add" "$DIR/load.progress"; }
go_on() { goes_on 200; }
# of_machine SIGNAL NAME: to the gateway and keepalived on it.
of_machine() { kill "-$1" "${PID[$2]}" "${PID[keepalived-$2]}" "$(cat "$DIR/$2/vrrp.pid")"; }
go_on
for fault in $FAULTS; do
    for ((round = 1; round <= RUNS; round++)); do
        case $fault in
            kill)
                kill_active
                ;;
            freeze)
                of_machine STOP $ACTIVE
                taken_over
                go_on
                of_machine CONT $OTHER
                wait_for 30 'the old one to see it' stands_by $OTHER
                ;;
            cut)
                unplug $ACTIVE
                taken_over
                go_on
                plug $OTHER
                wait_for 30 'the old one to see it' stands_by $OTHER
                ;;
        esac
        go_on
        wait_for 20 'the address to be where the gateway is in charge' has_address $ACTIVE
        pass "$fault $round: the address is where the gateway is in charge"
        gone() { ! has_address $OTHER; }
        wait_for 20 'the address to have left the other' gone
    done
done
end_load load
no_wrong_byte load
expect_result load 'no request failed' '.errors == {} and .unanswered == 0 and .disconnects == 0'
check 'what is there is what was written' "$PYTHON" "$TESTS/nbdload.py" "$URI" --verify --model "$DIR/model"
