#!/usr/bin/env bash
# Shows that devices get to a cluster with keys by a typed code, a QR code, a token, a credential of systemd; eight of them with one confirmation; and that used, expired, wrong and foreign codes are refused.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/join.sh"
need nbdcopy jq zbarimg python3 openssl
# The QR code is drawn with colours.
unset NO_COLOR

key=("$FLASHMOB" key)
VOLUME=('timeout = "60s"')

printf '[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "127.0.0.1:1"\n' >"$DIR/gateway.toml"
refused 'a cluster without keys has no codes' 'has no keys' "${join[@]}"
check 'key init' "${key[@]}" init "$DIR/gateway.toml"

pins() { "${key[@]}" show "$DIR/gateway.toml" --output json | jq '.nodes | length'; }

same_digits() {
    local shown
    shown=$(sed -nE 's/^\[[^]]*\] ([0-9]{3} [0-9]{3})$/\1/p' "$DIR/$2.log" | tail -n 1)
    [ -n "$shown" ] && grep -A 1 "^'$2' at .* shows$" "$DIR/$1.out" | grep -qx "$shown"
}

# This one is looked at later: its second code is used by nobody in time.
begin_join expiring --nodes 2 --for 30s
expiring=$answers expiring_place=$PLACE
enrolling node1 "$(code expiring 1)" --enroll "$PLACE"
overdue=$(code expiring 2)

# A code, typed as people do.
begin_join one
first=$(code one 1)
enrolling node0 "$(tr 'A-Z-' 'a-z ' <<<"$first")" --enroll "$PLACE"
wait_for 20 'a question' asks one
wait_for 20 'the same six digits on both' same_digits one node0
check 'nobody is in before somebody says yes' [ "$(pins)" -eq 0 ]
enrolling late "$first" --enroll "$PLACE"
finish late 30
check 'a code is used once' log_has late 'used by another device.*unpin'
check 'which is told at the gateway' wait_for 20 'the refusal' log_has one 'refused: the code was used by another device'
enrolling wrong 0000-0000-0000-0000 --enroll "$PLACE"
finish wrong 30
check 'a wrong code is refused, with a remedy' log_has wrong 'code is wrong.*flashmob join'
enrolling typo 0000-0000-000 --enroll "$PLACE"
finish typo 30
check 'half a code is none' log_has typo 'no code: a code has 16'
answer yes
finish one 60
check 'the code has let one device in' [ "$STATUS-$(pins)" = 0-1 ]
address_of node0
check 'and the configuration is told of it' grep -q "address = \"${ADDR[node0]}\"" "$DIR/one.out"
enrolling again "$first" --enroll "$PLACE"
# Somebody else may have its port by now.
started again 'cannot reach .flashmob join.|is no .flashmob join.|no connection to'
stop again
pass 'a code is worth nothing when its command has ended'

# Somebody says no, nobody says anything, and nobody comes.
begin_join no
enrolling refused "$(code no 1)" --enroll "$PLACE"
wait_for 20 'a question' asks no
answer n
finish no 60
check 'no is no' [ "$STATUS-$(pins)" = 1-1 ]
finish refused 30
check 'which the device is told' log_has refused 'turned down at the gateway'
begin_join expired --for 1s
finish expired 60
check 'a code has its time' [ "$STATUS-$(pins)" = 1-1 ]
check 'which is told' log_has expired 'no device is enrolled'
# A QR code.
begin_join qr --qr --yes
code qr 1 >/dev/null
"$PYTHON" "$TESTS/qr_picture.py" "$DIR/qr.out" >"$DIR/qr.pbm"
zbarimg --quiet --raw "$DIR/qr.pbm" >"$DIR/scanned" 2>/dev/null || fail 'the QR code cannot be read'
check 'the QR code has the link with the secret' grep -Eq "^flashmob://join/$PLACE#[A-Za-z0-9_-]{43}\.[A-Za-z0-9_-]{22}$" "$DIR/scanned"
enrolling node2 "$(cat "$DIR/scanned")" --token-file -
finish qr 60
check 'and lets a device in' [ "$STATUS-$(pins)" = 0-2 ]
address_of node2

# A token, for devices without a screen: one reads it from a file, one from systemd's folder of credentials.
begin_join token --token-out "$DIR/token" --uses 2 --for 1h
check 'a token is its owner'"'"'s alone' [ "$(stat -c %a "$DIR/token")" = 600 ]
refused 'and is never overwritten' 'cannot make .*token' "${join[@]}" --token-out "$DIR/token"
mkdir "$DIR/credentials"
cp "$DIR/token" "$DIR/credentials/flashmob-token"
cp "$DIR/token" "$DIR/copy"
enrolling node3 '' --token-file "$DIR/copy"
CREDENTIALS_DIRECTORY=$DIR/credentials enrolling node4 ''
finish token 60
check 'a token asks nobody' [ "$STATUS-$(pins)" = 0-4 ]
check 'and goes with its command' [ ! -e "$DIR/token" ]
for node in node3 node4; do address_of "$node"; done
# The unit of systemd, with its drop-in (Debian: systemd).
if command -v systemd-analyze >/dev/null; then
    mkdir -p "$DIR/units/flashmob-node@a.service.d"
    cp "$ROOT/packaging/systemd/token.conf" "$DIR/units/flashmob-node@a.service.d/"
    # Its user and its program are not there.
    sed "s|/usr/local/bin/flashmob|$FLASHMOB|; /^User=/d; /^Group=/d" "$ROOT/packaging/systemd/flashmob-node@.service" >"$DIR/units/flashmob-node@.service"
    ln -s flashmob-node@.service "$DIR/units/flashmob-node@a.service"
    SYSTEMD_UNIT_PATH=$DIR/units: systemd-analyze verify "$DIR/units/flashmob-node@a.service" >"$DIR/verified" 2>&1 || true
    check 'systemd knows what the unit says' bash -c "cat '$DIR/verified'; ! grep -E 'token.conf:|Unknown (key|lvalue)' '$DIR/verified'"
