#!/usr/bin/env bash
# Shows that a volume is encrypted at rest by LUKS at its client, with the commands of docs/security.md: nodes hold nothing that can be read, and a wrong passphrase opens nothing.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
need qemu-img nbdcopy nbdinfo jq

start_keyed 2 16MiB 'timeout = "60s"'
check 'a client gets a certificate' "$FLASHMOB" client add "$DIR/gateway.toml" alice --volume pool --out "$DIR/alice"

# A pattern that would be found.
"$PYTHON" -c 'import sys; sys.stdout.write("a line of a private letter\n" * 400000)' >"$DIR/letter"
truncate -s 24M "$DIR/letter"
cd "$DIR" || exit 1
printf 'a passphrase' >passphrase
# QEMU measures how many rounds of hashing the processor does in the time that it is to take, and gives up where others use the processor just then.
made() {
    qemu-img create -f luks --object secret,id=pass,file=passphrase -o key-secret=pass,iter-time=100 "nbd+unix:///pool?socket=$DIR/gateway.sock" 24M >"$DIR/made.out" 2>&1
}
for ((tries = 0; tries < 30; tries++)); do
    made && break
    grep -q 'accurate CPU usage' "$DIR/made.out" || { cat "$DIR/made.out" >&2; fail 'the volume gets LUKS'; }
    sleep 1
done
if [ "$tries" -eq 30 ]; then
    echo '    not run: QEMU cannot measure the processor here' >&2
    exit "$NOT_RUN"
fi
pass 'the volume gets LUKS'
encrypted="driver=luks,key-secret=pass,file.driver=nbd,file.host=127.0.0.1,file.port=$PORT,file.export=pool,file.tls-creds=tls"
objects=(--object secret,id=pass,file=passphrase --object "tls-creds-x509,id=tls,endpoint=client,sanity-check=off,dir=$DIR/alice")
check 'an image goes in, over TLS' qemu-img convert -n -f raw "${objects[@]}" --target-image-opts letter "$encrypted"
check 'and comes out' qemu-img convert "${objects[@]}" --image-opts "$encrypted" -O raw back
# The volume is larger.
truncate -s 24M back
check 'it is the same' cmp letter back
sync
for node in "${NODES[@]}"; do
    if grep -aq 'private letter' "$node.img"; then fail "$node holds what is encrypted"; fi
done
pass 'no node holds a line of it'
check 'what a node holds looks like noise' "$PYTHON" -c '
import collections, math, sys
data = open(sys.argv[1], "rb").read()[4 << 20 : 12 << 20]
counts = collections.Counter(data)
bits = -sum(n / len(data) * math.log2(n / len(data)) for n in counts.values())
sys.exit(bits < 7.99)' node0.img
printf 'another passphrase' >passphrase
refused 'a wrong passphrase opens nothing' 'invalid password|Failed to read|cannot unlock' qemu-img convert "${objects[@]}" --image-opts "$encrypted" -O raw nothing
# Without LUKS the pattern is there: the test can fail.
check 'as it is' nbdcopy --flush letter "$UNIX_URI"
grep -aq 'private letter' node0.img || fail 'the pattern is not found where it is'
pass 'without LUKS nodes hold what is written'
