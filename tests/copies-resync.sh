#!/usr/bin/env bash
# Shows that the copies on a node that differ from others with valid checksums are made equal to those when somebody says so, while clients read and write, also if the gateway is killed meanwhile, and that a node with an only current copy keeps it.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"

damage() { "$PYTHON" "$TESTS/rot.py" "$@"; }
scrub() { "$FLASHMOB" volume scrub "$ADMIN" pool --now --output json >"$DIR/scrub.json" 2>"$DIR/scrub.log"; }
scrubbed() { jq -e "$1" "$DIR/scrub.json" >/dev/null; }
resync() { "$FLASHMOB" volume resync "$ADMIN" pool "$@"; }
fill() { "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"; }
# status WANTED COMMAND...: the command ends with this exit status; what it says is in out.
status() {
    local wanted=$1 status=0
    shift
    "$@" >"$DIR/out" 2>&1 || status=$?
    [ "$status" -eq "$wanted" ] || { cat "$DIR/out" >&2; return 1; }
}
# refuses WHAT PATTERN STATUS ARGUMENT...: `resync` fails with that text and status.
refuses() {
    check "$1" status "$3" resync "${@:4}"
    grep -Eq -- "$2" "$DIR/out" || { cat "$DIR/out" >&2; fail "$1: nothing said about '$2'"; }
}
back_up() { cp "$DIR/node1.img" "$DIR/before.img" && cp "$DIR/node1.img.sums" "$DIR/before.img.sums"; }

start_copies 2 32MiB 'evict_after = "1s"' 'timeout = "20s"' 'scrub = "off"' 'compare = "off"'
check 'the volume is filled' fill
back_up
check 'and filled again' fill

# Node 1 lost writes together with their checksums: nobody but a person knows which copy is right.
lost=$(damage lost "$DIR/node1.img" "$DIR/before.img" --count 40)
! scrub || fail 'a scrub says that nothing is wrong'
check "$lost blocks differ, and are listed" scrubbed "([.bad[].bytes] | add) == 4096 * $lost and all(.bad[]; .flaw == \"differs\")"
check 'volume show says what to do' grep -q "flashmob volume resync ADDR:PORT VOLUME NODE" <("$FLASHMOB" volume show "$ADMIN" pool)

refuses 'where nobody can be asked, it takes --yes' 'what node 1 has and other nodes have not; confirm it with --yes' 2 1
refuses 'there is no such node' "has no node '7'" 1 7 --yes
check 'nothing has changed' copies '.behind_chunks == 0'

start load "$PYTHON" "$TESTS/nbdload.py" "$URI" --depth 8 --reads 50 --model "$DIR/model" --progress "$DIR/progress.json"
wait_for 20 'the client to write' jq -e '.phase_done > 200' "$DIR/progress.json"
check 'the copies on node 1 are made equal beside a client' resync 1 --yes --output json
check 'the answer says how many' jq -e '.node == 1 and .copies == 8' "$DIR/check.out"
check 'they are' copies '.behind_chunks == 0 and .resynced >= 8 and .fewest_current == 2'
stop load
check 'the client saw no wrong byte' jq -e '.mismatches == 0 and .errors == {} and .unanswered == 0' "$DIR/load.out"
check 'a scrub finds nothing' scrub
check 'indeed nothing' scrubbed '.found_blocks == 0 and .bad == []'
is_whole_without 0 1

# A gateway that is killed before the copies are equal goes on with it: what was decided is on record.
back_up
check 'the volume is filled again' fill
lost=$(damage lost "$DIR/node1.img" "$DIR/before.img" --count 40)
[ "$lost" -ge 40 ] || fail "only $lost blocks differ"
check 'the command ends when it is on record' resync 1 --yes --no-wait
stop gateway KILL
gateway_again
whole_again
is_whole_without 0 1
check 'a scrub finds nothing' scrub

# Node 0 is away while something is written: node 1 has the only current copies of it.
stop node0 KILL
refuses 'others have to be there' '8 chunks of node .* have too few current copies' 1 1 --yes
check 'the volume is filled without node 0' fill
wait_for 20 'node 0 to be behind' copies '.behind_chunks == 8'
refuses 'a node with only current copies keeps them' 'has the only current copy of 8 chunks' 1 1 --yes
node_again node0
check 'then it is possible' resync 1 --yes
is_whole_without 0 1
