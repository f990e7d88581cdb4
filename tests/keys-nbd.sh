#!/usr/bin/env bash
# Shows that NBD clients of a cluster with keys get in over TCP by TLS alone, with a certificate that is known, to the volumes that they may use, as far as they may; with nbdinfo, nbdcopy, nbdfuse, libnbd and qemu-img.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
need fio nbdinfo nbdcopy nbdfuse fusermount3 setpriv qemu-img openssl jq
need_python_nbd

VOLUME=('timeout = "60s"')
client=("$FLASHMOB" client)

# The nodes of two volumes, with keys.
cluster_keys
NODES=(node0 node1)
for node in "${NODES[@]}"; do start_node "$node" 16MiB --cluster "$CLUSTER"; done
{
    printf 'keys = "gateway.keys"\nlisten = ["127.0.0.1:0", "unix:%s/gateway.sock"]\nadmin = "127.0.0.1:0"\n' "$DIR"
    printf '[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "%s"\n' "${ADDR[node0]}"
    printf '[[volume]]\nname = "other"\n[[volume.node]]\naddress = "%s"\n' "${ADDR[node1]}"
} >"$DIR/gateway.toml"
for node in "${NODES[@]}"; do check "the key of $node is pinned" pin "$node"; done
run_gateway
volume_ready
started gateway 'volume other ready'

check 'a client gets a certificate' "${client[@]}" add "$DIR/gateway.toml" alice --volume pool --out "$DIR/alice"
check 'another one, that may only read' "${client[@]}" add "$DIR/gateway.toml" bob --volume pool --volume other --read-only --out "$DIR/bob"
refused 'a name is given once' "a client 'alice' already" "${client[@]}" add "$DIR/gateway.toml" alice --volume pool --out "$DIR/again"
refused 'a volume must be there' "no volume 'pol'" "${client[@]}" add "$DIR/gateway.toml" eve --volume pol --out "$DIR/eve"
check 'certificates are their owner'"'"'s alone' [ "$(find "$DIR/alice" "$DIR/bob" -perm /077 | wc -l)" -eq 0 ]
check 'clients trust one authority, the gateway'"'"'s' [ "$(grep -c BEGIN "$DIR/alice/ca-cert.pem")" -eq 1 ]
check 'they are listed' jq -e '[.clients[] | .name] == ["alice", "bob"] and .clients[1].read_only' \
    <("${client[@]}" list "$DIR/gateway.toml" --output json)

# as CLIENT [VOLUME]: the URI for it.
as() { echo "nbds://127.0.0.1:$PORT/${2-pool}?tls-certificates=$DIR/$1"; }
head -c 16777216 /dev/urandom >"$DIR/image"
check 'nbdinfo' nbdinfo "$(as alice)"
check 'TLS is in use' grep -Eq 'protocol: .*TLS' "$DIR/check.out"
check 'nbdcopy to the volume' nbdcopy --flush "$DIR/image" "$(as alice)"
check 'nbdcopy from the volume, by another one' nbdcopy "$(as bob)" "$DIR/back.img"
check 'it is the same' cmp "$DIR/image" "$DIR/back.img"
check 'also on the unix socket, without TLS' nbdcopy "$UNIX_URI" "$DIR/unix.img"
check 'it is the same there' cmp "$DIR/image" "$DIR/unix.img"
check 'qemu-img info' qemu-img info --object "tls-creds-x509,id=tls0,endpoint=client,sanity-check=off,dir=$DIR/alice" \
    --image-opts "driver=nbd,host=127.0.0.1,port=$PORT,export=pool,tls-creds=tls0"
check 'qemu-img convert' qemu-img convert --object "tls-creds-x509,id=tls0,endpoint=client,sanity-check=off,dir=$DIR/alice" --image-opts -O raw \
    "driver=nbd,host=127.0.0.1,port=$PORT,export=pool,tls-creds=tls0" "$DIR/qemu.img"
check 'it is the same for QEMU' cmp "$DIR/image" "$DIR/qemu.img"

