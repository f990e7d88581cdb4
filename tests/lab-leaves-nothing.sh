#!/usr/bin/env bash
# Shows that nothing of a lab is left, however it ends: no process, namespace, interface, mount or file.
# Tier: test
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'to see the namespaces of all processes'
need python3

mkdir "$DIR/tmp"
export TMPDIR=$DIR/tmp

# What the rest of the machine can see of a lab.
surroundings() {
    ls /sys/class/net
    cut -d' ' -f3- /proc/self/mountinfo
    ls -A /media /srv /mnt /run/netns 2>/dev/null || true
    find "$DIR/tmp"
}

# tree PID: its descendants, one a line.
tree() {
    local child
    for child in $(cat "/proc/$1"/task/*/children 2>/dev/null); do
        echo "$child"
        tree "$child"
    done
}

# namespaces PID...: those that are not this test's.
namespaces() {
    local pid
    for pid in "$@"; do
        readlink "/proc/$pid"/ns/{net,mnt,pid,user} 2>/dev/null || true
    done | sort -u | grep -vxFf <(readlink /proc/self/ns/*)
}

# begin NAME COMMAND...: starts a lab, waits until its command runs, and notes what there is of it.
begin() {
    local name=$1
    shift
    rm -f "$DIR/running" "$DIR/end"
    start "$name" "$FLASHMOB" lab run --nodes 3 --air ideal --no-io -- sh -c "touch $DIR/running; $*"
    wait_for 30 "the command in the lab" test -e "$DIR/running"
    note "${PID[$name]}"
}

note() {
    mapfile -t PROCESSES < <(tree "$1")
    mapfile -t NAMESPACES < <(namespaces "${PROCESSES[@]}")
    # Middle, supervisor, three nodes, a gateway and the shell; four networks, mounts and processes.
    [ ${#PROCESSES[@]} -ge 7 ] || fail "only ${#PROCESSES[@]} processes were found in the lab"
    [ ${#NAMESPACES[@]} -ge 6 ] || fail "only ${#NAMESPACES[@]} namespaces were found in the lab"
}

gone() {
    local pid
    for pid in "${PROCESSES[@]}"; do
        [ ! -e "/proc/$pid" ] || return 1
    done
    ! readlink /proc/[0-9]*/task/*/ns/* 2>/dev/null | grep -xFf <(printf '%s\n' "${NAMESPACES[@]}")
}

nothing_left() {
    wait_for 10 "the end of all processes and namespaces of a lab $1" gone
    surroundings >"$DIR/after"
    check "nothing is left of a lab $1" diff "$DIR/before" "$DIR/after"
}

surroundings >"$DIR/before"

begin success "until [ -e $DIR/end ]; do sleep 0.02; done"
touch "$DIR/end"
finish success 20
check 'it succeeded' lab_is_well "$STATUS"
nothing_left 'that succeeded'

begin failure "until [ -e $DIR/end ]; do sleep 0.02; done; exit 7"
touch "$DIR/end"
finish failure 20
check "it had the command's status" [ "$STATUS" -eq 7 ]
nothing_left 'whose command failed'

begin background "sleep 1000 & setsid sleep 1000 & until [ -e $DIR/end ]; do sleep 0.02; done"
touch "$DIR/end"
finish background 20
nothing_left 'whose command left processes behind'

begin term 'exec sleep 1000'
stop term TERM
check 'SIGTERM ends the command, and it shows' [ "$STATUS" -eq 143 ]
nothing_left 'that was ended by SIGTERM'

begin trap 'trap "exit 5" TERM; while :; do sleep 0.05; done'
stop trap TERM
check 'the command may decide what SIGTERM means' [ "$STATUS" -eq 5 ]
nothing_left 'whose command decided how to end'

begin kill 'exec sleep 1000'
stop kill KILL
nothing_left 'that was killed'

begin child 'exec sleep 1000'
kill -KILL "${PROCESSES[0]}"
finish child 20
nothing_left 'of which a part was killed'

# Ctrl-C on a terminal: it reaches the command once, and the lab ends with the command's status.
cat >"$DIR/terminal.py" <<'PY'
import os, pty, signal, sys, time
# What a shell starts in the background ignores Ctrl-C; what has a terminal does not.
signal.signal(signal.SIGINT, signal.SIG_DFL)
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
with open(sys.argv[1] + "/pid", "w") as f:
    f.write(str(pid))
deadline = time.monotonic() + 60
while not os.path.exists(sys.argv[1] + "/noted"):
    if time.monotonic() > deadline:
        sys.exit("the lab did not come up")
    time.sleep(0.02)
os.write(terminal, b"\x03")
said = b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    said += part
sys.stdout.write(said.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
rm -f "$DIR/running"
start terminal "$PYTHON" "$DIR/terminal.py" "$DIR" "$FLASHMOB" lab run --nodes 3 --air ideal --no-io -- \
    sh -c "trap 'echo got it; exit 9' INT; touch $DIR/running; while :; do sleep 0.05; done"
wait_for 30 'the command on the terminal' test -e "$DIR/running"
note "$(cat "$DIR/pid")"
touch "$DIR/noted"
finish terminal 30
check 'Ctrl-C is for the command' [ "$STATUS" -eq 9 ]
check 'it comes once' [ "$(grep -c 'got it' "$DIR/terminal.out")" -eq 1 ]
nothing_left 'that was ended with Ctrl-C'

# While it comes up.
start early "$FLASHMOB" lab run --nodes 30 --air ideal --no-io -- sleep 1000
begun() { mapfile -t PROCESSES < <(tree "${PID[early]}"); [ ${#PROCESSES[@]} -ge 3 ]; }
wait_for 20 'the first processes of the lab' begun
mapfile -t NAMESPACES < <(namespaces "${PROCESSES[@]}")
stop early TERM
nothing_left 'that was ended while it came up'
