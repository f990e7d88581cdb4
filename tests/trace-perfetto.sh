#!/usr/bin/env bash
# Shows that a trace for Perfetto has every span on the track of its place, layer and file, nested, with its arrows, as Perfetto's own definitions read it, and equal to the CSV; by its trace processor as well where that can be had.
# Tier: slow
# Canary: none-in-code
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need python3 jq

# Perfetto's definitions come from PyPI, once; they are kept beside what else is built.
UNREACHED=
VENV=${CARGO_TARGET_DIR:-$ROOT/target}/venv-perfetto
if ! "$VENV/bin/python" -c 'import perfetto.protos' 2>/dev/null; then
    rm -rf "$VENV"
    check 'a place for Python packages' python3 -m venv "$VENV"
    timeout 120 "$VENV/bin/pip" install --quiet 'perfetto==0.59.1' 'protobuf>=6' >"$DIR/pip.out" 2>&1 || UNREACHED=1
fi

if [ -n "${UNREACHED:-}" ]; then
    tail -n 2 "$DIR/pip.out" | sed 's/^/      /' >&2
    # The unit tests show the form; that another program reads it nobody could show here.
    echo "    not run: the Python package 'perfetto' with Perfetto's own definitions cannot be loaded from PyPI here" >&2
    exit $NOT_RUN
fi

# What was traced has layers of the kernel with rights, and those of the program and SQLite without.
TRACE=$DIR/trace.pftrace TRACE_CSV=$DIR/trace.csv
check 'INSERTs with a rollback journal and with a WAL are traced' \
    timeout 280 "$FLASHMOB" trace sqlite "$DIR" --inserts 40 --journal DELETE,WAL --pairs 0 --perfetto "$TRACE" --csv "$DIR/trace.csv" --save "$DIR/trace.json"

# The trace processor is a program of 15 MB, which the package loads from Google's servers: not everywhere.
PROCESSOR=${TRACE_PROCESSOR:-$(command -v trace_processor_shell || true)}
if [ -z "$PROCESSOR" ]; then
    cat >"$DIR/processor.py" <<'PYTHON'
from perfetto.trace_processor.platform import PlatformDelegate
print(PlatformDelegate().get_shell_path(None))
PYTHON
    PROCESSOR=$(timeout 20 "$VENV/bin/python" "$DIR/processor.py" 2>/dev/null | tail -n 1 || true)
    [ -x "$PROCESSOR" ] || PROCESSOR=
fi
[ -n "$PROCESSOR" ] || say "not checked by Perfetto's trace processor: it could not be loaded here; TRACE_PROCESSOR=PATH names one"

# What the canary plants: a span that the trace does not have.
[ -z "${CANARY:-}" ] || tail -n 1 "$TRACE_CSV" >>"$TRACE_CSV"
for name in trace trace-2; do
    check "$name: slices and spans are the same, by Perfetto's definitions${PROCESSOR:+ and its trace processor}" \
        "$VENV/bin/python" "$TESTS/check_perfetto.py" "$DIR/$name.pftrace" "$DIR/$name.csv" ${PROCESSOR:+"$PROCESSOR"}
    say "$(cat "$DIR/check.out")"
done

# The check itself can fail: with a span less, with a name that differs, and with half a trace.
broken() { ! "$VENV/bin/python" "$TESTS/check_perfetto.py" "$@"; }
sed '$d' "$DIR/trace.csv" >"$DIR/short.csv"
check 'a span that only the trace has is found' broken "$TRACE" "$DIR/short.csv"
awk -F, -v OFS=, 'NR == 2 { $3 = "other" } 1' "$DIR/trace.csv" >"$DIR/renamed.csv"
check 'a name that differs is found' broken "$TRACE" "$DIR/renamed.csv"
head -c $(($(stat -c %s "$TRACE") / 2)) "$TRACE" >"$DIR/half.pftrace"
check 'half a trace is found' broken "$DIR/half.pftrace" "$DIR/trace.csv"
