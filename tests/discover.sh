#!/usr/bin/env bash
# Shows that nodes in eight network namespaces are found by two who look, that those who leave disappear, that --join works where multicast is blocked, and that a gateway follows a node to another address.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq ip nbdcopy curl zbarimg python3
need_netns 'a switch and ten hosts'

NET=fd$$
COUNT=8
GATEWAY=9 OTHER=10
HOST=198.51.100
at_end 'for net in bridge $(seq 1 10); do ip netns del "$NET-$net" 2>/dev/null; done'

# in_net NUMBER COMMAND...
in_net() {
    local net=$NET-$1
    shift
    ip netns exec "$net" "$@"
}

ip netns add "$NET-bridge"
in_net bridge sh -c 'ip link add br0 type bridge && ip link set br0 up'
for i in $(seq 1 10); do
    ip netns add "$NET-$i"
    ip link add eth0 netns "$NET-$i" type veth peer name "port$i" netns "$NET-bridge"
    in_net bridge sh -c "ip link set port$i master br0 && ip link set port$i up"
    in_net "$i" sh -c "ip addr add $HOST.$i/24 dev eth0 && ip link set lo up && ip link set eth0 up"
done

# serve NUMBER [OPTION...]: a node in its namespace.
serve() {
    local i=$1
    shift
    start "node$i" ip netns exec "$NET-$i" "$FLASHMOB" node --data "$DIR/node$i.img" --insecure --size 1MiB --listen 0.0.0.0:7411 --name "tab$i" --memory 16MiB "$@"
}

# move NUMBER HOST: gives the device another address.
move() { in_net "$1" sh -c "ip addr flush dev eth0 scope global && ip addr add $HOST.$2/24 dev eth0"; }

# multicast on|off: whether the switch between all of them forwards it.
multicast() {
    for i in $(seq 1 10); do
        in_net bridge ip link set "port$i" type bridge_slave mcast_flood "$1"
    done
}

for i in $(seq 1 $COUNT); do serve "$i"; done
for i in $(seq 1 $COUNT); do started "node$i" 'announced by multicast DNS'; done

# look NUMBER NAME OPTION...: a search in a namespace; the result in NAME.json.
look() {
    local i=$1 name=$2
    shift 2
    in_net "$i" "$FLASHMOB" discover --output json "$@" >"$DIR/$name.json" 2>"$DIR/$name.err"
}
milliseconds() { echo $((${EPOCHREALTIME/./} / 1000)); }
listed() { jq -S '[.nodes[] | {extent, address, name, size_bytes, found_by, answers}]' "$DIR/$1.json"; }

# Both look at the same time. How soon they have found all is for discover-soon.sh.
look $OTHER second --nodes $COUNT --wait 60s &
look $GATEWAY first --nodes $COUNT --wait 60s --write "$DIR/cluster.toml" || { cat "$DIR/first.err" >&2; fail "the first search"; }
wait $! || { cat "$DIR/second.err" >&2; fail "the second search"; }
pass "8 nodes in 8 namespaces are found by two"
[ "$(listed first)" = "$(listed second)" ] || { diff <(listed first) <(listed second) >&2; fail 'the two see different nodes'; }
check 'both see the same: name, size, address, by multicast DNS, and that it answers' jq -e --arg host "$HOST" '
    (.nodes | length == 8) and ([.nodes[].name] == [range(1; 9) | "tab\(.)"]) and
    all(.nodes[]; .size_bytes == 1048576 and .answers and .found_by == ["mdns"] and .volume == null and (.address | startswith($host + ".")))' "$DIR/first.json"
refused 'a configuration that is there is not replaced' 'use \-\-force to replace it' ip netns exec "$NET-$GATEWAY" "$FLASHMOB" discover --wait 1s --write "$DIR/cluster.toml"

# A gateway with what was written.
sed -i "1i listen = \"unix:$DIR/gateway.sock\"" "$DIR/cluster.toml"
check 'a gateway takes the configuration' "$FLASHMOB" gateway --check "$DIR/cluster.toml"
start gateway ip netns exec "$NET-$GATEWAY" "$FLASHMOB" gateway --insecure "$DIR/cluster.toml"
volume_ready
UNIX_URI="nbd+unix:///pool?socket=$DIR/gateway.sock"
head -c 8M /dev/urandom >"$DIR/in.img"
check 'the volume is written' nbdcopy --flush "$DIR/in.img" "$UNIX_URI"
# same WHAT: what is read is what was written.
same() {
    rm -f "$DIR/out.img"
    check "$1" nbdcopy "$UNIX_URI" "$DIR/out.img"
    cmp -s "$DIR/in.img" "$DIR/out.img" || fail "$1: other bytes came back"
}
same 'and read back'
status() { in_net $GATEWAY curl -fsS "http://127.0.0.1:7410/status"; }
# where NAME ADDRESS: whether the gateway's link to a node goes there.
where() { status | jq -e --arg a "$2" --arg n "$1" '.gateway.volumes[0].nodes[] | select(.name == $n) | .state == "ready" and (.seen_at // .name) == $a'; }

# Another address, which takes a while to be noticed; see below.
move 3 33