# nbdfuse takes no certificates from a URI, but finds those of its user, who may not be root; whether others than root may mount is up to the machine.
mkdir -p "$DIR/home/.pki" "$DIR/home/pool"
cp -r "$DIR/alice" "$DIR/home/.pki/libnbd"
chmod 711 "$DIR"
user=(env "HOME=$DIR/home")
if [ "$(id -u)" = 0 ]; then
    chown -R 65534:65534 "$DIR/home"
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups "${user[@]}")
fi
is_mounted() { grep -qF " $DIR/home/pool " /proc/mounts; }
mounted_or_ended() { is_mounted || ended nbdfuse; }
end_mount() { ! is_mounted || umount "$DIR/home/pool" 2>/dev/null || fusermount3 -uz "$DIR/home/pool"; }
at_end end_mount
start nbdfuse "${user[@]}" nbdfuse "$DIR/home/pool" "nbds://127.0.0.1:$PORT/pool"
wait_for 20 'nbdfuse to mount, or to end' mounted_or_ended
if is_mounted; then
    check 'nbdfuse: the volume as a file' "${user[@]}" cmp "$DIR/home/pool/nbd" - <"$DIR/image"
    tail -c +20481 "$DIR/image" >"$DIR/tail"
    check 'it can be written' "${user[@]}" dd if=/dev/zero of="$DIR/home/pool/nbd" bs=4096 count=1 seek=5 conv=notrunc,fsync status=none
    check 'and is written back' "${user[@]}" dd of="$DIR/home/pool/nbd" bs=4096 count=1 seek=5 conv=notrunc,fsync status=none <"$DIR/tail"
    end_mount
else
    check 'nbdfuse is let in, and may not mount here' grep -Eq 'fusermount|/dev/fuse|[Pp]ermission denied|not permitted' "$DIR/nbdfuse.log"
fi
# So does fio, whose engine allows no file names in a URI. It leaves files where it runs.
cd "$DIR/home"
run_fio() { "${user[@]}" fio --name=reads --ioengine=nbd --uri="$1" --rw=randread --bs=4k --size=1M --output-format=terse --output="$DIR/home/fio.out"; }
check 'fio reads with the certificates of its user' run_fio "nbds://127.0.0.1:$PORT/pool"
fio_refused() { ! run_fio "nbds://127.0.0.1:$PORT/pool?tls-certificates=$DIR/home/.pki/libnbd" || ! grep -q ';' "$DIR/home/fio.out"; }
check 'and not with those that its URI names' fio_refused
cd "$TESTS"
finish nbdfuse 20

# What the programs below share.
cat >"$DIR/connected.py" <<'END'
import nbd
def connected(uri):
    handle = nbd.NBD()
    handle.set_uri_allow_local_file(True)
    handle.connect_uri(uri)
    return handle
END

# OpenSSL, by a relay that asks for TLS in its place.
start relay "$PYTHON" "$TESTS/starttls_relay.py" "127.0.0.1:$PORT"
wait_for 20 'the relay' grep -q . "$DIR/relay.out"
# openssl_says OPTION...: what s_client prints of the connection.
openssl_says() {
    timeout 100 openssl s_client -connect "127.0.0.1:$(head -n 1 "$DIR/relay.out")" -CAfile "$DIR/alice/ca-cert.pem" \
        -cert "$DIR/alice/client-cert.pem" -key "$DIR/alice/client-key.pem" "$@" </dev/null >"$DIR/said.out" 2>&1 || true
}
openssl_says -verify_ip 127.0.0.1
check 'openssl: the gateway is who it says' grep -q 'Verify return code: 0 (ok)' "$DIR/said.out"
check 'with TLS 1.3' grep -q 'TLSv1.3' "$DIR/said.out"
openssl_says -verify_ip 192.0.2.1
check 'at no other address' grep -q 'IP address mismatch' "$DIR/said.out"
# The NBD document demands 1.2 as well; AES-GCM of 1.2 ends after 2^24 records.
openssl_says -tls1_2 -cipher ALL
check 'with TLS 1.2' grep -q 'TLSv1.2, Cipher is ECDHE-ECDSA-CHACHA20-POLY1305' "$DIR/said.out"
check 'without tickets' bash -c "! grep -q 'TLS session ticket' '$DIR/said.out'"
for older in '-tls1 -cipher ALL:@SECLEVEL=0' '-tls1_1 -cipher ALL:@SECLEVEL=0' '-tls1_2 -cipher ALL:!CHACHA20'; do
    # shellcheck disable=SC2086 # words
    openssl_says $older
    check "not with $older" bash -c "grep -q CONNECTED '$DIR/said.out' && ! grep -q 'Verify return code: 0 (ok)' '$DIR/said.out' || grep -q 'Cipher is (NONE)' '$DIR/said.out'"
