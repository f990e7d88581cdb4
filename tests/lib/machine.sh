# What a test may not leave behind: processes, mounts, loop devices, network namespaces, tracing instances and settings.
#
# tests/lib.sh sources this file. `machine_before` notes the state when a test begins; `machine_check` compares when it has cleaned up.
# A test that runs alone is compared with the whole machine. One that runs beside others, or any where SHARED_MACHINE is set, only
# with things that bear its directory or its process's number: what else changes may be of another.
# shellcheck shell=bash

# With what the marks of a namespace, an instance or a control group end that a test named by its process's number.
OWN=$$
# A test may have a TMPDIR of its own later, and another working directory.
TMPDIR_OF_TESTS=${TMPDIR:-/tmp}
IS_ALONE=
[ -n "${SHARED_MACHINE:-}" ] || grep -qx '# Runs beside others\.' "$0" || IS_ALONE=1

# traced COMMAND...: runs it where tracefs is mounted, in a mount namespace of its own if the machine has not mounted it.
traced() {
    if [ -d /sys/kernel/tracing/instances ]; then "$@"; else unshare --mount sh -c 'mount -t tracefs none /sys/kernel/tracing && "$@"' sh "$@"; fi
}

# loop_devices: one line each. One that was detached while somebody else still had it goes by itself: a mount namespace that another test
# made meanwhile has a copy of every mount.
loop_devices() { losetup --list --noheadings --output NAME,AUTOCLEAR,BACK-FILE 2>/dev/null | awk '$2 == 0 { print "loop device: " $1, $3 }'; }

# machine_settings: one line for each setting that a test may change.
machine_settings() {
    local queue
    for queue in /sys/block/*/queue; do
        # A loop device that nobody uses has a scheduler nevertheless, and keeps it for the next who uses it.
        echo "$queue: scheduler $(cat "$queue/scheduler")"
        # What is read ahead follows the file behind a loop device.
        [[ $queue == */loop* ]] || echo "$queue: read_ahead_kb $(cat "$queue/read_ahead_kb")"
    done 2>/dev/null
    find /proc/sys/net/core /proc/sys/net/ipv4 /proc/sys/vm /proc/sys/user -maxdepth 1 -type f \
        ! -name '*random*' ! -name '*stat*' ! -name 'stat_refresh' ! -name '*drop_caches' ! -name '*compact_memory' ! -name '*key' \
        -exec grep -H . {} + 2>/dev/null
}

# machine_state: one line for each thing that a test may leave.
machine_state() {
    # `ip netns` mounts its folder once, on a machine that never had a namespace.
    grep -v ' /run/netns ' /proc/mounts | sed 's/^/mount: /'
    loop_devices
    ip netns list 2>/dev/null | sed 's/ .*//; s/^/network namespace: /'
    find "$TMPDIR_OF_TESTS" -maxdepth 1 -name '*flashmob*' ! -path "$DIR" 2>/dev/null | sed 's/^/file: /'
    if [ "$(id -u)" -eq 0 ]; then
        # shellcheck disable=SC2016
        traced sh -c 'ls /sys/kernel/tracing/instances | sed "s/^/tracing instance: /"; sed "s/^/probe: /" /sys/kernel/tracing/uprobe_events' 2>/dev/null || true
    fi
    machine_settings
}

machine_before() { [ -z "$IS_ALONE" ] || machine_state 2>/dev/null | sort >"$DIR/machine.before"; }

# own_left: what is left of this test alone, one line each.
own_left() {
    local pid words
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        [ "$pid" -ne $$ ] && [ "$pid" -ne "$BASHPID" ] || continue
        words=$(tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null || continue
        # A subshell of this test has its command line.
        [[ $words == *"$DIR"* ]] && echo "process: $pid ${words:0:160}"
    done
    grep -F "$DIR" /proc/mounts | sed 's/^/mount: /'
    loop_devices | grep -F "$DIR"
    ip netns list 2>/dev/null | grep -E "^[a-z]+$OWN(-|\$| )" | sed 's/^/network namespace: /'
    [ "$(id -u)" -ne 0 ] || traced ls /sys/kernel/tracing/instances 2>/dev/null | grep -E -- "-$OWN(-|\$)" | sed 's/^/tracing instance: /'
}

# of_this_test: leaves out what bears the directory or the number of another test; what bears those of this one `own_left` names.
of_this_test() { grep -vE '/flashmob-[a-z0-9-]+\.[A-Za-z0-9]{6}(/| |$)|(/run/netns/|network namespace: )[a-z]+[0-9]+(-| |$)'; }

# machine_left: what is left, one line each; nothing if all is as it was.
machine_left() {
    own_left 2>/dev/null
    [ -f "$DIR/machine.before" ] || return 0
    # What is there and was not, and settings that were otherwise. A loop device that was made meanwhile has no earlier setting.
    machine_state 2>/dev/null | sort | comm -13 "$DIR/machine.before" - | of_this_test | while read -r line; do
        case $line in
            /sys/block/*) grep -q "^${line%% *}" "$DIR/machine.before" || continue ;;
        esac
        echo "$line"
    done
    # What was mounted and is not any more.
    machine_state 2>/dev/null | sort | comm -23 "$DIR/machine.before" - | of_this_test | grep '^mount:' | sed 's/^/gone: /'
}

# machine_check: 0 if nothing is left; else it is named. Kernel and children take a moment to end things.
machine_check() {
    local left end=$((SECONDS + 10))
    while left=$(machine_left | sort -u || true) && [ -n "$left" ]; do
        [ $SECONDS -lt $end ] || break
        sleep 0.2
    done
    [ -n "$left" ] || return 0
    sed 's/^/    FAIL: left behind: /' <<<"$left" >&2
    return 1
}
