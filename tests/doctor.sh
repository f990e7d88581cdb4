#!/usr/bin/env bash
# Shows that doctor finds planted faults and only them, and that --fix and --undo restore every value.
# Tier: test
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'loop devices and control groups, too'
need jq ip losetup mkfs.ext4 python3 unshare

UNDO=$DIR/undo.json
NET=fmdoc$$
doctor=("$FLASHMOB" -q doctor --undo-file "$UNDO")
at_end 'ip netns del "$NET" 2>/dev/null; ip netns del "$NET-far" 2>/dev/null'

# In a network namespace of its own, with its own /sys.
in_net() { ip netns exec "$NET" "$@"; }

# wrong NAME COMMAND...: the checks that found something, one a line, into NAME.wrong; the whole look into NAME.json.
wrong() {
    local name=$1 status=0
    shift
    "$@" --output json >"$DIR/$name.json" 2>"$DIR/$name.log" || status=$?
    [ $status -eq 0 ] || [ $status -eq 3 ] || { cat "$DIR/$name.log" >&2; fail "$name: doctor ended with status $status"; }
    jq -r '.checks[] | select(.outcome == "wrong" or .outcome == "severe") | .name' "$DIR/$name.json" | sort >"$DIR/$name.wrong"
    [ $status -eq 3 ] || [ ! -s "$DIR/$name.wrong" ] || fail "$name: something is wrong, and the status is 0"
    [ $status -eq 0 ] || [ -s "$DIR/$name.wrong" ] || fail "$name: nothing is wrong, and the status is 3"
}

# newly CLEAN NOW CHECK...: what is wrong now and was not before is exactly this.
newly() {
    local clean=$1 now=$2
    shift 2
    comm -13 "$DIR/$clean.wrong" "$DIR/$now.wrong" >"$DIR/newly"
    printf '%s\n' "$@" | sort | diff - "$DIR/newly" >"$DIR/check.out" || { cat "$DIR/check.out" >&2; fail "found in $now: $(xargs <"$DIR/newly"), planted: $*"; }
    pass "found, and nothing else: $*"
}

# ---- settings of the network ----

ip netns add "$NET" && ip netns add "$NET-far"
ip link add near netns "$NET" type veth peer name far netns "$NET-far"
in_net ip addr add 198.51.100.1/24 dev near && in_net ip link set lo up && in_net ip link set near up
ip netns exec "$NET-far" sh -c 'ip addr add 198.51.100.2/24 dev far; ip link set lo up; ip link set far up; sysctl -qw net.ipv4.icmp_ratelimit=0'
set_net() { in_net sysctl -qw "$@"; }
# A namespace takes only what the machine allows everybody.
for CONTROL in cubic bbr; do
    set_net net.ipv4.tcp_congestion_control=$CONTROL 2>/dev/null && break
done
set_net net.ipv4.tcp_slow_start_after_idle=1 net.ipv4.tcp_wmem='4096 16384 4194304' \
    net.ipv4.tcp_rmem='4096 131072 6291456' net.ipv4.tcp_moderate_rcvbuf=1 net.ipv4.tcp_window_scaling=1 net.ipv4.tcp_sack=1
to_peer=(in_net "${doctor[@]}" --peer 198.51.100.2)
wrong clean-net "${to_peer[@]}"
jq -e '.path | .interface == "near" and .rtt_ms > 0' "$DIR/clean-net.json" >/dev/null || fail "the path: $(jq -c .path "$DIR/clean-net.json")"
pass 'the path has a round trip and an interface, though the port is closed'

