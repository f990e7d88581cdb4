#!/usr/bin/env bash
# Shows that a lab needs no root where users may make namespaces, and that it says what is missing where they may not.
# Tier: test
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_netns 'to become another user'
need setpriv unshare

# The other user needs the program where he may read it.
cp "$FLASHMOB" "$DIR/flashmob"
chmod 755 "$DIR" "$DIR/flashmob"
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
# shellcheck disable=SC2016
lab=("$DIR/flashmob" lab run --nodes 2 --air ideal --no-io -- sh -c 'id -u; flashmob status "$FLASHMOB_ADMIN"')

# TAP devices are for everybody on most systems, but not on all: here they are, seen from this test alone.
cat >"$DIR/with-tap" <<EOS
mknod "$DIR/tun" c 10 200 && chmod 666 "$DIR/tun" && mount --bind "$DIR/tun" /dev/net/tun && exec "\$@"
EOS
everybody=(unshare --mount sh "$DIR/with-tap")

if "${nobody[@]}" unshare --user --map-root-user true 2>/dev/null; then
    status=0
    "${everybody[@]}" "${nobody[@]}" "${lab[@]}" >"$DIR/user.out" 2>"$DIR/user.log" || status=$?
    # The medium has no real-time priority here, so it may be late.
    check 'a lab of an ordinary user' lab_is_well "$status"
    check 'who is root in it' grep -qx 0 "$DIR/user.out"
    check 'has nodes that are ready' grep -q '2 of 2 nodes ready' "$DIR/user.out"
    chmod 600 "$DIR/tun"
    cat >"$DIR/with-tap" <<EOS
mount --bind "$DIR/tun" /dev/net/tun && exec "\$@"
EOS
    refused 'without TAP devices it says how to get them' 'chmod 666 /dev/net/tun' "${everybody[@]}" "${nobody[@]}" "${lab[@]}"
fi

# A system without user namespaces: none are allowed below one of this test's own.
# shellcheck disable=SC2016
none=(unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"' sh
    setpriv --bounding-set=-all --inh-caps=-all)
"${none[@]}" true 2>/dev/null || none=("${nobody[@]}")
refused 'without user namespaces it says how to allow them' 'user.max_user_namespaces' "${none[@]}" "${lab[@]}"
