#!/usr/bin/env bash
# Shows that on a modelled tablet what the papers saw appears (C1, C2, C3, C10, C11, C12), that it is called modelled everywhere, and that this machine's own disk is judged by its own figures.
# Tier: slow
# Canary: order-costs-nothing
. "$(dirname "$0")/lib.sh"
need jq

# on MODEL NAME OPTION...: measures a model into $DIR/NAME.json.
on() {
    local model=$1 name=$2
    shift 2
    "$FLASHMOB" --quiet bench disk --model "$model" "$@" --save "$DIR/$name.json" >"$DIR/$name.txt" 2>"$DIR/$name.log" ||
        { cat "$DIR/$name.log" >&2; fail "bench disk --model $model $*"; }
    jq -e '.measurement.model.profile and (.measurement.file | not) and any(.warnings[]; .code == "modelled")' "$DIR/$name.json" >/dev/null || fail "$name does not say that it is modelled"
    grep -q 'modelled' "$DIR/$name.txt" || fail "the table of $name does not say that it is modelled"
}
# In pieces of the presets that take seconds, not minutes.
busy_begin
on nexus7-emmc threads --preset p1 --scale 0.05 --block-size 1,512,4k --threads 1,2,4,8,16
on hdd pc --size 10GiB --threads 1,4,16 --time 0.6
on nexus7-emmc basic --preset p3-basic --scale 0.3
on nexus7-emmc order --preset p3-order --scale 0.1 --reads 300
on nexus7-emmc scheduler --preset p3-scheduler --reads 1500 --repeat 12
# A busy machine is late with the answers of all schedulers alike, and the difference is small: repetitions are compared in pairs.
for other in none bfq; do
    mapfile -t ratios < <(jq --arg other $other '[.measurement.points[] | {key: .parameters.scheduler, value: [.repetitions[].requests_per_second]}] | from_entries
        | [.[$other], .["mq-deadline"]] | transpose[] | .[0] / .[1]' "$DIR/scheduler.json")
    sign_test "the rate under $other in that under mq-deadline" 0.9 "${ratios[@]}"
done
check 'what differs from the preset is said' jq -e 'any(.warnings[]; .code == "changed" and (.message | contains("reads, repeat changed")))' "$DIR/scheduler.json"
pass 'tables and results of models say so'

# verdicts CLAIM PAGE: the verdicts of a claim on a page, one a line.
verdicts() {
    "$PYTHON" - "$1" "$2" <<'PY'
import re, sys
page = open(sys.argv[2]).read()
claim = re.search(r'id="%s"(.*?)(?=class="claim"|</section>)' % sys.argv[1], page, re.S).group(1)
print("\n".join(re.findall(r'class="verdict (\w+)"', claim)))
PY
}
"$FLASHMOB" report "$DIR"/{threads,pc,basic,order,scheduler}.json -o "$DIR/model.html" || fail 'no report'
grep -qi 'modelled' "$DIR/model.html" || fail 'the report does not say that it is modelled'
for claim in C1 C10 C11 C12; do
    verdicts $claim "$DIR/model.html" >"$DIR/verdicts"
    grep -qx holds "$DIR/verdicts" && ! grep -qx fails "$DIR/verdicts" || judged_fail "$claim on the model: $(xargs <"$DIR/verdicts")"
    pass "$claim holds on the model"
done
# A disk that turns has its own answers to these two; what counts is the tablet's.
"$FLASHMOB" report "$DIR/threads.json" -o "$DIR/tablet.html"
for claim in C2 C3; do
    [ "$(verdicts $claim "$DIR/tablet.html")" = holds ] || judged_fail "$claim does not hold on the modelled tablet"
    pass "$claim holds on the modelled tablet"
done
check "C12's mechanism: more steps upward under mq-deadline" jq -e '
    [.measurement.points[] | {key: .parameters.scheduler, value: ([.repetitions[].upward_fraction] | add / length)}] | from_entries
    | .["mq-deadline"] > .none + 0.2 and .["mq-deadline"] > .bfq + 0.2' "$DIR/scheduler.json"

FILE=$DIR/bench
for part in 'threads --block-size 1,512,4k --threads 1,2,4,8,16 --time 0.3' 'basic --pattern sequential,random --reads 300 --repeat 4' 'order --pattern sort,shuffle,rand --block-size 1 --reads 100 --repeat 6'; do
    read -ra words <<<"$part"
    "$FLASHMOB" --quiet bench disk "$FILE" --size 256MiB "${words[@]:1}" --save "$DIR/own-${words[0]}.json" >/dev/null 2>"$DIR/own.log" || { cat "$DIR/own.log" >&2; fail "bench disk $part"; }
done
"$FLASHMOB" report "$DIR"/own-*.json -o "$DIR/own.html"
for claim in C3 C10 C11; do
    verdict=$(verdicts $claim "$DIR/own.html" | { grep -Ex 'holds|fails' || true; } | sort -u | tr '\n' ' ')
    [ -n "$verdict" ] || fail "$claim is not judged on this machine's disk"
    pass "$claim on this machine's disk: $verdict"
done
# C2 is about tablets, and this is none; schedulers were not compared.
for claim in C2 C12; do
    verdict=$(verdicts $claim "$DIR/own.html" | sort -u | tr '\n' ' ')
    [ "$verdict" = 'open ' ] || fail "$claim was not measured on this machine and is called otherwise: $verdict"
done
pass 'what was not measured is called that'
