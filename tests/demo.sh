#!/usr/bin/env bash
# Shows that `flashmob demo` runs from beginning to end, prints its table, replaces a lost node, and leaves neither processes nor files.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need mkfs.ext4

# Everything that the demo starts carries this mark in its environment, so that leftovers are found.
export FLASHMOB_TEST_MARK=$DIR TMPDIR=$DIR/tmp
mkdir "$TMPDIR"
leftovers() {
    local environ
    for environ in /proc/[0-9]*/environ; do
        if [ "$environ" != "/proc/$$/environ" ] && grep -qz "^FLASHMOB_TEST_MARK=$DIR\$" "$environ" 2>/dev/null; then
            basename "$(readlink "$(dirname "$environ")/exe" 2>/dev/null)" 2>/dev/null
        fi
    done | grep -x flashmob
}
status=0
timeout 280 "$FLASHMOB" demo --seconds 1 >"$DIR/demo.out" 2>"$DIR/demo.log" || status=$?
[ $status -eq 0 ] || { tail -n 20 "$DIR/demo.out" >&2; fail "the demo ended with $status"; }
pass 'the demo ended with 0'
for word in 'auto' '100' 'p99' 'reads/s'; do
    grep -q -- "$word" "$DIR/demo.out" || { cat "$DIR/demo.out" >&2; fail "its table does not mention '$word'"; }
done
pass 'its table has the modes of P1'
for line in 'is killed, and its files deleted' 'its copies are made again' 'every byte compared' 'the old files are back at node 3: refused'; do
    grep -q -- "$line" "$DIR/demo.out" || { cat "$DIR/demo.out" >&2; fail "its second act does not say '$line'"; }
done
pass 'a node was lost with its file, and replaced'
[ -z "$(leftovers)" ] || fail "processes are left: $(leftovers | wc -l)"
pass 'no process is left'
[ -z "$(ls -A "$TMPDIR")" ] || fail "files are left: $(ls -A "$TMPDIR")"
pass 'no file is left'
