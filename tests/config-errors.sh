#!/usr/bin/env bash
# Shows that an error in the configuration or on the command line ends the program at once, and names file, line, value and remedy.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"

# wrong WHAT LINE PATTERN <CONFIG: refused; the message has FILE:LINE (any if LINE is 0), the pattern and a remedy.
wrong() {
    local what=$1 line=$2 pattern=$3 at=''
    cat >"$DIR/bad.toml"
    [ "$line" -eq 0 ] || at=":$line"
    refused "$what" "bad\.toml$at" "$FLASHMOB" gateway "$DIR/bad.toml"
    grep -Eiq -- "$pattern" "$DIR/check.out" || { cat "$DIR/check.out" >&2; fail "$what: nothing about '$pattern'"; }
    grep -q 'help: ' "$DIR/check.out" || { cat "$DIR/check.out" >&2; fail "$what: no remedy is named"; }
    if grep -q 'listening on' "$DIR/check.out"; then fail "$what: it listened before it read on"; fi
}

wrong 'a syntax error' 2 'not closed' <<'TOML'
listen = ["127.0.0.1:0"]
admin = "127.0.0.1:0
TOML
wrong 'a misspelt key' 1 'lisen.*listen|listen.*lisen|lisen' <<'TOML'
lisen = ["127.0.0.1:0"]
[[volume]]
name = "pool"
[[volume.node]]
address = "127.0.0.1:7411"
TOML
wrong 'no volume' 0 'volume' <<'TOML'
listen = ["127.0.0.1:0"]
TOML
wrong 'a volume without nodes' 2 'no nodes' <<'TOML'
listen = ["127.0.0.1:0"]
[[volume]]
name = "pool"
TOML
wrong 'a name used twice' 7 'pool' <<'TOML'
listen = ["127.0.0.1:0"]
[[volume]]
name = "pool"
[[volume.node]]
address = "127.0.0.1:7411"
[[volume]]
name = "pool"
[[volume.node]]
address = "127.0.0.1:7412"
TOML

# value WHAT PATTERN LINE-OF-VOLUME: a volume whose fourth line is wrong.
value() {
    printf 'listen = ["127.0.0.1:0"]\n[[volume]]\nname = "pool"\n%s\n[[volume.node]]\naddress = "127.0.0.1:7411"\n' "$3" |
        wrong "$1" 4 "$2"
}
value 'an unknown layout' 'mirror.*(linear|striped)|(linear|striped).*mirror' 'layout = "mirror"'
value 'a size without sense' '64KiX' 'stripe = "64KiX"'
value 'a batch of none' 'batch|0' 'batch = 0'
value 'a batch of words' 'soon.*auto|auto.*soon|soon' 'batch = "soon"'
value 'no links' 'links|0' 'links = 0'
value 'a time without sense' 'parsecs' 'timeout = "10 parsecs"'
value 'an unknown key in a volume' 'replicas' 'replicas = 3'

# node WHAT PATTERN LINE: a node whose only line, the fifth, is wrong.
node() {
    printf 'listen = ["127.0.0.1:0"]\n[[volume]]\nname = "pool"\n[[volume.node]]\n%s\n' "$3" | wrong "$1" "${4:-5}" "$2"
}
node 'a port that is none' '192\.0\.2\.1:77777' 'address = "192.0.2.1:77777"'
node 'a URL as address' 'nbd://' 'address = "nbd://192.0.2.1:7411"'
node 'both address and path' 'address.*path|path.*address' "$(printf 'address = "127.0.0.1:7411"\npath = "file"\nsize = "1MiB"')" 0
node 'neither address nor path' 'address.*path|path.*address' 'size = "1MiB"' 0

