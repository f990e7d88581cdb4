#!/usr/bin/env bash
# Shows that an empty node that is enrolled with a code is offered by the gateway that runs, and is one of a volume with copies after one command; and that one that was removed is offered to the next gateway until its key is unpinned.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/join.sh"
seeded
NODE_SIZE=64MiB

# The configuration with the port that the gateway has got: changes need its keys.
with_admin() { sed "s|^admin = .*|admin = \"$ADMIN\"|" "$DIR/gateway.toml" >"$DIR/asked.toml"; }
volume() { "$FLASHMOB" volume "$1" "$DIR/asked.toml" pool "${@:2}"; }
start_keyed_copies
with_admin
# As one line: the status is folded.
offers() { "$FLASHMOB" status "$DIR/asked.toml" | tr -s ' \n' ' ' | grep -F "a node at ${ADDR[node3]} was enrolled, and is in no volume: \`flashmob volume add $DIR/asked.toml pool ${ADDR[node3]}\` adds it" >/dev/null; }
is_not_offered() { "$FLASHMOB" status "$DIR/asked.toml" >"$DIR/status" && ! tr -s ' \n' ' ' <"$DIR/status" | grep -F 'is in no volume' >/dev/null; }
check 'no node is offered' is_not_offered

begin_join one
enrolling node3 "$(code one 1)" --enroll "$PLACE"
wait_for 20 'a question' asks one
answer yes
finish one 60
check 'a node is enrolled' [ "$STATUS" = 0 ]
address_of node3
check 'the command that adds it is told there' grep -F "flashmob volume add $DIR/gateway.toml pool ${ADDR[node3]}" "$DIR/one.out"
wait_for 20 'the gateway to offer it' offers
stop gateway KILL
gateway_again
with_admin
wait_for 20 'the gateway that was killed to offer it, too' offers
check 'it is added with one command' volume add "${ADDR[node3]}"
check 'it is not offered any more' is_not_offered
has_copies() { volume show --output json | jq -e '.volumes[0].nodes[3].member.copies > 0'; }
wait_for 60 'copies to be moved to it' has_copies
URI=$UNIX_URI
check 'every byte is right' is_all_there
check 'it is drained' timeout 300 "$FLASHMOB" volume drain "$DIR/asked.toml" pool 3
check 'and removed' volume remove 3
check 'and is not offered again' is_not_offered
stop gateway TERM
gateway_again
with_admin
check 'the next gateway offers it' offers
check 'its key is unpinned' "$FLASHMOB" key unpin "$DIR/gateway.toml" "$(sed -nE 's/.*assigned extent identity ([0-9a-f]{32})$/\1/p' "$DIR/node3.log")"
wait_for 20 'it not to be offered any more' is_not_offered
whole_again
