#!/usr/bin/env bash
# Shows that `flashmob doctor --cluster` finds domains that share a disk, a node that is away and copies that are missing, and says what an address is that is none.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# outcome CHECK: the outcome of one of the checks.
outcome() {
    local status=0
    "$FLASHMOB" -q doctor --cluster "$ADMIN" --only "$1" --output json >"$DIR/doctor.json" 2>"$DIR/doctor.log" || status=$?
    [ $status -eq 0 ] || [ $status -eq 3 ] || { cat "$DIR/doctor.log" >&2; fail "doctor ended with status $status"; }
    jq -r '.checks[0].outcome' "$DIR/doctor.json"
}
is() { [ "$(outcome "$1")" = "$2" ] || { cat "$DIR/doctor.json" >&2; fail "$1: $(jq -r '.checks[0].outcome' "$DIR/doctor.json"), not $2"; }; pass "$1: $2"; }
says() { jq -e --arg text "$1" '.checks[0] | [.found, .cost, .advice] | any(contains($text))' "$DIR/doctor.json" >/dev/null || { cat "$DIR/doctor.json" >&2; fail "not said: $1"; }; pass "it says: $1"; }

start_copies 4 16MiB 'evict_after = "1s"'
is cluster-nodes well
is cluster-copies well
is cluster-spare well
says 'with 16 MiB of copies'
# All nodes are on this machine. Where its disk is known they are on that, too.
if curl -sf "http://$ADMIN/status" | jq -e 'all(.gateway.volumes[0].nodes[]; .condition.disk != null)' >/dev/null; then
    is cluster-domains severe
    says 'on disk'
else
    is cluster-domains wrong
    says 'on device 127.0.0.1'
fi

NODE=${NODES[1]}
kill_all "$NODE"
"$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --model "$DIR/model" >"$DIR/load.json" 2>"$DIR/load.log" || { cat "$DIR/load.log" >&2; fail 'the load'; }
missing() { copies '.fewest_current == 1'; }
wait_for 30 'copies of the lost node to fall behind' missing
is cluster-nodes wrong
says "${ADDR[$NODE]}"
is cluster-copies severe
says '1 of 2 current copies'
"$FLASHMOB" -q doctor --cluster "$ADMIN" --only cluster-copies,cluster-spare >"$DIR/text" || [ $? -eq 3 ] || fail 'the text'
check 'for people: the problem first, then the note' sh -c "grep -n . '$DIR/text' | grep -q '^1:SEVERE  cluster-copies: ' && grep -q '^note .*cluster-spare: ' '$DIR/text'"
node_again "$NODE"
is cluster-copies well

start other "$FLASHMOB" node --data "$DIR/other.img" --size 8MiB --listen 127.0.0.1:0 --admin 127.0.0.1:0
started other 'admin.*127\.0\.0\.1:[0-9]+'
OTHER=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/other.log" | head -n 1)
refused 'the admin port of a node' 'give that of its gateway' "$FLASHMOB" doctor --cluster "$OTHER"
refused 'a closed port' 'nothing listens on' "$FLASHMOB" doctor --cluster 127.0.0.1:1
refused 'no address' 'is not ADDR:PORT' "$FLASHMOB" doctor --cluster pool