refused 'a file that does not exist' 'nowhere\.toml' "$FLASHMOB" gateway "$DIR/nowhere.toml"
refused 'a size on the command line' 'ten' "$FLASHMOB" node --data "$DIR/n.img" --size ten --listen 127.0.0.1:0
refused 'an address on the command line' 'nonsense' "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --listen nonsense
refused 'an unknown engine' 'teleport' "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --engine teleport
refused 'an unknown option' 'frobnicate' "$FLASHMOB" node --data "$DIR/n.img" --frobnicate
refused 'a directory that does not exist' 'no/such/place' "$FLASHMOB" node --data "$DIR/no/such/place.img" --size 1MiB --listen 127.0.0.1:0
refused 'a new file without a size' 'size' "$FLASHMOB" node --data "$DIR/new.img" --listen 127.0.0.1:0
start_node taken 1MiB
refused 'an address in use' "${ADDR[taken]}" "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --listen "${ADDR[taken]}"
refused 'an admin address in use' "${ADDR[taken]}.*--admin" "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --listen 127.0.0.1:0 --admin "${ADDR[taken]}"
refused 'a node without keys that others can reach' 'without keys anyone who can reach 0.0.0.0:0 .*--enroll.*--insecure' \
    "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --listen 0.0.0.0:0
[ -z "$(find "$DIR" -maxdepth 1 -name 'n.img*')" ] || fail 'a refused node left a new extent behind'
pass 'a refused node leaves no new extent behind'

# Without keys nobody else is let in unasked; with --insecure, start and status say what that means.
printf 'listen = "0.0.0.0:0"\nadmin = "127.0.0.1:0"\n[[volume]]\nname = "pool"\n[[volume.node]]\naddress = "%s"\n' "${ADDR[taken]}" >"$DIR/open.toml"
refused 'a gateway without keys that others can reach' 'without keys anyone who can reach 0.0.0.0:0 .*key init.*--insecure' "$FLASHMOB" gateway "$DIR/open.toml"
start open "$FLASHMOB" gateway "$DIR/open.toml" --insecure
started open 'insecure: anyone who can reach 0.0.0.0:[0-9]+ can read and write every volume'
started open 'admin.*127\.0\.0\.1:[0-9]+'
admin=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/open.log" | head -n 1)
check 'its status says so' bash -c "'$FLASHMOB' status $admin | grep -q 'insecure: anyone who can reach 0.0.0.0'"
stop open
# The same goes for the admin port alone.
sed 's/^listen.*/listen = "127.0.0.1:0"/; s/^admin.*/admin = "0.0.0.0:0"/' "$DIR/open.toml" >"$DIR/open-admin.toml"
refused 'a gateway without keys whose admin port others can reach' 'without keys anyone who can reach 0.0.0.0:0 could read the status.*--insecure' \
    "$FLASHMOB" gateway "$DIR/open-admin.toml"
refused 'a node, too' 'without keys anyone who can reach 0.0.0.0:0 could read the status' \
    "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --listen 127.0.0.1:0 --admin 0.0.0.0:0
start open "$FLASHMOB" gateway "$DIR/open-admin.toml" --insecure
started open 'insecure: anyone who can reach 0.0.0.0:[0-9]+ can read this status'
admin=$(sed -nE 's|.*admin on .*:([0-9]+)/.*|\1|p' "$DIR/open.log" | head -n 1)
check 'its status says so, too' bash -c "'$FLASHMOB' status 127.0.0.1:$admin | grep -q 'insecure: anyone who can reach 0.0.0.0:$admin can read this status'"
stop open
start open "$FLASHMOB" node --data "$DIR/n.img" --size 1MiB --listen 0.0.0.0:0 --admin 127.0.0.1:0 --insecure --announce off
started open 'insecure: anyone who can reach 0.0.0.0:[0-9]+ can read and write the whole extent'
started open 'admin.*127\.0\.0\.1:[0-9]+'
admin=$(sed -nE 's|.*admin.*(127\.0\.0\.1:[0-9]+).*|\1|p' "$DIR/open.log" | head -n 1)
check 'so does a node'"'"'s' bash -c "'$FLASHMOB' status $admin | grep -q 'insecure: anyone who can reach 0.0.0.0'"
