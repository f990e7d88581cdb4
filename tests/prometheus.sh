#!/usr/bin/env bash
# Shows that a real Prometheus scrapes a cluster, that every panel of the Grafana dashboard has a result, and that the alerts are those that are meant.
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need jq curl
for program in promtool prometheus; do
    command -v $program >/dev/null || { echo "    not run: '$program' is not installed; apt install prometheus" >&2; exit $NOT_RUN; }
done
PACKAGING=$TESTS/../packaging

cp "$PACKAGING"/prometheus/alerts.yml "$PACKAGING"/prometheus/alerts-test.yml "$PACKAGING"/grafana/flashmob.json "$DIR"
# The canary: what nobody counts.
[ -z "${CANARY:-}" ] || sed -i 's/flashmob_link_batches_total/flashmob_link_batch_total/' "$DIR/flashmob.json"
check 'the alerts are well formed' promtool check rules "$DIR/alerts.yml"
check 'they are raised when they should be' promtool test rules "$DIR/alerts-test.yml"

start_copies 3 32MiB
admin_address
PORT=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$DIR/prometheus.yml" <<YML
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: flashmob
    static_configs: [{targets: ["$ADMIN"]}]
YML
start prometheus prometheus --config.file "$DIR/prometheus.yml" --storage.tsdb.path "$DIR/tsdb" --web.listen-address "127.0.0.1:$PORT" --log.level warn
# ask QUERY FILTER: whether the filter is true of the query's result.
ask() { curl -fsS --get --data-urlencode "query=$1" "http://127.0.0.1:$PORT/api/v1/query" | jq -e ".data.result | $2" >/dev/null; }
is_up() { ask 'up' 'map(.value[1]) == ["1"]'; }
wait_for 60 'Prometheus to scrape the gateway' is_up

start_load load --extents 3 --depth 8
load_seconds load 12
# Nothing of this machine: its battery and temperature. Nothing of this cluster: rebuilds, and scrubs that have ended.
check 'every panel of the dashboard has a result' "$PYTHON" "$TESTS/grafana.py" "$DIR/flashmob.json" "http://127.0.0.1:$PORT" \
    Temperature Battery 'Beyond a limit' Rebuild 'Since the last scrub'
say "$(cat "$DIR/check.out")"
has_alerts() { curl -fsS "http://127.0.0.1:$PORT/api/v1/alerts" | jq -e ".data.alerts | $1" >/dev/null; }
has_alerts 'map(select(.labels.alertname != "FlashmobSpaceLow")) == []' || fail "alerts while all is well: $(curl -fsS "http://127.0.0.1:$PORT/api/v1/alerts" | jq -c .data.alerts)"
pass 'no alert while all is well'
stop node1 KILL
names() { has_alerts '[.[].labels.alertname] | index("FlashmobNodeAway") and index("FlashmobOneCopyLeft")'; }
wait_for 60 'the alerts of a dead node to be pending' names
pass 'a dead node raises its alerts'
end_load load
stop prometheus TERM
