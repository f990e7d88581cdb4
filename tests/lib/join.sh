# Nodes that are enrolled in a cluster with keys, with a code; sourced after lib.sh.
# shellcheck shell=bash

join=("$FLASHMOB" join "$DIR/gateway.toml" --listen 127.0.0.1:0)

# begin_join NAME OPTION...: in the background; its answers come from $DIR/NAME.in. Sets PLACE.
begin_join() {
    local name=$1
    shift
    rm -f "$DIR/$name.in"
    mkfifo "$DIR/$name.in"
    # Open for reading and writing, so that nobody waits for the other end.
    exec {answers}<>"$DIR/$name.in"
    "${join[@]}" "$@" <"$DIR/$name.in" >"$DIR/$name.out" 2>"$DIR/$name.log" &
    PID[$name]=$!
    wait_for 20 "$name to listen" has_place "$name"
    PLACE=$(place_of "$name")
}
place_of() { sed -nE 's/.*--enroll (127\.0\.0\.1:[0-9]+)$/\1/p' "$DIR/$1.out" | head -n 1; }
has_place() { grep -Eq -e '--enroll 127|the token is in' "$DIR/$1.out"; }
answer() { echo "$1" >&"$answers"; }
# code NAME N: the N-th code that it shows.
code() {
    wait_for 20 "code $2 of $1" has_code "$1" "$2"
    sed -nE 's/^code[^:]*: ([0-9A-Z-]+), valid.*/\1/p' "$DIR/$1.out" | sed -n "$2p"
}
has_code() { [ "$(grep -Ec '^code' "$DIR/$1.out")" -ge "$2" ]; }
asks() { grep -q '\[y/N\]' "$DIR/$1.log"; }

# enrolling NODE CODE [OPTION...]: starts a node that types a code.
enrolling() {
    local node=$1 code=$2
    shift 2
    # shellcheck disable=SC2094
    "$FLASHMOB" node --data "$DIR/$node.img" --size 16MiB --listen "${ADDR[$node]:-127.0.0.1:0}" --name "$node" "$@" <<<"$code" >"$DIR/$node.out" 2>"$DIR/$node.log" &
    PID[$node]=$!
}
# address_of NODE: where it listens, once it does.
address_of() {
    started "$1" 'ready, listening on'
    ADDR[$1]=$(sed -nE 's/.*listening on (127\.0\.0\.1:[0-9]+).*/\1/p' "$DIR/$1.log" | head -n 1)
}
