#!/usr/bin/env bash
# Shows that a volume goes on with the best copy that is left when the node with the only current copies is gone for good and somebody accepts the loss, also after a drain, a recovery and a takeover, and that nothing else makes it.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
need_python_nbd

# node NUMBER FILTER: whether a node of the volume is as the filter of jq says.
node() { curl -sf "http://$ADMIN/volumes" | jq -e --argjson n "$1" ".volumes[0].nodes[\$n] | $2" >/dev/null; }
volume() { "$FLASHMOB" volume "$1" "$ADMIN" pool "${@:2}"; }
# status WANTED COMMAND...: the command ends with this exit status; what it says is in out.
status() {
    local wanted=$1 status=0
    shift
    "$@" >"$DIR/out" 2>&1 || status=$?
    [ "$status" -eq "$wanted" ] || { cat "$DIR/out" >&2; return 1; }
}
said() { grep -Eq -- "$1" "$DIR/out"; }
# not_accepted WHAT PATTERN STATUS ARGUMENT...: `accept-loss` fails with that text and status.
not_accepted() {
    check "$1" status "$3" volume accept-loss "${@:4}"
    said "$2" || { cat "$DIR/out" >&2; fail "$1: nothing said about '$2'"; }
}
# in_chunks CODE: runs it for the first byte of the third block of each chunk, `at`.
in_chunks() { "$PYTHON" -m nbd -u "$URI" -c "for at in range(8192, h.get_size(), 4 << 20): $1"; }
has() { in_chunks "assert h.pread(4096, at) == b'$1' * 4096, at" && in_chunks "assert h.pread(4096, at + 4096) == b'r' * 4096, at"; }
write() { "$PYTHON" -m nbd -u "$URI" -c "for at in range(8192, h.get_size(), 4 << 20): h.pwrite(b'$1' * 4096, at)" -c 'h.flush()'; }
# last_copy LIVES DIES LETTER: node LIVES was away while a block of each chunk was written, and node DIES, which alone has that, dies.
last_copy() {
    stop "node$1" KILL
    check "a block of each chunk is written without node $1" write "$3"
    check 'and flushed: its copies are behind' copies '.behind_chunks > 0'
    stop "node$2" KILL
    run_node "node$1"
    wait_for 20 "node $1 to be back" is_linked "node$1"
}
# told_once: the next flush fails, and no other.
told_once() {
    "$PYTHON" -m nbd -u "$URI" -c 'failed = False
try:
    h.flush()
except nbd.Error as error:
    failed = error.errno == "EIO"
assert failed
h.flush()'
}
acceptable() { node "$1" ".member.acceptable_chunks == $2"; }

# Requests fail after 3 s; a node is gone after 5 s.
start_copies 2 32MiB 'evict_after = "500ms"' 'timeout = "3s"'
check 'the volume is written' "$PYTHON" -m nbd -u "$URI" -c 'for at in range(0, h.get_size(), 1 << 20): h.pwrite(b"r" * (1 << 20), at)' -c 'h.flush()'
check 'and a block of each chunk' write a

# Who may come back is not given up.
not_accepted 'a node that is linked is not given up' 'node .* is linked' 1 1 --yes
check 'a node is paused' volume pause 1
not_accepted 'a paused node is not given up' 'is only paused.*volume resume' 1 1 --yes
check 'it is used again' volume resume 1
wait_for 20 'its link' is_linked node1
whole_again
not_accepted 'a node that is not there is not found' "has no node '7'" 1 7 --yes
last_copy 0 1 b
not_accepted 'one that was linked lately is not given up' 'may come back: it was linked.* try again in [0-9]+ s' 1 1 --yes
check 'the page advises nothing that would be refused' bash -c "! '$FLASHMOB' volume show $ADMIN | grep -q 'accept-loss ADDR'"
check 'but says why' grep -q 'cannot be accepted now: .*may come back' <(volume show)
check 'no block can be read' status 1 "$PYTHON" -m nbd -u "$URI" -c 'h.pread(4096, 0)'
wait_for 20 'the node to be gone' acceptable 1 8
check 'then the page says what to do' grep -q 'flashmob volume accept-loss ADDR:PORT pool 1' <(volume show)
check 'a dry run lists the chunks' volume accept-loss 1 --dry-run --output json
check 'with their bytes, and the node whose copy it is' jq -e '.chunks == 8 and .ranges == [{offset_bytes: 0, bytes: 33554432, node: 0}] and .chunks_without_copy == []' \
    "$DIR/check.out"
check 'for people, too' status 0 volume accept-loss 1 --dry-run
check 'in words' said 'bytes 0 to 33554431 \(32 MiB\): what node 0 has'
not_accepted 'where nobody can be asked, it takes --yes' 'confirm it with --yes' 2 1
not_accepted 'all copies are not given up' 'have no copy on any other node|may come back|is linked' 1 0 1 --yes
# answers WORD COMMAND...: runs it on a terminal, and answers its question with a word.
answers() {
    "$PYTHON" -c 'import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
shown = b""
try:
    while part := os.read(fd, 4096):
        shown += part
        if sys.argv[1] and b"Type the name of the volume" in shown:
            os.write(fd, sys.argv[1].encode() + b"\n")
            sys.argv[1] = ""
except OSError:
    pass
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' "$@"
}
accept=("$FLASHMOB" volume accept-loss "$ADMIN" pool 1)
check 'a word that is not the name of the volume is a no' status 1 answers yes "${accept[@]}"
check 'nothing has changed' acceptable 1 8
posted() { curl -sS -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d "$1" "http://$ADMIN/volumes/accept-loss"; }
check 'a node that is not there is not found' test 404 = "$(posted '{"volume":"pool","nodes":[1,4]}')"
check 'no node is a bad request, and so is an unknown key' test '400 400' = \
    "$(posted '{"volume":"pool","nodes":[]}') $(posted '{"volume":"pool","nodes":[1],"for":7}')"
