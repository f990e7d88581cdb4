#!/usr/bin/env bash
# Shows that Termux's package installs, serves, is supervised, logs, is upgraded and goes, in a prefix like Termux's.
# Tier: slow
# Canary: none-in-code
# Runs beside others.
#
# It is this machine's binary unless TERMUX_BINARIES names others, as 'aarch64=PATH arm=PATH' (make test-termux): those run under qemu-user.
. "$(dirname "$0")/lib.sh"
need unshare nsenter chroot dpkg-deb dpkg nbdcopy jq strip
unshare --user --map-root-user true 2>/dev/null || { echo '    not run: needs user namespaces' >&2; exit $NOT_RUN; }
BUILD=$ROOT/packaging/termux/build
PREFIX=/data/data/com.termux/files/usr
SIZE=24M
# To compress it takes longer than all the rest.
export COMPRESSION=none

. "$TESTS/termux/runner.sh"

# switch_on: the device; its first process is in DEVICE.
switch_on() {
    start device unshare --user --map-root-user --mount --pid --fork --kill-child "$TESTS/termux/device" "$DIR/root" "${RUNNER[@]}"
    wait_for 10 'the device' grep -qx on "$DIR/device.out"
    first_process() { DEVICE=$(cat "/proc/${PID[device]}/task/${PID[device]}/children") && DEVICE=${DEVICE%% *} && [ "$(readlink "/proc/$DEVICE/root")" = "$DIR/root" ]; }
    wait_for 10 'its first process' first_process
}

# switch_off: at once, as a flat battery does.
switch_off() {
    stop device KILL
}

# on_device COMMAND...: as one types it into Termux.
on_device() {
    nsenter --target "$DEVICE" --user --mount --pid --root --wdns=/data/data/com.termux/files/home --preserve-credentials \
        "$PREFIX/bin/env" -i PREFIX=$PREFIX HOME=/data/data/com.termux/files/home PATH=$PREFIX/bin TMPDIR=$PREFIX/tmp \
        SVDIR=$PREFIX/var/service LOGDIR=$PREFIX/var/log "$@"
}
# Foreign packages would be refused on this machine's dpkg; Termux's has their architecture.
dpkg_on_device() { on_device dpkg --force-architecture --force-bad-path --admindir=$PREFIX/var/lib/dpkg --log=$PREFIX/tmp/dpkg.log "$@"; }
export -f on_device dpkg_on_device
# refused_there WHAT PATTERN COMMAND...: as `refused`, of one of the two above.
refused_there() {
    local what=$1 pattern=$2
    shift 2
    export DEVICE PREFIX
    # shellcheck disable=SC2016 # the inner shell's words
    refused "$what" "$pattern" bash -c '"$@"' bash "$@"
}
service() { on_device sv status flashmob | grep -Eq "^$1: flashmob"; }
node_pid() { on_device sv status flashmob | sed -nE 's/^run: flashmob: \(pid ([0-9]+)\).*/\1/p'; }
node_log() { cat "$DIR/root$PREFIX/var/log/sv/flashmob/current"; }
# said COUNT PATTERN: so often in the log.
said() { [ "$(node_log | grep -Ec -- "$2")" -ge "$1" ]; }
on_disk() { [ -e "$DIR/root$PREFIX/$1" ]; }
conf() { sed -i "s|^$1=.*|$1=$2|" "$DIR/root$PREFIX/etc/flashmob/node.conf"; }
same_bytes() { nbdcopy "$URI" "$DIR/out.img" && cmp "$DIR/in.img" "$DIR/out.img"; }
# other_process OLD: the node runs, and not as the process OLD.
other_process() {
    local pid
    pid=$(node_pid)
    [ -n "$pid" ] && [ "$pid" != "$1" ]
}

