#!/usr/bin/env python3
"""A gateway's administrative port with figures that are made up: for the tests of its page, and to look at it.

mock.py [--port 8080] [--nodes 8] [--volumes 1] [--evil] [--slow N] [--dead N] [--copies] [--rebuild] [--findings] [--notes] [--may-change] [--token T]

What it answers has the shape of schema/live-1.json, its histograms trimmed. Tests change the attributes of Mock while it runs."""
import argparse
import collections
import http.server
import json
import math
import pathlib
import random
import threading
import time
import urllib.parse

PAGE = pathlib.Path(__file__).resolve().parents[2] / "crates/flashmob-server/src/admin/page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'")
BOUNDS_US = [step * 10 ** decade for decade in range(7) for step in (4, 6.3, 10, 16, 25)][:31]
KEPT_S, AGE_S = 600, 3700
EVIL = ["<img src=x onerror=alert(1)>", "two\nlines\r\nand\ttabs", "long-" * 60, "\u202egnp.exe", "</script><script>alert(2)</script>",
        '" onmouseover="alert(3)', "タブレット-七", ""]
COLUMNS = ["answered", "failed", "p50_us", "p99_us", "batches", "pieces", "reply_frames", "bytes_in", "read_here", "at_once",
           "store_operations", "running_permille", "starved_permille", "queue", "way", "at_node", "flash"]
CAUSES = ("queue", "way", "at_node", "flash")
FINDINGS = [
    {"cause": "not-linked", "severity": "severe", "volume": 0, "node": 3, "found": "not linked, requests are queued",
     "remedy": "see whether its device is on, and flashmob runs on it", "command": "flashmob volume show ADDR:PORT"},
    {"cause": "heat", "severity": "wrong", "volume": 0, "node": 2, "found": "it is hot (48.5 °C) and will slow down",
     "remedy": "take its case off, give it air, charge it more slowly"},
    {"cause": "flash", "severity": "wrong", "volume": 0, "node": 2,
     "found": "its flash takes 3.4 ms for a piece, those of the others 820 us, 38 % of the time of a piece",
     "remedy": "examine it there with `flashmob doctor`: scheduler, free space, wear; replace it if nothing helps", "command": "flashmob doctor"},
]
NOTES = [{"cause": "modelled", "severity": "note", "volume": 0, "node": n, "found": "its flash is modelled",
          "remedy": "its timing is not that of the device"} for n in (0, 1)]


def trimmed(counts):
    at = [bucket for bucket, count in enumerate(counts) if count]
    return [at[0], *counts[at[0]:at[-1] + 1]] if at else []


def histogram(middle_us, count, rng):
    counts = [0] * 32
    for bucket in range(32):
        bound = BOUNDS_US[min(bucket, 30)]
        counts[bucket] = int(count * math.exp(-2.5 * math.log(bound / middle_us) ** 2) * rng.uniform(0.3, 0.5))
    return counts


