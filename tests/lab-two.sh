#!/usr/bin/env bash
# Shows that two labs run side by side, and neither knows of the other.
# Tier: test
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'a lab for root; lab-unprivileged shows one for others'
need nbdcopy cmp

for lab in one two; do
    head -c 4M /dev/urandom >"$DIR/$lab.img"
    # Each writes, waits until the other has written as well, and reads back.
    start "$lab" "$FLASHMOB" lab run --nodes 2 --air 11n --extent 2MiB -- sh -ec "
        nbdcopy '$DIR/$lab.img' \"\$FLASHMOB_URI\"; touch '$DIR/$lab.written'
        until [ -e '$DIR/one.written' ] && [ -e '$DIR/two.written' ]; do sleep 0.02; done
        nbdcopy \"\$FLASHMOB_URI\" '$DIR/$lab.back'"
done
for lab in one two; do
    finish "$lab" 120
    # Two labs on a small machine may well be late.
    check "lab $lab ends well" lab_is_well "$STATUS"
    check "lab $lab has its own data" cmp "$DIR/$lab.img" "$DIR/$lab.back"
done
