#!/usr/bin/env bash
# Shows that a command in a lab has a volume that works, behind the modelled air that was asked for.
# Tier: test
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'a lab for root; lab-unprivileged shows one for others'
need nbdinfo nbdcopy jq

lab() { timeout 280 "$FLASHMOB" -q lab run "$@"; }

# lab_ok WHAT OPTION... -- COMMAND...: passes if lab and command succeed; a late lab is no failure here.
lab_ok() {
    local what=$1 status=0
    shift
    lab "$@" >"$DIR/lab.out" 2>"$DIR/lab.err" || status=$?
    lab_is_well $status || { cat "$DIR/lab.out" "$DIR/lab.err" >&2; fail "$what (status $status)"; }
    pass "$what"
}

# A client of another make, writes and reads, and every byte compared.
head -c 8M /dev/urandom >"$DIR/random.img"
# shellcheck disable=SC2016 # the lab's shell expands them
lab_ok 'what is written comes back' --nodes 3 --air ideal --no-io --extent 4MiB -- sh -ec '
    test "$(nbdinfo --size "$FLASHMOB_URI")" = $((3 * 4 * 1024 * 1024))'
# shellcheck disable=SC2016
lab_ok 'what is written through the air comes back' --nodes 2 --air 11n --flash nexus7-emmc --extent 4MiB -- sh -ec "
    nbdcopy '$DIR/random.img' \"\$FLASHMOB_URI\"
    nbdcopy \"\$FLASHMOB_URI\" '$DIR/back.img'"
check 'not a byte is wrong' cmp "$DIR/random.img" "$DIR/back.img"
# shellcheck disable=SC2016
lab_ok 'flashmob itself is found, and knows the cluster' --nodes 3 --air ideal -- sh -ec '
    flashmob status "$FLASHMOB_ADMIN" --output json; test -r "$FLASHMOB_CONFIG"'
check 'three nodes are ready' jq -e '[.gateway.volumes[0].nodes[] | select(.state == "ready")] | length == 3' "$DIR/lab.out"

# With keys.
# shellcheck disable=SC2016
lab_ok 'a cluster with keys' --nodes 2 --air ideal --keys --extent 4MiB -- sh -ec '
    test "$(nbdinfo --size "$FLASHMOB_URI")" = $((2 * 4 * 1024 * 1024)); flashmob status "$FLASHMOB_ADMIN" --output json'
check 'its links are secret' jq -e '.gateway.keys.generation == 1 and ([.gateway.volumes[0].nodes[] | select(.state == "ready")] | length == 2)' "$DIR/lab.out"

# Copies, of which some are behind a lossy way, or on a slower flash.
# shellcheck disable=SC2016
lab_ok 'a volume with copies is compared when the command begins, one of its nodes slower' --nodes 3 --air ideal --extent 16MiB --copies 2 \
    --weak 1:flash=3 -- sh -ec '
    test "$(nbdinfo --size "$FLASHMOB_URI")" = $((6 * 4 * 1024 * 1024))
    flashmob status "$FLASHMOB_ADMIN" --output json; for node in 2 3 4; do flashmob status 10.77.0.$node:7412 --output json; done'
check 'none of its copies is in question' jq -es '.[0].gateway.volumes[0].copies | .copies == 2 and .chunks == 6 and .uncompared_chunks == 0' "$DIR/lab.out"
check 'the last node is the slow one' \
    jq -es '[.[1:][].node.model.description | endswith("; 3 times as slow")] == [false, false, true]' "$DIR/lab.out"

# The round trip is twice the delay. The kernel's own measure of it, so that no clock of this test matters.
# shellcheck disable=SC2016
lab_ok 'requests over 20 ms each way' --nodes 1 --air wan,delay=20ms --no-io -- sh -ec '
    flashmob bench nbd "$FLASHMOB_URI" --block-size 1 --outstanding 1 --requests 20 --output json >&2
    flashmob status "$FLASHMOB_ADMIN" --output json'
