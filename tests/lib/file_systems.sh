# File systems on loop devices below nodes, which are shut down as by an error of the kernel's, and mounted again; sourced after lib.sh.
# shellcheck shell=bash
need losetup mkfs.ext4 mkfs.xfs mount umount
need_root 'file systems are mounted on loop devices'
declare -A LOOP=()
at_end 'for name in "${!PID[@]}"; do stop $name KILL; done; for at in "${!LOOP[@]}"; do umount "$at" 2>/dev/null || umount -l "$at"; losetup -d "${LOOP[$at]}"; done'

# mount_new TYPE FOLDER: a new file system of this type.
mount_new() {
    mkdir -p "$2"
    truncate -s 400M "$2.image"
    "mkfs.$1" -q "$2.image"
    LOOP[$2]=$(losetup -f --show "$2.image")
    mount "${LOOP[$2]}" "$2"
}

# shut_down FOLDER: what is dirty in memory never reaches the disk.
shut_down() {
    "$PYTHON" - "$1" <<'CODE'
import fcntl, os, struct, sys
# FS_IOC_SHUTDOWN, FS_SHUTDOWN_FLAGS_NOLOGFLUSH: of ext4, XFS and f2fs.
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))
CODE
}

# mount_again FOLDER
mount_again() {
    umount "$1"
    mount "${LOOP[$1]}" "$1"
}

# overlay_new FOLDER: an overlay, whose page cache is that of another file system: nothing tells which instance.
overlay_new() {
    mkdir -p "$1" "$1.lower" "$1.upper" "$1.work"
    mount -t overlay -o "lowerdir=$1.lower,upperdir=$1.upper,workdir=$1.work" overlay "$1"
    at_end "umount '$1' 2>/dev/null || umount -l '$1'"
}
