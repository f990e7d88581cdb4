# What every end-to-end test shares: starting nodes and gateways, waiting, checking, cleaning up.
#
# A test sources this file first. It gets a temporary directory in $DIR; whatever it starts is killed and
# the directory removed on every way out. Ports are always chosen by the kernel and read from the log.
# Nothing here may sleep for a fixed time where a condition can be waited for.
#
# A test says its tier near its top: '# Tier: test' is deterministic, has no second try and judges neither time nor throughput nor resident memory;
# '# Tier: slow' does, or needs what is outside of this machine. A slow test that judges names in '# Canary: BUG' a bug that must make it fail, planted
# in its binary by the runner; '# Canary: none-in-code' plants one itself where CANARY=1. Status: 0 pass, 75 void, 77 not run.
#
# Variables: FLASHMOB names the binary (default: the release build), KEEP=1 keeps $DIR. NODE_BINARIES names the programs that nodes are,
# one after the other, in place of FLASHMOB: programs of other processors under an emulator, say.
# shellcheck shell=bash
set -euo pipefail

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$TESTS")
NAME=$(basename "$0" .sh)
FLASHMOB=${FLASHMOB:-${CARGO_TARGET_DIR:-$ROOT/target}/release/flashmob}
PYTHON=python3
export PYTHONDONTWRITEBYTECODE=1
PATH=$PATH:/usr/sbin:/sbin
# The status that tells tests/run that a test could not be run here.
NOT_RUN=77
. "$TESTS/lib/machine.sh"
. "$TESTS/lib/judge.sh"
. "$TESTS/lib/load.sh"

DIR=$(mktemp -d "${TMPDIR:-/tmp}/flashmob-$NAME.XXXXXX")
declare -A PID=() ADDR=() NODE_ARGS=() NODE_PROGRAM=()
CLEANUP=()
NODES=()          # names of the nodes of the cluster, in the order of the volume
NODE_OPTIONS=()   # further arguments for every node that is started
GATEWAY_LINES=()  # further TOML lines at the top of the gateway's configuration
NODE_SIZE=        # written into the configuration for each node, as volumes with copies need it
NODE_HOST=()      # addresses to write into the configuration in place of the nodes' own (for proxies)
DATA_DIR=$DIR     # where nodes keep their files
CHECKS=0

say() { printf '    %s\n' "$*" >&2; }

# fail MESSAGE...: ends the test.
fail() {
    printf '    FAIL: %s\n' "$*" >&2
    exit 1
}

# pass MESSAGE...: one thing shown.
pass() {
    CHECKS=$((CHECKS + 1))
    say "ok: $*"
}

# jq, but that -e fails without input: jq 1.6 takes nothing for true.
jq() {
    case " $* " in
        *' -e '*)
            local answer status=0
            answer=$(command jq "$@") || status=$?
            [ -z "$answer" ] || printf '%s\n' "$answer"
            [ "$status" -ne 0 ] || [ -n "$answer" ] || status=4
            return "$status"
            ;;
        *) command jq "$@" ;;
    esac
}

# check WHAT COMMAND...: passes if the command succeeds; its output is shown only if it does not.
check() {
    local what=$1
    shift
    # Not at once: the command may look at what the last check said.
    "$@" >"$DIR/check.now" 2>&1 || { tail -n 30 "$DIR/check.now" >&2; fail "$what ($*)"; }
    mv "$DIR/check.now" "$DIR/check.out"
    pass "$what"
}

# refused WHAT PATTERN COMMAND...: passes if the command fails within 20 s, or ten times that on a busy machine, and prints PATTERN.
refused() {
    local what=$1 pattern=$2 status=0
    shift 2
    timeout 200 "$@" >"$DIR/check.out" 2>&1 || status=$?
    [ "$status" -ne 0 ] || fail "$what: it was accepted"
    [ "$status" -ne 124 ] || fail "$what: no answer within 200 s"
    grep -Eiq -- "$pattern" "$DIR/check.out" || { cat "$DIR/check.out" >&2; fail "$what: nothing said about '$pattern'"; }
    pass "$what"
}

# wait_for SECONDS WHAT COMMAND...: polls the command until it succeeds. SECONDS is what a machine needs that does nothing else. To wait is
# no verdict on time, so there is ten times that, but no more than two minutes.
wait_for() {
    local limit=$1 what=$2 end
    shift 2
    limit=$((limit * 10 < 120 ? limit * 10 : limit > 120 ? limit : 120))
    end=$((${EPOCHREALTIME/./} + limit * 1000000))
    until "$@" >/dev/null 2>&1; do
        [ "${EPOCHREALTIME/./}" -lt "$end" ] || fail "waited $limit s for: $what"
        sleep 0.02
    done
}

# need COMMAND...: the programs this test drives.
need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || fail "'$program' is not installed; run: make deps-test"
    done
}

