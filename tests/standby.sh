#!/usr/bin/env bash
# Shows that a standby takes over when the gateway in charge is killed or stands still, and that clients wait while etcd is away; what clients saw is judged by a checker of linearizability, Porcupine.
# Tier: slow
# Canary: one round of each fault takes two minutes; RUNS=5 is what docs/copies.md tells.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/etcd.sh"
need_etcd
need go
need_python_nbd
seeded
RUNS=${RUNS:-1}
FAULTS=${FAULTS:-kill freeze member leader all}
LEASE_S=${LEASE_S:-4}

(cd "$TESTS/linear" && go build -o "$DIR/linear" .) || fail 'the checker is not built; it needs a network once'
start_etcd 3
NODE_SIZE=16MiB
for i in 0 1 2; do NODES+=("node$i"); start_node "node$i" 16MiB; done
# Two machines: each gateway has a folder of its own, with the same configuration but for where it listens.
for g in one two; do
    mkdir "$DIR/$g"
    GATEWAY_LINES=("name = \"$g\"" '[etcd]' "endpoints = [\"${ETCD_MEMBERS//,/\", \"}\"]" "lease = \"${LEASE_S}s\"")
    write_config 'layout = "mapped"' 'copies = 2' 'evict_after = "1s"' 'timeout = "60s"'
    sed "s|unix:$DIR/gateway.sock|unix:$DIR/$g.sock|" "$DIR/gateway.toml" >"$DIR/$g/cluster.toml"
done
uri() { echo "nbd+unix:///pool?socket=$DIR/$1.sock"; }
# run GATEWAY: starts it; it waits for its turn.
run() { start "$1" "$FLASHMOB" gateway "$DIR/$1/cluster.toml" --standby; }
# last_said GATEWAY: what it has said last of who is in charge.
last_said() { grep -E 'this gateway is in charge|standing by|another gateway is in charge|volume pool ready' "$DIR/$1.log" | tail -n 1; }
in_charge() { [[ $(last_said "$1") == *'volume pool ready'* ]]; }
stands_by() { [[ $(last_said "$1") == *'standing by: gateway'* ]]; }

run one
wait_for 20 'the first gateway to serve' in_charge one
run two
wait_for 20 'the second gateway to stand by' stands_by two
ACTIVE=one OTHER=two

answered() { jq .answered "$DIR/history.progress" 2>/dev/null || echo 0; }
go_on() {
    local before
    before=$(answered)
    progressed() { [ "$(answered)" -gt $((before + 50)) ]; }
    wait_for 60 'clients to go on' progressed
}
swap() { local was=$ACTIVE; ACTIVE=$OTHER; OTHER=$was; }

for fault in $FAULTS; do
    for ((round = 1; round <= RUNS; round++)); do
        history=$DIR/$fault$round.jsonl
        rm -f "$DIR/history.progress"
        start history "$PYTHON" "$TESTS/registers.py" "$(uri one)" "$(uri two)" --history "$history" \
            --progress "$DIR/history.progress" --seed $((SEED + round))
        go_on
        case $fault in
            kill)
                stop $ACTIVE KILL
                wait_for 30 'the other one to take over' in_charge $OTHER
                swap
                go_on
                run $OTHER
                wait_for 20 'the one that was killed to stand by' stands_by $OTHER
                ;;
            freeze)
                kill -STOP "${PID[$ACTIVE]}"
                wait_for 30 'the other one to take over' in_charge $OTHER
                swap
                go_on
                kill -CONT "${PID[$OTHER]}"
                wait_for 20 'the old one to see it' stands_by $OTHER
                check 'which it tells' log_has $OTHER 'another gateway is in charge: gateway'
                go_on
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
                lease_is_over() { curl -sf "http://$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/$ACTIVE.log" | tail -n 1)/status" | jq -e '.gateway.volumes[0].copies | .lease_seconds == 0 and .waiting_for_lease > 0' >/dev/null; }
                wait_for 20 'the lease to be over, and reads to wait' lease_is_over
                for name in "${ETCD_NAMES[@]}"; do run_etcd "$name"; done
                wait_for 20 'etcd to have a leader' has_etcd_leader
                go_on
                # Which of the two is in charge after that is not certain.
                if in_charge $OTHER; then swap; fi
                ;;
        esac
        kill -TERM "${PID[history]}"
        finish history 60
        [ "$STATUS" -eq 0 ] || { cat "$DIR/history.log" >&2; fail 'the clients failed'; }
        say "$fault $round: $(jq -c . "$DIR/history.out")"
        check "$fault $round: no request failed" jq -e '.errors == {}' "$DIR/history.out"
        check "$fault $round: the history is linearizable" "$DIR/linear" "$history"
    done
done
