# How programs of other processors run here: sourced by tests, after lib.sh.
# shellcheck shell=bash

# Programs by their first 20 bytes.
ELF='\x7fELF'
MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# runner ARCHITECTURE: sets RUNNER to what binfmt_misc wants (emulator, first bytes, mask); to nothing for this machine's.
runner() {
    local name bytes qemu
    case $1 in
        x86_64) RUNNER=() && return ;;
        aarch64) name=qemu-aarch64-static bytes="$ELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00" ;;
        arm) name=qemu-arm-static bytes="$ELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x28\x00" ;;
        *) fail "there is no architecture '$1'; there are aarch64, arm and x86_64" ;;
    esac
    # The machine's own, or the one that `make cross` and its tests keep.
    qemu=$(PATH=$PATH:${FLASHMOB_CROSS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flashmob-cross}/qemu/usr/bin command -v $name) || fail "$name is not installed; run: make deps-termux"
    RUNNER=("$qemu" "$bytes" "$MASK")
}