# need_root WHY: ends the test as not run unless root.
need_root() {
    [ "$(id -u)" -eq 0 ] && return
    echo "    not run: needs root ($*)" >&2
    exit $NOT_RUN
}

# need_netns WHY: ends the test as not run unless root may make network namespaces here.
need_netns() {
    need_root "$@"
    need ip
    local name=fprobe$$
    if ip netns add "$name" 2>"$DIR/netns.out"; then
        ip netns del "$name"
        return
    fi
    echo "    not run: network namespaces cannot be made here: $(tail -n 1 "$DIR/netns.out") ($*)" >&2
    exit $NOT_RUN
}

# need_python_nbd: sets PYTHON to an interpreter that has libnbd's module.
need_python_nbd() {
    for PYTHON in python3 /usr/bin/python3; do
        "$PYTHON" -c 'import nbd' 2>/dev/null && return
    done
    fail "python3 has no module 'nbd'; run: make deps-test"
}

# at_end COMMAND: run on every way out, last in first out, before the processes are killed.
at_end() { CLEANUP+=("$1"); }

alive() { [ -n "${PID[$1]:-}" ] && kill -0 "${PID[$1]}" 2>/dev/null; }

clean_up() {
    local status=$? i name log
    trap - EXIT
    set +e
    for ((i = ${#CLEANUP[@]} - 1; i >= 0; i--)); do eval "${CLEANUP[i]}"; done
    for name in "${!PID[@]}"; do
        kill -KILL "${PID[$name]}" 2>/dev/null
        wait "${PID[$name]}" 2>/dev/null
    done
    for log in "$DIR"/*.log "$DIR"/*.log.*; do
        if [ -f "$log" ] && grep -q 'panicked at' "$log"; then
            echo "    FAIL: a panic, see $(basename "$log")" >&2
            [ "$status" -ne 0 ] || status=1
        fi
    done
    machine_check || { [ "$status" -ne 0 ] || status=1; }
    if [ "$status" -ne 0 ] && [ "$status" -ne $NOT_RUN ] && [ "$status" -ne $VOID ]; then
        for log in "$DIR"/*.log; do
            [ -s "$log" ] || continue
            echo "    --- last lines of $(basename "$log") ---" >&2
            tail -n 15 "$log" | cut -c1-300 | sed 's/^/    | /' >&2
        done
    fi
    if [ -n "${KEEP:-}" ]; then echo "    kept: $DIR" >&2; else rm -rf --one-file-system "$DIR"; fi
    [ "$status" -ne 0 ] || echo "    $NAME: $CHECKS checks passed" >&2
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
machine_before

[ -x "$FLASHMOB" ] || fail "$FLASHMOB does not exist; run: cargo build --release"
read -ra NODE_BINARIES <<<"${NODE_BINARIES:-$FLASHMOB}"
for program in "${NODE_BINARIES[@]}"; do
    [ -x "$program" ] || fail "NODE_BINARIES: $program is no program"
done

# start NAME COMMAND...: in the background; stdout to NAME.out, stderr to NAME.log, an earlier log is kept as NAME.log.N.
start() {
    local name=$1 n=0
    shift
    if [ -e "$DIR/$name.log" ]; then
        while [ -e "$DIR/$name.log.$n" ]; do n=$((n + 1)); done
        mv "$DIR/$name.log" "$DIR/$name.log.$n"
    fi
    "$@" >"$DIR/$name.out" 2>"$DIR/$name.log" </dev/null &
    PID[$name]=$!
}

# log_has NAME PATTERN
log_has() { grep -Eq -- "$2" "$DIR/$1.log"; }

# started NAME PATTERN: waits until the log has the pattern; fails at once if the process ends before.
started() {
    local name=$1 pattern=$2
    ready_or_dead() { log_has "$name" "$pattern" || ! alive "$name"; }
    wait_for 20 "'$pattern' in $name.log" ready_or_dead
    log_has "$name" "$pattern" || fail "$name ended before it said '$pattern'"
}

# start_node NAME SIZE [OPTION...]: serves $DATA_DIR/NAME.img, or what DATA names.
start_node() {
    local name=$1 size=$2
    shift 2
    NODE_ARGS[$name]="--data ${DATA:-$DATA_DIR/$name.img} --size $size ${NODE_OPTIONS[*]:-} $*"
    run_node "$name"
}

# run_node NAME: starts a node again, with the arguments and at the address it had.
run_node() {
    local name=$1 number=${#NODE_PROGRAM[@]}
    : "${NODE_PROGRAM[$name]:=${NODE_BINARIES[number % ${#NODE_BINARIES[@]}]}}"
    # shellcheck disable=SC2086 # the arguments are words, and $DIR has no blanks
    start "$name" "${NODE_PROGRAM[$name]}" node ${NODE_ARGS[$name]} --listen "${ADDR[$name]:-127.0.0.1:0}"
    started "$name" 'ready'
    started "$name" 'listening on 127\.0\.0\.1:[0-9]+'
    ADDR[$name]=$(sed -nE 's/.*listening on (127\.0\.0\.1:[0-9]+).*/\1/p' "$DIR/$name.log" | head -n 1)
}

# write_config [VOLUME LINE...]: $DIR/gateway.toml with the volume 'pool' over ${NODES[@]}.
write_config() {
    local i
    {
        echo "listen = [\"127.0.0.1:0\", \"unix:$DIR/gateway.sock\"]"
        echo 'admin = "127.0.0.1:0"'
        printf '%s\n' "${GATEWAY_LINES[@]}"
        printf '\n[[volume]]\nname = "pool"\n'
        printf '%s\n' "$@"
        for i in "${!NODES[@]}"; do
            printf '\n[[volume.node]]\naddress = "%s"\n' "${NODE_HOST[i]:-${ADDR[${NODES[i]}]}}"
            [ -z "${NODE_SIZE:-}" ] || printf 'size = "%s"\n' "$NODE_SIZE"
        done
    } >"$DIR/gateway.toml"
}

# run_gateway: starts the gateway with $DIR/gateway.toml, and waits until it listens; sets PORT, URI and UNIX_URI.
run_gateway() {
    begin_gateway
    gateway_address
}
begin_gateway() {
    rm -f "$DIR/gateway.sock"
    start gateway "$FLASHMOB" gateway "$DIR/gateway.toml"
}
gateway_address() {
    started gateway 'listening on nbds?://127\.0\.0\.1:[0-9]+'
    PORT=$(sed -nE 's|.*listening on nbds?://127\.0\.0\.1:([0-9]+).*|\1|p' "$DIR/gateway.log" | head -n 1)
    URI=nbd://127.0.0.1:$PORT/pool
    UNIX_URI="nbd+unix:///pool?socket=$DIR/gateway.sock"
    export URI UNIX_URI
}

# start_gateway [VOLUME LINE...]: writes the configuration, starts the gateway, waits until the volume is ready.
start_gateway() {
    write_config "$@"
    run_gateway
    volume_ready
}

volume_ready() { started gateway 'volume pool ready'; }

# admin_address: sets ADMIN to the gateway's address for /status and /metrics.
admin_address() {
    started gateway 'admin.*127\.0\.0\.1:[0-9]+'
    ADMIN=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/gateway.log" | head -n 1)
}

# start_cluster N SIZE [VOLUME LINE...]: N nodes node0... of SIZE each, and a gateway over them.
start_cluster() {
    # New nodes: what an earlier gateway of this test knew is over.
    rm -f "$DIR/gateway.toml.extents" "$DIR"/gateway.toml.*.map
    local count=$1 size=$2 i
    shift 2
    NODES=()
    for ((i = 0; i < count; i++)); do
        NODES+=("node$i")
        start_node "node$i" "$size"
    done
    start_gateway "$@"
}

# ended NAME: no longer running.
ended() { ! alive "$1"; }

# stop NAME [SIGNAL]: ends it and waits; the exit status is left in STATUS.
stop() {
    local name=$1
    kill "-${2:-TERM}" "${PID[$name]}" 2>/dev/null || true
    # Waited for at once, or the shell would report the kill.
    if [ "${2:-}" = KILL ]; then wait "${PID[$name]}" 2>/dev/null || true; fi
    finish "$name" 30
}

# freeze NAME: stops it where it is, and waits until no thread of it runs any more.
freeze() {
    kill -STOP "${PID[$1]}"
    wait_for 5 "$1 to stand still" stands_still "$1"
}
stands_still() { ! sed 's/.*) //' "/proc/${PID[$1]}/task"/*/stat | grep -qv '^[Tt]'; }

# finish NAME SECONDS: waits for its end; the exit status is left in STATUS.
finish() {
    wait_for "$2" "the end of $1" ended "$1"
    STATUS=0
    wait "${PID[$1]}" 2>/dev/null || STATUS=$?
    unset "PID[$1]"
}

# memory NAME FIELD: VmRSS or VmHWM of a process in KiB.
memory() { awk -v field="$2:" '$1 == field { print $2 }' "/proc/${PID[$1]}/status"; }

# lab_is_well STATUS: what ran in a lab succeeded. 75 says that the lab was late: its times are void, and what happened in it is not.
lab_is_well() { [ "$1" -eq 0 ] || [ "$1" -eq 75 ]; }

# at_most WHAT VALUE LIMIT [UNIT]
at_most() {
    awk -v v="$2" -v l="$3" 'BEGIN { exit !(v <= l) }' || fail "$1: $2 ${4:-} is more than $3"
    pass "$1: $2 ${4:-} (at most $3)"
}