class Mock:
    def __init__(self, nodes=8, volumes=1, evil=False, slow=None, dead=None, copies=False, rebuild=False, findings=False, notes=False,
                 may_change=False, token=None, age=AGE_S):
        self.count, self.volume_count, self.slow, self.dead = nodes, volumes, slow, dead
        self.copies, self.rebuild, self.may_change, self.token = copies or rebuild, rebuild, may_change, token
        self.names = [EVIL[n % len(EVIL)] if evil else f"192.168.178.{20 + n}:7780" for n in range(nodes)]
        self.volume_names = [EVIL[v] if evil else f"pool{v or ''}" for v in range(volumes)]
        self.findings = (FINDINGS if findings else []) + (NOTES if notes else [])
        if evil:
            self.findings = [dict(finding, found=EVIL[0] + " " + EVIL[4], remedy=EVIL[2], command=EVIL[0] + "; " + EVIL[2]) for finding in self.findings]
        self.findings = [finding for finding in self.findings if finding["node"] < nodes]
        self.more_findings, self.is_scrubbing, self.failure, self.retry_after = 0, False, None, None
        self.asked, self.scrubs, self.scrub_refusal = collections.Counter(), [], None
        # Pauses and measurements: what was posted, why the next is refused, and what came of them.
        self.posted, self.refusal, self.paused, self.leaving, self.drained, self.measured, self.measure_s, self.trouble = [], None, set(), set(), set(), None, 5.0, None
        self.restart(age)

    def restart(self, age=30):
        self.start, self.began = f"start-{random.getrandbits(48):x}", time.monotonic() - age

    # ---- /live

    def entry(self, node, second):
        """What a node did in a second; always the same."""
        if node == self.dead and second > AGE_S - 90:
            return None
        rng = random.Random(f"{node} {second}")
        wave = 1 + 0.5 * math.sin(second / 37 + node) + (6 if (second // 60 + node) % 7 == 0 and second % 60 < 8 else 0)
        slower = 5 if node == self.slow else 1
        answered = int(4800 * rng.uniform(0.9, 1.05) / (1.1 if slower > 1 else 1))
        middles = dict(queue=180 * wave * slower, way=480 * wave, at_node=700 * wave * slower, flash=420 * wave * slower)
        causes = {cause: histogram(middles[cause], answered, rng) for cause in CAUSES}
        at_once = int(answered * 0.4)
        p50 = int(1400 * wave * slower)
        return dict(causes, answered=answered, failed=0, p50_us=p50, p99_us=int(p50 * rng.uniform(4, 7)), batches=answered // 15, pieces=answered,
                    reply_frames=answered // 6, bytes_in=answered * 4160, read_here=0, at_once=at_once, store_operations=answered - at_once,
                    running_permille=420, starved_permille=rng.choice([3, None]))

    def slot(self, second, seconds):
        slot = {"second": second, "seconds": seconds, "node": [], **{column: [] for column in COLUMNS}}
        for node in range(self.count):
            entries = [entry for entry in (self.entry(node, second + n) for n in range(seconds)) if entry]
            if not entries:
                continue
            slot["node"].append(node)
            for column in COLUMNS:
                values = [entry[column] for entry in entries]
                if column in CAUSES:
                    value = trimmed([sum(counts) for counts in zip(*values)])
                elif column == "p50_us":
                    value = int(sum(values) / len(values))
                elif column in ("p99_us", "running_permille", "starved_permille"):
                    value = max((v for v in values if v is not None), default=None)
                else:
                    value = sum(values)
                slot[column].append(value)
        return slot

    def slots(self, since, end):
        first = max(0, end - KEPT_S)
        if since is not None:
            return [self.slot(second, 1) for second in range(max(first, since), end)]
        # Older seconds are merged.
        young = max(first, end - 60)
        old = [self.slot(second, min(5, young - second)) for second in range(first, young, 5)]
        return old + [self.slot(second, 1) for second in range(young, end)]

    def volume_of(self, n):
        return n * self.volume_count // self.count

    def node(self, n, uptime):
        node = {"volume": self.volume_of(n), "name": self.names[n], "state": "ready", "queue": n % 5}
        if n in self.leaving:
            node["is_leaving"] = True
            node |= {"is_drained": True} if n in self.drained else {}
        if n in self.paused:
            node["is_paused"] = True
        if n == self.dead:
            return dict(node, state="waiting", queue=3)
        node.update(rtt_us=870, segments=int(uptime * (900 + 40 * n)), retransmissions=n)
        if n % 8 != 5:
            node.update(battery_percent=98 - n % 60, charging=n % 2 == 0, celsius=31.5 + n % 7 / 2, free_bytes=17287872512)
        if n == 2 and self.findings:
            node.update(celsius=48.5, is_hot=True)
        return node

    def live(self, since):
        uptime = time.monotonic() - self.began
        end = int(uptime)
        volumes = []
        for name in self.volume_names:
            volume = {"name": name, "size_bytes": 256 << 30}
            if self.copies:
                behind = max(0, 4096 - int(uptime * 3) % 4096) if self.rebuild else 0
                rebuild = {"behind_copies": behind, "left_bytes": behind << 22}
                if behind:
                    rebuild.update(bytes_per_second=31e6, eta_seconds=(behind << 22) / 31e6)
                volume["copies"] = {"copies": 2, "fewest_current": 1 if self.rebuild else 2, "chunks": 65536, "behind_chunks": behind,
                                    "doubtful_chunks": 12 if self.rebuild else 0, "is_scrubbing": self.is_scrubbing, "rebuild": rebuild}
            volumes.append(volume)
        measurement = {"measurement": self.measurement()} if self.measured else {}
        return {**measurement, "schema": 1, "version": "0.1.0", "start": self.start, "uptime_seconds": uptime, "slot_seconds": 1, "next_second": end,
                "kept_seconds": KEPT_S, "bounds_us": BOUNDS_US, "warnings": [], "more_warnings": 0, "findings": self.findings,
                "more_findings": self.more_findings, "may_change": self.may_change, "clients": 2, "in_hand": 64,
                "memory_used_bytes": 1 << 20, "memory_limit_bytes": 1 << 27, "volumes": volumes,
                "nodes": [self.node(n, uptime) for n in range(self.count)], "slots": self.slots(since, end)}

    def measurement(self):
        volume, node, aspect, began = self.measured
        ago = time.monotonic() - began
        report = {"volume": volume, "node": node, "aspect": aspect, "begun_seconds_ago": ago, "empty_blocks": 0}
        kinds = {"flash": [(1, 4096, 1180.4, 812, 1984), (16, 4096, 9120.0, 1700, 4100)], "way": [(1, 1, 1110.2, 871, 2003), (8, 65536, 612.0, 12400, 21000)]}
        steps = [{"outstanding": outstanding, "request_bytes": size, "answers": int(rate * 2), "per_second": rate, "p50_us": p50, "p99_us": p99}
                 for outstanding, size, rate, p50, p99 in kinds[aspect]]
        if ago < self.measure_s:
            return dict(report, ends_in_seconds=self.measure_s - ago, steps=steps[:1] if ago > 2 else [])
        return dict(report, steps=[], trouble=self.trouble) if self.trouble else dict(report, steps=steps, empty_blocks=12 if aspect == "flash" else 0)

    # ---- /trace

    def trace(self):
        rng, now, samples = random.Random(7), 5_000_000_000_000, []
        for number in range(1, 13):
            received = now + number * 3_000_000
            pieces, last = [], received
            for piece in range(1 if number % 4 else 2):
                node = (number + piece) % self.count
                times = [received + 4_000]
                for step in (40_000, 9_000, 310_000, 12_000, 60_000, 420_000, 15_000, 290_000):
                    times.append(times[-1] + int(step * rng.uniform(0.5, 2)))
                names = ["batched_ns", "sent_ns", "node_received_ns", "scheduled_ns", "flash_start_ns", "flash_done_ns", "node_replied_ns", "returned_ns"]
                way = dict(zip(names, times[1:]), answered="at_once" if number % 3 == 0 else "store", clock_offset_ns=123, clock_error_ns=4000,
                           node_clock_ns=1, store_offset_bytes=0, store_bytes=4096)
                batched = way.pop("batched_ns")
                last = max(last, times[-1])
                pieces.append({"node": node, "offset_bytes": 4096 * number, "len_bytes": 4096, "batched_ns": batched, "batch_pieces": 12, "retries": 0,
                               "failure": "the node is away" if number == 5 else None, "way": None if number == 5 else way})
            at_once = {"node": 0, "started_ns": received + 500, "finished_ns": received + 9_000} if number == 7 else None
            if at_once:
                pieces, last = [], received + 9_000
            samples.append({"number": number, "op": "read", "volume": self.volume_names[0], "offset_bytes": 4096 * number, "len_bytes": 4096 * max(1, len(pieces)),
                            "received_ns": received, "queued_ns": received + 4_000, "replied_ns": last + 6_000, "failure": None, "at_once": at_once,
                            "pieces_in_all": len(pieces), "pieces": pieces})
        nodes = [{"volume": self.volume_names[0], "name": name, "clock_offset_ns": 123, "clock_error_ns": 4000} for name in self.names]
        counters = {"one_in": 1024, "in_flight": 0, "begun": 12, "finished": 12, "failed": 0, "crowded_out": 0, "abandoned": 0, "untold": 0}
        return {"schema": 1, "version": "0.1.0", "now_ns": now, "counters": counters, "nodes": nodes, "samples": samples}

    # ---- HTTP

    def get(self, path, query):
        if path == "/live":
            since = query.get("since")
            return 200, self.live(int(since[0]) if since else None)
        if path == "/trace":
            return 200, self.trace()
        return 200, {"schema": 1}

    def scrub(self, request):
        self.scrubs.append(request)
        if self.scrub_refusal or set(request) - {"volume", "now", "stop"} or request.get("volume") not in self.volume_names:
            return 409, self.scrub_refusal or "no such volume"
        self.is_scrubbing = not request.get("stop", False)
        return 200, {"volume": request["volume"], "is_running": self.is_scrubbing}

    def node_of(self, request):
        """The number of a node among all, of its volume and its number in that."""
        volume = self.volume_names.index(request["volume"])
        return volume, [n for n in range(self.count) if self.volume_of(n) == volume][request["node"]]

    def pause(self, request):
        self.posted.append(("pause", request))
        if self.refusal or set(request) != {"volume", "node", "resume"} or not self.copies:
            return 409, self.refusal or "the volume has no copies: reads and writes of what is on the node would wait for it"
        _, node = self.node_of(request)
        (self.paused.discard if request["resume"] else self.paused.add)(node)
        return 200, {"volume": request["volume"], "node": request["node"], "is_paused": node in self.paused}

    def move(self, request):
        self.posted.append(("move", request))
        if self.refusal or set(request) != {"volume", "node", "cancel"} or not self.copies:
            return 409, self.refusal or "the volume has no copies"
        _, node = self.node_of(request)
        (self.leaving.discard if request["cancel"] else self.leaving.add)(node)
        return 200, {"volume": request["volume"], "node": request["node"], "copies": 1, "bytes": 4194304, "air_bytes": 9000000}

    def measure(self, request):
        self.posted.append(("measure", request))
        if self.refusal or set(request) != {"volume", "node", "aspect"} or request["aspect"] not in ("flash", "way"):
            return 409, self.refusal or "no such aspect"
        volume, _ = self.node_of(request)
        self.measured = volume, request["node"], request["aspect"], time.monotonic()
        return 200, {"ends_in_seconds": self.measure_s}

    def serve(self, port=0):
        mock = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, body, kind="application/json", **headers):
                if kind == "application/json":
                    body = json.dumps(body) if status == 200 else str(body)
                    kind = kind if status == 200 else "text/plain; charset=utf-8"
                body = body if isinstance(body, bytes) else body.encode("utf-8")
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": len(body), "Connection": "close", "Content-Security-Policy": POLICY,
                                    "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", **headers}.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass

            def is_refused(self):
                if mock.failure:
                    self.answer(mock.failure, "It is refused by the mock <b>now</b>.", **({"Retry_After": mock.retry_after} if mock.retry_after else {}))
                elif mock.token and self.headers.get("Authorization") != f"Bearer {mock.token}":
                    self.answer(401, "a token is needed", WWW_Authenticate="Bearer")
                else:
                    return False
                return True

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                mock.asked[url.path] += 1
                file = PAGE / (url.path.lstrip("/") or "index.html")
                if file.parent == PAGE and file.is_file():
                    return self.answer(200, file.read_bytes(), TYPES[file.suffix])
                if url.path not in ("/live", "/trace", "/status", "/metrics", "/volumes"):
                    return self.answer(404, "no such page")
                if not self.is_refused():
                    self.answer(*mock.get(url.path, urllib.parse.parse_qs(url.query)))

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                change = {"/volumes/scrub": mock.scrub, "/volumes/pause": mock.pause, "/volumes/measure": mock.measure, "/volumes/move": mock.move}.get(self.path)
                if not change or self.headers.get("Content-Type") != "application/json":
                    return self.answer(415, "JSON is wanted")
                if not self.is_refused():
                    self.answer(*change(json.loads(body)))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("port", 8080), ("nodes", 8), ("volumes", 1), ("slow", None), ("dead", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("evil", "copies", "rebuild", "findings", "notes", "may-change"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--token")
    options = vars(parser.parse_args())
    print(Mock(**{name: value for name, value in options.items() if name != "port"}).serve(options["port"]), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
