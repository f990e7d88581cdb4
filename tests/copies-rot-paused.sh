#!/usr/bin/env bash
# Shows that blocks that rotted on one node before anybody read them are not lost when the node with their other copies is paused, or has its copies made equal to others, and clients read them or change parts of them meanwhile.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

# blocks WHAT [BLOCK...]: one by one; IMAGE has what the volume must hold.
IMAGE=$DIR/image
blocks() { "$PYTHON" "$TESTS/blocks.py" "$URI" "$IMAGE" "$@"; }
# rot NODE COUNT: bits flip in so many blocks of its flash, and nobody reads them.
rot() { "$PYTHON" "$TESTS/rot.py" flipped "$DIR/$1.img" --count "$2" >/dev/null; }
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
scrub() { "$FLASHMOB" volume scrub "$ADMIN" pool --now; }
# is_healed: nothing is wrong on either node.
is_healed() {
    whole_again
    check 'a scrub finds nothing that is lost' scrub
    check 'every byte is right' blocks verify
    for number in 0 1; do
        check "node $number is paused" volume pause "$number"
        check "every byte is right without node $number" blocks verify
        volume resume "$number" >/dev/null
        whole_again
    done
    check 'no block was lost or taken as it was' copies '.adopted == 0 and .unreadable == 0'
}

# Reads go to the file each time: nothing is found in what the page cache has.
NODE_OPTIONS=(--direct)
start_copies 2 16MiB 'evict_after = "1s"' 'timeout = "20s"' 'scrub = "off"' 'compare = "off"'
check 'the volume is filled' blocks fill

check 'node 1 is paused' volume pause 1
check 'a block of each chunk changes, so that its copies are behind' blocks write 7 1031 2055 3079
check 'they are' copies '.behind_chunks == 4'
rot node0 300
check 'blocks that rotted on node 0 are read' blocks read $(seq 0 97 4095)
check 'parts of them are changed' blocks half $(seq 1 5 4095)
volume resume 1 >/dev/null
check 'also while node 1 is made equal' blocks half $(seq 2 5 4095)
is_healed

rot node0 300
check 'the copies on node 1 are made equal to those on node 0' volume resync 1 --yes --no-wait
check 'parts of blocks that rotted there are changed meanwhile' blocks half $(seq 3 5 4095)
check 'and they are read' blocks read $(seq 0 97 4095)
is_healed
check 'blocks were healed' copies '.mended > 300'
