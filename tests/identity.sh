#!/usr/bin/env bash
# Shows that a node that belongs to another volume, to another place in it, or that changed its size is refused with a message that says which and why.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdcopy nbdinfo

# said ADDRESS PATTERN: the gateway's log has a line with both; quote shows it.
said() { grep -F -- "$1" "$DIR/gateway.log" | grep -Eiq -- "$2"; }
quote() { say "$(grep -F -- "$1" "$DIR/gateway.log" | grep -Ei -m 1 -- "$2" | cut -c1-240)"; }

# not_served WHAT ADDRESS PATTERN: the gateway says so about that node, and does not serve the volume.
not_served() {
    local what=$1 address=$2 pattern=$3
    wait_for 10 "'$pattern' about $address in gateway.log" said "$address" "$pattern"
    quote "$address" "$pattern"
    if log_has gateway 'volume (pool|other) ready'; then fail "$what: the volume is served nevertheless"; fi
    refused "$what" 'not ready' env LIBNBD_DEBUG=1 nbdinfo "$URI"
}

start_cluster 2 8MiB 'timeout = "2s"'
head -c 16M /dev/urandom >"$DIR/in.img"
check 'the volume is written' nbdcopy --flush "$DIR/in.img" "$URI"
stop gateway

# Another volume over the same nodes.
write_config
sed -i 's/name = "pool"/name = "other"/' "$DIR/gateway.toml"
run_gateway
URI=nbd://127.0.0.1:$PORT/other
not_served 'nodes of another volume' "${ADDR[node0]}" 'pool.*other|other.*pool'
stop gateway

# The same volume with its nodes in another order.
NODES=(node1 node0)
write_config
run_gateway
not_served 'nodes in the wrong order' "${ADDR[node1]}" 'number|place|position|order'
stop gateway

NODES=(node0 node1)
start_gateway
check 'as it was, it is served' nbdcopy "$URI" "$DIR/out.img"
check 'and nothing was changed' cmp "$DIR/in.img" "$DIR/out.img"

# A size that the configuration asks for and the node does not have.
stop gateway
write_config
sed -i "/${ADDR[node1]}/a size = \"16MiB\"" "$DIR/gateway.toml"
run_gateway
not_served 'a node of another size than configured' "${ADDR[node1]}" 'size|bytes|MiB'
stop gateway
start_gateway 'timeout = "2s"'

# A node of another size, and then an empty one, at the address of one that is in use.
stop node1
# impostor NAME SIZE PATTERN WHAT
impostor() {
    local name=$1 pattern=$3
    ADDR[$name]=${ADDR[node1]}
    start_node "$name" "$2"
    wait_for 20 "'$pattern' about ${ADDR[node1]} in gateway.log" said "${ADDR[node1]}" "$pattern"
    quote "${ADDR[node1]}" "$pattern"
    refused "$4 is refused" 'Input/output error|EIO' "$PYTHON" "$DIR/read_last.py"
    stop "$name"
    cmp -s -n 4194304 "$DIR/$name.img" /dev/zero || fail "$name was written to"
}
cat >"$DIR/read_last.py" <<PYTHON
import sys
sys.path.insert(0, "$TESTS")
import nbdproto
client = nbdproto.Client("$URI")
result, _ = client.call(nbdproto.READ, client.size - 4096, 4096)
sys.exit(0 if result == "OK" else result)
PYTHON
impostor larger 16MiB 'size|bytes|MiB' 'a node of another size in its place'
impostor empty 8MiB 'empty|new|unused|never|another|identity|unknown|not the' 'an empty node in its place'
run_node node1
check 'with the right node the service resumes' nbdcopy "$URI" "$DIR/out.img"
check 'and nothing was changed' cmp "$DIR/in.img" "$DIR/out.img"

# A node that is to be used again says how: --forget.
stop gateway
stop node0
NODE_ARGS[node0]+=" --forget"
run_node node0
stop node1
NODE_ARGS[node1]+=" --forget"
run_node node1
write_config
sed -i 's/name = "pool"/name = "other"/' "$DIR/gateway.toml"
run_gateway
started gateway 'volume other ready'
pass 'nodes told to --forget join another volume'

# The same after a restart of the gateway: it remembers which extents it had.
stop gateway
stop node1
start_node again 8MiB
NODES=(node0 again)
write_config
run_gateway
not_served 'an empty node after a restart' "${ADDR[again]}" 'another extent'
stop gateway
stop again
stop node0

# An extent of a volume with copies whose identity is lost: it is not taken for a new one, nothing is changed, and it goes on once that is put back.
. "$TESTS/lib/copies.sh"
DATA_DIR=$DIR/copies
mkdir "$DATA_DIR"
ADDR=()
start_copies 2 16MiB
check 'a volume with copies is written' nbdcopy --flush "$DIR/in.img" "$URI"
stop node0
files() { (cd "$DATA_DIR" && sha256sum node0.img node0.img.*); }
mv "$DATA_DIR/node0.img.flashmob" "$DIR/backup.flashmob"
files >"$DIR/files.before"
lost=("$FLASHMOB" node --data "$DATA_DIR/node0.img" --size 16MiB --listen)
refused 'a node whose identity is lost does not start' 'node0\.img\.flashmob is missing.*node0\.img\.sums and .*node0\.img\.map.*from a backup.*--forget' \
    "${lost[@]}" 127.0.0.1:0
refused 'and says so where others can reach it, too' 'node0\.img\.flashmob is missing' "${lost[@]}" 0.0.0.0:0
files >"$DIR/files.after"
check 'nothing was made, and nothing changed' cmp "$DIR/files.before" "$DIR/files.after"
# Another identity, as an earlier build made one: checksums stay as they are, and no gateway gets the extent.
mkdir "$DIR/other"
NODE_ARGS[other]="--data $DIR/other/node0.img --size 16MiB"
run_node other
stop other
cp -a "$DIR/other/node0.img.flashmob" "$DATA_DIR/"
run_node node0
check 'a node with another identity beside its checksums says what to put back' log_has node0 'node0\.img\.sums is not known to the identity.*from a backup'
wait_for 10 'the gateway to hear of it' said "${ADDR[node0]}" 'another extent|not known to the identity'
stop node0
cp -a "$DIR/backup.flashmob" "$DATA_DIR/node0.img.flashmob"
node_again node0
stop node1
check 'with its identity the node has every byte' nbdcopy "$URI" "$DIR/out.img"
check 'as it was written' cmp -n 16777216 "$DIR/in.img" "$DIR/out.img"
node_again node1
# Given up, it is an empty one.
stop node0
rm "$DATA_DIR/node0.img.flashmob"
# A link of it stays that file, whatever takes its name.
ln "$DATA_DIR/node0.img.sums" "$DIR/sums.before"
NODE_ARGS[node0]+=" --forget"
run_node node0
check 'a node that is given up has no checksums of before' test ! "$DATA_DIR/node0.img.sums" -ef "$DIR/sums.before"
check 'and takes the place of what it was' "$FLASHMOB" volume replace "$ADMIN" pool 0 --yes
whole_again
