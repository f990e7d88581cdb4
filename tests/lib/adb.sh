# Devices on adb for tests: the real adb with a server of its own, and fake devices (tests/fake_adbd.py) that run commands on this machine.
#
# Sourced after lib.sh by tests of `flashmob push`. The program on the devices is this machine's, as on an emulator, unless PUSH_BINARY names another:
# 'arm=PATH' or 'aarch64=PATH', which runs under qemu-user.
# shellcheck shell=bash
# Devices have users of their own, who look into the folders made here.
umask 022
. "$TESTS/termux/runner.sh"
need adb jq strip "$PYTHON"
if [ -z "${PUSH_BINARY:-}" ]; then
    [ "$(uname -m)" = x86_64 ] || { echo '    not run: of this machine there are no emulators' >&2; exit $NOT_RUN; }
    strip -o "$DIR/flashmob" "$FLASHMOB"
    PUSH_BINARY=x86_64=$DIR/flashmob
fi
BINARY=${PUSH_BINARY#*=}
runner "${PUSH_BINARY%%=*}"
OTHER_ABI=arm64-v8a OTHER=aarch64
case ${PUSH_BINARY%%=*} in
    x86_64) ABI=x86_64 PROCESSOR=x86_64 ;;
    arm) ABI=armeabi-v7a PROCESSOR=armv7 ;;
    aarch64) ABI=arm64-v8a PROCESSOR=aarch64 OTHER_ABI=armeabi-v7a OTHER=armv7 ;;
esac
DEVICE=()
# shellcheck disable=SC2016 # the inner shell's words
[ ${#RUNNER[@]} -eq 0 ] || DEVICE=(unshare --user --map-root-user --mount sh -c '"$0" "$1" "$2" "$3"; shift 3; exec "$@"' "$TESTS/termux/register" "${RUNNER[@]}")

# A python that is found by way of the home would not be found below.
PYTHON=$("$PYTHON" -c 'import sys; print(sys.executable)')
# adb keeps its keys in the home, and its server must be nobody else's.
export HOME=$DIR ANDROID_SDK_HOME=$DIR ADB_VENDOR_KEYS=
ANDROID_ADB_SERVER_PORT=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export ANDROID_ADB_SERVER_PORT ADB_LIBUSB=0
unset ANDROID_SERIAL ANDROID_ADB_SERVER_ADDRESS
at_end 'adb kill-server >/dev/null 2>&1'
# A device goes on with what runs on it when nobody asks any more; these are processes of this machine.
end_there() {
    local file pid
    for file in "$DIR"/*/data/local/tmp/flashmob.d/*.pid; do
        pid=$(cat "$file" 2>/dev/null) || continue
        if grep -qF "$DIR" "/proc/$pid/cmdline" 2>/dev/null; then kill -KILL "$pid"; fi
    done
}
at_end end_there
push() { "$FLASHMOB" push --binary "$BINARY" "$@"; }
# What it says is the same everywhere; what it is has to be a program for `refused`.
printf '#!/bin/sh\nexec "%s" push --binary "%s" "$@"\n' "$FLASHMOB" "$BINARY" >"$DIR/push"
chmod 755 "$DIR/push"

# about NAME KEY VALUE [KEY VALUE]...: what a device says of itself; values in JSON.
about() {
    local file=$DIR/$1/device.json
    mkdir -p "$DIR/$1"
    [ -e "$file" ] || echo "{\"model\": \"Nexus 7\", \"abilist\": \"$ABI,armeabi\", \"android\": \"13\", \"machine\": \"$PROCESSOR\"}" >"$file"
    shift
    while [ $# -gt 0 ]; do
        jq --argjson value "$2" ".$1 = \$value" "$file" >"$file.new"
        mv "$file.new" "$file"
        shift 2
    done
}
# plug_in NAME: a device, and adb knows it; its serial number is SERIAL[NAME].
declare -A SERIAL=()
plug_in() {
    # That of before it was unplugged.
    rm -f "$DIR/$1.out"
    start "$1" "${DEVICE[@]}" "$PYTHON" "$TESTS/fake_adbd.py" "$DIR/$1"
    wait_for 10 "the device $1" test -s "$DIR/$1.out"
    SERIAL[$1]=127.0.0.1:$(cat "$DIR/$1.out")
    adb connect "${SERIAL[$1]}" >>"$DIR/adb.log" 2>&1 || true
    known() { adb devices | grep -q "^${SERIAL[$1]}"; }
    wait_for 10 "$1 in adb devices" known "$1"
}
unplug() {
    adb disconnect "${SERIAL[$1]}" >/dev/null
    stop "$1"
}
there() { echo "$DIR/$1/data/local/tmp"; }
# One that has ended and was not yet waited for has no command line any more.
runs_there() { grep -q flashmob "/proc/$1/cmdline" 2>/dev/null; }
