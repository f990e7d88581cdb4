#!/usr/bin/env bash
# Shows that files of a node that were copied while it ran, and are put back under it later, are found to be older, with its identity and its mirror of the map or without, and that all of it is made equal again.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need od

IMAGE=$DIR/image
blocks() { "$PYTHON" "$TESTS/blocks.py" "$URI" "$IMAGE" "$@"; }
# age: epoch and version that the extent of node 0 has reached, from its checksums.
age() { od -An -tu8 -j80 -N16 "$DIR/node0.img.sums" | tr -s ' '; }
is_older() { [ "$(age)" != "$BEFORE" ]; }
# back_up FOLDER, put_back FOLDER SUFFIX...: files of node 0; its extent has no suffix.
back_up() {
    mkdir "$1"
    cp --sparse=always "$DIR"/node0.img{,.sums,.flashmob,.map} "$1"
}
put_back() {
    local folder=$1 suffix
    shift
    for suffix in "$@"; do cp --sparse=always "$folder/node0.img$suffix" "$DIR/node0.img$suffix"; done
}
restored() { copies ".restored == $1"; }

start_copies 2 16MiB 'evict_after = "1s"' 'timeout = "20s"' 'scrub = "off"' 'compare = "off"'
check 'the volume is filled' blocks fill

# What is copied, and which of its files are put back. Nothing is decided meanwhile but what the changes need.
count=0
for parts in '.sums' '.sums .flashmob' '.sums .flashmob .map'; do
    count=$((count + 1))
    BEFORE=$(age)
    back_up "$DIR/hot$count"
    check 'blocks of each chunk change' blocks write $((count)) $((1024 + count)) $((2048 + count)) $((3072 + count))
    wait_for 60 'node 0 to grow older' is_older
    check 'once more' blocks write $((10 + count)) $((1034 + count))
    stop node0 KILL
    # shellcheck disable=SC2086 # several words
    put_back "$DIR/hot$count" '' $parts
    run_node node0
    wait_for 30 "the extent with $parts to be found older" restored "$count"
    whole_again
    stop node1 KILL
    check "every byte is right on node 0 alone" blocks verify
    node_again node1
done
check 'the log of the gateway says so' log_has gateway 'its extent is an older copy of itself'

# A copy from before the last link does not fit the identity, and is not served.
back_up "$DIR/stale"
check 'a block changes' blocks write 20
stop gateway TERM
gateway_again
whole_again
stop node0 KILL
mkdir "$DIR/present"
cp --sparse=always "$DIR"/node0.img{,.sums} "$DIR/present"
put_back "$DIR/stale" '' .sums
run_node node0
refuses() { log_has node0 'of different starts of the node'; }
wait_for 20 'node 0 to refuse its checksums' refuses
check 'every byte is right meanwhile' blocks verify
stop node0 KILL
put_back "$DIR/present" '' .sums
node_again node0
# The gateway that runs has restarted since the others.
check 'a node that is only killed is no older copy' restored 0
check 'every byte is right' blocks verify
