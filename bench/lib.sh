# What benchmarks of volumes with copies in a lab share: messages, and waiting for the state of the gateway at ADMIN.
# shellcheck shell=bash
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
FLASHMOB=${FLASHMOB:-$ROOT/target/release/flashmob}
ADMIN=127.0.0.1:20790

say() { printf '%s\n' "$*" >&2; }
# fail MESSAGE...: ends the benchmark, which has the name of its folder.
fail() { say "$(basename "$HERE"): $*"; exit 1; }
status() { curl -sf "http://$ADMIN/status"; }
# holds FILTER: whether the volume is as the filter of jq says.
holds() { status | jq -e ".gateway.volumes[0] | $1" >/dev/null 2>&1; }
# wait_until SECONDS FILTER
wait_until() {
    local end=$((SECONDS + $1))
    until holds "$2"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.2
    done
}