plant() { # plant CHECK SETTING=BAD SETTING=GOOD
    set_net "$2"
    wrong "$1" "${to_peer[@]}"
    newly clean-net "$1" "$1"
    set_net "$3"
}
plant receive-buffer net.ipv4.tcp_rmem='4096 87380 110208' net.ipv4.tcp_rmem='4096 131072 6291456'
plant send-buffer net.ipv4.tcp_wmem='4096 16384 65536' net.ipv4.tcp_wmem='4096 16384 4194304'
plant congestion-control net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_congestion_control=$CONTROL
plant window-scaling net.ipv4.tcp_window_scaling=0 net.ipv4.tcp_window_scaling=1
plant receive-autotuning net.ipv4.tcp_moderate_rcvbuf=0 net.ipv4.tcp_moderate_rcvbuf=1
plant selective-acknowledgement net.ipv4.tcp_sack=0 net.ipv4.tcp_sack=1

# bbr does without it.
set_net net.ipv4.tcp_slow_start_after_idle=0 net.ipv4.tcp_congestion_control=reno
wrong clean-far "${to_peer[@]}" --rate 100M --rtt 100ms
set_net net.ipv4.tcp_slow_start_after_idle=1
wrong slow-start-after-idle "${to_peer[@]}" --rate 100M --rtt 100ms
newly clean-far slow-start-after-idle slow-start-after-idle
set_net net.ipv4.tcp_congestion_control=$CONTROL

in_net ip link set near mtu 1000
wrong mtu "${to_peer[@]}"
newly clean-net mtu mtu
in_net ip link set near mtu 1500
ip netns exec "$NET-far" ip link set far mtu 1000
# Long enough for a busy machine to answer a probe: one that is too large is never answered.
wrong path-mtu "${to_peer[@]}" --timeout 3s
newly clean-net path-mtu path-mtu
jq -e '.checks[] | select(.name == "path-mtu") | .command == "ip link set dev near mtu 1000"' "$DIR/path-mtu.json" >/dev/null ||
    fail "the largest packet that arrives was not found: $(jq -c '.checks[] | select(.name == "path-mtu")' "$DIR/path-mtu.json")"
ip netns exec "$NET-far" ip link set far mtu 1500

ip netns exec "$NET-far" ip link set far down
wrong silent "${to_peer[@]}" --timeout 300ms
newly clean-net silent peer
ip netns exec "$NET-far" ip link set far up

# ---- the disk of the data ----