done
stop relay

# Rights.
cat >"$DIR/rights.py" <<'END'
import errno, sys
import nbd
from connected import connected
alice, bob = sys.argv[1:]
handle = connected(bob)
assert handle.is_read_only() and handle.pread(512, 0)
handle.set_strict_mode(0)
for change in (lambda: handle.pwrite(b'x' * 512, 0), lambda: handle.zero(4096, 0), lambda: handle.trim(4096, 0)):
    try:
        change()
    except nbd.Error as error:
        assert error.errnum == errno.EPERM, error
    else:
        raise AssertionError('a change was made')
handle.shutdown()
assert not connected(alice).is_read_only()
END
check 'who may only read gets EPERM for changes' "$PYTHON" "$DIR/rights.py" "$(as alice)" "$(as bob)"
check 'nothing was changed' bash -c "nbdcopy '$UNIX_URI' - | cmp - '$DIR/image'"
check 'alice sees one volume' [ "$(nbdinfo --list --json "$(as alice '')" | jq -r '[.exports[]."export-name"] | join(",")')" = pool ]
check 'bob sees two' [ "$(nbdinfo --list --json "$(as bob '')" | jq -r '[.exports[]."export-name"] | join(",")')" = pool,other ]
refused 'a volume that alice may not use is as if there were none' 'No such file|no export of that name' nbdinfo "$(as alice other)"

sed "s|unix:[^\"]*|unix:/tmp/flashmob-keys-nbd.sock|" "$DIR/gateway.toml" >"$DIR/anywhere.toml"
cp -r "$DIR/gateway.keys" "$DIR/anywhere.keys"
refused 'a socket has a folder that nobody else can write to' 'other users can write to /tmp' "$FLASHMOB" gateway "$DIR/anywhere.toml"
mkdir "$DIR/shared"
mkdir -m 700 "$DIR/shared/own"
sed -i "s|unix:[^\"]*|unix:$DIR/shared/own/nbd.sock|" "$DIR/anywhere.toml"
# allowed_below MODE: the gateway starts with its socket below a folder that has this mode.
allowed_below() {
    chmod "$1" "$DIR/shared"
    start anywhere "$FLASHMOB" gateway "$DIR/anywhere.toml"
    started anywhere 'listening on nbd.unix'
    stop anywhere
    pass "a socket below a folder with mode $1"
}
refused_below() {
    chmod "$1" "$DIR/shared"
    refused "no socket below a folder that others can write to, $1" "can write to $DIR/shared, .*chmod go-w" "$FLASHMOB" gateway "$DIR/anywhere.toml"
}
allowed_below 755
allowed_below 1777
refused_below 777
chgrp 65534 "$DIR/shared" 2>/dev/null || true
[ "$(id -u)" -ne 0 ] || refused_below 775
chgrp "$(id -g)" "$DIR/shared"
chmod 755 "$DIR/shared"
# Also where the group is the user's own: the bits of the group are the list's mask.
if command -v setfacl >/dev/null && setfacl -m u:65534:rwx "$DIR/shared" 2>/dev/null; then
    refused 'nor below one to which a list lets others write' "by an access control list, can write to $DIR/shared" "$FLASHMOB" gateway "$DIR/anywhere.toml"
else
    say 'not tried: an access control list, for which there is no setfacl or no room in the file system'