# Who leaves disappears.
start watch ip netns exec "$NET-$OTHER" "$FLASHMOB" discover --watch
news() { grep -Eq -- "$1" "$DIR/watch.out"; }
for i in $(seq 1 $COUNT); do wait_for 10 "tab$i in the list" news "^found +tab$i "; done
stop node1 KILL
wait_for 10 'the killed node to disappear' news '^gone +tab1 .*does not answer'
begin=$(milliseconds)
stop node2
wait_for 10 'the stopped node to disappear' news '^gone +tab2 .*goodbye'
pass "a killed node disappears, and a stopped one ($(($(milliseconds) - begin)) ms after it was asked to stop)"
serve 1
serve 2
for i in 1 2; do wait_for 10 "tab$i is back" sh -c "[ \$(grep -c '^found *tab$i ' '$DIR/watch.out') = 2 ]"; done
stop watch
# taken: whether all say to which place of the volume they belong.
taken() {
    look $OTHER taken --nodes $COUNT --wait 60s --write "$DIR/again.toml" --force &&
        jq -e '[.nodes[] | [.volume, .place.index, .place.count]] == [range(8) | ["pool", ., 8]]' "$DIR/taken.json"
}
wait_for 15 'nodes to tell their volume' taken
pass 'nodes that belong to a volume say so, with their place'
extents() { grep -E '^(extent|name)' "$1"; }
[ "$(extents "$DIR/again.toml")" = "$(extents "$DIR/cluster.toml")" ] || fail 'the volume found anew is another'
pass 'a volume that is all there is written in its order'

wait_for 20 'the gateway to follow node 3' where "$HOST.3:7411" "$HOST.33:7411"
same 'a node with another address is followed by multicast DNS, without loss'

# Without multicast.
stop node4
stop node5
multicast off
serve 4 --join "$HOST.$GATEWAY:7410" --join "$HOST.$OTHER:7410"
serve 5 --join "flashmob://join/$HOST.$OTHER:7410"
started node4 "joined $HOST.$GATEWAY:7410: the extent belongs to one of its"
started node5 "cannot join $HOST.$OTHER:7410: nothing listens"
check 'with multicast blocked a search still ends' look $OTHER nobody --wait 500ms --listen 0.0.0.0:0
jq -e '.nodes == [] and any(.notes[]; test("multicast is blocked") and test("--join 198"))' "$DIR/nobody.json" >/dev/null ||
    { cat "$DIR/nobody.json" >&2; fail 'the message does not name --join'; }
pass "it says: $(jq -r '.notes[0]' "$DIR/nobody.json" | cut -c1-110)..."
move 4 44
start qr ip netns exec "$NET-$OTHER" "$FLASHMOB" discover --qr --nodes 2 --wait 40s --output json
finish qr 45
cp "$DIR/qr.out" "$DIR/qr.json"
check 'those with --join are found, and the message says that only they are' jq -e '
    [.nodes[] | .name] == ["tab4", "tab5"] and all(.nodes[]; .found_by == ["join"] and .answers) and any(.notes[]; test("by --join only"))' "$DIR/qr.json"
"$PYTHON" "$TESTS/qr_picture.py" "$DIR/qr.log" >"$DIR/qr.pbm"
[ "$(zbarimg --quiet --raw "$DIR/qr.pbm" 2>/dev/null)" = "flashmob://join/$HOST.$OTHER:7410" ] || fail 'the QR code says something else'
pass 'the QR code on the terminal is read by another program'
wait_for 25 'the gateway to follow node 4' where "$HOST.4:7411" "$HOST.44:7411"
same 'with multicast blocked a node is followed by what it announces'

# Announcements cost an attempt and nothing else.
extent=$(jq -r '.nodes[0].extent' "$DIR/first.json")
# tell BODY: what the gateway answers to an announcement.
tell() { in_net $GATEWAY curl -sS -H 'Content-Type: application/json' --data "$1" http://127.0.0.1:7410/join; }
[ "$(tell "{\"extent\":\"$extent\",\"address\":\"$HOST.6:7411\",\"size_bytes\":1048576}")" = '{"known":true}' ] || fail 'a known extent is not known'
[ "$(tell "{\"extent\":\"$(printf '0f%.0s' $(seq 16))\",\"address\":\":1\",\"size_bytes\":1}")" = '{"known":false}' ] || fail 'an unknown extent is known'
tell 'nonsense' | grep -q 'does not have the form' || fail 'nonsense is taken'
same 'a false announcement changes no byte'

# Another extent at a configured address is refused.
stop gateway
sed -i "s/$extent/$(printf '0f%.0s' $(seq 16))/" "$DIR/cluster.toml"
refused 'a configuration that names another extent than the one with the data is refused' 'recorded in .*; correct' ip netns exec "$NET-$GATEWAY" "$FLASHMOB" gateway --insecure "$DIR/cluster.toml"
rm "$DIR/cluster.toml.extents"
start gateway ip netns exec "$NET-$GATEWAY" "$FLASHMOB" gateway --insecure "$DIR/cluster.toml"
started gateway "refused: it serves another extent \\($extent\\) than the one that this volume knows \\(0f0f"
pass 'another extent than the configured one is refused by name'