mkdir "$DIR/disk"
truncate -s 48M "$DIR/disk.img"
LOOP=$(losetup --find --show "$DIR/disk.img")
at_end 'umount "$DIR/disk" 2>/dev/null; losetup -d "$LOOP" 2>/dev/null'
mkfs.ext4 -q -N 1024 "$LOOP"
mount "$LOOP" "$DIR/disk"
queue=/sys/block/${LOOP#/dev/}/queue
SCHEDULER=$(sed 's/.*\[\(.*\)\].*/\1/' "$queue/scheduler")
at_end 'echo "$SCHEDULER" >"$queue/scheduler"'
echo 128 >"$queue/read_ahead_kb"
echo none >"$queue/scheduler"
at_data=("${doctor[@]}" --data "$DIR/disk/data")
wrong clean-disk "${at_data[@]}"

waiting=$(tr -d '[]' <"$queue/scheduler" | tr ' ' '\n' | grep -xE 'bfq|cfq' | head -n 1 || true)
if [ -n "$waiting" ] && echo "$waiting" >"$queue/scheduler"; then
    wrong io-scheduler "${at_data[@]}"
    newly clean-disk io-scheduler io-scheduler
    echo none >"$queue/scheduler"
else
    say 'this kernel has neither bfq nor cfq: the scheduler is judged by unit tests alone'
fi
echo 8192 >"$queue/read_ahead_kb"
wrong readahead "${at_data[@]}"
newly clean-disk readahead readahead
echo 128 >"$queue/read_ahead_kb"

dd if=/dev/zero of="$DIR/disk/full" bs=1M status=none 2>/dev/null || true
wrong free-space "${at_data[@]}"
newly clean-disk free-space free-space
rm "$DIR/disk/full"
"$PYTHON" -IS - "$DIR/disk" <<'EOF'
import itertools, os, sys
try:
    for i in itertools.count():
        os.close(os.open(f"{sys.argv[1]}/name{i}", os.O_CREAT | os.O_WRONLY))
except OSError:
    pass
EOF
wrong free-inodes "${at_data[@]}"
newly clean-disk free-inodes free-inodes
find "$DIR/disk" -name 'name*' -delete

# ---- the machine ----

wrong clean "${doctor[@]}"
# Where no group can be made, a copied tree stands for it.
group=
for folder in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    if mkdir "$folder/$NET" 2>/dev/null; then
        group=$folder/$NET
        at_end 'rmdir "$group"'
        echo 50331648 2>/dev/null >"$group/memory.limit_in_bytes" || echo 50331648 2>/dev/null >"$group/memory.max" || group=
        [ -z "$group" ] || break
        rmdir "$folder/$NET"
    fi
done
if [ -n "$group" ]; then
    # shellcheck disable=SC2016
    wrong cgroup-memory sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "${doctor[@]}"
    newly clean cgroup-memory cgroup-memory
fi
mkdir -p "$DIR/tree/proc/self" "$DIR/tree/sys/fs/cgroup/app"
echo 0::/app >"$DIR/tree/proc/self/cgroup"
echo memory >"$DIR/tree/sys/fs/cgroup/cgroup.controllers"
echo max >"$DIR/tree/sys/fs/cgroup/app/memory.max"
wrong clean-tree "${doctor[@]}" --root "$DIR/tree"
echo 50331648 >"$DIR/tree/sys/fs/cgroup/app/memory.max"
wrong tree "${doctor[@]}" --root "$DIR/tree"
newly clean-tree tree cgroup-memory

# Wi-Fi: a station in /sys, and an iw that keeps its setting in a file. Only this test's mounts know them.
mkdir -p "$DIR/net/wlan0/wireless" "$DIR/net/near" "$DIR/bin"
printf 1 >"$DIR/net/near/type"
printf 0x1003 >"$DIR/net/wlan0/flags"
printf 1500 >"$DIR/net/wlan0/mtu"
echo on >"$DIR/power"
cat >"$DIR/bin/iw" <<EOF
#!/bin/sh
case "\$*" in
    'dev wlan0 get power_save') echo "Power save: \$(cat $DIR/power)" ;;
    'dev wlan0 set power_save '*) echo "\$5" >$DIR/power ;;
    *) exit 1 ;;
esac
EOF
chmod +x "$DIR/bin/iw"
in_net ip link add wlan0 type veth peer name air0
in_net ip link set wlan0 up
with_wifi() { in_net env PATH="$DIR/bin:$PATH" unshare -m sh -c 'mount --bind "$0" /sys/class/net && exec "$@"' "$DIR/net" "$@"; }
echo off >"$DIR/power"
wrong clean-wifi with_wifi "${doctor[@]}"
echo on >"$DIR/power"
wrong wifi-power-save with_wifi "${doctor[@]}"
newly clean-wifi wifi-power-save wifi-power-save

# The clock: the kernel is told that nobody keeps it, and what it was told before comes back.
clock() { "$PYTHON" -IS - "$1" <<'EOF'
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
WORD = ctypes.sizeof(ctypes.c_long)
class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
                ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_byte * 300)]
state = Timex()
libc.adjtimex(ctypes.byref(state))
was = f"{state.status} {state.maxerror} {state.esterror}"
if sys.argv[1] != "get":
    status, maxerror, esterror = map(int, sys.argv[1].split())
    change = Timex(modes=0x10 | 0x4 | 0x8, status=status, maxerror=maxerror, esterror=esterror)
    if libc.adjtimex(ctypes.byref(change)) < 0:
        sys.exit(1)
print(was)
EOF
}
CLOCK=$(clock get)
if clock '0 1000 1000' >/dev/null; then
    at_end 'clock "$CLOCK" >/dev/null'
    wrong clean-clock "${doctor[@]}"
    clock '64 16000000 16000000' >/dev/null
    wrong clock "${doctor[@]}"
    newly clean-clock clock clock
    clock "$CLOCK" >/dev/null
