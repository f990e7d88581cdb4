#!/usr/bin/env bash
# Shows two gateways of a cluster with keys, and etcd with mutual TLS: each has a certificate of its own for etcd, a stranger's is refused, and the standby takes over.
# Tier: slow
# Needs etcd and openssl; a minute.
. "$(dirname "$0")/lib.sh"
. "$TESTS/lib/copies.sh"
. "$TESTS/lib/keys.sh"
. "$TESTS/lib/etcd.sh"
need openssl
need_etcd
need_python_nbd
NODE_SIZE=16MiB
start_keyed_copies
stop gateway

# authority NAME: makes one. issued NAME BY: a certificate of it; etcd shows its own to itself, so it is one for clients as well.
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout "$DIR/$1.key" -out "$DIR/$1.pem" 2>>"$DIR/openssl.log"
}
issued() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$DIR/$1.key" -out "$DIR/$1.csr" 2>>"$DIR/openssl.log"
    openssl x509 -req -in "$DIR/$1.csr" -CA "$DIR/$2.pem" -CAkey "$DIR/$2.key" -CAcreateserial -days 2 -out "$DIR/$1.pem" \
        -extfile <(printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n') 2>>"$DIR/openssl.log"
}
authority ca
authority stranger
for name in etcd gateway-one gateway-two; do issued $name ca; done
issued gateway-three stranger
ETCD_CURL=(--cacert "$DIR/ca.pem" --cert "$DIR/gateway-one.pem" --key "$DIR/gateway-one.key")
ETCD_SCHEME=https
start_etcd 1 --cert-file "$DIR/etcd.pem" --key-file "$DIR/etcd.key" --client-cert-auth --trusted-ca-file "$DIR/ca.pem"

# The gateway that was there gets etcd; each of the others has a folder with a copy of the cluster's keys.
CONFIG=$DIR/gateway.toml
cp "$CONFIG" "$DIR/before.toml"
# with_etcd NAME [LINE...]: its configuration.
with_etcd() {
    sed -e "s|unix:$DIR/gateway.sock|unix:$DIR/$1.sock|" -e '/^\[\[volume\]\]/,$d' "$DIR/before.toml"
    printf 'name = "%s"\n[etcd]\nendpoints = ["%s"]\nca = "%s/ca.pem"\nlease = "3s"\n' "$1" "$ETCD_MEMBERS" "$DIR"
    printf '%s\n' "${@:2}"
    sed -n '/^\[\[volume\]\]/,$p' "$DIR/before.toml"
}
certificate() { printf 'cert = "%s/gateway-%s.pem"\nkey = "%s/gateway-%s.key"\n' "$DIR" "$1" "$DIR" "$1"; }
with_etcd one "$(certificate one)" >"$CONFIG"
for g in two three four; do
    mkdir "$DIR/$g"
    cp -r "$DIR/gateway.keys" "$DIR/$g/gateway.keys"
done
with_etcd two "$(certificate two)" >"$DIR/two/cluster.toml"
with_etcd three "$(certificate three)" >"$DIR/three/cluster.toml"
with_etcd four >"$DIR/four/cluster.toml"
# Nobody is in charge yet: only their certificates keep them from it.
refused "a stranger's certificate" '[Cc]ertificate' timeout 30 "$FLASHMOB" gateway "$DIR/three/cluster.toml"
refused 'no certificate' '[Cc]ertificate' timeout 30 "$FLASHMOB" gateway "$DIR/four/cluster.toml"
chmod 640 "$DIR/gateway-one.key"
refused 'a key for etcd that others may read' 'others may read .*gateway-one.key' "$FLASHMOB" gateway "$CONFIG"
chmod 600 "$DIR/gateway-one.key"
start one "$FLASHMOB" gateway "$CONFIG" --standby
started one 'volume pool ready'
start two "$FLASHMOB" gateway "$DIR/two/cluster.toml" --standby
wait_for 20 'the second one to stand by' log_has two 'standing by: gateway'
URI="nbd+unix:///pool?socket=$DIR/one.sock"
check 'every byte is there' is_all_there
check 'doctor reads the certificates from the configuration' "$FLASHMOB" -q doctor --etcd "$DIR/two/cluster.toml" --only etcd-space
stop one KILL
wait_for 20 'the second one to serve' log_has two 'volume pool ready'
URI="nbd+unix:///pool?socket=$DIR/two.sock"
check 'every byte is there after it has taken over' is_all_there
check 'and what is written then' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
check 'is there' is_all_there
