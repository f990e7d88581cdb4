# Verdicts about time: what judges them is robust against a machine that does other things, or says that it cannot tell.
#
# tests/lib.sh sources this file. A slow test calls `busy_begin` before it measures; `judged` and `sign_test` then fail it, or end it as void
# if somebody else took part of the machine meanwhile. What passes has passed: other work makes figures worse, and never better.
# shellcheck shell=bash

# The status that tells tests/run that the machine was too busy to judge.
VOID=75
# So many processors in the hands of others are too many: from here on ratios of times differ by more than what they are to show.
FOREIGN_MAX=${FOREIGN_MAX:-0.25}

# void MESSAGE...: ends the test without a verdict.
void() {
    printf '    void: %s\n' "$*" >&2
    exit $VOID
}

# busy_begin [NAME...]: from here on it counts what others do; of the processes of these names also how long they wait for a processor.
busy_begin() {
    local name
    BUSY_PIDS=()
    for name in "$@"; do BUSY_PIDS+=("${PID[$name]}"); done
    "$PYTHON" "$TESTS/judge.py" look "$DIR/busy.json" $$ "${BUSY_PIDS[@]}"
}

# busy_share: what others did since, as JSON.
busy_share() { "$PYTHON" "$TESTS/judge.py" busy "$DIR/busy.json" $$ "${BUSY_PIDS[@]}"; }

# is_busy: whether others had so much of the machine that times say nothing; what they had is left in BUSY.
is_busy() {
    BUSY=$(busy_share)
    jq -e ".foreign_processors > $FOREIGN_MAX or .stolen_processors > $FOREIGN_MAX" <<<"$BUSY" >/dev/null
}

# void_if_busy WHAT: ends the test as void if others had too much of the machine.
void_if_busy() { ! is_busy || void "$*: others had too much of the machine: $BUSY"; }

# judged_fail MESSAGE...: a verdict on time that is no: failed, or void.
judged_fail() {
    void_if_busy "$*"
    fail "$* (the machine: $BUSY)"
}

# judged WHAT VALUE LIMIT [UNIT]: as at_most, of a time.
judged() {
    awk -v v="$2" -v l="$3" 'BEGIN { exit !(v <= l) }' || judged_fail "$1: $2 ${4:-} is more than $3"
    pass "$1: $2 ${4:-} (at most $3)"
}

# sign_test WHAT BOUND RATIO...: fails if the ratios exceed the bound at 95 %: so many above it are rarer than 1 in 20 where the median is at it.
sign_test() {
    local what=$1 status=0 said
    shift
    said=$("$PYTHON" "$TESTS/judge.py" exceeds "$@") || status=$?
    [ $status -le 1 ] && [ -n "$said" ] || fail "$what: no verdict: $said"
    [ $status -eq 0 ] || judged_fail "$what: $said"
    pass "$what: $said"
}
