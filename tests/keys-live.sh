#!/usr/bin/env bash
# Shows that keys are replaced and revoked while clients read and write: the gateway's twice, a node's, and that of a node which is no longer trusted, and the cluster's; no request fails, and no byte is wrong.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
need jq

NODE_SIZE=16MiB
key=("$FLASHMOB" key)
generation() { curl -sf "http://$ADMIN/status" | jq -e ".gateway.keys.generation == $1"; }

start_keyed 4 $NODE_SIZE 'layout = "mapped"' 'copies = 2' 'timeout = "120s"' 'evict_after = "20s"' 'reconnect_max = "500ms"'
admin_address
whole_again
# Over the unix socket, which needs no certificate.
URI=$UNIX_URI
check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
start_load load --extents 4 --connections 2 --depth 8 --reads 50 --model "$DIR/model"
served() { for extent in 0 1 2 3; do extent_served load $extent "$1"; done; }
served 200

cp -r "$DIR/gateway.keys" "$DIR/stolen.keys"
for number in 2 3; do
    next_phase load
    check "the gateway gets a key of generation $number" "${key[@]}" rotate "$DIR/gateway.toml"
    wait_for 10 'the gateway to use it' generation $number
    served 200
done
pass 'clients go on, without a restart'
check 'no copy has missed anything' copies '.evictions == 0'
whole_again

# Somebody has the first key, and is refused by all.
sed -E 's/^keys = .*/keys = "stolen.keys"/; s|, "unix:[^"]*"||' "$DIR/gateway.toml" >"$DIR/stolen.toml"
start stolen "$FLASHMOB" gateway "$DIR/stolen.toml"
started stolen 'replaced or revoked'
if log_has stolen 'linked'; then fail 'a stolen key is let in'; fi
stop stolen
pass 'the first key is void everywhere'

# A node gets another key.
next_phase load
stop node1
NODE_ARGS[node1]+=' --new-key'
run_node node1
NODE_ARGS[node1]=${NODE_ARGS[node1]% --new-key}
check 'it is pinned in the place of the old one' pin node1 --replace
wait_for 20 'node1 to be linked' is_linked node1
served 200
whole_again

# A node that is not trusted any more: out at once, though its links work.
next_phase load
extent=$(sed -nE 's/^extent_id = "(.*)"/\1/p' "$DIR/node2.img.flashmob")
not_linked() { ! is_linked node2; }
check 'the key of a node is removed' "${key[@]}" unpin "$DIR/gateway.toml" "$extent"
wait_for 10 'node2 to be out' not_linked
served 200
# shellcheck disable=SC2046 # two words
check 'and trusted again' "${key[@]}" pin "$DIR/gateway.toml" $(shown_by node2)
wait_for 20 'node2 to be linked' is_linked node2
served 200
whole_again

# Files that cannot be used change nothing.
next_phase load
ended_for_keys() { grep -c 'its keys have changed' "$DIR/gateway.log" || true; }
before=$(ended_for_keys)
cp "$DIR/gateway.keys/nodes" "$DIR/gateway.keys/kept"
: >"$DIR/gateway.keys/nodes"
started gateway 'the keys stay as they were: .*nodes is damaged'
served 200
mv "$DIR/gateway.keys/kept" "$DIR/gateway.keys/nodes"
served 200
check 'no link has ended for it' [ "$(ended_for_keys)" = "$before" ]

# The cluster gets another key, as if the first were stolen. Each node is given to it at the device, one after another.
next_phase load
cp -r "$DIR/gateway.keys" "$DIR/first.keys"
check 'the cluster gets another key' "${key[@]}" rotate "$DIR/gateway.toml" --cluster
renewed=$("${key[@]}" show "$DIR/gateway.toml" --output json | jq -r .cluster)
check 'the one before is known' jq -e --arg first "$CLUSTER" '.previous_cluster == $first and .cluster != $first' \
    <("${key[@]}" show "$DIR/gateway.toml" --output json)
wait_for 10 'the gateway to use it' generation 4
cp "$DIR/gateway.keys/gateway.grant" "$DIR/heard.grant"
cp "$DIR/gateway.keys/gateway.key" "$DIR/first.gateway.key"
served 200
refused 'no other key is made meanwhile' 'rotation of the cluster.s key is in progress' "${key[@]}" rotate "$DIR/gateway.toml"
for node in node0 node1 node2 node3; do
    next_phase load
    stop "$node"
    NODE_ARGS[$node]="${NODE_ARGS[$node]/$CLUSTER/$renewed} --repin"
    run_node "$node"
    NODE_ARGS[$node]=${NODE_ARGS[$node]% --repin}
    wait_for 20 "$node to be linked" is_linked "$node"
    served 100
    whole_again
done
pass 'nodes of both clusters are used'
# Who has the first one can make keys of any generation, for nothing.
rm -r "$DIR/stolen.keys"
mv "$DIR/first.keys" "$DIR/stolen.keys"
check 'a thief makes itself a later key' "${key[@]}" rotate "$DIR/stolen.toml" --generation 9000
start stolen "$FLASHMOB" gateway "$DIR/stolen.toml"
started stolen 'belongs to another cluster'
if log_has stolen 'linked'; then fail 'the first cluster key opens a node'; fi
stop stolen
next_phase load
check 'nodes of the cluster before are not used any more' "${key[@]}" rotate "$DIR/gateway.toml" --cluster --end
wait_for 10 'the gateway to have another key, too' generation 5
served 200
# The thief has the gateway's key of that time, and may have heard the grant for it.
cp "$DIR/heard.grant" "$DIR/stolen.keys/gateway.grant"
cp "$DIR/gateway.keys/cluster.pub" "$DIR/stolen.keys"
cp "$DIR/first.gateway.key" "$DIR/stolen.keys/gateway.key"
start stolen "$FLASHMOB" gateway "$DIR/stolen.toml"
started stolen 'replaced or revoked'
if log_has stolen 'linked'; then fail 'the key of the gateway before opens a node'; fi
stop stolen
check 'which is over' jq -e '.previous_cluster == null' <("${key[@]}" show "$DIR/gateway.toml" --output json)

end_load load
no_wrong_byte load
expect_result load 'no request failed' '.errors == {} and .unanswered == 0 and .disconnects == 0'
say "longest time without an answer, by phase: $(result load '[.phases[] | [.extents[].longest_gap_s] | max] | tostring') s"
check 'what is there is what was written' is_all_there
