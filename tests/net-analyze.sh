#!/usr/bin/env bash
# Shows that net analyze finds planted causes in captures of tcpdump, whichever end they come from, counts as tshark does, and says what is wrong with bad input.
# Tier: slow
# Canary: none-in-code
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need tcpdump tshark jq
need_netns 'it captures in the lab'

# NAME|CAUSE|AIR|OPTIONS OF THE RECEIVER|OF THE SENDER. What the path holds is at least twice what the small buffers let under way.
PLANTED=(
    'recv1|receiver_limited|rate=20Mbit,delay=4ms|--buffer 8192|'
    'recv2|receiver_limited|rate=50Mbit,delay=8ms|--buffer 16384|'
    'recv3|receiver_limited|rate=20Mbit,delay=16ms|--buffer 16384|'
    'recv4|receiver_limited|rate=50Mbit,delay=32ms|--buffer 65536|'
    'recv5|receiver_limited|rate=100Mbit,delay=20ms|--buffer 131072|'
    'send1|sender_limited|rate=20Mbit,delay=8ms||--buffer 12000'
    'send2|sender_limited|rate=50Mbit,delay=8ms||--buffer 32768'
    'send3|sender_limited|rate=20Mbit,delay=16ms||--buffer 24000'
    'send4|sender_limited|rate=50Mbit,delay=32ms||--buffer 131072'
    'send5|sender_limited|rate=100Mbit,delay=20ms||--buffer 180000'
    'loss1|congestion_limited|rate=20Mbit,delay=4ms,loss=1%||'
    'loss2|congestion_limited|rate=50Mbit,delay=8ms,loss=1%||'
    'loss3|congestion_limited|rate=20Mbit,delay=16ms,loss=1%||--seconds 2'
    'loss4|congestion_limited|rate=50Mbit,delay=32ms,loss=1%||--seconds 2.5'
    'loss5|congestion_limited|rate=100Mbit,delay=20ms,loss=1%||--seconds 2'
    'slow1|application_limited|rate=20Mbit,delay=4ms||--write 20000 --pause 0.05'
    'slow2|application_limited|rate=50Mbit,delay=8ms||--write 1000 --pause 0.005'
    'slow3|application_limited|rate=20Mbit,delay=16ms||--write 10000 --pause 0.02'
    'slow4|application_limited|rate=50Mbit,delay=32ms||--write 50000 --pause 0.15'
    'slow5|application_limited|rate=100Mbit,delay=20ms||--write 6000 --pause 0.015'
)
PORT=5001

# capture NAME AIR RECEIVER SENDER: $DIR/NAME.sender.pcap and $DIR/NAME.receiver.pcap. The sender's packets leave one by one, as from hardware that does not
# cut them up itself: Linux counts a large one against SO_SNDBUF only when it is full.
capture() {
    local name=$1 tap="tcpdump -Z root -i air0 -s 128 -U --immediate-mode -w $DIR/$1"
    # shellcheck disable=SC2016 # the lab's shells expand them
    timeout 60 "$FLASHMOB" -q lab run --nodes 1 --no-gateway --air "wan,$2" --node-command "
        $tap.receiver.pcap tcp port $PORT 2>$DIR/$name.tapped &
        until [ -s $DIR/$name.tapped ]; do sleep 0.01; done
        exec $PYTHON $TESTS/planted_traffic.py serve \$ADDRESS:$PORT $3" -- sh -ec "
        ip link set air0 gso_max_segs 1
        $tap.sender.pcap tcp port $PORT 2>$DIR/$name.tapping & tap=\$!
        until [ -s $DIR/$name.tapping ]; do sleep 0.01; done
        $PYTHON $TESTS/planted_traffic.py send \$FLASHMOB_NODES:$PORT $4
        sleep 0.1; kill -INT \$tap; wait \$tap" >"$DIR/$name.log" 2>&1
}