else
    say 'the clock cannot be set here: it is judged by unit tests alone'
fi

# ---- fix and undo ----

plant_all() {
    set_net net.ipv4.tcp_rmem='4096 87380 110208' net.ipv4.tcp_wmem='4096 16384 65536' net.ipv4.tcp_congestion_control=reno \
        net.ipv4.tcp_window_scaling=0 net.ipv4.tcp_moderate_rcvbuf=0 net.ipv4.tcp_sack=0
    in_net ip link set near mtu 1000
    echo 8192 >"$queue/read_ahead_kb"
    if [ -n "$waiting" ]; then echo "$waiting" >"$queue/scheduler"; fi
    echo on >"$DIR/power"
}
values() {
    in_net sh -c 'cd /proc/sys/net && grep -r . . 2>/dev/null; true' | grep -vE 'random|nf_|neigh|route|ipfrag_|cookie|fib_multipath_hash_seed' | sort
    in_net cat /sys/class/net/near/mtu "$queue/read_ahead_kb" "$queue/scheduler" "$DIR/power"
}
everything=(with_wifi "${doctor[@]}" --data "$DIR/disk/data")
plant_all
values >"$DIR/before"
wrong sick "${everything[@]}"
status=0
"${everything[@]}" --fix --yes >"$DIR/fix.out" 2>&1 || status=$?
count=$(grep -c '^set ' "$DIR/fix.out")
[ "$count" -ge 8 ] || { cat "$DIR/fix.out"; fail "only $count values were set"; }
wrong fixed "${everything[@]}"
[ -z "$(comm -12 <(printf '%s\n' receive-buffer send-buffer congestion-control window-scaling receive-autotuning selective-acknowledgement mtu readahead \
    io-scheduler wifi-power-save | sort) "$DIR/fixed.wrong")" ] || fail "still wrong after --fix: $(xargs <"$DIR/fixed.wrong")"
check 'the undo file is there, and for its owner alone' [ "$(stat -c %a "$UNDO")" = 600 ]
check '--fix again finds nothing to set, and keeps the undo' sh -c "cp '$UNDO' '$DIR/undo.copy'; $(printf '%q ' "${doctor[@]}") --only window-scaling --fix --yes; cmp '$UNDO' '$DIR/undo.copy'"
# The oldest value is the one that comes back, whatever is set in between.
set_net net.ipv4.tcp_sack=0
in_net "${doctor[@]}" --only selective-acknowledgement --fix --yes >/dev/null || true
check '--undo in another network namespace leaves what is not there' sh -c "$(printf '%q ' "${doctor[@]}") --undo >'$DIR/elsewhere.out'; [ \$? -eq 3 ] && grep -q 'another network namespace' '$DIR/elsewhere.out'"
check '--undo' with_wifi "${doctor[@]}" --undo
values >"$DIR/after"
check "all of $count values are as before, byte for byte" diff "$DIR/before" "$DIR/after"
check 'the undo file is gone' [ ! -e "$UNDO" ]

# What somebody else has set since is theirs.
in_net "${doctor[@]}" --only receive-buffer,send-buffer --fix --yes >/dev/null || true
set_net net.ipv4.tcp_rmem='4096 87380 7000000'
status=0
in_net "${doctor[@]}" --undo >"$DIR/left.out" || status=$?
check 'what others have set since is left and named, with status 3' \
    sh -c "[ $status -eq 3 ] && grep -q \"LEFT.*tcp_rmem.*'4096 87380 7000000'\" '$DIR/left.out' && grep -q 'back.*tcp_wmem' '$DIR/left.out'"
check 'it is what they have set' [ "$(in_net sysctl -n net.ipv4.tcp_rmem | tr '\t' ' ')" = '4096 87380 7000000' ]
check '--undo --force puts that back too' in_net "${doctor[@]}" --undo --force
values >"$DIR/after"
check 'all values are as before' diff "$DIR/before" "$DIR/after"

