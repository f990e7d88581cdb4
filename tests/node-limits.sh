#!/usr/bin/env bash
# Shows that eight real nodes with a limited disk each are judged by the limit that `flashmob bench disk` measured on one of them, and that claims about several nodes are not judged where their extents share a disk.
# Tier: slow
# Canary: none-in-code
. "$(dirname "$0")/lib.sh"
need jq losetup mkfs.ext4
need_root 'loop devices are made, and a control group limits them'

READS_PER_SECOND=500
DISKS=8
LOOPS=()

# Both kinds of control groups limit by device: v1 has a file for each kind of limit, v2 one for all.
V1=/sys/fs/cgroup/blkio V2=/sys/fs/cgroup
if [ -e "$V1/blkio.throttle.read_iops_device" ]; then
    GROUPS_AT=$V1
elif grep -qw io "$V2/cgroup.controllers" 2>/dev/null && echo +io >"$V2/cgroup.subtree_control" 2>/dev/null; then
    GROUPS_AT=$V2
else
    echo '    not run: no control group limits disks here (neither blkio.throttle nor the controller io)' >&2
    exit $NOT_RUN
fi
GROUP=$GROUPS_AT/flashmob-$$
limit() {
    local number
    number=$(cat "/sys/block/${1#/dev/}/dev")
    if [ "$GROUPS_AT" = $V1 ]; then
        echo "$number $2" >"$GROUP/blkio.throttle.read_iops_device"
    else
        echo "$number riops=$2" >"$GROUP/io.max"
    fi
}
# All that this test starts is in the group; the limits are those of the loop devices alone.
mkdir "$GROUP"
leave_all() {
    local name loop
    for name in "${!PID[@]}"; do stop "$name" KILL; done
    for loop in "${LOOPS[@]}"; do
        umount "$DIR/disk${loop#/dev/loop}" 2>/dev/null
        losetup --detach "$loop"
    done
    echo $$ >"$GROUPS_AT/cgroup.procs"
    rmdir "$GROUP"
}
at_end leave_all
echo $$ >"$GROUP/cgroup.procs"

# folder NODE: where that node's disk is mounted.
folder() { echo "$DIR/disk${LOOPS[$1]#/dev/loop}"; }
for ((i = 0; i < DISKS; i++)); do
    truncate -s 96M "$DIR/disk$i.img"
    LOOPS+=("$(losetup --find --show "$DIR/disk$i.img")")
    mkfs.ext4 -q -m 0 -E lazy_itable_init=0,lazy_journal_init=0 "${LOOPS[i]}"
    mkdir "$(folder "$i")"
    mount "${LOOPS[i]}" "$(folder "$i")"
    limit "${LOOPS[i]}" $READS_PER_SECOND
done
# A canary: one disk of eight is slower, so the cluster is not eight times one node.
[ -z "${CANARY:-}" ] || limit "${LOOPS[6]}" $((READS_PER_SECOND / 5))

