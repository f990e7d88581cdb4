#!/usr/bin/env bash
# Shows that a part or a test that fails turns the whole red and stops nothing after it; that void, not run and planted bugs are judged as promised; that flake counts.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"

# said WHAT PATTERN FILE
said() { grep -Eq -- "$2" "$3" || { cat "$3" >&2; fail "$1: nothing said about '$2'"; }; pass "$1"; }
# ends WHAT STATUS COMMAND...: output in $DIR/out.
ends() {
    local what=$1 expected=$2 status=0
    shift 2
    "$@" >"$DIR/out" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || { cat "$DIR/out" >&2; fail "$what: status $status, not $expected"; }
    pass "$what"
}

# Parts: a make that only fails where it is told to.
cat >"$DIR/make" <<'MAKE'
#!/bin/sh
for part; do :; done
echo "== $part" >>"$RAN"
[ "$part" != "$FAILING" ] || { echo 'test planted ... FAILED'; exit 2; }
echo 'test result: ok. 3 passed; 0 failed; 0 ignored'
MAKE
chmod +x "$DIR/make"
export MAKE=$DIR/make RAN=$DIR/ran FAILING=none
for tier in test slow all; do
    : >"$RAN"
    ends "all parts of $tier pass" 0 "$ROOT/.ci/parts" "$tier"
    mapfile -t parts < <(sed 's/^== //' "$RAN")
    [ ${#parts[@]} -ge 7 ] || fail "only ${#parts[@]} parts of $tier"
    count=${#parts[@]}
    [ "$(sort "$RAN" | uniq -d)" = '' ] || fail "parts of $tier run twice"
    # All of them are run by the same loop: two will do where there are many.
    [ "$tier" != all ] || parts=("${parts[0]}" "${parts[-1]}")
    for part in "${parts[@]}"; do
        grep -q "^$part:" "$ROOT/Makefile" || fail "the Makefile has no target '$part'"
        : >"$RAN"
        FAILING=$part "$ROOT/.ci/parts" "$tier" >"$DIR/out" 2>&1 && fail "$part failed and $tier passed"
        [ "$(wc -l <"$RAN")" -eq "$count" ] || fail "after $part failed, other parts of $tier were not run"
        tail -n 1 "$DIR/out" | grep -qx "FAILED: $part" || { cat "$DIR/out" >&2; fail "$part is not named at the end"; }
    done
    pass "each of ${#parts[@]} of the $count parts of $tier turns it red by itself, and the others are run"
done
said 'what a part complained about is told again at the end' '^test planted \.\.\. FAILED$' "$DIR/out"
unset MAKE

# Tests: a runner of its own, with scripts that do as they are told.
mkdir -p "$DIR/checkout/tests" "$DIR/checkout/target/planted"
cp "$TESTS/run" "$TESTS/flake" "$DIR/checkout/tests"
cd "$DIR/checkout/tests"
unset CARGO_TARGET_DIR CI
# script NAME [LINE...]
script() {
    printf '%s\n' '#!/usr/bin/env bash' "# Shows that $1 does as it is told." "${@:2}" >"$1.sh"
    chmod +x "$1.sh"
}
script good '# Runs beside others.'
script lacking 'exit 77'
script busy '# Tier: slow' 'exit 75'
script busy-once '# Tier: slow' '[ -e was ] || { touch was; exit 75; }'
script finds '# Tier: slow' '# Canary: leak none-in-code' '[ -z "${CANARY:-}" ] || { echo "    FAIL: ${FLASHMOB_PLANTED:-one of its own}"; exit 1; }'
ends 'what cannot be run is skipped' 0 ./run
said 'and counted' '^1 passed, 0 failed, 1 skipped$' "$DIR/out"
CI=true ends 'but not in CI' 1 ./run
said 'where it failed' '^1 passed, 1 failed$' "$DIR/out"
ends 'void tests fail nothing' 0 ./run --tier slow --json "$DIR/lines"
said 'are named' '^NOT JUDGED, .* 3 times: busy$' "$DIR/out"
said 'and counted' '^2 passed, 0 failed, 1 skipped$' "$DIR/out"
[ "$(grep -c '"test":"busy",' "$DIR/lines")" -eq 3 ] || fail 'a void test is not run three times'
[ "$(jq -r 'select(.test == "busy-once") | .result' "$DIR/lines" | tr '\n' ' ')" = 'void pass ' ] || fail 'a void test is not repeated'
script void-in-test 'exit 75'
ends 'a deterministic test is never void' 1 ./run void-in-test
said 'but failed, at once' '^0 passed, 1 failed$' "$DIR/out"
script bad '# Tier: test' '# Runs beside others.' 'echo "    FAIL: planted"; exit 1'
ends 'one test that fails turns all red' 1 ./run
said 'and the others are run' '^1 passed, 2 failed, 1 skipped$' "$DIR/out"
said 'and says why' '^    FAIL: planted$' "$DIR/out"

cp /bin/true ../target/planted/flashmob
ends 'planted bugs that are found' 0 ./run --canaries
said 'are counted one by one' '^2 passed, 0 failed$' "$DIR/out"
said 'are planted by the binary' '^    FAIL: leak$' "$DIR/out"
said 'or by the script' '^    FAIL: one of its own$' "$DIR/out"
script blind '# Tier: slow' '# Canary: leak'
ends 'a planted bug that is not found is a failure' 1 ./run --canaries
said 'that is named' "'leak' was not found by blind" "$DIR/out"

ends 'flake fails as they do' 1 ./flake 2 --json "$DIR/flaky" good bad
said 'and counts failures' '^bad +2/2 +100\.0 %' "$DIR/out"
said 'with a bound' '^good +0/2 +77\.6 %' "$DIR/out"
[ "$(wc -l <"$DIR/flaky")" -eq 4 ] || fail 'not one line for each run'
