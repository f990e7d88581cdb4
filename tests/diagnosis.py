"""Plants troubles in a cluster and reads from its gateway whether they are named.

    diagnosis.py ADMIN BINARY DIRECTORY SEED PLANT...   one trial for each plant, on a cluster that is at work
    diagnosis.py ADMIN one PLANT NODE HOW     what was planted from the start
    diagnosis.py ADMIN quiet STATE SECONDS    nothing may be named

Of each trial a line: the plant, the node, after how many seconds it was named, and in which words. The status is 1 if one was not named in time, or
another node or cause was.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request

IN_TIME_S = 5.0
IS_PLANTED = os.environ.get("PLANTED", "1") == "1"
# What a finding of a diagnosis is about; others are about the state that the test itself makes (models, no keys).
CAUSES = {"pause", "loss", "processor", "receive-buffer", "send-buffer", "delay", "flash", "cache", "queue", "battery", "heat", "space"}


def ask(admin, since=999999999):
    with urllib.request.urlopen(f"http://{admin}/live?since={since}", timeout=5) as answer:
        return json.load(answer)


def named(report):
    return [(f["cause"], f.get("node"), f["found"]) for f in report["findings"] if f["cause"] in CAUSES]


def wait_for(admin, what, seconds, since):
    """Until a finding is there, and any others that come before it."""
    others = set()
    while time.monotonic() - since < seconds:
        for cause, node, found in named(ask(admin)):
            if (cause, node) == what:
                return time.monotonic() - since, found, others
            others.add((cause, node, found))
        time.sleep(0.1)
    return None, None, others


def wait_quiet(admin):
    quiet = 0
    for _ in range(600):
        quiet = quiet + 1 if not named(ask(admin)) else 0
        if quiet == 8:
            return
        time.sleep(0.25)
    sys.exit(f"what was planted is still named after 150 s: {named(ask(admin))}")


class Trial:
    """`pids` and `states` are those of the nodes, by number."""

    def __init__(self, admin, binary, random, directory):
        self.admin, self.binary, self.random = admin, binary, random
        self.directory = directory
        self.pids = [int(line) for line in open(f"{directory}/pids")]
        self.undo = []

    def limit(self, node, kind, value):
        """Writes a limit of the node's control group, and the one before when the trial is over."""
        for line in open(f"{self.directory}/group{node}"):
            name, path, most = line.strip().split(" ", 2)
            if name == kind:
                self.undo.append(lambda: self.write(path, most))
                return self.write(path, value)
        sys.exit(f"node {node} has no limit of {kind}")

    @staticmethod
    def write(path, value):
        with open(path, "w") as file:
            file.write(value)

    def processor(self, node):
        percent = self.random.uniform(2, 6)
        quota = str(int(percent * 1000))
        self.limit(node, "processor", f"{quota} 100000" if self.is_version_2(node) else quota)
        return f"{percent:.1f} % of a processor"

    def is_version_2(self, node):
        return "cpu.max" in open(f"{self.directory}/group{node}").read()

    def pause(self, node):
        length, gap = self.random.uniform(0.6, 2.5), self.random.uniform(0.5, 2.5)
        script = f"while kill -STOP {self.pids[node]}; do sleep {length}; kill -CONT {self.pids[node]}; sleep {gap}; done"
        process = subprocess.Popen(["sh", "-c", script], start_new_session=True)

        def end():
            os.killpg(process.pid, signal.SIGKILL)
            os.kill(self.pids[node], signal.SIGCONT)

        self.undo.append(end)
        return f"{length:.1f} s, every {length + gap:.1f} s"

    def cache(self, node):
        """Its page cache gets less memory than its extent has. The node has been in its group since before it read anything: that is charged to it."""
        mib = self.random.randint(16, 30)
        self.limit(node, "memory", str(mib << 20))
        return f"{mib} MiB"

    def tell(self, node, **values):
        state = {"written_at_unix_ms": int(time.time() * 1000), "battery_percent": 80, "charging": True, "battery_celsius": 31.0}
        state.update(values)
        path = f"{self.directory}/state{node}.json"
        with open(path + ".new", "w") as f:
            json.dump(state, f)
        os.rename(path + ".new", path)

    def battery(self, node):
        percent = self.random.randint(3, 14)
        self.tell(node, battery_percent=percent, charging=False)
        self.undo.append(lambda: self.tell(node))
        return f"{percent} %"

    def heat(self, node):
        self.tell(node, battery_celsius=48.0)
        self.undo.append(lambda: self.tell(node))
        return "48 °C"

    def queue(self, node):
        depth = self.random.choice([256, 512, 1024])
        range_bytes = int(open(f"{self.directory}/extent").read())
        uri = open(f"{self.directory}/uri").read().strip()
        command = [self.binary, "-q", "bench", "nbd", uri, "-b", "4KiB", "-o", str(depth), "--time", "60s"]
        command += ["--range", f"{node * range_bytes}..{(node + 1) * range_bytes}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.undo.append(lambda: (process.kill(), process.wait()))
        return f"{depth} requests"

    def run(self, plant):
        node = self.random.randrange(len(self.pids))
        try:
            how = getattr(self, plant)(node) if IS_PLANTED else "nothing"
            # To take pages away from a node takes a second.
            since = time.monotonic()
            after, found, others = wait_for(self.admin, (plant, node), IN_TIME_S, since)
        finally:
            while self.undo:
                self.undo.pop()()
        return report(plant, node, how, after, found, others)


def report(plant, node, how, after, found, others):
    # A window that is too small for a long way is both.
    wrong = {(cause, other) for cause, other, _ in others} - ({("delay", node)} if plant == "receive-buffer" else set())
    if after is None:
        print(f"MISSED {plant} at node {node} ({how}): {sorted(others)}", flush=True)
        return False
    print(f"{plant} at node {node} ({how}): named after {after:.1f} s: {found}" + (f"; and wrongly {sorted(others)}" if wrong else ""), flush=True)
    return not wrong


def is_quiet(admin, state, seconds):
    """Nothing is named for so long, in a cluster that is in this state for most of that time: `idle`, `busy` or `rebuilding`."""
    end = time.monotonic() + seconds
    asked, in_state, wrong, since = 0, 0, set(), 0
    while time.monotonic() < end:
        asked += 1
        report = ask(admin, since)
        since = max(0, report["next_second"] - 2)
        answered = sum(sum(slot["answered"]) for slot in report["slots"])
        behind = sum(volume["copies"]["behind_chunks"] for volume in report["volumes"] if "copies" in volume)
        in_state += {"idle": answered == 0, "busy": answered > 0, "rebuilding": behind > 0}[state]
        for cause, node, found in named(report):
            if (cause, node) not in wrong:
                print(f"WRONGLY {cause} at node {node}: {found}", flush=True)
            wrong.add((cause, node))
        time.sleep(0.5)
    print(f"asked {asked} times, {in_state} of them {state}: {len(wrong)} wrong findings")
    # A rebuild may be over before that; the others go on.
    return not wrong and in_state >= (2 if state == "rebuilding" else 0.9 * asked - 3)


def main():
    admin = sys.argv[1]
    if sys.argv[2] == "quiet":
        sys.exit(0 if is_quiet(admin, sys.argv[3], float(sys.argv[4])) else 1)
    if sys.argv[2] == "one":
        # The trouble was there from the start: one of the last node, in a lab.
        plant, node, how = sys.argv[3], int(sys.argv[4]), sys.argv[5]
        after, found, others = wait_for(admin, (plant, node), IN_TIME_S, time.monotonic())
        sys.exit(0 if report(plant, node, how, after, found, others) else 1)
    binary, directory, seed, plants = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]
    drawn = random.Random(seed)
    is_well = True
    wait_quiet(admin)
    for plant in plants:
        wait_quiet(admin)
        is_well &= Trial(admin, binary, drawn, directory).run(plant)
    sys.exit(0 if is_well else 1)


main()
