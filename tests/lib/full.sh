# Small file systems that are filled to the last block; sourced after lib.sh.
# shellcheck shell=bash
# FULL_FS names another file system than ext4: then disks have what that needs.
FULL_FS=${FULL_FS:-ext4}
need "mkfs.$FULL_FS"

# small_disk NAME SIZE: a file system of its own at $DIR/NAME: ext4 in blocks of 1 KiB.
small_disk() {
    case $FULL_FS in
        ext4)
            truncate -s "$2" "$DIR/$1.disk"
            mkfs.ext4 -q -b 1024 -m 0 -N 64 "$DIR/$1.disk"
            ;;
        *)
            truncate -s 320M "$DIR/$1.disk"
            "mkfs.$FULL_FS" -q "$DIR/$1.disk"
            ;;
    esac
    mkdir "$DIR/$1"
    mount -o loop "$DIR/$1.disk" "$DIR/$1"
    DISKS+=("$1")
}
DISKS=()
unmount_disks() { for disk in "${DISKS[@]}"; do umount "$DIR/$disk"; done; }
# XFS and btrfs keep a few blocks that nobody gets.
is_full() { [ "$(stat -f -c %a "$DIR/$1")" -le "$([ "$FULL_FS" = ext4 ] && echo 0 || echo 64)" ]; }

# fill_disk NAME: no block is left. What the kernel still owes to the disk is written first.
fill_disk() {
    local size
    for size in 512M 64K 1K 1K 1K 1K; do
        sync -f "$DIR/$1"
        head -c $size /dev/zero 2>/dev/null >>"$DIR/$1/ballast" || true
    done
    sync -f "$DIR/$1"
    is_full "$1" || fail "$1 has $(stat -f -c %a "$DIR/$1") blocks left"
}
fill_disks() { for disk in "${DISKS[@]}"; do fill_disk "$disk"; done; }
free_disks() { for disk in "${DISKS[@]}"; do rm -f "$DIR/$disk/ballast"; done; }
# are_full: to be asked at the end of what was done on full disks.
are_full() { for disk in "${DISKS[@]}"; do is_full "$disk" || return 1; done; }