fi

# Who is kept out. In TLS 1.3 a client believes that it is in before the gateway has judged its certificate.
LATE='certificate|TLS|handshake|alert|push function|pull function|reset|disconnected'
refused 'a client without TLS' 'TLS' nbdinfo "nbd://127.0.0.1:$PORT/pool"
refused 'also for the list' 'error to list request|TLS' nbdinfo --list "nbd://127.0.0.1:$PORT/"
mkdir -m 700 "$DIR/nobody" "$DIR/forged"
cp "$DIR/alice/ca-cert.pem" "$DIR/nobody"
refused 'a client without a certificate' "$LATE" nbdinfo "$(as nobody)"
openssl req -x509 -quiet -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=alice -days 30 \
    -keyout "$DIR/forged/client-key.pem" -out "$DIR/forged/client-cert.pem" 2>/dev/null ||
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=alice -days 30 \
        -keyout "$DIR/forged/client-key.pem" -out "$DIR/forged/client-cert.pem" 2>/dev/null
cp "$DIR/alice/ca-cert.pem" "$DIR/forged"
refused 'a client that made its certificate itself' "$LATE" nbdinfo "$(as forged)"
# Three pretend to be the gateway: a client with its certificate, a thief of the key of the clients' authority, and a stranger. libnbd looks at the name, not at
# the purpose of a certificate; over a unix socket there is no name.
cat >"$DIR/pretend.py" <<'END'
import socket, ssl, struct, sys
certificate, key, path = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
if path:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
else:
    listener = socket.create_server(('127.0.0.1', 0))
print(path or listener.getsockname()[1], flush=True)
# Programs of other tests may try this port, which was theirs; they hang up.
received = b''
while received[4:12] != b'IHAVEOPT' or len(received) < 20:
    connection, _ = listener.accept()
    connection.settimeout(60)
    received = b''
    try:
        connection.sendall(b'NBDMAGICIHAVEOPT' + struct.pack('>H', 3))
        while len(received) < 20 and (more := connection.recv(20 - len(received))):
            received += more
    except OSError:
        continue
connection.sendall(struct.pack('>QIII', 0x3e889045565a9, 5, 1, 0))
try:
    print('taken for a gateway' if context.wrap_socket(connection, server_side=True).recv(1) else 'refused', flush=True)
except (ssl.SSLError, OSError) as error:
    print('refused:', error, flush=True)