# nodes FOLDER...: a node in each of these folders, with an extent that is written throughout; its reads reach the disk.
nodes() {
    local folder name
    for name in "${NODES[@]}"; do stop "$name"; done
    NODES=()
    # The identities that earlier nodes kept there belong to another volume.
    for folder in "$@"; do rm -f "$folder"/node*; done
    for folder in "$@"; do
        name=node${#NODES[@]}
        dd if=/dev/urandom of="$folder/$name.img" bs=1M count=24 status=none
        unset "ADDR[$name]"
        DATA=$folder/$name.img start_node "$name" 24MiB --direct
        NODES+=("$name")
    done
    rm -f "$DIR/gateway.toml.extents"
    write_config
}
# cluster FILE OPTION...
cluster() {
    local file=$1
    shift
    "$FLASHMOB" -q bench cluster --config "$DIR/gateway.toml" -b 4KiB --outstanding 64 --repeat 2 "$@" --save "$file" >"$DIR/cluster.txt" 2>"$DIR/cluster.log" ||
        { cat "$DIR/cluster.log" >&2; fail "bench cluster $*"; }
}
# page RESULT...: $DIR/claims has a line for each claim: its id, and what the page says of it.
page() {
    "$FLASHMOB" -q report "$@" -o "$DIR/page.html" 2>"$DIR/report.log" || fail "report $*"
    "$PYTHON" - "$DIR/page.html" >"$DIR/claims" <<'PY'
import html, re, sys
for claim in re.findall(r'<div class="claim" id="(C\d+)">(.*?)</ul>', open(sys.argv[1]).read(), re.S):
    print(claim[0], html.unescape(re.sub(r"<[^>]+>", " ", claim[1].split('<ul', 1)[-1])).replace("\n", " "))
PY
}
# says CLAIM PATTERN: what the page says of a claim.
says() {
    grep -Eq -- "^$1 .*$2" "$DIR/claims" || { cat "$DIR/claims" >&2; judged_fail "$1 does not say '$2'"; }
    pass "$1: $2"
}

busy_begin
FOLDERS=()
for ((i = 0; i < DISKS; i++)); do FOLDERS+=("$(folder "$i")"); done
"$FLASHMOB" -q bench disk "$(folder 0)/bench" --size 24MiB --cache direct -b 4KiB -j 1,4,8 --time 2 --repeat 2 --remove --save "$DIR/device.json" >"$DIR/device.txt" 2>"$DIR/device.log" ||
    { cat "$DIR/device.log" >&2; fail 'bench disk'; }
RATE=$(jq '[.measurement.points[].summary.requests_per_second.median] | max | round' "$DIR/device.json")
[ "$RATE" -gt $((READS_PER_SECOND * 8 / 10)) ] && [ "$RATE" -lt $((READS_PER_SECOND * 12 / 10)) ] || judged_fail "a disk with a limit of $READS_PER_SECOND reads/s does $RATE"
pass "a disk with a limit of $READS_PER_SECOND reads/s does $RATE"

nodes "${FOLDERS[@]}"
cluster "$DIR/own.json" --nodes 1,8 --links 8,16 --batch 1,10,100 --time 2
# Each condition comes with its node's welcome, so none is missing. What is wrong is shown whole: it was seen once, and not why.
eight_disks() {
    jq -e '(.measurement.disk_ids | length == 8 and (unique | length) == 8 and all(. != null)) and ([.warnings[].code] | index("shared_disk") | not)' "$DIR/own.json" ||
        { jq -c '[.measurement.disk_ids, .warnings]' "$DIR/own.json"; stat -c '%d %n' "${FOLDERS[@]}"; cat "$DIR/cluster.log"; return 1; }
}
check 'eight nodes, eight disks, and no warning about them' eight_disks
check "the measured disk is the first node's" \
    test "$(jq -r '.measurement.disk_ids[0]' "$DIR/own.json")" = "$(jq -r .measurement.file.place.disk_id "$DIR/device.json")"
page "$DIR/own.json"
for claim in C4 C5 C6; do says $claim 'not measured .*no disk of a node was measured.*flashmob bench disk FILE --block-size 4096'; done
page "$DIR/own.json" "$DIR/device.json"
says C4 '✓ holds .*is of random reads of 4 KiB with .* on the disk of node 1, taken for each'
says C6 '✓ holds '
# Over loopback nothing keeps several nodes below their limits.
says C5 '✗ does not hold .*each reaches its limit'

nodes "$(folder 0)" "$(folder 0)"
cluster "$DIR/shared.json" --nodes 1,2 --links 8,16 --batch 1,10,100 --time 1
check 'two extents on one disk are named' \
    jq -e '(.measurement.disk_ids | length == 2 and (unique | length) == 1) and any(.warnings[]; .code == "shared_disk" and (.message | test("nodes 1, 2\\.")))' "$DIR/shared.json"
page "$DIR/shared.json" "$DIR/device.json"
for claim in C5 C6 C7; do says $claim 'not measured .*nodes 1 and 2 are on one disk and share its limit'; done
says C4 '✓ holds '
