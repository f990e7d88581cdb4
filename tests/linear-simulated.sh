#!/usr/bin/env bash
# Shows that what clients saw in simulated runs in which a standby takes over is linearizable, by a checker that is not ours: Porcupine, over 200 histories or more.
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
need go
SEEDS=${SEEDS:-4000} FIRST=${FIRST:-1}

(cd "$TESTS/linear" && go build -o "$DIR/linear" .) || fail 'the checker is not built; it needs a network once'
cd "$ROOT"
build=(--release) profile=release plant=()
if [ -n "${CANARY:-}" ]; then
    # Reads are answered without a lease, by whoever was in charge before.
    build=(--profile planted --features planted) profile=planted plant=(--plant lease-ignored --failures-max 1000)
fi
cargo build --quiet "${build[@]}" -p flashmob-lab --bin faults
mkdir "$DIR/histories"
# The simulator has an oracle of its own, which fails first.
"${CARGO_TARGET_DIR:-$ROOT/target}/$profile/faults" --copies --history "$DIR/histories" --first "$FIRST" --seeds "$SEEDS" "${plant[@]}" >"$DIR/faults.out" 2>&1 ||
    [ -n "${CANARY:-}" ] || { tail -n 30 "$DIR/faults.out" >&2; fail 'a seed failed'; }
count=$(find "$DIR/histories" -name '*.jsonl' | wc -l)
check "there are 200 histories: $count" test "$count" -ge 200
find "$DIR/histories" -name '*.jsonl' -print0 >"$DIR/list"
all_linear() { xargs -0 -n 500 "$DIR/linear" <"$DIR/list" >"$DIR/judged" || { grep -v Ok "$DIR/judged" >&2; return 1; }; }
check "each of $(find "$DIR/histories" -name '*.jsonl' -exec cat {} + | wc -l) operations is explained" all_linear