packages() {
    local other=arm
    check "$1: the package" "$BUILD" "$1" "$2" "$DIR/first"
    check "$1: made again" "$BUILD" "$1" "$2" "$DIR/again"
    # What the canary plants: a package that is not the same when it is made again.
    [ -z "${CANARY:-}" ] || echo >>"$(echo "$DIR/again/"*.deb)"
    check "$1: the same bytes" cmp "$DIR/first/"*.deb "$DIR/again/"*.deb
    PACKAGE_VERSION=9.9.9 check "$1: a later one" "$BUILD" "$1" "$2" "$DIR/later"
    [ "$1" != arm ] || other=aarch64
    refused "$1: as $other" "is not for $other" "$BUILD" $other "$2" "$DIR/wrong"
    dpkg-deb -R "$DIR/first/"*.deb "$DIR/wrong.tree"
    chmod 666 "$DIR/wrong.tree$PREFIX/etc/flashmob/node.conf"
    sed -i '1s|.*|#!/bin/sh|' "$DIR/wrong.tree$PREFIX/var/service/flashmob/run"
    sed -i 1d "$DIR/wrong.tree/DEBIAN/conffiles"
    dpkg-deb -Znone -b "$DIR/wrong.tree" "$DIR/wrong.deb" >"$DIR/wrong.log" 2>&1
    refused "$1: a package with mistakes" 'node.conf has the mode -rw-rw-rw-' "$ROOT/packaging/termux/check" "$1" "$DIR/wrong.deb"
    for finding in "run begins with '#!/bin/sh'" 'node.conf is not a conffile' 'md5sums: .*run: FAILED'; do
        grep -q "$finding" "$DIR/check.out" || fail "nothing was found of: $finding"
    done
    pass "$1: all four are found"
    rm -rf "$DIR/wrong.tree"
    cp "$DIR/first/"*.deb "$DIR/root/flashmob.deb"
    cp "$DIR/later/"*.deb "$DIR/root/later.deb"
}

installation() {
    switch_on
    refused_there 'without termux-services' 'depends on termux-services' dpkg_on_device -i /flashmob.deb
    check 'termux-services' dpkg_on_device -i /termux-services.deb
    check 'the package installs' dpkg_on_device -i /flashmob.deb
    check 'the program runs there' on_device flashmob --version
    # shellcheck disable=SC2016 # the words of the shell on the device
    on_device sh -c '. $PREFIX/etc/profile.d/start-services.sh'
    wait_for 15 'the service' service down
    pass 'a service that was just installed is down'
    PORT_NODE=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    conf FLASHMOB_SIZE ''
    refused_there 'no size' 'FLASHMOB_SIZE is not set in .*node.conf' on_device $PREFIX/var/service/flashmob/run
    # shellcheck disable=SC2016
    ended_with() { on_device sh -c 'sleep() { echo "waits $1"; }; . $SVDIR/flashmob/finish' finish "$1"; }
    [ "$(ended_with 78)$(ended_with -1)$(ended_with 0)" = 'waits 5' ] || fail 'the pause after an end: not for one that cannot start alone'
    pass 'one that cannot start is tried again after 5 s, one that was killed at once'
    conf FLASHMOB_SIZE "${SIZE}iB"
    conf FLASHMOB_ADMIN 127.0.0.1:0
    check 'as it comes it listens where others can reach it' grep -qx 'FLASHMOB_LISTEN=0.0.0.0:7411' "$DIR/root$PREFIX/etc/flashmob/node.conf"
    refused_there 'and so does not start without keys' 'flashmob join' on_device $PREFIX/var/service/flashmob/run
    if on_disk etc/flashmob/keyed; then fail 'it counts as enrolled'; fi
    conf FLASHMOB_LISTEN "127.0.0.1:$PORT_NODE"
    check 'sv-enable' on_device sv-enable flashmob
    wait_for 20 'the node' said 1 "ready, listening on 127.0.0.1:$PORT_NODE"
    pass 'it serves, and its log says so'
    check 'the wake lock is taken' grep -q taken "$DIR/root/data/data/com.termux/files/home/wake-lock"
}

service_for_gateways() {
    local pid
    NODES=(tablet)
    ADDR[tablet]=127.0.0.1:$PORT_NODE
    start_gateway
    head -c $SIZE /dev/urandom >"$DIR/in.img"
    check 'a volume is written' nbdcopy --flush "$DIR/in.img" "$URI"
    check 'and read' same_bytes
    pid=$(node_pid)
    on_device sh -c "kill -KILL $pid"
    wait_for 20 'another process' other_process "$pid"
    wait_for 20 'it to serve again' said 2 'ready, listening'
    check 'killed, it comes back with the same bytes' same_bytes
    head -c $SIZE /dev/urandom >"$DIR/in.img"
    check 'it is written again' nbdcopy --flush "$DIR/in.img" "$URI"
    check 'sv down' on_device sv -w 20 down flashmob
    check 'it ended as asked' said 1 'stopped$'
    check 'the data is in its file' cmp "$DIR/in.img" "$DIR/root/data/data/com.termux/files/home/flashmob/node.extent"
    check 'sv up' on_device sv up flashmob
}

