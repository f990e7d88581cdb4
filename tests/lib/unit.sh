# A node or gateway as its systemd unit runs it, by hand: as a user without rights, in namespaces of its own, where all but its folders is read-only, and
# with the unit's filter of system calls; sourced after lib.sh. UNIT is the unit file, whose folders and restrictions count.
# shellcheck shell=bash
need unshare python3 cc
need_root 'a sandbox is made'
UNIT=$ROOT/packaging/systemd/flashmob-node@.service
UNIT_USER=61234

# directive NAME: its value in the unit.
directive() { sed -n "s/^$1=//p" "$UNIT" | tail -n 1; }

# unit_program NAME STATE [PROGRAM]: a program that runs flashmob, or another one, in the sandbox of the unit of this name, with STATE in the place of /var/lib/flashmob. It sets
# RUNTIME to the folder in memory that systemd would make; empty if the unit has none.
unit_program() {
    local name=$1 state=$2 program=${3:-$DIR/unit-flashmob} folder
    folder=$(directive RuntimeDirectory)
    RUNTIME=${folder:+$DIR/runtime/${folder//%i/$name}}
    if [ -n "$RUNTIME" ] && ! mountpoint -q "$DIR/runtime"; then
        mkdir -p "$DIR/runtime"
        mount -t tmpfs -o mode=755 tmpfs "$DIR/runtime"
        at_end 'umount "$DIR/runtime"'
    fi
    chown "$UNIT_USER:$UNIT_USER" "$state"
    # The unit's user cannot enter the folder of a checkout below /root.
    [ -e "$DIR/unit-flashmob" ] || install -m 755 "$FLASHMOB" "$DIR/unit-flashmob"
    cat >"$DIR/unit-$name" <<END
#!/usr/bin/env bash
set -euo pipefail
if [ -n "$RUNTIME" ]; then
    mkdir -p "$RUNTIME"
    chown $UNIT_USER:$UNIT_USER "$RUNTIME"
fi
exec unshare --mount --propagation slave bash -c '
    set -e
    for folder in "$state" ${RUNTIME:+"$RUNTIME"}; do mount --bind "\$folder" "\$folder"; done
    mount -t tmpfs -o mode=755 tmpfs /mnt
    mkdir /mnt/dev
    for device in null zero full random urandom; do
        touch /mnt/dev/\$device
        mount --bind /dev/\$device /mnt/dev/\$device
    done
    mount --rbind /mnt/dev /dev
    mount -t proc -o hidepid=2 proc /proc
    for folder in /sys /run /dev /; do mount -o remount,bind,ro "\$folder" 2>/dev/null || true; done
    exec env -u XDG_RUNTIME_DIR STATE_DIRECTORY="$state" ${RUNTIME:+RUNTIME_DIRECTORY="$RUNTIME"} \
        python3 "$TESTS/lib/unit_exec.py" "$UNIT" $UNIT_USER "$program" "\$@"
' unit "\$@"
END
    chmod 755 "$DIR/unit-$name"
    chmod 711 "$DIR"
    NODE_PROGRAM[$name]=$DIR/unit-$name
}

# unit_stopped NAME: what systemd does to the folder in memory once the service has stopped.
unit_stopped() {
    case $(directive RuntimeDirectoryPreserve) in yes) ;; *) [ -z "$RUNTIME" ] || rm -rf "$RUNTIME" ;; esac
}