# judge NAME CAUSE SIDE: passes if that cause is found. The first connection is the one with most bytes.
judge() {
    "$FLASHMOB" net analyze "$DIR/$1.$3.pcap" --output json >"$DIR/$1.$3.json" 2>>"$DIR/$1.log" || return 1
    jq -e --arg cause "$2" '.measurement.flows[0].up.verdict | .cause == $cause and .fraction > 0.5' "$DIR/$1.$3.json" >/dev/null
}

# one PLANTED: three captures of labs that were in time; NAME.runs has a line for each, NAME.late one for each lab that was not.
one() {
    local name cause air receiver sender side run status word
    IFS='|' read -r name cause air receiver sender <<<"$1"
    # What the canary plants: senders and receivers that nothing holds back, called what they are not.
    [ -z "${CANARY:-}" ] || receiver='' sender=''
    : >"$DIR/$name.runs"
    for run in 1 2 3 4 5 6; do
        [ "$(wc -l <"$DIR/$name.runs")" -lt 3 ] || return 0
        status=0
        capture "$name" "$air" "$receiver" "$sender" || status=$?
        case $status in
            0) ;;
            75) echo late >>"$DIR/$name.late" && continue ;;
            *) echo "lab $run ended with $status" >>"$DIR/$name.broken" && return 0 ;;
        esac
        word=right
        for side in sender receiver; do judge "$name" "$cause" "$side" || word=wrong; done
        echo $word >>"$DIR/$name.runs"
    done
}