# Killed at any moment, the undo knows of everything.
killed=0
for pause in 0 0.001 0.003 0.006 0.012; do
    start fix ip netns exec "$NET" "${doctor[@]}" --fix --yes
    until [ -e "$UNDO" ] || ! alive fix; do :; done
    sleep "$pause"
    if kill -KILL "${PID[fix]}" 2>/dev/null && [ -e "$UNDO" ]; then killed=$((killed + 1)); fi
    wait "${PID[fix]}" 2>/dev/null || true
    unset 'PID[fix]'
    in_net "${doctor[@]}" --undo >"$DIR/undo.out" || fail "after a kill: $(cat "$DIR/undo.out")"
    values >"$DIR/after"
    diff "$DIR/before" "$DIR/after" >&2 || fail "a value was lost to a kill after $pause s"
done
check "killed with -9 in the middle $killed times, every value came back" [ "$killed" -gt 0 ]

# ---- people ----

refused 'nobody to answer' 'add --yes' ip netns exec "$NET" "${doctor[@]}" --fix
# With a terminal: no to all but one; Ctrl-C at a question.
ask() { in_net timeout 200 "$PYTHON" -IS - "$1" "${doctor[@]}" --only send-buffer,window-scaling --fix <<'EOF'
import os, pty, sys
answers, command = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
said, asked = b"", 0
while True:
    try:
        part = os.read(fd, 4096)
    except OSError:
        break
    if not part:
        break
    said += part
    while said.count(b"[y/N]") > asked:
        answer = answers[asked:asked + 1] or "n"
        os.write(fd, b"\x03" if answer == "^" else answer.encode() + b"\n")
        asked += 1
status = os.waitpid(pid, 0)[1]
print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), asked)
EOF
}
check 'a no leaves things as they are' [ "$(ask nn)" = '3 2' ]
check 'there is nothing to undo' [ ! -e "$UNDO" ]
check 'a yes sets one' [ "$(ask yn)" = '3 2' ]
check 'and only that' [ "$(in_net sysctl -n net.ipv4.tcp_window_scaling)$(jq '.entries | length' "$UNDO")" = 01 ]
in_net "${doctor[@]}" --undo >/dev/null
check 'Ctrl-C at a question ends it' [ "$(ask '^')" = '2 1' ]
values >"$DIR/after"
check 'and nothing was set' diff "$DIR/before" "$DIR/after"

nobody=(ip netns exec "$NET" setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$DIR" "$FLASHMOB" doctor)
chmod 711 "$DIR"
status=0
"${nobody[@]}" --output json >"$DIR/nobody.json" 2>"$DIR/nobody.log" || status=$?
if [ $status -ge 126 ]; then
    say 'the binary is where nobody else may run it: another user was not tried'
else
    check 'another user may look' sh -c "[ $status -eq 3 ] && jq -e '.checks | map(select(.outcome == \"wrong\").name) | index(\"send-buffer\")' '$DIR/nobody.json'"
    refused 'but not set' 'needs root' "${nobody[@]}" --fix --yes
fi
check 'a reader that goes away is no failure' sh -c "$(printf '%q ' "${doctor[@]}") -a 2>'$DIR/closed.log' | true; ! grep -q panicked '$DIR/closed.log'"
status=0
"${doctor[@]}" -a >&- 2>"$DIR/closed.log" || status=$?
check 'nor a closed stdout' sh -c "[ $status -eq 0 ] || [ $status -eq 3 ] || [ $status -eq 1 ] && ! grep -q panicked '$DIR/closed.log'"
printf '{"format":"flashmob-doctor-undo","format_version":1,"entries":[{"check":"x","place":{"kind":"sysctl","name":"kernel.core_pattern"},"network":null,"boot":null,"old":"|/x","new":"core"}]}' >"$UNDO"
chmod 600 "$UNDO"
refused 'an undo that names other things' 'never sets; nothing was done' "${doctor[@]}" --undo
check 'and nothing was' sh -c "! grep -qF '|/x' /proc/sys/kernel/core_pattern"
