#!/usr/bin/env bash
# Shows that nbdcopy brings an image in and out unchanged over four connections, a unix socket and one request at a time; zeros too.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdcopy nbdinfo

# image FILE MIB: random bytes with a hole in the middle.
image() {
    head -c "$(($2 * 1048576))" /dev/urandom >"$1"
    dd if=/dev/zero of="$1" bs=1M seek=$(($2 / 2)) count=$(($2 / 8)) conv=notrunc status=none
}

start_cluster 4 16MiB 'layout = "striped"' 'stripe = "64KiB"'
image "$DIR/in.img" 64
check 'in over 4 connections' nbdcopy --connections=4 --requests=64 --flush "$DIR/in.img" "$URI"
check 'out over 4 connections' nbdcopy --connections=4 --requests=64 "$URI" "$DIR/out.img"
check 'what came out is what went in' cmp "$DIR/in.img" "$DIR/out.img"

image "$DIR/in2.img" 64
check 'in over the unix socket, small requests' nbdcopy --connections=4 --request-size=4096 "$DIR/in2.img" "$UNIX_URI"
check 'out by synchronous requests' nbdcopy --synchronous "$URI" "$DIR/out2.img"
check 'what came out is what went in' cmp "$DIR/in2.img" "$DIR/out2.img"

truncate -s 64M "$DIR/zeros.img"
check 'zeros in, as write-zeroes' nbdcopy --destination-is-zero --allocated "$DIR/zeros.img" "$URI"
check 'zeros in over old bytes' nbdcopy "$DIR/zeros.img" "$URI"
check 'zeros out' nbdcopy "$URI" "$DIR/out3.img"
check 'what came out is zeros' cmp "$DIR/zeros.img" "$DIR/out3.img"
