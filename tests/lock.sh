#!/usr/bin/env bash
# Shows that a file is served by one node at a time, that a killed node leaves no lock behind, and that a gateway's own extent counts as well.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need nbdinfo

start_node first 8MiB
in_use='first\.img.*(in use|locked|already|another)|(in use|locked|already|another).*first\.img'
refused 'a second node on the same file' "$in_use" "$FLASHMOB" node --data "$DIR/first.img" --size 8MiB --listen 127.0.0.1:0
ln -s first.img "$DIR/link.img"
refused 'a second node on the same file by another name' 'link\.img|first\.img' "$FLASHMOB" node --data "$DIR/link.img" --size 8MiB --listen 127.0.0.1:0
cat >"$DIR/local.toml" <<TOML
listen = ["127.0.0.1:0"]
[[volume]]
name = "local"
[[volume.node]]
path = "$DIR/first.img"
size = "8MiB"
TOML
refused 'a gateway that would serve the file itself' "$in_use" "$FLASHMOB" gateway "$DIR/local.toml"
check 'the first node was not disturbed' alive first

stop first KILL
run_node first
pass 'after kill -9 the file can be served at once'
stop first
start local "$FLASHMOB" gateway "$DIR/local.toml"
started local 'volume local ready'
refused 'a node on a file that the gateway serves' "$in_use" "$FLASHMOB" node --data "$DIR/first.img" --size 8MiB --listen 127.0.0.1:0
