#!/usr/bin/env bash
# Shows that the gateway's page works in a real browser: small and large screens, keyboard, accessibility, eight tabs, a dead node, a restart, keys, and names that are markup.
# Tier: slow
# Canary: none-in-code
# PAGE_PYTHON=PATH: a Python that has playwright and axe-playwright-python.
. "$(dirname "$0")/lib.sh"
need jq curl
CHROMIUM=$(command -v chromium || command -v chromium-browser) || { say 'not run: chromium is missing'; exit $NOT_RUN; }
PAGE_PYTHON=${PAGE_PYTHON:-$PYTHON}
"$PAGE_PYTHON" -c 'import playwright, axe_playwright_python' 2>/dev/null ||
    { say "not run: $PAGE_PYTHON lacks the packages playwright 1.65 and axe-playwright-python 0.1.8"; exit $NOT_RUN; }

# A node whose name is markup: an extent in the gateway's process, named by its path, which is relative to the configuration.
EVIL='<img src=x onerror=alert(1)>'
evil_node() {
    printf '\n[[volume.node]]\npath = "%s"\nsize = "8MiB"\n' "$EVIL" >>"$DIR/gateway.toml"
}
for i in 0 1 2; do
    NODES+=("node$i")
    start_node "node$i" 8MiB
done
write_config
evil_node
sed -i 's/^admin = .*/admin = "127.0.0.1:0"/' "$DIR/gateway.toml"
run_gateway
volume_ready
admin_address
# The page has to find a gateway that was started again at its address.
sed -i "s/^admin = .*/admin = \"$ADMIN\"/" "$DIR/gateway.toml"
start load "$FLASHMOB" -q bench nbd "$URI" --block-size 4KiB --outstanding 8 --time 1h

# watch URL: a page of its own. tell COMMAND...: one command to it; its answer is left in ANSWER.
watch() {
    coproc PAGE { exec "$PAGE_PYTHON" "$TESTS/page/gateway.py" --chromium "$CHROMIUM" "$1" 2>"$DIR/page.log"; }
    at_end "kill $PAGE_PID 2>/dev/null"
    read -r -t 60 ANSWER <&"${PAGE[0]}" || fail "the page does not open: $(tail -n 5 "$DIR/page.log")"
}
tell() {
    echo "$*" >&"${PAGE[1]}"
    read -r -t 120 ANSWER <&"${PAGE[0]}" || fail "the browser ended: $(tail -n 5 "$DIR/page.log")"
}
# page_says WHAT COMMAND...: passes if the page does.
page_says() {
    tell "${@:2}"
    case $ANSWER in ok*) pass "$1: $ANSWER" ;; *) fail "$1: $ANSWER" ;; esac
}

watch "http://$ADMIN/"
page_says 'all is well' sees 15 'All 4 nodes are well\.'
page_says 'a name that is markup is text' sees 1 'onerror=alert\(1\)>'
[ -n "${CANARY:-}" ] || stop node1 KILL
page_says 'a dead node shows within three seconds' sees 3 "${ADDR[node1]}: not linked"
run_node node1
page_says 'and that it is back' sees 30 'All 4 nodes are well\.'
stop load
stop gateway KILL
page_says 'a gateway that is away is told' sees 10 'The gateway does not answer\. The figures below are out of date\.'
start gateway "$FLASHMOB" gateway "$DIR/gateway.toml"
page_says 'one that was started again is found' sees 30 'All 4 nodes are well\.'
page_says 'nothing was asked elsewhere, and nothing went wrong' end

gateway_address
volume_ready
start load "$FLASHMOB" -q bench nbd "$URI" --block-size 4KiB --outstanding 8 --time 1h
sleep 8 # the page has to have something to show
check 'axe finds nothing, the keyboard reaches everything, eight tabs go on' "$PAGE_PYTHON" "$TESTS/page/browser.py" --chromium "$CHROMIUM" "http://$ADMIN/"
check 'also in states that are made up, and with 64 nodes' "$PAGE_PYTHON" "$TESTS/page/browser.py" --chromium "$CHROMIUM"