rtt_us=$(jq '.gateway.volumes[0].nodes[0].links[0].tcp.rtt_us' "$DIR/lab.out")
check "a round trip of TCP takes at least 40 ms ($rtt_us us)" [ "${rtt_us%.*}" -ge 40000 ]

# The socket tells what happened.
cat >"$DIR/ask.py" <<'PY'
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["FLASHMOB_LAB"])
s.sendall(b"begin\n")
print(s.makefile().readline())
PY
lab_ok 'the lab is asked' --nodes 2 --air 11n --extent 1GiB -- sh -ec "
    flashmob bench nbd \"\$FLASHMOB_URI\" --block-size 1 --time 0.5 >&2; $PYTHON '$DIR/ask.py'"
check 'it says what is modelled' jq -e '.nodes == 2 and .air.profile == "11n" and .flash.profile == "nexus7-emmc"' "$DIR/lab.out"
check 'it says what happened on the air' jq -e '.counters.frames > 0 and .counters.busy_ns > 0 and .lateness.max_us > 0' "$DIR/lab.out"
lab_ok 'a lab with a node behind a lossy way is asked' --nodes 2 --air 11n --no-io --weak 1:loss=50% -- sh -ec "
    flashmob bench nbd \"\$FLASHMOB_URI\" --block-size 1 --outstanding 4 --requests 2000 >&2; $PYTHON '$DIR/ask.py'"
check 'it says which nodes are weak, and frames were sent again' jq -e '.weak == "1:loss=50%" and .counters.retries > 200' "$DIR/lab.out"

# Exit statuses.
status_of() { local status=0; lab --nodes 1 --air ideal --no-io -- "$@" >/dev/null 2>&1 || status=$?; echo $status; }
check "the command's status is the lab's" [ "$(status_of sh -c 'exit 42')" = 42 ]
check 'a command that was killed shows it' [ "$(status_of sh -c 'kill -9 $$')" = 137 ]
check 'a command that does not exist shows it' [ "$(status_of /does/not/exist)" = 127 ]
check 'a command that cannot be run shows it' [ "$(status_of /etc/passwd)" = 126 ]

# Other servers.
# shellcheck disable=SC2016
lab_ok 'other servers run in the place of nodes' --nodes 2 --air ideal \
    --node-command 'echo "$NODE $ADDRESS" >node-$NODE.told; exec sleep 60' -- sh -ec '
    dir=$(dirname "$FLASHMOB_LAB"); test -z "${FLASHMOB_URI:-}"
    until [ -s $dir/node-0.told ] && [ -s $dir/node-1.told ]; do sleep 0.02; done
    cat $dir/node-*.told; echo "$FLASHMOB_NODES"'
check 'they know who they are' [ "$(tr '\n' ' ' <"$DIR/lab.out")" = '0 10.77.0.2 1 10.77.0.3 10.77.0.2 10.77.0.3 ' ]

refused 'an air that does not exist' "no modelled air|11n" "$FLASHMOB" lab run --air 11m -- true
refused 'a congestion control that does not exist' 'cubic' "$FLASHMOB" lab run --air ideal --nodes 1 --congestion nonsense -- true
refused 'more copies than nodes' 'there are 2 nodes' "$FLASHMOB" lab run --nodes 2 --copies 3 -- true
refused 'more weak nodes than nodes' '1 to the number of nodes' "$FLASHMOB" lab run --nodes 2 --weak 3:flash=2 -- true
refused 'a slow flash where there is none' 'no modelled flash' "$FLASHMOB" lab run --no-io --weak 1:flash=2 -- true
refused 'losses of an ideal air' 'another --air' "$FLASHMOB" lab run --air ideal --weak 1:loss=2% -- true
refused 'a node that dozes' 'flashmob simulate' "$FLASHMOB" lab run --weak 1:doze=200ms/2s -- true
refused 'more nodes than a machine can run' 'at most 200' "$FLASHMOB" lab run --nodes 201 -- true
