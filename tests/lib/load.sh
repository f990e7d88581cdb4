# Loads that check every byte (tests/nbdload.py) in the background, their phases and their results; tests/lib.sh sources this file.
# shellcheck shell=bash

# start_load NAME OPTION...: tests/nbdload.py in the background; result in $DIR/NAME.out, progress in $DIR/NAME.progress.
start_load() {
    local name=$1
    shift
    rm -f "$DIR/$name.progress"
    start "$name" "$PYTHON" "$TESTS/nbdload.py" "${LOAD_URI:-$URI}" --progress "$DIR/$name.progress" "$@"
    wait_for 30 "the first answers of $name" load_running "$name"
}

load_running() { jq -e '.phase_done > 200' "$DIR/$1.progress" || ! alive "$1"; }

# next_phase NAME: what is measured from here on is a phase of its own.
next_phase() {
    local name=$1 phase
    phase=$(jq .phase "$DIR/$name.progress")
    kill -USR1 "${PID[$name]}"
    wait_for 10 "the next phase of $name" jq -e ".phase > $phase" "$DIR/$name.progress"
}

# load_seconds NAME SECONDS: waits until the phase of a load has lasted so long.
load_seconds() { wait_for $((${2%.*} + 30)) "$2 s of $1" jq -e ".phase_seconds >= $2" "$DIR/$1.progress"; }

# extent_served NAME EXTENT COUNT: waits until an extent has that many good answers in the phase of a load.
extent_served() { wait_for 30 "$3 answers of extent $2" jq -e ".phase_extents[$2].good >= $3" "$DIR/$1.progress"; }

# extent_failed NAME EXTENT COUNT: waits until so many requests of an extent have failed in the phase of a load.
extent_failed() { wait_for 30 "$3 errors of extent $2" jq -e ".phase_extents[$2].errors >= $3" "$DIR/$1.progress"; }

# end_load NAME: asks a load to end, expects its result.
end_load() {
    kill -TERM "${PID[$1]}" 2>/dev/null || true
    finish "$1" 60
    [ -s "$DIR/$1.out" ] || fail "$1 ended without a result (status $STATUS)"
}

# result NAME FILTER: a value out of a load's result.
result() { jq -r "$2" "$DIR/$1.out"; }

# expect_result NAME WHAT FILTER: passes if the filter is true of a load's result.
expect_result() {
    jq -e "$3" "$DIR/$1.out" >/dev/null || { jq -c . "$DIR/$1.out" | cut -c1-3000 >&2; fail "$2"; }
    pass "$2"
}

# no_wrong_byte NAME: nothing that was read differed from what was written.
no_wrong_byte() { expect_result "$1" "no wrong byte in $(result "$1" .reads) reads" '.mismatches == 0 and .reads > 0'; }
