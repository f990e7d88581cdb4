#!/usr/bin/env python3
"""Judges times: whether a machine was busy, and whether pairs of measurements exceed a bound.

judge.py look FILE PID                    notes what processors did so far, of the process's tree and of all
judge.py busy FILE PID [PRESSURED...]     what happened since, as JSON
judge.py exceeds BOUND RATIO...           status 1 if the ratios exceed the bound at 95 % (sign test), 0 if not; says how many do

A test's own processes may well fill all processors, so pressure alone (/proc/pressure/cpu) does not tell that somebody else was there. What
tells it is processor time that was spent and not by the test's own tree, and time that the hypervisor gave to others: both in
processors. Beside it stand the pressure and the longest share of time that one of the processes PRESSURED was runnable and did not run.
"""

import json
import math
import os
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid):
    """Parent and seconds of processor time of a process, with its children that it has waited for."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[1]), sum(int(field) for field in fields[11:15]) / TICKS


def tree_seconds(root):
    """Processor time of a process and all below it; what ends meanwhile is its parent's by then."""
    parent, seconds = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent[int(name)], seconds[int(name)] = stat(name)
            except (OSError, IndexError):
                pass
    total = 0.0
    for pid, spent in seconds.items():
        at = pid
        while at and at != root:
            at = parent.get(at, 0)
        total += spent if at == root else 0.0
    return total


def run_delay(pid):
    """Seconds that the threads of a process were runnable and did not run."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[1])
    return total / 1e9


def machine():
    """Seconds of processor time spent by all, and of those that the hypervisor kept."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) / TICKS for field in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return user + nice + system + irq + softirq, steal


def pressure():
    """Seconds in which a task waited for a processor; None where the kernel does not tell."""
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as file:
            return int(file.readline().rsplit("total=", 1)[1]) / 1e6
    except OSError:
        return None


def look(root, pressured):
    spent, stolen = machine()
    delays = {}
    for pid in pressured:
        try:
            delays[pid] = run_delay(pid)
        except OSError:
            pass
    return {"at": time.monotonic(), "spent": spent, "stolen": stolen, "own": tree_seconds(root), "pressure": pressure(), "delays": delays}


def busy(before, now):
    elapsed = max(now["at"] - before["at"], 0.01)
    known = before["pressure"] is not None and now["pressure"] is not None
    delays = [now["delays"][pid] - before["delays"].get(pid, 0.0) for pid in now["delays"]]
    return {"seconds": round(elapsed, 2),
            "foreign_processors": round(max(0.0, now["spent"] - before["spent"] - (now["own"] - before["own"])) / elapsed, 3),
            "stolen_processors": round((now["stolen"] - before["stolen"]) / elapsed, 3),
            "pressure": round((now["pressure"] - before["pressure"]) / elapsed, 3) if known else None,
            "run_delay": round(max(delays, default=0.0) / elapsed, 3)}


def exceeds(bound, ratios):
    """How many are above the bound, and whether so many or more are rarer than 5 % where the true median is at the bound."""
    above, count = sum(ratio > bound for ratio in ratios), len(ratios)
    chance = sum(math.comb(count, k) for k in range(above, count + 1)) / 2**count
    return above, chance <= 0.05


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "exceeds":
        bound, ratios = float(arguments[0]), [float(ratio) for ratio in arguments[1:]]
        # With fewer than five no number of them could ever be too many.
        if len(ratios) < 5:
            sys.exit(f"{len(ratios)} ratios are too few to judge")
        above, is_exceeded = exceeds(bound, ratios)
        print(f"{above} of {len(ratios)} above {bound:g}, median {sorted(ratios)[len(ratios) // 2]:.3g}")
        sys.exit(is_exceeded)
    path, root = arguments[0], int(arguments[1])
    now = look(root, arguments[2:])
    if command == "look":
        with open(path, "w", encoding="utf-8") as file:
            json.dump(now, file)
    else:
        with open(path, encoding="utf-8") as file:
            print(json.dumps(busy(json.load(file), now)))


main()
