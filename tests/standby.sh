#!/usr/bin/env bash
# Shows that a standby takes over when the gateway in charge is killed, stands still or is cut off, and that clients wait while etcd is away; what clients saw is judged by a checker of linearizability, Porcupine.
# Tier: slow
# One round of each fault takes three minutes; RUNS=5 is what docs/copies.md tells.
if [ "${OWN_NETWORK:-}" != 1 ] && [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
    # In there is no way to where the checker comes from.
    (cd "$(dirname "$0")/linear" && go mod download) || true
    OWN_NETWORK=1 exec unshare --net "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
need_netns 'two gateways on machines of their own'
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/etcd.sh"
. "$TESTS/lib/machines.sh"
. "$TESTS/lib/two_gateways.sh"
need_etcd
need go
need_python_nbd
seeded
RUNS=${RUNS:-1}
FAULTS=${FAULTS:-kill freeze cut member leader all}
AWAY_S=${AWAY_S:-20}
LEASE_S=${LEASE_S:-4}

(cd "$TESTS/linear" && go build -o "$DIR/linear" .) || fail 'the checker is not built; it needs a network once'
two_gateways

answered() { jq .answered "$DIR/history.progress" 2>/dev/null || echo 0; }
go_on() { goes_on 50; }
away_for() { [ $((SECONDS - AWAY_SINCE)) -ge "$AWAY_S" ]; }
# times_told: how often gateways have said that another one is in charge.
times_told() { cat "$DIR/one.log" "$DIR/two.log" | grep -c 'another gateway is in charge: ' || true; }
# replaced_until COMMAND...: the other one has taken over, and went on for a while; then the old one comes back, by that command.
replaced_until() {
    local told
    told=$(times_told)
    taken_over
    go_on
    wait_for $((AWAY_S + 10)) "$AWAY_S s to be over" away_for
    "$@"
    wait_for 30 'the old one to see it' stands_by $OTHER
    check 'which it tells' test "$(times_told)" -gt "$told"
    go_on
}

# are_silent: no read was answered for 3 s. Writes are, as long as nobody else can be in charge.
are_silent() {
    local count
    count=$(jq .reads "$DIR/history.progress")
    [ "$count" = "${SILENT_AT:-}" ] || SILENT_AT=$count SILENT_SINCE=$SECONDS WRITTEN_AT=$(answered)
    [ $((SECONDS - SILENT_SINCE)) -gt 3 ] && alive history && [ "$(answered)" -gt "$WRITTEN_AT" ]
}

for fault in $FAULTS; do
    for ((round = 1; round <= RUNS; round++)); do
        history=$DIR/$fault$round.jsonl
        rm -f "$DIR/history.progress"
        start history "$PYTHON" "$TESTS/registers.py" "${NBD[one]}" "${NBD[two]}" --history "$history" \
            --progress "$DIR/history.progress" --seed $((SEED + round))
        go_on
        case $fault in
            kill)
                kill_active
                ;;
            freeze)
                AWAY_SINCE=$SECONDS
                kill -STOP "${PID[$ACTIVE]}"
                replaced_until kill -CONT "${PID[$ACTIVE]}"
                ;;
            cut)
                AWAY_SINCE=$SECONDS
                unplug $ACTIVE
                replaced_until plug $ACTIVE
                ;;
            member | leader)
                wait_for 20 'etcd to have a leader' has_etcd_leader
                leader=$(etcd_leader)
                name=$leader
                [ $fault = leader ] || for name in "${ETCD_NAMES[@]}"; do [ "$name" = "$leader" ] || break; done
                stop "$name" KILL
                go_on
                run_etcd "$name"
                wait_for 20 'etcd to have a leader' has_etcd_leader
                ;;
            all)
                for name in "${ETCD_NAMES[@]}"; do kill -KILL "${PID[$name]}"; wait "${PID[$name]}" 2>/dev/null || true; unset "PID[$name]"; done
                lease_is_over() { on $ACTIVE curl -sf http://127.0.0.1:10810/status | jq -e '.gateway.volumes[0].copies | .lease_seconds == 0 and .waiting_for_lease > 0' >/dev/null; }
                wait_for 20 'the lease to be over, and reads to wait' lease_is_over
                SILENT_AT=
                wait_for 30 'no read to be answered any more' are_silent
                for name in "${ETCD_NAMES[@]}"; do run_etcd "$name"; done
                back=$EPOCHREALTIME
                wait_for 20 'etcd to have a leader' has_etcd_leader
                go_on
                check "$fault $round: clients go on within 15 s" awk -v from="$back" -v to="$EPOCHREALTIME" 'BEGIN { exit !(to - from < 15) }'
                # Which of the two is in charge after that is not certain.
                if in_charge $OTHER; then swap; fi
                ;;
        esac
        kill -TERM "${PID[history]}"
        finish history 60
        [ "$STATUS" -eq 0 ] || { cat "$DIR/history.log" >&2; fail 'the clients failed'; }
        say "$fault $round: $(jq -c . "$DIR/history.out")"
        # Until the other one serves; of an outage of all of etcd it is told above.
        [ "$fault" = all ] || check "$fault $round: nobody waited for longer than the lease and 3 s" jq -e ".longest_gap_s <= $LEASE_S + 3" "$DIR/history.out"
        check "$fault $round: no request failed" jq -e '.errors == {}' "$DIR/history.out"
        check "$fault $round: the history is linearizable" "$DIR/linear" "$history"
    done
done
