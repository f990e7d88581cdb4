#!/usr/bin/env bash
# Shows that testssl finds nothing at the NBD port of a cluster with keys but what its own authority means: certificates without an end, and without revocation lists.
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/keys.sh"
need jq openssl
command -v testssl >/dev/null || {
    echo '    not run: testssl is not installed (Debian: testssl.sh)' >&2
    exit "$NOT_RUN"
}

start_keyed 1 16MiB 'timeout = "60s"'
check 'a client gets a certificate' "$FLASHMOB" client add "$DIR/gateway.toml" alice --volume pool --out "$DIR/alice"
if [ -z "${CANARY:-}" ]; then
    start relay "$PYTHON" "$TESTS/starttls_relay.py" "127.0.0.1:$PORT"
    wait_for 20 'the relay' grep -q . "$DIR/relay.out"
    place=127.0.0.1:$(head -n 1 "$DIR/relay.out")
else
    # A server that takes CBC and has no forward secrecy.
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=weak -days 30 -keyout "$DIR/weak.key" -out "$DIR/weak.pem" 2>/dev/null
    port=$("$PYTHON" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    start weak openssl s_server -accept "127.0.0.1:$port" -key "$DIR/weak.key" -cert "$DIR/weak.pem" -www -tls1_2 -cipher AES128-SHA:@SECLEVEL=0
    place=127.0.0.1:$port
    weak_listens() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
    wait_for 20 'the weak server' weak_listens
fi
timeout 900 testssl --quiet --color 0 --warnings off --add-ca "$DIR/alice/ca-cert.pem" --jsonfile "$DIR/found.json" "$place" >"$DIR/testssl.out" 2>&1 ||
    say "testssl ended with $?"
check 'testssl looked at it' jq -e 'map(.id) | index("TLS1_3") and index("heartbleed") and index("LUCKY13")' "$DIR/found.json"
# Its TLS 1.2 has no extended master secret, which the port requires (keys-nbd shows 1.2), so that its long lists of ciphers are refused, too.
# "cipher_order" and its kind warn that its list has no cipher that the port takes.
graver='[.[] | select(.severity | IN("LOW", "MEDIUM", "HIGH", "CRITICAL")) | select(.id | IN("cert_validityPeriod", "cert_revocation", "DNS_CAArecord", "pre_128cipher") | not)]'
jq -e "$graver == []" "$DIR/found.json" >/dev/null || { jq -c "$graver | .[] | [.severity, .id, .finding]" "$DIR/found.json" >&2; fail 'testssl found something'; }
pass 'it found nothing but certificates of an own authority'
check 'TLS 1.3 is spoken' jq -e '[.[] | select(.id == "TLS1_3") | .severity] == ["OK"]' "$DIR/found.json"
check 'and nothing earlier' jq -e '[.[] | select(.id == "SSLv2" or .id == "SSLv3" or .id == "TLS1" or .id == "TLS1_1") | .severity | IN("OK", "INFO")] | all' "$DIR/found.json"
