# fsx on a volume with copies, through qemu-storage-daemon's FUSE export and a loop device. Source it after lib/copies.sh.
# FSX names the program: `cargo install fsx`.
FSX=${FSX:-fsx}
need losetup blockdev
need_root 'FUSE and a loop device'
command -v "$FSX" >/dev/null || { echo "    not run: 'fsx' is not installed; cargo install fsx, or FSX=PATH" >&2; exit $NOT_RUN; }

# start_fsx OPERATIONS BYTES: fsx works on the first BYTES of the volume, as of a block device: nothing changes its size.
start_fsx() {
    start_qemu
    start_file
    LOOP=$(losetup -f --show --direct-io=on "$FILE")
    at_end 'if alive qemu; then stop qemu KILL; fi; losetup -d "$LOOP"'
    run_fsx "$@"
}

# run_fsx OPERATIONS BYTES: the same, on the block device LOOP.
run_fsx() {
    cat >"$DIR/fsx.toml" <<TOML
blockmode = true
nosizechecks = true
flen = $2
[opsize]
align = 512
[weights]
close_open = 0
truncate = 0
posix_fallocate = 0
read = 10
write = 10
mapread = 5
mapwrite = 5
invalidate = 5
fsync = 1
fdatasync = 1
punch_hole = 0
TOML
    mkdir "$DIR/found"
    start fsx "$FSX" -f "$DIR/fsx.toml" -P "$DIR/found" -S "$SEED" -N "$1" "$LOOP"
}

# fsx_goes_on WRITES: waits until the volume has taken WRITES more, or fsx is over.
fsx_goes_on() { wait_for 60 'fsx to write' fsx_has_written $(($(fsx_writes) + $1)); }
fsx_has_written() { ! alive fsx || [ "$(fsx_writes)" -ge "$1" ]; }
fsx_writes() { curl -sf "http://$ADMIN/status" | jq '[.gateway.requests[] | select(.[0] == "write") | .[1]] | add'; }

# finish_fsx: fails where fsx read a wrong byte.
finish_fsx() {
    finish fsx 60
    [ "$STATUS" -eq 0 ] || { tail -n 30 "$DIR/fsx.out" "$DIR/fsx.log" >&2; fail "fsx ended with $STATUS"; }
}