upgrade() {
    local pid
    wait_for 20 'it to serve again' said 3 'ready, listening'
    pid=$(node_pid)
    check 'an upgrade' dpkg_on_device -i /later.deb
    wait_for 20 'the new program' other_process "$pid"
    check 'its configuration is kept' grep -qx "FLASHMOB_LISTEN=127.0.0.1:$PORT_NODE" "$DIR/root$PREFIX/etc/flashmob/node.conf"
    if on_disk var/service/flashmob/down; then fail 'the upgrade disabled the service'; fi
    pass 'it is enabled still'
    check 'the same bytes' same_bytes
}

starts_of_the_device() {
    check 'flashmob-termux-boot install' on_device flashmob-termux-boot install
    switch_off
    switch_on
    refused_there 'before Termux:Boot' 'unable to open supervise/ok|runsv not running|file does not exist' on_device sv check flashmob
    check 'what Termux:Boot runs' on_device /data/data/com.termux/files/home/.termux/boot/flashmob
    wait_for 20 'the service' service run
    check 'after a start of the device: the same bytes' same_bytes
    check 'sv-disable' on_device sv-disable flashmob
    wait_for 20 'its end' service down
    switch_off
    switch_on
    on_device /data/data/com.termux/files/home/.termux/boot/flashmob
    wait_for 20 'the service' service down
    pass 'one that is disabled stays down'
    check 'sv-enable' on_device sv-enable flashmob
    wait_for 20 'the service' service run
}

# What the service tells the node of its configuration, and of the battery.
arguments() {
    local place=$DIR/root$PREFIX line
    check 'sv down' on_device sv -w 20 down flashmob
    mv "$place/bin/flashmob" "$place/bin/flashmob.real"
    printf '#!%s/bin/sh\necho "node: $*"\nsleep 2\n' $PREFIX >"$place/bin/flashmob"
    cat >"$place/bin/termux-battery-status" <<SH
#!$PREFIX/bin/sh
printf '{\n  "health": "GOOD",\n  "percentage": 81,\n  "plugged": "PLUGGED_AC",\n  "status": "FULL",\n  "temperature": 31.5,\n  "current": -5\n}\n'
SH
    chmod 755 "$place/bin/flashmob" "$place/bin/termux-battery-status"
    conf FLASHMOB_JOIN '"10.0.0.1:10810 10.0.0.2:10810"'
    conf FLASHMOB_NAME kitchen
    conf FLASHMOB_OPTIONS '"--threads 8"'
    on_device $PREFIX/var/service/flashmob/run >"$DIR/arguments.out"
    line="node: node --data /data/data/com.termux/files/home/flashmob/node.extent --size ${SIZE}iB --listen 127.0.0.1:$PORT_NODE --admin 127.0.0.1:0"
    line+=" --name kitchen --join 10.0.0.1:10810 --join 10.0.0.2:10810 --device-state $PREFIX/var/run/flashmob-device-state.json --threads 8"
    check 'the node is told what is configured' grep -Fqx -- "$line" "$DIR/arguments.out"
    conf FLASHMOB_INSECURE yes
    on_device $PREFIX/var/service/flashmob/run >"$DIR/arguments.out"
    check 'without keys only if that is asked for' grep -Fqx -- "${line/ --admin/ --insecure --admin}" "$DIR/arguments.out"
    conf FLASHMOB_INSECURE no
    conf FLASHMOB_JOIN '(oh no'
    refused_there 'a configuration that is no shell' 'node.conf cannot be read' on_device $PREFIX/var/service/flashmob/run
    conf FLASHMOB_JOIN ''
    conf FLASHMOB_NAME ''
    conf FLASHMOB_OPTIONS ''
    rm -f "$place/var/run/flashmob-device-state.json"
    # shellcheck disable=SC2016 # the words of the shell on the device
    start battery on_device env FLASHMOB_BATTERY_PAUSE_S=0.2 \
        sh -c 'sleep 60 & node=$!; echo $node >node.pid; flashmob-device-state $PREFIX/var/run/state.json $node & wait $node; wait'
    state_written() { jq -e . "$place/var/run/state.json"; }
    wait_for 10 'the state of the battery' state_written
    check 'the battery as the node reads it' jq -e --argjson now "$(date +%s)" \
        '.battery_percent == 81 and .charging and .battery_celsius == 31.5 and (.written_at_unix_ms / 1000 - $now | fabs) < 60' "$place/var/run/state.json"
    # shellcheck disable=SC2016
    on_device sh -c 'kill $(cat node.pid)'
    finish battery 20
    [ ! -e "$place/var/run/state.json" ] || fail 'the script left its file'
    pass 'the script for the battery ends with the node'
    printf '#!%s/bin/sh\nexit 1\n' $PREFIX >"$place/bin/termux-battery-status"
    refused_there 'no app Termux:API' 'is the app Termux:API installed' on_device env FLASHMOB_BATTERY_PAUSE_S=0 flashmob-device-state $PREFIX/var/run/state.json 1
    rm "$place/bin/termux-battery-status"
    mv "$place/bin/flashmob.real" "$place/bin/flashmob"
    check 'sv up' on_device sv up flashmob
}