fi
# A token of another cluster: its link names that one's key.
cp "$DIR/gateway.toml" "$DIR/other.toml"
sed -i '/^keys/d' "$DIR/other.toml"
"${key[@]}" init "$DIR/other.toml" >/dev/null
begin_join honest
forged=$("${key[@]}" show "$DIR/other.toml" --output json | jq -r .cluster |
    "$PYTHON" -c 'import base64, sys; print(base64.urlsafe_b64encode(bytes.fromhex(sys.stdin.read())).decode().rstrip("="))')
enrolling misled "flashmob://join/$PLACE#$forged.AAAAAAAAAAAAAAAAAAAAAA" --token-file -
finish misled 30
check 'a device whose link names another cluster goes no further' log_has misled 'another cluster than the link names'
kill -INT "${PID[honest]}"
finish honest 30
check 'Ctrl-C ends it' [ "$STATUS" -eq 130 ]

# The first of two has come; the second code has had its time.
wait_for 60 'a question' asks expiring
enrolling overdue "$overdue" --enroll "$expiring_place"
finish overdue 30
check 'a code is not used after its time' log_has overdue "the code's time is over"
echo y >&"$expiring"
finish expiring 90
check 'one of two has come in time' log_has expiring '1 of 2 devices are enrolled'
address_of node1

# Eight devices: one command, a code for each, one confirmation.
begin_join eight --nodes 8
eight=()
for n in {1..8}; do
    eight+=("tablet$n")
    enrolling "tablet$n" "$(code eight "$n")" --enroll "$PLACE"
done
wait_for 60 'a question' asks eight
check 'it is asked once' [ "$(grep -c '\[y/N\]' "$DIR/eight.log")" -eq 1 ]
for node in "${eight[@]}"; do wait_for 20 "the same six digits on $node" same_digits eight "$node"; done
pass 'all show the same digits as the list'
check 'nobody is in before' [ "$(pins)" -eq 5 ]
answer y
finish eight 60
check 'eight devices, one confirmation' [ "$STATUS-$(pins)" = 0-13 ]
for node in "${eight[@]}"; do address_of "$node"; done

# They are a volume, and start again with the same options.
NODES=("${eight[@]}" node0 node1 node2 node3 node4)
{
    printf 'keys = "gateway.keys"\nlisten = ["127.0.0.1:0", "unix:%s/gateway.sock"]\n[[volume]]\nname = "pool"\n%s\n' "$DIR" "${VOLUME[@]}"
    for node in "${NODES[@]}"; do printf '[[volume.node]]\naddress = "%s"\n' "${ADDR[$node]}"; done
} >"$DIR/gateway.toml"
run_gateway
volume_ready
head -c $((13 * 16777216)) /dev/urandom >"$DIR/image"
check 'the volume is written' nbdcopy --flush "$DIR/image" "$UNIX_URI"
stop tablet3
NODE_ARGS[tablet3]="--data $DIR/tablet3.img --size 16MiB --enroll $PLACE"
run_node tablet3
check 'a node that is enrolled needs no code' log_has tablet3 'no code is needed'
check 'and read' nbdcopy "$UNIX_URI" "$DIR/back.img"
check 'it is the same' cmp "$DIR/image" "$DIR/back.img"

# Another key for a node, while the gateway runs: the old one was lost or stolen.
stop tablet4
begin_join plain
enrolling tablet4 "$(code plain 1)" --enroll "$PLACE" --new-key
finish tablet4 30
check 'another key of a known extent is not taken unasked' log_has tablet4 'another key is known.*--replace'
kill -INT "${PID[plain]}"
finish plain 30
before=$(openssl pkey -in "$DIR/tablet4.img.key" -pubout)
begin_join replace --replace --yes
enrolling tablet4 "$(code replace 1)" --enroll "$PLACE" --new-key
finish replace 60
check 'it is with --replace' [ "$STATUS-$(pins)" = 0-13 ]
[ "$before" != "$(openssl pkey -in "$DIR/tablet4.img.key" -pubout)" ] || fail 'the node has its old key'
check 'and the running gateway goes on' nbdcopy "$UNIX_URI" "$DIR/back.img"
check 'with the data' cmp "$DIR/image" "$DIR/back.img"

# A card that was copied.
cp "$DIR/tablet5.img.key" "$DIR/clone.img.key"
begin_join copied
enrolling clone "$(code copied 1)" --enroll "$PLACE"
finish clone 30
check 'one key is not two devices' log_has clone 'another extent, as on a copied card'
kill -INT "${PID[copied]}"
finish copied 30

# A link with a secret where other users see it.
secret=$(sed 's/.*\.//' "$DIR/scanned")
for option in --join --enroll; do
    refused "a link with a secret at $option" 'no place among arguments' \
        "$FLASHMOB" node --data "$DIR/shown.img" --size 1MiB --listen 127.0.0.1:0 $option "flashmob://join/127.0.0.1#K.$secret"
    if grep -q -- "$secret" "$DIR/check.out"; then fail 'the secret is shown'; fi
done
for name in "$first" "$secret"; do
    if grep -lF -- "$name" "$DIR"/*.log*; then fail "a code is in what was logged"; fi
done
pass 'no code is in any log'
