#!/usr/bin/env bash
# Shows that a lab which could not keep the air's time says so, and that one which could does not.
# Tier: slow
# Canary: lateness-untold
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'a lab for root'

# The load that both have: little enough for any machine, without a pause in which nobody would notice.
# shellcheck disable=SC2016
load='touch "$0"; exec flashmob bench nbd "$FLASHMOB_URI" --block-size 1 --outstanding 4 --time 2'
lab=("$FLASHMOB" lab run --nodes 2 --air 11n --no-io -- sh -c "$load" "$DIR/running")

# A loaded machine is late, and right to say so: that is no verdict then. One that is not is in time nearly always.
busy_begin
LATE=()
for _ in 1 2 3 4 5; do
    status=0
    "${lab[@]}" >"$DIR/run.out" 2>"$DIR/run.log" || status=$?
    lab_is_well $status || { cat "$DIR/run.log" >&2; fail "a lab ended with status $status"; }
    LATE+=("$status")
    [ $status -ne 0 ] || cp "$DIR/run.log" "$DIR/well.log"
done
sign_test 'a lab that was left alone is in time (the status of five)' 0 "${LATE[@]}"
check 'it says how late it was' grep -q 'lab: modelled air 11n: .* late p50 .* p99 .* max' "$DIR/well.log"
check 'it does not call itself void' sh -c "! grep -q VOID '$DIR/well.log'"

rm -f "$DIR/running"
start late "${lab[@]}"
wait_for 30 'the load in the lab' test -e "$DIR/running"
middle=$(cat "/proc/${PID[late]}/task/${PID[late]}/children")
supervisor=$(cat "/proc/${middle% }/task/${middle% }/children")
# The load has to be under way, and the pause itself is the point of this test.
sleep 0.5
kill -STOP "${supervisor% }"
sleep 0.3
kill -CONT "${supervisor% }"
finish late 30
check 'a lab that stood still for 300 ms says so with its status' [ "$STATUS" -eq 75 ]
check 'and in words' log_has late 'VOID'