# A device that has had keys never serves without them again.
enrolled() {
    local home=/data/data/com.termux/files/home data cluster
    data=$home/keyed/node.extent
    check 'sv down' on_device sv -w 20 down flashmob
    printf '[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "127.0.0.1:1"\n' >"$DIR/keyed.toml"
    check 'a cluster gets keys' "$FLASHMOB" key init "$DIR/keyed.toml"
    cluster=$("$FLASHMOB" key show "$DIR/keyed.toml" --output json | jq -r .cluster)
    conf FLASHMOB_DATA $data
    conf FLASHMOB_LISTEN 0.0.0.0:0
    conf FLASHMOB_INSECURE yes
    # run_there NAME: the service by hand, until it is ready.
    run_there() {
        start "$1" on_device $PREFIX/var/service/flashmob/run
        wait_for 30 'a node that is ready' grep -q 'ready' "$DIR/$1.out"
        # shellcheck disable=SC2016
        on_device sh -c 'ps -ef 2>/dev/null | grep "[n]ode --data" | while read -r _ pid _; do kill "$pid"; done'
        finish "$1" 30
    }
    mkdir -p "$DIR/root$home/flashmob"
    printf 'flashmob://join/127.0.0.1:1#cut\n' >"$DIR/root$home/flashmob/token"
    chmod 600 "$DIR/root$home/flashmob/token"
    refused_there 'a token is used, and a bad one does not open the device' 'token|link' on_device $PREFIX/var/service/flashmob/run
    check 'it says that it is closed from now on' grep -q 'FLASHMOB_INSECURE=yes counts no more' "$DIR/check.out"
    on_disk etc/flashmob/keyed || fail 'nothing says that it is closed'
    rm "$DIR/root$home/flashmob/token"
    refused_there 'nor does a token that is gone' 'without keys anyone who can reach' on_device $PREFIX/var/service/flashmob/run
    rm -f "$DIR/root$data.key"
    refused_there 'nor one whose key is gone, too' 'a token, a code or a key was here, and the key' on_device $PREFIX/var/service/flashmob/run
    rm "$DIR/root$PREFIX/etc/flashmob/keyed"
    conf FLASHMOB_OPTIONS "\"--cluster $cluster\""
    run_there given
    check 'it has a key' [ -s "$DIR/root$data.key" ]
    conf FLASHMOB_OPTIONS ''
    run_there again
    check 'it serves with it though it may serve without' bash -c "! grep -q 'insecure:' '$DIR/again.out'"
    rm "$DIR/root$data.key" "$DIR/root$data.flashmob"
    refused_there 'with its keys lost it does not serve' 'a token, a code or a key was here, and the key.*remove .*etc/flashmob/keyed' on_device $PREFIX/var/service/flashmob/run
    rm "$DIR/root$PREFIX/etc/flashmob/keyed"
    run_there open
    check 'until its owner says so' grep -q 'insecure:' "$DIR/open.out"
    # A block device's key is elsewhere; this one has no driver.
    if mknod "$DIR/root$home/keyed/card" b 240 0 2>/dev/null; then
        mkdir "$DIR/root$home/keyed/state"
        : >"$DIR/root$home/keyed/state/card.key"
        conf FLASHMOB_DATA $home/keyed/card
        conf FLASHMOB_OPTIONS "\"--state-dir $home/keyed/state\""
        refused_there 'a block device with a key does not serve without' 'FLASHMOB_INSECURE=yes counts no more' on_device $PREFIX/var/service/flashmob/run
        on_disk etc/flashmob/keyed || fail 'nothing says that the block device has a key'
        rm "$DIR/root$PREFIX/etc/flashmob/keyed"
        conf FLASHMOB_OPTIONS ''
    else
        say 'not tried: the key of a block device, which root alone makes'
    fi
    conf FLASHMOB_DATA $home/flashmob/node.extent
    conf FLASHMOB_LISTEN "127.0.0.1:$PORT_NODE"
    conf FLASHMOB_INSECURE no
    rm -rf "$DIR/root$home/keyed"
    check 'sv up' on_device sv up flashmob
}

