# A real iperf3 as a server, which cannot say which port it was given; scripts that need it source this file.
# shellcheck shell=bash

# iperf3_listens NAME: that process listens at IPERF3_PORT.
iperf3_listens() { ss -Hltnp "sport = :$IPERF3_PORT" | grep -q "pid=${PID[$1]},"; }
iperf3_decided() { iperf3_listens "$1" || ! alive "$1"; }

# start_iperf3 NAME OPTION...: sets IPERF3_PORT. It is none of those that the kernel gives to connections; another test may still have it.
start_iperf3() {
    local name=$1 try
    shift
    for try in {1..20}; do
        IPERF3_PORT=$((10000 + RANDOM % 20000))
        start "$name" iperf3 -s -p "$IPERF3_PORT" "$@"
        wait_for 10 'iperf3 to listen' iperf3_decided "$name"
        ! iperf3_listens "$name" || return 0
        finish "$name" 10
    done
    fail "iperf3 found no port in $try attempts"
}