END
# pretends CERTIFICATE KEY WAY PROGRAM: whether that program takes one with this certificate for the gateway; WAY is tcp or unix.
pretends() {
    local certificate=$1 key=$2 way=$3 program=$4 path=''
    [ "$way" = tcp ] || path=$DIR/pretend.sock
    # The output of the one before is nothing of this one.
    rm -f "$DIR/pretend.sock" "$DIR/pretend.out"
    start pretend "$PYTHON" "$DIR/pretend.py" "$certificate" "$key" "$path"
    wait_for 20 'the one that pretends' grep -q . "$DIR/pretend.out"
    PRETENDER=$(head -n 1 "$DIR/pretend.out")
    export PRETENDER
    timeout 100 bash -c "$program" >"$DIR/check.out" 2>&1 || true
    finish pretend 20
    grep -q 'taken for a gateway' "$DIR/pretend.out"
}
nbdinfo_there() {
    case $PRETENDER in
        /*) nbdinfo "nbds+unix:///pool?socket=$PRETENDER&tls-certificates=$DIR/bob" ;;
        *) nbdinfo "nbds://127.0.0.1:$PRETENDER/pool?tls-certificates=$DIR/bob" ;;
    esac
}
qemu_there() {
    local place="host=127.0.0.1,port=$PRETENDER"
    [ "${PRETENDER:0:1}" != / ] || place="path=$PRETENDER,tls-hostname=localhost"
    qemu-img info --object "tls-creds-x509,id=tls0,endpoint=client,sanity-check=off,dir=$DIR/bob" --image-opts "driver=nbd,$place,export=pool,tls-creds=tls0"
}
export -f nbdinfo_there qemu_there
export DIR
# issued NAME KEY AUTHORITY: a certificate for this machine, by an authority with this key.
issued() {
    openssl req -x509 -new -key "$2" -subj "/CN=$3" -days 30 -addext basicConstraints=critical,CA:TRUE -out "$DIR/$1-ca.pem" 2>/dev/null
    openssl ecparam -name prime256v1 -genkey -noout -out "$DIR/$1.key"
    openssl req -new -key "$DIR/$1.key" -subj "/CN=flashmob gateway" -out "$DIR/$1.csr" 2>/dev/null
    openssl x509 -req -in "$DIR/$1.csr" -CA "$DIR/$1-ca.pem" -CAkey "$2" -days 30 -set_serial 7 -out "$DIR/$1.pem" \
        -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\nauthorityKeyIdentifier=none\n') 2>/dev/null
}
openssl ecparam -name prime256v1 -genkey -noout -out "$DIR/stranger-ca.key"
issued stranger "$DIR/stranger-ca.key" 'flashmob gateway authority'
issued thief "$DIR/gateway.keys/client-ca.key" 'flashmob client authority'
# A certificate of the gateway's own authority shows that the one that pretends would be believed.
issued true "$DIR/gateway.keys/gateway-ca.key" 'flashmob gateway authority'
# kept_out WAY PROGRAM: three who are no gateway.
kept_out() {
    local way=$1 program=$2 who
    pretends "$DIR/true.pem" "$DIR/true.key" "$way" "$program" || { cat "$DIR/check.out" >&2; fail "$program, $way: a certificate of the gateway's authority is refused"; }
    for who in "alice/client-cert.pem alice/client-key.pem" "thief.pem thief.key" "stranger.pem stranger.key"; do
        # shellcheck disable=SC2086 # two words
        set -- $who
        if pretends "$DIR/$1" "$DIR/$2" "$way" "$program"; then fail "$program, $way: $1 is taken for the gateway"; fi
    done
    pass "$program, $way: neither a client nor the clients' authority passes for the gateway"
}
kept_out tcp nbdinfo_there
kept_out tcp qemu_there
kept_out unix qemu_there
# Before 1.20.3 libnbd verifies nothing where it has no name (CVE-2024-7383); a stranger's certificate tells whether it does.
if pretends "$DIR/stranger.pem" "$DIR/stranger.key" unix nbdinfo_there; then
    say "not tried: this libnbd ($(nbdinfo --version | head -n 1)) verifies no certificate over a unix socket (CVE-2024-7383)"
else
    kept_out unix nbdinfo_there
fi

# Revoked: she is out, and nobody else notices.
cat >"$DIR/stay.py" <<'END'
import sys, time
import nbd
from connected import connected
alice, bob = [connected(uri) for uri in sys.argv[1:3]]
alice.pread(512, 0), bob.pread(512, 0)
print('ready', flush=True)
sys.stdin.readline()
end = time.monotonic() + 60
while time.monotonic() < end:
    bob.pread(512, 0)
    try:
        alice.pread(512, 0)
    except nbd.Error:
        bob.pread(512, 0)
        sys.exit(0)
    time.sleep(0.05)
sys.exit('alice was never ended')
END
mkfifo "$DIR/go"
"$PYTHON" "$DIR/stay.py" "$(as alice)" "$(as bob)" <"$DIR/go" >"$DIR/stay.out" 2>"$DIR/stay.log" &
PID[stay]=$!
exec 3>"$DIR/go"
wait_for 20 'both clients to be connected' grep -q ready "$DIR/stay.out"
check 'alice is revoked' "${client[@]}" revoke "$DIR/gateway.toml" alice
echo >&3
finish stay 60
exec 3>&-
[ "$STATUS" -eq 0 ] || { cat "$DIR/stay.log" >&2; fail 'alice was not ended, or bob was'; }
pass 'her connection ends, and bob stays'
refused 'she does not get in again' "$LATE" nbdinfo "$(as alice)"
check 'bob does' nbdinfo --size "$(as bob)"
