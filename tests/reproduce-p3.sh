#!/usr/bin/env bash
# Shows that `flashmob reproduce p3` judges C10 to C13, that C13 holds on a modelled flash by the steps of its own commands, that a real disk is measured by the kernel's, and that it goes on without rights.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq setpriv

mkdir "$DIR/tmp"
export TMPDIR=$DIR/tmp
holds() {
    jq -e "$3" "$1" >/dev/null || { jq -c 'del(.. | .histogram?, .percentiles?, .list?)' "$1" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}
# Instances bear the number of their process: others may be tracing beside this test, but no dead one is.
none_left() {
    local name
    [ "$(id -u)" -eq 0 ] || return 0
    for name in $(traced ls /sys/kernel/tracing/instances); do
        [[ $name =~ ^flashmob-([0-9]+)- ]] || continue
        [ -d "/proc/${BASH_REMATCH[1]}" ] || return 1
    done
}

timeout 280 "$FLASHMOB" reproduce p3 --scale 0.03 --save "$DIR/results" -o "$DIR/p3.html" --output json >"$DIR/p3.json" 2>"$DIR/p3.log" || { cat "$DIR/p3.log" >&2; fail 'reproduce p3'; }
RESULT=$DIR/results/p3.json
# The model answers in real time, so C10 to C12 are judged by what this machine did meanwhile: bench-disk-model.sh holds them to what they are.
holds "$DIR/p3.json" 'the claims of P3 are judged' '[.claims[].claim] == ["C10", "C11", "C12", "C13"] and all(.claims[]; .verdict == "holds" or .verdict == "does_not_hold")'
holds "$DIR/p3.json" 'each with criterion and figures' 'all(.claims[]; (.criterion | length > 0) and (.here | test("[0-9]"))) and .setting == "model" and .model == "nexus7-emmc"'
# Service times are the model's own: a busy machine does not change them.
holds "$DIR/p3.json" 'C13 holds on a flash with a step cost' '.claims[] | select(.claim == "C13") | .verdict == "holds" and (.here | test("mq-deadline has [0-9.]+.% of its steps upward, more than every other"))'
holds "$RESULT" 'all presets are one result, called modelled' '.preset == "p3" and any(.warnings[]; .code == "modelled") and (.measurement.points | length == 8)
    and ([.measurement.points[].parameters.pattern] | unique == ["rand", "random", "sequential", "shuffle", "sort"])'
holds "$RESULT" 'each point has its commands: all counted, some listed, the first of each repetition without a step' '
    all(.measurement.points[]; .repetitions as $r | .commands | .count > 0 and (.list | length) <= 4096
        and ([(.forward.count // 0), (.backward.count // 0)] | add) + ($r | length) == .count)'
holds "$RESULT" 'steps are what addresses say' '[.measurement.points[1].commands | .list as $l | range(1; $l | length) as $i | select(.count == ($l | length)) | $l[$i] | select(.step_bytes != null)
    | .address_bytes - ($l[$i - 1] | .address_bytes + .bytes) == .step_bytes] | length > 20 and all'
check 'the page has the claims' grep -q 'id="C13"' "$DIR/p3.html"
check 'flashmob report reads what was kept' "$FLASHMOB" report "$RESULT" -o "$DIR/again.html"
check 'the table shows steps upward and downward apart' grep -Eq 'random +mq-deadline .* [0-9.]+%' <("$FLASHMOB" --quiet bench disk --model nexus7-emmc --block-size 1 --threads 16 --scheduler none,mq-deadline --reads 300 --repeat 1 --commands | sed '1,/device commands by address step/d')

# This machine's own disk, whatever it is: judged by its own figures, or said to be unseen.
mkdir "$DIR/data"
timeout 280 "$FLASHMOB" reproduce p3 --folder "$DIR/data" --scale 0.03 --save "$DIR/own" -o "$DIR/own.html" --output json >"$DIR/own.json" 2>"$DIR/own.log" || { cat "$DIR/own.log" >&2; fail 'reproduce p3 --folder'; }
holds "$DIR/own.json" 'a disk of this machine is measured' '.setting == "disk" and ([.claims[] | select(.claim == "C10" or .claim == "C11") | .verdict] | length == 2 and all(. != "not_measured"))'
if jq -e 'any(.warnings[]; .code == "incomplete")' "$DIR/own/p3.json" >/dev/null; then
    holds "$DIR/own/p3.json" 'why its commands are not seen is said' '[.warnings[] | select(.code == "incomplete") | .message] | all(test("the device.s commands are not shown: .{10,}"))'
else
    holds "$DIR/own/p3.json" 'its commands are those that the kernel tells of' 'any(.measurement.points[]; .commands.count >= 64 and .commands.list[0].service_us > 0)'
    say "C13 on this machine's disk: $(jq -r '.claims[] | select(.claim == "C13") | .verdict' "$DIR/own.json")"
fi
[ -z "$(ls -A "$DIR/data")" ] || fail "left behind: $(ls -A "$DIR/data")"
wait_for 5 'nothing of dead processes in the kernel' none_left
pass 'neither the file nor anything in the kernel is left'

# Without rights the measurement goes on, and what is missing is named.
if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$DIR" && install -d -m 777 "$DIR/theirs"
    cp "$FLASHMOB" "$DIR/theirs/flashmob"
    (cd "$DIR/theirs" && setpriv --reuid 65534 --regid 65534 --clear-groups ./flashmob bench disk file --size 16MiB --reads 64 --repeat 1 --commands --save unseen.json) >"$DIR/unseen.txt" 2>&1 || { cat "$DIR/unseen.txt" >&2; fail 'bench disk --commands without rights'; }
    holds "$DIR/theirs/unseen.json" 'without rights: measured, without commands, and with the remedy' '.measurement.points[0] | .repetitions[0].requests == 64 and (has("commands") | not)'
    grep -q "commands are not shown: .*\(root\|not on a single disk\)" "$DIR/unseen.txt" || { cat "$DIR/unseen.txt" >&2; fail 'nothing is said of what is missing'; }
    pass 'and the table says so'
fi

start p3int "$FLASHMOB" reproduce p3 --scale 0.2 --save "$DIR/int" -o "$DIR/int.html"
wait_for 30 'the first result' test -s "$DIR/int/p3.json"
stop p3int INT
[ "$STATUS" -eq 130 ] || fail "SIGINT ended it with status $STATUS, not 130"
holds "$DIR/int/p3.json" 'SIGINT keeps what was measured, and says so' '.interrupted and (.measurement.points | length >= 2)'
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
pass 'nothing is left in the temporary directory'
refused 'a result of before' 'already exists.*another directory with --save' "$FLASHMOB" reproduce p3 --save "$DIR/results" -o "$DIR/p3.html"
refused 'a directory that is not there' 'does not exist; create it' "$FLASHMOB" reproduce p3 --folder "$DIR/nosuch"
refused 'a model and a disk' 'cannot be used with' "$FLASHMOB" reproduce p3 --model emmc --folder "$DIR"
refused 'a model that there is not' 'nexus7-emmc' "$FLASHMOB" reproduce p3 --model nexus
