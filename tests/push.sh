#!/usr/bin/env bash
# Shows that `flashmob push` brings the program to devices over adb, runs nodes and benchmarks there, and says what is wrong with a device.
# Tier: test
# Runs beside others.
#
# adb is the real one, with a server of its own; the devices are fakes (fake_adbd.py) that run commands on this machine. The program is this
# machine's, as on an emulator, unless PUSH_BINARY names another: 'arm=PATH' or 'aarch64=PATH', which runs under qemu-user.
. "$(dirname "$0")/lib.sh"
need nbdcopy
. "$TESTS/lib/adb.sh"

refused 'without adb' 'apt install adb' "$FLASHMOB" push --adb /nowhere/adb list
check 'the server of adb' adb start-server
refused 'nothing attached' 'USB debugging' "$DIR/push" run -- --version
about tablet
plug_in tablet

# The list, for people and for programs.
check 'a list' grep -Eq "^${SERIAL[tablet]} +Nexus 7 +13 +$ABI +$PROCESSOR +[0-9.]+ GiB +-$" <(push list)
push list --output json >"$DIR/list.json"
check 'as JSON' jq -e '.[0].model == "Nexus 7" and .[0].free_bytes > 0 and .[0].binary == $processor and .[0].trouble == null' --arg processor "$PROCESSOR" "$DIR/list.json"

# The right binary, whole.
check 'a command there' push run -- --version
check 'the binary is there' cmp "$BINARY" "$(there tablet)/flashmob"
push run -- --version >/dev/null 2>"$DIR/again"
check 'and is not copied again' grep -q 'binary is up to date' "$DIR/again"
status=0
push -q run -- status 127.0.0.1:1 >"$DIR/run.out" 2>&1 || status=$?
[ $status -eq 1 ] || fail "the exit status was $status"
pass 'its exit status comes back'
refused 'wrong arguments there' 'unexpected argument' "$DIR/push" run -- status --nonsense
push -q run -- plan --help >"$DIR/out" 2>"$DIR/err"
"$FLASHMOB" plan --help >"$DIR/expected"
check 'its words come back whole' cmp "$DIR/expected" "$DIR/out"

# A node over the cable: written, read, ended by Ctrl-C.
start node "$FLASHMOB" push --binary "$BINARY" node --size 8MiB --listen 127.0.0.1:0 -- --threads 2
wait_for 20 'the address' grep -q '^address' "$DIR/node.out"
ADDR[node]=$(sed -nE 's/^address = "([^"]*)".*/\1/p' "$DIR/node.out")
check 'its address is for cluster.toml' grep -Eqx 'address = "127\.0\.0\.1:[0-9]+"   # Nexus 7 \(127.0.0.1:[0-9]+\)' "$DIR/node.out"
adb forward --list >"$DIR/forwards"
check 'over adb' grep -q "tcp:${ADDR[node]##*:} " "$DIR/forwards"
NODES=(node)
start_gateway
head -c 8M /dev/urandom >"$DIR/in.img"
check 'in over the cable' nbdcopy --flush "$DIR/in.img" "$URI"
check 'out over the cable' nbdcopy "$URI" "$DIR/out.img"
check 'what came out is what went in' cmp "$DIR/in.img" "$DIR/out.img"
refused 'a second node there' 'a node is already running' "$DIR/push" node --listen 127.0.0.1:0
check 'the list shows it' grep -q ' runs$' <(push list)
pid=$(cat "$(there tablet)/flashmob.d/node.pid")
stop node INT
[ "$STATUS" -eq 0 ] || fail "push node ended with $STATUS"
runs_there "$pid" && fail 'the node runs still'
check 'Ctrl-C ends the node cleanly' grep -q 'stopped$' "$(there tablet)/flashmob.d/node.log"
check 'its data is in its file' cmp "$DIR/in.img" "$(there tablet)/flashmob.d/node.extent"
[ -z "$(adb forward --list | tr -d '\n')" ] || fail 'a forward is left'
pass 'its port is taken back'
stop gateway

# A node in a cluster with keys, by a token.
printf '[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "127.0.0.1:1"\n' >"$DIR/keyed.toml"
check 'a cluster with keys' "$FLASHMOB" key init "$DIR/keyed.toml"
mkdir "$DIR/set-aside"
mv "$(there tablet)/flashmob.d/node.extent"* "$DIR/set-aside/"
start join "$FLASHMOB" join "$DIR/keyed.toml" --listen 127.0.0.1:0 --token-out "$DIR/token"
wait_for 20 'the token' test -s "$DIR/token"
start node "$FLASHMOB" push --binary "$BINARY" node --size 8MiB --listen 127.0.0.1:0 --token-file "$DIR/token"
finish join 60
check 'a node is enrolled over adb' [ "$STATUS" -eq 0 ]
wait_for 20 'the address' grep -q '^address' "$DIR/node.out"
check 'its token is gone' [ ! -e "$(there tablet)/flashmob.d/token" ]
check 'its key is its own' [ -f "$(there tablet)/flashmob.d/node.extent.key" ]
stop node INT
rm -f "$(there tablet)/flashmob.d/node.extent"*
mv "$DIR/set-aside/"* "$(there tablet)/flashmob.d/"
refused 'a node that cannot start' 'extent.* size|--size' "$DIR/push" node --size 32MiB --listen 127.0.0.1:0

