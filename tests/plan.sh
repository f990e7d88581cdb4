#!/usr/bin/env bash
# Shows that flashmob plan names rate, latency, requests per frame, share of flash, bottleneck and remedies; that its JSON is as published; that a cable brings what it says; bad names are explained.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need jq

# plan NAME OPTION...: the answer as JSON in $DIR/NAME.json.
plan() {
    local name=$1
    shift
    "$FLASHMOB" plan "$@" --output json >"$DIR/$name.json" 2>"$DIR/$name.log" || { cat "$DIR/$name.log" >&2; fail "plan $*"; }
}

# holds NAME WHAT FILTER: passes if the filter is true of an answer.
holds() {
    jq -e "$3" "$DIR/$1.json" >/dev/null || { jq -c . "$DIR/$1.json" >&2; fail "$2"; }
    pass "$2"
}

"$FLASHMOB" plan --nodes 8 --flash emmc --wifi 11n --gateway wireless --read 1B >"$DIR/issue.txt" 2>"$DIR/issue.log" || fail 'the first example'
cat "$DIR/issue.txt" >&2
while read -r what pattern; do
    grep -Eq -- "$pattern" "$DIR/issue.txt" || fail "the answer lacks: $what"
done <<'PATTERNS'
rate ^8.nodes.*wireless.gateway:.[0-9,]+.reads.of.1.B.a.second
modelled MODELLED
p50 p50.[0-9.]+.ms
p99 p99.[0-9.]+.ms
frames [0-9.]+.requests.per.frame
flash [0-9.]+.%.of.the.nodes'.own.flash.limit
bottleneck bottleneck..(flash|air|gateway.CPU|too.few|shared)
remedies would.help..[^:]+:.x[0-9.]+
method how.*(simulated|closed.form)
PATTERNS
pass 'rate, p50, p99, requests per frame, share of flash, bottleneck, remedies with factors, method; called modelled'
[ ! -s "$DIR/issue.log" ] || fail 'something on stderr although that is no terminal'
pass 'no progress line where there is no terminal'

# The published form, by the schema itself: what it requires is there, and nothing that it does not know.
plan issue --nodes 8 --flash emmc --wifi 11n --gateway wireless --read 1B
"$PYTHON" - "$ROOT/schema/plan-1.json" "$DIR/issue.json" <<'PY' || fail 'the answer is not as schema/plan-1.json says'
import json, sys
schema, answer = (json.load(open(path)) for path in sys.argv[1:])
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}

def check(schema, value, where):
    if "$ref" in schema:
        return check(root["$defs"][schema["$ref"].split("/")[-1]], value, where)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            problems = [check(one, value, where) for one in schema[key]]
            return [] if [] in problems else problems[0]
    if "const" in schema:
        return [] if value == schema["const"] else [f"{where}: {value}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value}"]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, TYPES[t]) for t in types):
        return [f"{where}: {value!r} is no {types}"]
    found = []
    if isinstance(value, dict):
        found += [f"{where}: no {key}" for key in schema.get("required", []) if key not in value]
        known = schema.get("properties", {})
        for key, inner in value.items():
            if key in known:
                found += check(known[key], inner, f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{where}: unknown {key}")
    if isinstance(value, list):
        found += [p for i, inner in enumerate(value) for p in check(schema.get("items", {}), inner, f"{where}[{i}]")]
    return found

root = schema
problems = check(schema, answer, "plan")
print(*problems, sep="\n", end="" if not problems else "\n", file=sys.stderr)
# It must be able to fail.
assert check(schema, {**answer, "seed": "x"}, "plan") and check(schema, {**answer, "more": 1}, "plan")
sys.exit(bool(problems))
PY
pass 'the JSON is as schema/plan-1.json says'
holds issue 'it says that it is modelled, and of what' '.modelled == true and .air.profile == "11n" and .flash.profile == "emmc" and .air.gateway == "wireless"'
plan again --nodes 8 --flash emmc --wifi 11n --gateway wireless --read 1B
cmp -s "$DIR/issue.json" "$DIR/again.json" || fail 'the same question has two answers'
pass 'the same question has the same answer'

# A gateway that is a station sends everything over the air twice: where the air holds the cluster back, a cable brings nearly twice as much.
LOAD=(--nodes 8 --flash ufs --wifi 11g --read 1B --batch 1 --links 4)
plan wireless "${LOAD[@]}" --gateway wireless
plan wired "${LOAD[@]}" --gateway wired
holds wireless 'frame by frame the air holds it back' '.bottleneck[0] == "air" and .requests_per_batch == 1'
holds wireless 'that is a cell always full: by formula' '.method == "closed_form" and (.formula | contains("Bianchi"))'
jq -s -e '(.[0].remedies[] | select(.what | contains("wire the gateway")).factor) as $said | (.[1].requests_per_second / .[0].requests_per_second) as $is
    | $said > 1.7 and $said / $is > 0.9 and $said / $is < 1.1' "$DIR/wireless.json" "$DIR/wired.json" >/dev/null ||
    fail "a cable: said $(jq -c .remedies "$DIR/wireless.json"), is $(jq .requests_per_second "$DIR/wired.json") for $(jq .requests_per_second "$DIR/wireless.json")"
pass "a cable brings what was said: $(jq -r '.remedies[] | select(.what | contains("wire the gateway")) | "x\(.factor * 100 | round / 100)"' "$DIR/wireless.json")"
holds wireless 'batches that clock themselves are among the remedies' 'any(.remedies[]; (.what | contains("batch")) and .factor > 2)'

plan one --nodes 8 --flash nexus7-emmc --wifi 11n --read 1B --outstanding-total 1
holds one "one request outstanding: Little's law, and too few of them" '.method == "closed_form" and (.formula | contains("Little")) and .bottleneck[0] == "outstanding"'
plan writes --nodes 4 --flash sdcard --wifi 11ac --write 4KiB --outstanding-total 64
holds writes 'writes' '.parameters.read_percent == 0 and .requests_per_second > 0'

refused 'a flash that there is not' "no modelled device 'emcc'.*did you mean 'emmc'" "$FLASHMOB" plan --flash emcc
refused 'an air that there is not' "no modelled air '11m'.*did you mean '11" "$FLASHMOB" plan --wifi 11m
refused 'several cells and a wireless gateway' 'add --gateway wired' "$FLASHMOB" plan --cells 2 --gateway wireless
refused 'reads and writes' 'cannot be used with' "$FLASHMOB" plan --read 1B --write 1B