# Two at a time: more would make each other late.
busy_begin
half() { local i; for ((i = $1; i < ${#PLANTED[@]}; i += 2)); do one "${PLANTED[i]}"; done; }
half 0 &
first=$!
half 1
wait $first
late=
for planted in "${PLANTED[@]}"; do
    IFS='|' read -r name cause _ <<<"$planted"
    [ ! -e "$DIR/$name.broken" ] || { tail -n 5 "$DIR/$name.log" >&2; fail "$name: $(cat "$DIR/$name.broken")"; }
    if [ "$(wc -l <"$DIR/$name.runs")" -lt 3 ]; then late+=" $name"; continue; fi
    found=$(jq -r '.measurement.flows[0].up.verdict | "\(.cause) \(100 * .fraction | floor) %"' "$DIR/$name".{sender,receiver}.json 2>&1 | tr '\n' ',')
    right=$(grep -c right "$DIR/$name.runs" || true)
    # What a busy machine did to a program is in its capture as well, so one of three may say otherwise.
    [ "$right" -ge 2 ] || judged_fail "$name is $cause from both ends in $right of 3 captures; the last: $found"
    pass "$name is $cause from both ends in $right of 3 captures ($found)"
done
[ -z "$late" ] || void "labs were late:$late"

# The same packets through tshark.
for name in recv2 send3 loss1 loss2 loss4 slow5; do
    for side in sender receiver; do
        check "$name near the $side counts as tshark does" "$PYTHON" "$TESTS/compare_tshark.py" "$DIR/$name.$side.json" "$DIR/$name.$side.pcap"
    done
done

# Its own capture, inside the lab: what is kept is what was told.
# shellcheck disable=SC2016
timeout 60 "$FLASHMOB" -q lab run --nodes 1 --no-gateway --air wan,rate=20Mbit,delay=8ms --node-command "
    exec $PYTHON $TESTS/planted_traffic.py serve \$ADDRESS:$PORT --buffer 16384" -- sh -ec "
    flashmob net analyze --capture air0 --filter-port $PORT --write $DIR/own.pcapng --save $DIR/own.json >$DIR/own.txt 2>$DIR/own.log & own=\$!
    until grep -q 'capturing' $DIR/own.log; do sleep 0.01; done
    $PYTHON $TESTS/planted_traffic.py send \$FLASHMOB_NODES:$PORT --seconds 1
    kill -INT \$own; wait \$own" || [ $? -eq 75 ] || fail 'it does not listen in the lab'
check 'it listens itself, until Ctrl-C' jq -e '.measurement | .packets > 100 and .lost_packets == 0 and .flows[0].up.verdict.cause == "receiver_limited"' "$DIR/own.json"
check 'it says that the air was modelled' jq -e '[.warnings[].code] | index("modelled")' "$DIR/own.json"
"$FLASHMOB" net analyze "$DIR/own.pcapng" --output json >"$DIR/again.json" 2>"$DIR/again.log"
check 'what it wrote says the same again' jq -en --slurpfile a "$DIR/own.json" --slurpfile b "$DIR/again.json" '$a[0].measurement.flows == $b[0].measurement.flows'
check 'tshark reads it' tshark -r "$DIR/own.pcapng" -c 5

# Through a pipe; with nanoseconds; what is left of a capture.
check 'from standard input' sh -c "'$FLASHMOB' net analyze - <'$DIR/recv2.sender.pcap' | grep RECEIVER-LIMITED"
check 'as pcapng by another program' sh -c "editcap -F pcapng '$DIR/recv2.sender.pcap' '$DIR/other.pcapng' && '$FLASHMOB' net analyze '$DIR/other.pcapng' | grep RECEIVER-LIMITED"
check 'what one way alone held back is not guessed' sh -c "tcpdump -r '$DIR/recv2.sender.pcap' -w - dst port $PORT | '$FLASHMOB' net analyze - | grep 'no ACKs for it were captured: the limit is unknown'"
head -c 50000 "$DIR/recv2.sender.pcap" >"$DIR/cut.pcap"
check 'what came before a cut counts' sh -c "'$FLASHMOB' net analyze '$DIR/cut.pcap' | grep 'cut off at byte'"
(head -c 50000 "$DIR/other.pcapng"; head -c 5000 /dev/urandom) >"$DIR/damaged.pcapng"
check 'what came before damage counts' sh -c "'$FLASHMOB' net analyze '$DIR/damaged.pcapng' --output json | jq -e '.measurement.ended_by and .measurement.packets > 100'"

# Foreign files: an answer that says which.
gzip -k "$DIR/recv2.sender.pcap" && : >"$DIR/empty" && head -c 10 "$DIR/recv2.sender.pcap" >"$DIR/ten.pcap"
mkfifo "$DIR/fifo"
head -c 4096 /dev/urandom >"$DIR/noise"
refused 'gzip' 'gunzip' "$FLASHMOB" net analyze "$DIR/recv2.sender.pcap.gz"
refused 'an empty file' 'empty' "$FLASHMOB" net analyze "$DIR/empty"
refused 'ten bytes of a capture' 'cut off' "$FLASHMOB" net analyze "$DIR/ten.pcap"
refused 'JSON' 'JSON' "$FLASHMOB" net analyze "$DIR/own.json"
refused 'text' 'text' "$FLASHMOB" net analyze /etc/passwd
refused 'noise' 'no capture' "$FLASHMOB" net analyze "$DIR/noise"
refused 'a folder' 'folder' "$FLASHMOB" net analyze "$DIR"
refused 'a device' 'no capture' "$FLASHMOB" net analyze /dev/zero
refused 'a file that is not there' 'No such file' "$FLASHMOB" net analyze "$DIR/absent"
refused 'an interface that is not there' "no interface 'absent0'.*lo" "$FLASHMOB" net analyze --capture absent0 --time 1
refused 'listening without the right to' 'sudo tcpdump' setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$FLASHMOB" net analyze --capture lo --time 1
refused 'listening without tcpdump' 'apt install tcpdump' env PATH="$DIR" "$FLASHMOB" net analyze --capture lo --time 1
cat "$DIR/recv2.sender.pcap" >"$DIR/fifo" &
check 'a FIFO' sh -c "'$FLASHMOB' net analyze '$DIR/fifo' | grep RECEIVER-LIMITED"