check 'who was shown another number of chunks is refused' test 409 = "$(posted '{"volume":"pool","nodes":[1],"chunks":7}')"
check 'a page of another site cannot accept it' status 22 curl -sS --fail-with-body -H 'Host: example.org' -H 'Content-Type: application/json' \
    -d '{"volume":"pool","nodes":[1]}' "http://$ADMIN/volumes/accept-loss"
check 'with its name it is accepted' answers pool "${accept[@]}"
check 'the volume has what the other node has' has a
check 'the loss is told to the next flush' told_once
check 'it is counted' copies '.accepted == 8'
not_accepted 'it is accepted once' 'nothing has to be accepted' 1 1 --yes
check 'more is written' write c
run_node node1
wait_for 20 'the lost node to be back' is_linked node1
whole_again
stop node0 KILL
check 'nothing is left of what it alone had' has c
node_again node0

# The node lost its file, and has an empty one.
last_copy 0 1 d
mkdir "$DIR/lost"
mv "$DIR"/node1.img* "$DIR/lost/"
run_node node1
wait_for 20 'the empty extent to be seen' node 1 '.member.offered != null'
check 'it does not take the place of the only copies' status 1 volume replace 1 --yes
check 'and the command that does is named' said 'only current copy of 8 chunks.*--accept-loss'
wait_for 20 'the extent to be gone' acceptable 1 8
check 'the page names it as well' grep -q 'flashmob volume replace ADDR:PORT pool 1 --accept-loss' <(volume show)
check 'where nobody can be asked, that takes --yes' status 2 volume replace 1 --accept-loss
check 'it does with the loss of what it had alone' volume replace 1 --accept-loss --yes --output json
check 'which is told' jq -e '.accepted_chunks == 8 and .accepted_ranges == [{offset_bytes: 0, bytes: 33554432, node: 0}] and .is_recorded' "$DIR/check.out"
check 'the volume has what the other node has' has c
check 'the loss is told to the next flush' told_once
whole_again

# The gateway's disk is lost as well: the map is recovered without the node.
last_copy 0 1 e
cp "$DIR/gateway.toml" "$DIR/look.toml"
mirror_says() { { "$FLASHMOB" volume recover "$DIR/look.toml" pool --dry-run --output json || true; } | jq -e '.chunks_without_copy | length == 8'; }
wait_for 20 'the mirror of node 0 to have it' mirror_says
stop gateway KILL
rm "$DIR"/gateway.toml.extents "$DIR"/gateway.toml.pool.*
check 'the map is recovered' "$FLASHMOB" volume recover "$DIR/gateway.toml" pool --accept-loss --yes
check 'and the way on is named' grep -q 'flashmob volume accept-loss' "$DIR/check.out"
run_gateway
admin_address
wait_for 20 'the node that is there' is_linked node0
not_accepted 'a gateway that has just started gives nobody up' 'may come back: .*gateway was started' 1 1 --yes
wait_for 20 'the node to be gone' acceptable 1 8
check 'the loss is accepted' volume accept-loss 1 --yes
check 'the volume has what the other node has' has c
check 'the loss is told to the next flush' told_once
run_node node1
whole_again

# Another machine takes over with the map.
last_copy 1 0 f
stop gateway KILL
mkdir "$DIR/other"
cp "$DIR"/gateway.toml* "$DIR/other/"
rm -f "$DIR/gateway.sock"
start gateway "$FLASHMOB" gateway "$DIR/other/gateway.toml" --take-over
gateway_address
admin_address
wait_for 20 'the node that is there' is_linked node1
wait_for 20 'the node to be gone' acceptable 0 8
check 'the loss is accepted' volume accept-loss 0 --yes
check 'the volume has what the other node has' has c
# A gateway that is killed before anybody was told tells it when it is started again.
stop gateway KILL
rm -f "$DIR/gateway.sock"
start gateway "$FLASHMOB" gateway "$DIR/other/gateway.toml"
gateway_address
admin_address
wait_for 20 'the node that is there' is_linked node1
check 'the loss is told to the next flush' told_once
run_node node0
whole_again

# The node is drained after it has died.
NODE_ARGS[node2]="--data $DIR/node2.img --size 32MiB"
run_node node2
check 'a third node is added' volume add "${ADDR[node2]}"
is_balanced() { are_whole && node 2 '.member.copies >= 4' && jq -e '.volumes[0].copies.moves | (.is_balancing | not) and .left_copies == 0' <(curl -sf "http://$ADMIN/volumes"); }
wait_for 60 'copies to move to it' is_balanced
stop node0 KILL
check 'a block of each chunk is written without node 0' write g
only=$(curl -sf "http://$ADMIN/volumes" | jq '.volumes[0].nodes[1].member.only')
check 'node 1 has the only current copy of some chunks' test "$only" -gt 0
stop node1 KILL
run_node node0
wait_for 20 'node 0 to be back' is_linked node0
check 'it is to be drained' volume drain 1 --no-wait
wait_for 20 'the node to be gone' node 1 '.member.acceptable_chunks > 0'
check 'the loss is accepted' volume accept-loss 1 --yes
wait_for 60 'its copies to be made on other nodes' node 1 '.member.is_drained'
whole_again
check 'the loss is told to the next flush' told_once
check 'every block is one of the two' in_chunks "assert h.pread(4096, at) in (b'c' * 4096, b'g' * 4096), at"
check 'it can be removed' volume remove 1
