#!/usr/bin/env python3
"""Compares what 'flashmob net analyze' counted with what tshark's tcp.analysis fields say: compare_tshark.py RESULT.json CAPTURE.

Both ways of every connection. Counts and round trips have to agree within 1 %, or by one; of medians the rank may differ by half as much. One
definition differs, and is applied to tshark's packets here: round trips of data that was sent twice before its acknowledgement do not count
(Karn), whichever of the two tshark took for the one that was acknowledged. SYN and FIN have no data and are left out.
"""
import json
import statistics
import subprocess
import sys

FIELDS = ["frame.number", "tcp.stream", "tcp.srcport", "tcp.seq", "tcp.len"] + [
    "tcp.analysis." + name
    for name in "retransmission out_of_order duplicate_ack zero_window window_full ack_rtt acks_frame".split()
]


def packets(capture):
    command = ["tshark", "-r", capture, "-Y", "tcp", "-T", "fields", "-E", "occurrence=f"]
    for field in FIELDS:
        command += ["-e", field]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [dict(zip(FIELDS, line.split("\t"))) for line in out.splitlines()]


def of_way(rows, port):
    data = {r["frame.number"]: r for r in rows if r["tcp.srcport"] == port and int(r["tcp.len"] or 0) > 0}
    back = [r for r in rows if r["tcp.srcport"] != port]

    def count(rows, name):
        return sum(1 for r in rows if r["tcp.analysis." + name])

    def span(row):
        return int(row["tcp.seq"]), int(row["tcp.seq"]) + int(row["tcp.len"])

    again = [(int(r["frame.number"]), *span(r)) for r in data.values() if r["tcp.analysis.retransmission"]]

    def sent_once(row, acknowledgement):
        begin, end = span(row)
        return not any(n < int(acknowledgement["frame.number"]) and first < end and begin < last for n, first, last in again)

    trips = [
        1000 * float(r["tcp.analysis.ack_rtt"])
        for r in back
        if r["tcp.analysis.ack_rtt"]
        and r["tcp.analysis.acks_frame"] in data
        and sent_once(data[r["tcp.analysis.acks_frame"]], r)
    ]
    return {
        "data_packets": len(data),
        "retransmissions": count(data.values(), "retransmission"),
        "out_of_order": count(data.values(), "out_of_order"),
        "duplicate_acknowledgements": count(back, "duplicate_ack"),
        "zero_windows": count(back, "zero_window"),
        "full_windows": count(data.values(), "window_full"),
        "rtt_count": len(trips),
        "rtt_mean": statistics.fmean(trips) if trips else 0.0,
        "rtt_median": sorted(trips) or [0.0],
    }


result, capture = sys.argv[1:]
rows = packets(capture)
compared, wrong = 0, []
for flow in json.load(open(result))["measurement"]["flows"]:
    own = [r for r in rows if r["tcp.stream"] == str(flow["number"])]
    for name, end in (("up", "client"), ("down", "server")):
        way, theirs = flow[name], of_way(own, flow[end].rsplit(":", 1)[1])
        rtt = way["rtt_ms"] or {"count": 0, "mean": 0.0, "median": 0.0}
        ours = {key: way[key] for key in theirs if not key.startswith("rtt_")}
        ours.update(rtt_count=rtt["count"], rtt_mean=rtt["mean"], rtt_median=rtt["median"])
        for key, value in theirs.items():
            compared += 1
            if key == "rtt_median":
                # Where counts differ by one percent or by one, the rank of the median differs by half of that.
                middle, slack = len(value) // 2, 1 + len(value) // 200
                around = value[max(0, middle - slack) : middle + slack + 1]
                if around[0] <= ours[key] <= around[-1]:
                    continue
                value = statistics.median(value)
            # tshark has microseconds in these captures: what it rounds is no difference.
            least = 0.0011 if key.startswith("rtt_m") else 1
            if abs(ours[key] - value) > max(0.01 * value, least):
                wrong.append(f"{capture}: stream {flow['number']} {name} {key}: {ours[key]}, tshark {value}")
print("\n".join(wrong) if wrong else f"{compared} figures agree")
sys.exit(1 if wrong or not compared else 0)
