"""Compares what flashmob trace counted with strace's files and the kernel's text of the same run.

trace_counts.py SPANS.csv STRACE_FOLDER TEXT DEVICE: exits with 1 and says what differs unless all counts are equal.
"""
import collections
import csv
import glob
import re
import sys

# Calls of the thread that are about neither files nor memory that is mapped from them.
NOT_IO = {"prctl", "futex", "getpid", "gettid", "geteuid", "brk", "mremap", "madvise", "sched_yield", "clock_gettime", "restart_syscall"}


def microseconds(ns):
    """As the kernel rounds in its text."""
    return (int(ns) + 500) // 1000


def of_strace(folder):
    """Calls of the thread that did the INSERTs, between the marks that its name is."""
    for path in glob.glob(folder + "/of.*"):
        with open(path) as file:
            lines = file.read().splitlines()
        begins = [i for i, line in enumerate(lines) if 'PR_SET_NAME, "inserts"' in line]
        if begins:
            break
    else:
        sys.exit("no thread was called 'inserts'")
    counts = collections.Counter()
    for line in lines[begins[0] + 1 :]:
        if 'PR_SET_NAME, "sqlite"' in line:
            return counts
        call = re.match(r"(?:<\.\.\. )?(\w+)", line)
        if call and "resumed>" not in line:
            counts[call.group(1)] += 1
    sys.exit("the INSERTs have no end")


def of_text(path, first, last):
    """Block events of each device between two times, by name."""
    event = re.compile(r"\s(\d+)\.(\d+): (block_\w+): (\d+,\d+) ")
    counts = collections.defaultdict(collections.Counter)
    with open(path) as file:
        for line in file:
            found = event.search(line)
            if found and first <= int(found[1]) * 1_000_000 + int(found[2]) <= last:
                counts[found[4]][found[3]] += 1
    return counts


def main():
    spans_path, strace_folder, text_path, device = sys.argv[1:]
    with open(spans_path, newline="") as file:
        spans = list(csv.DictReader(file))
    inserts = [span for span in spans if span["layer"] == "application"]
    first = min(microseconds(span["begin_ns"]) for span in inserts)
    last = max(microseconds(span["end_ns"]) for span in inserts)
    spans = [span for span in spans if first <= microseconds(span["begin_ns"]) <= last]
    wrong = []

    def equal(what, ours, theirs):
        print(f"{what}: {ours}")
        if ours != theirs or ours == 0:
            wrong.append(f"{what}: {ours}, and not {theirs}")

    ours = collections.Counter(span["name"] for span in spans if span["layer"] == "system call")
    theirs = of_strace(strace_folder)
    for name in sorted(set(ours) | {name for name in theirs if name not in NOT_IO}):
        equal(name, ours[name], theirs[name])

    def count(layer, *names):
        return sum(1 for span in spans if span["layer"] == layer and span["name"] in names)

    # Loop devices have major 7 and, without partitions, their number for minor.
    text = of_text(text_path, first, last)["7," + device.removeprefix("loop")]
    commands = count("driver", "write", "read", "flush", "discard")
    equal("block_bio_queue", count("block", "bio"), text["block_bio_queue"])
    equal("block_rq_insert", count("block", "elevator"), text["block_rq_insert"])
    equal("block_rq_issue", commands, text["block_rq_issue"])
    equal("block_rq_complete", commands + count("block", "flush done"), text["block_rq_complete"])
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        sys.exit(1)


main()
