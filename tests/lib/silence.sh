# All four nodes of a volume with copies are silent for a while; sourced after copies.sh. How that comes about is the test's: its functions fall_silent
# and come_back.
# shellcheck shell=bash
SILENCE_S=${SILENCE_S:-10}
# What the volume's configuration says besides.
SILENCE_LINES=('evict_after = "3s"' 'timeout = "120s"' 'reconnect_max = "500ms"')

served() { jq "[.phase_extents[].good] | add" "$DIR/load.progress"; }

# silence: under load nobody is put out and nothing fails, whoever comes back first.
silence() {
    check 'the volume is filled' "$PYTHON" "$TESTS/nbdload.py" "$URI" --fill --depth 64 --model "$DIR/model"
    start_load load --extents 4 --connections 2 --depth 8 --reads 30 --model "$DIR/model"
    for extent in 0 1 2 3; do extent_served load $extent 200; done
    fall_silent
    next_phase load
    sleep "$SILENCE_S" # it is the length of the silence that matters
    say "answers during the silence: $(served)"
    check 'nobody was put out meanwhile' copies '.evictions == 0'
    next_phase load
    come_back
    for extent in 0 1 2 3; do extent_served load $extent 500; done
    check 'nor afterwards' copies '.evictions == 0 and .evicted_copies == 0'
    end_load load
    no_wrong_byte load
    expect_result load 'no request failed' '.errors == {} and .unanswered == 0 and .disconnects == 0'
    check 'nothing is behind' are_whole
    check 'what is there is what was written' is_all_there
}