# Benchmarks.
check 'a benchmark' push bench disk --block-size 4k --size 1MiB --requests 200 --repeat 1 --save "$DIR/tablet.json"
check 'its results are here' jq -e '.format == "flashmob-results" or (.measurements | length) > 0 or .device' "$DIR/tablet.json"
check 'a report of them' "$FLASHMOB" report "$DIR/tablet.json" -o "$DIR/report.html"
LONG=("$FLASHMOB" push --binary "$BINARY" bench disk --block-size 4k --size 1MiB --time 60 --output ndjson --save "$DIR/cut.json")
# A terminal that is closed sends SIGHUP.
for signal in INT HUP; do
    rm -f "$DIR/bench.out"
    start bench env --default-signal=HUP "${LONG[@]}"
    # Told to begin, it has a file and handles signals.
    wait_for 60 'the benchmark there' test -s "$DIR/bench.out"
    stop bench $signal
    [ "$STATUS" -eq 130 ] || fail "a benchmark that was stopped by SIG$signal ended with $STATUS"
    pass "SIG$signal ends a benchmark there"
    check 'and the result so far is here' jq -e .interrupted "$DIR/cut.json"
    runs_there "$(cat "$(there tablet)/flashmob.d/run.pid" 2>/dev/null || echo none)" && fail 'it runs still'
    rm "$DIR/cut.json"
done
rm "$DIR/bench.out"
start bench env --ignore-signal=HUP "${LONG[@]}"
wait_for 60 'the benchmark there' test -s "$DIR/bench.out"
kill -HUP "${PID[bench]}"
sleep 1
kill -0 "${PID[bench]}" || fail 'SIGHUP ended it under nohup'
pass 'under nohup it goes on'
stop bench INT
[ "$STATUS" -eq 130 ] || fail "SIGINT ended it with $STATUS"

# Several devices; one of them old.
about phone model '"Phone 5"' old true android '"5.1.1"'
plug_in phone
refused 'which of them' 'Nexus 7 .*Phone 5 .*--serial|Phone 5 .*Nexus 7 .*--serial' "$DIR/push" run -- --version
refused 'one that is not there' 'no device nobody' "$DIR/push" --serial nobody run -- --version
check 'an old one' push --serial "${SERIAL[phone]}" run -- --version
status=0
push -q --serial "${SERIAL[phone]}" run -- status 127.0.0.1:1 >"$DIR/run.out" 2>&1 || status=$?
[ $status -eq 1 ] || fail "of the old device the exit status was $status"
pass 'its exit status comes back too'
push --all node --size 4MiB --listen 127.0.0.1:0 --background --output json -- --data "$DIR/unused" >"$DIR/nodes.json" 2>"$DIR/nodes.err" && fail 'twice --data was accepted'
check 'what a node said when it did not start' grep -q "cannot be used multiple times" "$DIR/nodes.err"
rm -f "$(there tablet)/flashmob.d/node.extent"*
push --all node --size 4MiB --listen 127.0.0.1:0 --background --output json >"$DIR/nodes.json"
check 'nodes on both, in the background' jq -e 'length == 2 and ([.[].model] | sort) == ["Nexus 7", "Phone 5"]' "$DIR/nodes.json"
NODES=(a b)
ADDR[a]=$(jq -r '.[0].address' "$DIR/nodes.json")
ADDR[b]=$(jq -r '.[1].address' "$DIR/nodes.json")
rm -f "$DIR/gateway.toml.extents"
start_gateway
check 'in over both' nbdcopy --flush "$DIR/in.img" "$URI"
check 'out over both' nbdcopy "$URI" "$DIR/out.img"
check 'what came out is what went in' cmp "$DIR/in.img" "$DIR/out.img"
stop gateway
check 'push stop' push --all stop
for pid in $(jq '.[].pid' "$DIR/nodes.json"); do ! runs_there "$pid" || fail "node $pid runs still"; done
[ -z "$(adb forward --list | tr -d '\n')" ] || fail 'a forward is left'
pass 'both have ended, and their ports are taken back'
check 'nothing to stop' push --all stop
unplug phone

# What goes wrong.
rm "$(there tablet)/flashmob"
fault() { about tablet fault "\"$1\""; }
fault no-space
refused 'no space on the device' 'no space left' "$DIR/push" run -- --version
fault corrupt
refused 'what arrived is not what was sent' 'the copy differs from the original' "$DIR/push" run -- --version
[ ! -e "$(there tablet)/flashmob" ] || fail 'a wrong binary took its place'
fault noexec
refused 'no programs may run there' 'does not allow running programs' "$DIR/push" run -- --version
about tablet abilist '"x86"' fault null
refused 'no binary for its processor' 'no binary for this processor, x86' "$DIR/push" run -- --version
about tablet abilist "\"$OTHER_ABI\""
refused 'a binary for another processor' 'is for another processor' "$DIR/push" run -- --version
# Alone in a folder: `make cross` may have put some near the other one.
mkdir "$DIR/alone"
cp "$FLASHMOB" "$DIR/alone/flashmob"
refused 'none that fits' "no binary for $OTHER.*make cross" "$DIR/alone/flashmob" push run -- --version
about tablet abilist "\"$ABI\""
fault cut
refused 'it vanishes in the middle' 'the device disconnected' "$DIR/push" run -- --version
about tablet fault null
adb connect "${SERIAL[tablet]}" >>"$DIR/adb.log" 2>&1
wait_for 10 'the device again' sh -c "adb -s ${SERIAL[tablet]} shell true"
check 'after all that it works' push run -- --version
unplug tablet
about locked fault '"unauthorized"'
plug_in locked
wait_for 10 'its state' sh -c 'adb devices | grep -q unauthorized'
refused 'not allowed yet' "accept 'Allow USB debugging'" "$DIR/push" run -- --version
check 'the list says so too' grep -q "unlock it and accept" <(push list)
