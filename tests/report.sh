#!/usr/bin/env bash
# Shows that a report, of devices, clusters, networks and captures, stays readable: at phone and desktop width, light and dark, nothing overflows; that its commands measure the same again; no input is overwritten; errors name file and remedy.
# Tier: test
# Runs beside others.
. "$(dirname "$0")/lib.sh"
need chromium jq

SAMPLES=$ROOT/crates/flashmob-report/tests/data
cp "$SAMPLES"/*.json "$DIR"
PAGE=$DIR/report.html
check 'a page and a table of two results' "$FLASHMOB" report "$DIR/device.json" "$DIR/hdd.json" -o "$PAGE" --csv "$DIR"
at_most 'the size of the page' "$(stat -c %s "$PAGE")" 1000000 bytes
! grep -Eiq '<script|<link|<img|@import|src=' "$PAGE" || fail 'the page has a script or needs another file'
pass 'no script and no other file'
rows=$(jq -s '[.[].measurement.points[].repetitions[]] | length' "$DIR/device.json" "$DIR/hdd.json")
[ "$(wc -l <"$DIR/results.csv")" -eq $((rows + 1)) ] || fail "the table has $(wc -l <"$DIR/results.csv") lines for $rows repetitions"
pass "the table has a row for each of $rows repetitions"

# A page that shows reports, one after the other, in a frame of each width and measures them: what sticks out of it, how small the text of figures
# is, and the contrast of every colour with the page's.
cat >"$DIR/measure.html" <<'HTML'
<!doctype html><meta charset="utf-8"><body><script>
let errors = [];
const asked = new URLSearchParams(location.search);
const left = asked.get('pages').split(',').flatMap(file => asked.get('widths').split(',').map(width => [file, Number(width)]));
const results = [];
const light = text => {
  const [r, g, b] = text.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const next = () => {
  if (left.length === 0) {
    document.body.innerHTML = '<pre></pre>';
    document.body.firstChild.textContent = results.join('\n');
    return;
  }
  const [file, width] = left.shift(), frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:3000px;border:0`;
  frame.onload = () => {
    results.push(measured(frame, file, width));
    errors = [];
    // Only now: styles of a frame that is gone are empty.
    frame.remove();
    next();
  };
  frame.src = file;
  document.body.append(frame);
};
const measured = (frame, file, width) => {
  const win = frame.contentWindow, doc = frame.contentDocument, root = doc.documentElement;
  const out = [...doc.querySelectorAll('body *')].filter(e => !e.closest('.scroll table, .scroll svg') && !e.classList.contains('hidden'))
    .filter(e => e.getBoundingClientRect().right > width + 0.5).map(e => `${e.tagName} ${e.textContent.slice(0, 40)}`);
  const style = e => win.getComputedStyle(e);
  const page = style(doc.body).backgroundColor;
  const texts = [...doc.querySelectorAll('svg text')];
  const clipped = texts.filter(t => { const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect(); return a.left < b.left - 0.5 || a.right > b.right + 0.5; });
  const scaled = t => parseFloat(style(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width;
  const drawn = [...doc.querySelectorAll('svg circle, svg polygon')].map(e => style(e).fill).filter(c => c !== page);
  return 'RESULT ' + JSON.stringify({
    file, asked_px: width, errors, out: out.slice(0, 5), overflow_px: root.scrollWidth - root.clientWidth, width_px: root.clientWidth, page,
    figures: doc.querySelectorAll('svg').length, timelines: doc.querySelectorAll('svg.timeline').length, controls: doc.querySelectorAll('.controls').length,
    tables_scroll: [...doc.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth),
    text_px: Math.min(...texts.map(scaled)), clipped: clipped.map(t => t.textContent.trim()).slice(0, 5),
    text_contrast: Math.min(contrast(style(doc.body).color, page), ...texts.map(t => contrast(style(t).fill, page))),
    series_contrast: Math.min(...drawn.map(c => contrast(c, page))), unnamed: [...doc.querySelectorAll('svg')].filter(e => !e.querySelector('title')?.textContent).length,
  });
};
window.onerror = message => { errors.push(message); };
next();
</script>
HTML

# Pages to look at, and what they are: to start chromium takes longer than to look, so it is done once for each scheme.
PAGES=()
WHAT=()
# looks WHAT: the page of now is looked at in the end.
looks() {
    PAGES+=("page${#PAGES[@]}.html")
    WHAT+=("$1")
    cp "$PAGE" "$DIR/${PAGES[-1]}"
}

# measure SCHEME: a line for each page and width in $DIR/SCHEME.json. Schemes: 0 dark, 1 light.
measure() {
    local pages
    pages=$(IFS=,; echo "${PAGES[*]}")
    timeout 280 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --allow-file-access-from-files --user-data-dir="$DIR/chromium" \
        --window-size=1400,3200 --blink-settings=preferredColorScheme="$1" --virtual-time-budget=60000 --dump-dom "file://$DIR/measure.html?widths=360,1280&pages=$pages" \
        >"$DIR/dom.html" 2>"$DIR/chromium.err" || { tail -n 5 "$DIR/chromium.err" >&2; fail 'chromium did not load the pages'; }
    sed -n 's/.*RESULT \({.*}\).*/\1/p' "$DIR/dom.html" | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >"$DIR/$1.json"
    [ "$(jq -s 'length' "$DIR/$1.json")" -eq $((2 * ${#PAGES[@]})) ] || { tail -n 5 "$DIR/dom.html" >&2; fail 'the pages could not be measured'; }
}

# shown WHAT FILTER
shown() {
    jq -e "$2" "$DIR/measured.json" >/dev/null || { cat "$DIR/measured.json" >&2; fail "$1"; }
    pass "$1"
}

# look: all pages can be read at phone and desktop width, light and dark.
look() {
    local scheme at width nth
    for scheme in 0:dark 1:light; do
        measure "${scheme%%:*}"
        for nth in "${!PAGES[@]}"; do
            for width in 360 1280; do
                jq -c "select(.file == \"${PAGES[nth]}\" and .asked_px == $width)" "$DIR/${scheme%%:*}.json" >"$DIR/measured.json"
                at="${WHAT[nth]}, ${scheme#*:}, $width px"
                shown "$at: no script error, and all figures are there" '(.errors | length == 0) and .figures >= 8 and .unnamed == 0 and .controls == .timelines'
                shown "$at: nothing sticks out" ".width_px == $width and .overflow_px <= 0 and (.out | length == 0) and (.clipped | length == 0)"
                shown "$at: the text of figures has at least 11 px" '.text_px >= 11'
                shown "$at: text 4.5 to 1 against the page, series 3 to 1" '.text_contrast >= 4.5 and .series_contrast >= 3'
                jq -r .page "$DIR/measured.json" >"$DIR/page.${scheme#*:}"
            done
        done
    done
    ! cmp -s "$DIR/page.dark" "$DIR/page.light" || fail 'dark and light are the same'
    pass 'dark and light differ'
    jq -c 'select(.file == "page0.html" and .asked_px == 360)' "$DIR/1.json" >"$DIR/measured.json"
    shown 'on a phone wide tables scroll in their boxes' '.tables_scroll'
}
looks 'two devices'

check 'a page of a cluster' "$FLASHMOB" report "$DIR/cluster.json" -o "$PAGE"
looks 'a cluster'
check 'a page and two tables of clusters and devices' "$FLASHMOB" report "$DIR/cluster.json" "$DIR/device.json" "$DIR/hdd.json" -o "$PAGE" --csv "$DIR"
at_most 'the size of that page' "$(stat -c %s "$PAGE")" 1000000 bytes
rows=$(jq '[.measurement.points[].repetitions[]] | length' "$DIR/cluster.json")
[ "$(wc -l <"$DIR/clusters.csv")" -eq $((rows + 1)) ] || fail "clusters.csv has $(wc -l <"$DIR/clusters.csv") lines for $rows repetitions"
void=$(jq '[.measurement.points[].repetitions[] | select(.is_void)] | length' "$DIR/cluster.json")
[ "$void" -gt 0 ] && grep -q ">$void of them void and not counted<" "$PAGE" || fail "the page does not name the $void void repetitions"
pass "clusters have a table of their own, with a row for each of $rows repetitions; $void void ones are named"
looks 'clusters and devices'
refused 'one file for two tables' 'give a directory for --csv' "$FLASHMOB" report "$DIR/cluster.json" "$DIR/hdd.json" -o "$PAGE" --csv "$DIR/both.csv"

check 'a page of networks and a capture' "$FLASHMOB" report "$DIR/net.json" "$DIR/path.json" "$DIR/capture.json" -o "$PAGE" --csv "$DIR"
at_most 'the size of that page' "$(stat -c %s "$PAGE")" 1000000 bytes
rows=$(jq -s '[.[].measurement.points[].repetitions[].flows[]] | length' "$DIR/net.json" "$DIR/path.json")
[ "$(wc -l <"$DIR/networks.csv")" -eq $((rows + 1)) ] || fail "networks.csv has $(wc -l <"$DIR/networks.csv") lines for $rows ways"
pass "networks have a table of their own, with a row for each of $rows ways of repetitions"
for claim in C14 C15 C16 C17; do grep -q "id=\"$claim\"" "$PAGE" || fail "$claim is missing"; done
! grep -q 'id="devices"' "$PAGE" || fail 'the page speaks of devices'
looks 'networks and a capture'
# The same capture as if the receive maximum had been tenfold: more in flight, and a queue that acknowledgements wait in.
jq '.label = "tenfold" | .measurement.flows[0].down |= (.flight_bytes |= (.median *= 8 | .max *= 8) | .rtt_ms.median *= 2)' "$DIR/capture.json" >"$DIR/tenfold.json"
check 'a page of two captures' "$FLASHMOB" report "$DIR/capture.json" "$DIR/tenfold.json" -o "$PAGE" --csv "$DIR"
grep -q 'C16</b>.*C16</b>.*✓ holds.*in flight' <(tr '\n' ' ' <"$PAGE") || fail 'two captures do not decide C16'
pass 'a small and a tenfold capture decide C16'
refused 'a table of captures' 'captures and traces have no table.*leave out --csv' "$FLASHMOB" report "$DIR/capture.json" -o "$PAGE" --csv "$DIR/none.csv"
refused 'a table of traces' 'captures and traces have no table.*leave out --csv' "$FLASHMOB" report "$DIR/trace.json" -o "$PAGE" --csv "$DIR/none.csv"
check 'a page of traces' "$FLASHMOB" report "$DIR/trace.json" -o "$PAGE"
at_most 'the size of that page' "$(stat -c %s "$PAGE")" 1000000 bytes
[ "$(grep -o '<script' "$PAGE" | wc -l)" -eq 1 ] && ! grep -Eiq '<link|<img|@import|src=' "$PAGE" || fail 'the page has more than its own script, or needs another file'
pass 'timelines have one script, and need no other file'
looks 'traces'
look
refused 'one file for clusters and networks' 'clusters and of networks.*give a directory' "$FLASHMOB" report "$DIR/cluster.json" "$DIR/net.json" -o "$PAGE" --csv "$DIR/both.csv"
check 'the page of before' "$FLASHMOB" report "$DIR/device.json" "$DIR/hdd.json" -o "$PAGE"

# again NAME OPTION...: measures, takes the command out of the report, runs that, and compares the parameters of all points.
again() {
    local name=$1 command
    shift
    "$FLASHMOB" --quiet bench disk "$@" --save "$DIR/$name.json" >/dev/null 2>"$DIR/$name.log" || { cat "$DIR/$name.log" >&2; fail "bench disk $*"; }
    "$FLASHMOB" report "$DIR/$name.json" -o "$DIR/$name.html" 2>/dev/null
    command=$("$PYTHON" - "$DIR/$name.html" <<'PY'
import html, re, sys
commands = re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", open(sys.argv[1]).read(), re.S)
assert len(commands) == 1, commands
print(html.unescape(commands[0]))
PY
    )
    case $command in 'flashmob bench disk '*) ;; *) fail "no command: $command" ;; esac
    # As a shell would run what was copied from the page.
    (PATH=$DIR/bin:$PATH && eval "$command --save '$DIR/$name-again.json'") >/dev/null 2>"$DIR/$name.log" || { cat "$DIR/$name.log" >&2; fail "$command"; }
    # What the label, the seed, the size and each point are, and how often each was measured.
    for result in "$DIR/$name.json" "$DIR/$name-again.json"; do
        jq -S '[.label, .seed, (.measurement | .model.size_bytes, .file.size_bytes, [.points[] | [.parameters, (.repetitions | length)]])]' "$result" >"$result.said"
    done
    cmp -s "$DIR/$name.json.said" "$DIR/$name-again.json.said" || { diff "$DIR/$name.json.said" "$DIR/$name-again.json.said" | head -n 20 >&2; fail "the command measures something else: $command"; }
    pass "the command on the page measures the same points again: $name"
}
mkdir "$DIR/bin"
ln -s "$(realpath "$FLASHMOB")" "$DIR/bin/flashmob"
again p1 --model nexus7-emmc --preset p1 --scale 0.01 --block-size 1,513,4k --threads 1,4 --seed 7 --label "Anna's <tablet> \$(x)"
again scheduler --model emmc --preset p3-scheduler --scale 0.01 --scheduler none,mq-deadline
again order --model ufs --preset p3-order --scale 0.01 --time 0.07
again reads "$DIR/a file" --size 3000001 --range 2000000 --pattern sequential,random,rand --reads 50 --repeat 2
again writes "$DIR/written" --size 8MiB --write --sync fdatasync --reads 20 --repeat 1 --engine io_uring --depth 1,4
again direct "$DIR/written" --cache direct --reads 20 --repeat 1 --block-size 512,4k

"$FLASHMOB" report "$DIR/hdd.json" -o - >"$DIR/stdout.html"
head -c 15 "$DIR/stdout.html" | grep -qi '<!doctype html>' || fail 'standard output is no page'
pass 'a page to standard output'
sum=$(sha256sum <"$DIR/hdd.json")
refused 'a page over a result' 'one of the results.*would be overwritten' "$FLASHMOB" report "$DIR/hdd.json" -o "$DIR/../$(basename "$DIR")/hdd.json"
refused 'a table over a result' 'one of the results.*would be overwritten' "$FLASHMOB" report "$DIR/hdd.json" -o "$PAGE" --csv "$DIR/hdd.json"
[ "$(sha256sum <"$DIR/hdd.json")" = "$sum" ] || fail 'the result was changed'
before=$(sha256sum <"$PAGE")
jq '.format_version = 2' "$DIR/hdd.json" >"$DIR/newer.json"
echo '{}' >"$DIR/foreign.json"
refused 'a newer version' 'newer\.json: version 2.*use the flashmob version that wrote it' "$FLASHMOB" report "$DIR/hdd.json" "$DIR/newer.json" -o "$PAGE"
refused 'something else' "foreign\.json is not a result.*'flashmob bench disk', .* wrote" "$FLASHMOB" report "$DIR/foreign.json" -o "$PAGE"
refused 'a file that is not there' 'nosuch\.json.*check its name' "$FLASHMOB" report "$DIR/nosuch.json" -o "$PAGE"
refused 'a directory' 'is a directory; give the results in it' "$FLASHMOB" report "$DIR" -o "$PAGE"
refused 'a directory that is not there' 'cannot write' "$FLASHMOB" report "$DIR/hdd.json" -o "$DIR/nosuch/report.html"
[ "$(sha256sum <"$PAGE")" = "$before" ] || fail 'a refused report touched the page of before'
status=0
"$FLASHMOB" report >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "no result named: status $status"
status=0
"$FLASHMOB" report "$DIR/foreign.json" -o "$PAGE" >/dev/null 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "no result: status $status"
pass 'what is refused leaves the page as it was; status 1, and 2 for wrong arguments'
[ -z "$(find "$DIR" -maxdepth 1 -name '.*.tmp')" ] || fail 'a temporary file stayed'
pass 'no temporary file stays'