removal() {
    local left
    check 'it serves before it is removed' same_bytes
    check 'a removal' dpkg_on_device -r flashmob
    nothing_runs() { ! on_device ps | grep -v ' ps$' | grep -E 'runsv flashmob|svlogd|bin/flashmob'; }
    wait_for 20 'nothing of it to run' nothing_runs
    pass 'nothing of it runs'
    left=$(cd "$DIR/root$PREFIX" && find . \( -path '*flashmob*' -o -path './var/service/*' \) ! -path './var/lib/dpkg/*' ! -path './var/log/*' -type f)
    [ "$left" = ./etc/flashmob/node.conf ] || fail "left are: $left"
    pass 'its configuration alone is left'
    check 'the data is kept' cmp "$DIR/in.img" "$DIR/root/data/data/com.termux/files/home/flashmob/node.extent"
    check 'installed again' dpkg_on_device -i /flashmob.deb
    wait_for 20 'the service' service down
    check 'with the configuration that it had' grep -qx "FLASHMOB_LISTEN=127.0.0.1:$PORT_NODE" "$DIR/root$PREFIX/etc/flashmob/node.conf"
    check 'sv-enable' on_device sv-enable flashmob
    wait_for 20 'the service' service run
    check 'the same bytes once more' same_bytes
    check 'a purge' dpkg_on_device -P flashmob
    if on_disk etc/flashmob || on_disk var/service/flashmob || on_disk var/log/sv/flashmob; then fail 'something is left after a purge'; fi
    check 'the data is kept all the same' cmp "$DIR/in.img" "$DIR/root/data/data/com.termux/files/home/flashmob/node.extent"
}

if [ -z "${TERMUX_BINARIES:-}" ]; then
    [ "$(uname -m)" = x86_64 ] || { echo '    not run: the binaries of this machine have another architecture; run: make test-termux' >&2; exit $NOT_RUN; }
    strip -o "$DIR/flashmob" "$FLASHMOB"
    TERMUX_BINARIES=x86_64=$DIR/flashmob
    export DYNAMIC=1
fi
for pair in $TERMUX_BINARIES; do
    say "-- ${pair%%=*}"
    runner "${pair%%=*}"
    rm -rf "$DIR/root" "$DIR"/{first,again,later,wrong} "$DIR/gateway.toml.extents"
    "$TESTS/termux/prefix" "$DIR/root"
    if [ -n "${DYNAMIC:-}" ]; then
        while read -r library; do
            [ -e "$DIR/root/$library" ] || install -D "$library" "$DIR/root/$library"
        done < <(ldd "${pair#*=}" | sed -nE 's,^(.*[[:space:]])?(/[^ ]+) \(0x.*,\2,p')
    fi
    packages "${pair%%=*}" "${pair#*=}"
    installation
    service_for_gateways
    upgrade
    starts_of_the_device
    arguments
    enrolled
    removal
    stop gateway
    switch_off
done
