#!/usr/bin/env python3
"""A pipelining NBD client that checks every byte it reads against what it wrote last.

    nbdload.py URI [--seconds S | --requests N | until SIGTERM] [--extents N] [--connections C] [--depth D] ...

The volume is cut into N equal extents; each has D requests outstanding per connection at any time, so that an
extent which does not answer holds up nobody else's load. A block has at most one request outstanding. Its content
follows from seed, block number and version, and no two bytes of it are related, so that misplaced bytes show.

After a failed write a block holds the old bytes or the new ones (a failed write may still have happened); each byte
must be one of them until a write succeeds, after which nothing else is right. Once a read has shown a block as a failed
write left it, the old bytes are wrong as well. A block never written is zeros.

With --rate it begins so many requests a second, whether earlier ones are answered or not, as long as no more than D are
outstanding. Their time counts from when they were due: what waits for its turn behind slow ones is slow, too.

SIGTERM or SIGINT ends it in good order: outstanding requests are waited for. SIGUSR1 begins a new phase of
measurement. The result is one JSON object on stdout, with figures per phase and extent; --progress FILE holds a
small one, renewed ten times a second. --model FILE keeps what was written from one run to the next.
"""

import argparse
import array
import hashlib
import json
import os
import random
import selectors
import signal
import struct
import sys
import time

from nbdproto import NAMES, READ, REQUEST, REQUEST_MAGIC, WRITE, Client


class Model:
    """What each block must hold: a version, or several while it is uncertain which."""

    def __init__(self, seed, block_bytes, count):
        self.seed, self.block_bytes, self.count = seed, block_bytes, count
        self.version = array.array("L", bytes(8 * count))
        self.newest = array.array("L", bytes(8 * count))
        self.uncertain = {}

    def content(self, block, version):
        if version == 0:
            return bytes(self.block_bytes)
        return hashlib.shake_128(struct.pack("<QQQ", self.seed, block, version)).digest(self.block_bytes)

    def begin_write(self, block):
        """The next version and its bytes. Versions are never used twice, so late writes show."""
        self.newest[block] += 1
        return self.newest[block], self.content(block, self.newest[block])

    def written(self, block, version):
        self.version[block] = version
        self.uncertain.pop(block, None)

    def maybe_written(self, block, version):
        self.uncertain.setdefault(block, [self.version[block]]).append(version)

    def seen(self, block, data, is_final):
        """A read has shown a whole block. What a failed write left there stays: the bytes before it must not return. If it is final,
        failed writes that do not show have no effect any more."""
        version = next((v for v in self.uncertain.get(block, []) if data == self.content(block, v)), None)
        if version is None:
            return
        if version != self.version[block]:
            self.uncertain[block] = [v for v in self.uncertain[block] if v != self.version[block]]
        if is_final or len(self.uncertain[block]) == 1:
            self.written(block, version)

    def right(self, block, start, data):
        """Whether data may be what lies at byte start of the block."""
        versions = self.uncertain.get(block) or [self.version[block]]
        allowed = [self.content(block, v)[start:start + len(data)] for v in versions]
        if data in allowed:
            return True
        return len(allowed) > 1 and all(any(a[i] == byte for a in allowed) for i, byte in enumerate(data))

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"seed": self.seed, "block_bytes": self.block_bytes, "version": self.version.tolist(),
                       "newest": self.newest.tolist(), "uncertain": list(self.uncertain.items())}, file)

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as file:
            saved = json.load(file)
        model = Model(saved["seed"], saved["block_bytes"], len(saved["version"]))
        model.version, model.newest = array.array("L", saved["version"]), array.array("L", saved["newest"])
        model.uncertain = dict(saved["uncertain"])
        return model


class Figures:
    """What one extent did in one phase."""

    def __init__(self, now):
        self.latency_ms, self.good, self.errors, self.gap_s, self.last = array.array("f"), 0, {}, 0.0, now

    def answered(self, now, latency_ms, error):
        if error:
            self.errors[error] = self.errors.get(error, 0) + 1
            return
        self.good += 1
        self.latency_ms.append(latency_ms)
        self.gap_s = max(self.gap_s, now - self.last)
        self.last = now

    def report(self, now):
        times = sorted(self.latency_ms)
        at = lambda share: round(times[min(len(times) - 1, int(len(times) * share))], 3) if times else None
        return {"good": self.good, "errors": self.errors, "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1),
                "longest_gap_s": round(max(self.gap_s, now - self.last), 3)}


class Load:
    """The load itself: connections, what is outstanding, and the phases."""

    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.clients = [Client(args.uri, args.structured) for _ in range(args.connections)]
        count = min(self.clients[0].size, args.bytes or self.clients[0].size) // args.block
        if args.model and os.path.exists(args.model):
            self.model = Model.load(args.model)
            # A load of a part of the volume may go on with what is known of all of it.
            is_part = args.bytes is not None and self.model.count > count
            assert is_part or self.model.count == count, f"the model has {self.model.count} blocks, the volume {count}"
        else:
            self.model = Model(args.seed, args.block, count)
        self.bounds = [count * i // args.extents for i in range(args.extents + 1)]
        self.busy, self.outstanding, self.cookie = set(), {}, 0
        self.out = [bytearray() for _ in self.clients]
        self.mismatches, self.first_mismatches, self.disconnects = 0, [], 0
        self.reads = self.writes = self.unanswered = 0
        self.stopping = False
        self.switch = False
        self.todo = iter(range(count)) if args.fill or args.verify else None
        self.phases = []
        self.new_phase()

    def new_phase(self):
        now = time.monotonic()
        if self.phases:
            self.phases[-1]["end"] = now
        self.phases.append({"start": now, "end": None, "extents": [Figures(now) for _ in range(self.args.extents)]})

    def extent_of(self, block):
        return next(e for e in range(self.args.extents) if block < self.bounds[e + 1])

    def pick(self, extent):
        """An idle block of the extent, or None."""
        for _ in range(8):
            block = self.random.randrange(self.bounds[extent], self.bounds[extent + 1])
            if block not in self.busy:
                return block
        return None

    def issue(self, index, extent, due=None):
        """Puts one request for the extent on connection index; False when there is nothing to do. It was due now, or earlier."""
        if self.todo is not None:
            block = next(self.todo, None)
            if block is None:
                self.stopping = True
                return False
            command, extent = (READ if self.args.verify else WRITE), self.extent_of(block)
        else:
            block = self.pick(extent)
            command = READ if self.random.randrange(100) < self.args.reads else WRITE
        if block is None:
            return False
        self.busy.add(block)
        self.cookie += 1
        start, length, version, data = 0, self.args.block, 0, b""
        if command == WRITE:
            version, data = self.model.begin_write(block)
        elif self.args.read_bytes:
            length = min(self.args.read_bytes, self.args.block)
            start = self.random.randrange(self.args.block - length + 1)
        offset = block * self.args.block + start
        self.out[index] += REQUEST.pack(REQUEST_MAGIC, 0, command, self.cookie, offset, length) + data
        self.clients[index].replies.expect(self.cookie, length if command == READ else 0)
        self.outstanding[self.cookie] = (index, extent, block, command, start, version, due or time.monotonic())
        return True

    def answered(self, cookie, error, data):
        index, extent, block, command, start, version, begun = self.outstanding.pop(cookie)
        self.busy.discard(block)
        now = time.monotonic()
        self.phases[-1]["extents"][extent].answered(now, (now - begun) * 1000, NAMES.get(error, str(error)) if error else None)
        if command == WRITE:
            self.writes += 1
            if error:
                self.model.maybe_written(block, version)
            else:
                self.model.written(block, version)
        elif not error:
            self.reads += 1
            if self.model.right(block, start, data):
                self.model.seen(block, data, self.args.final)
            else:
                self.mismatch(block, start, data)
        return index, extent

    def mismatch(self, block, start, data):
        self.mismatches += 1
        if len(self.first_mismatches) < 5:
            zeros = not any(data)
            self.first_mismatches.append({"block": block, "start": start, "bytes": len(data), "zeros": zeros,
                                          "at_s": round(time.monotonic() - self.phases[0]["start"], 3)})

    def closed(self, index):
        """The server closed a connection: what was outstanding there is uncertain."""
        self.disconnects += 1
        for cookie in [c for c, o in self.outstanding.items() if o[0] == index]:
            self.lost(cookie)
        self.clients[index].sock.close()
        self.clients[index] = None

    def lost(self, cookie):
        """No answer will come: a write may have happened or not."""
        _, _, block, command, _, version, _ = self.outstanding.pop(cookie)
        self.busy.discard(block)
        if command == WRITE:
            self.model.maybe_written(block, version)

    def give_up(self):
        """What was still unanswered when the time to wait was over."""
        self.unanswered = len(self.outstanding)
        for cookie in list(self.outstanding):
            self.lost(cookie)

    def flush_out(self, index, selector):
        """Sends what fits; asks for writability only while something is left."""
        out, sock = self.out[index], self.clients[index].sock
        try:
            while out:
                sent = sock.send(out)
                del out[:sent]
        except BlockingIOError:
            pass
        selector.modify(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if out else 0), index)

    def progress(self):
        now = time.monotonic()
        phase = self.phases[-1]
        state = {"phase": len(self.phases) - 1, "phase_seconds": round(now - phase["start"], 3),
                 "phase_done": sum(f.good + sum(f.errors.values()) for f in phase["extents"]),
                 "mismatches": self.mismatches,
                 "phase_extents": [{"good": f.good, "errors": sum(f.errors.values())} for f in phase["extents"]]}
        with open(self.args.progress + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.rename(self.args.progress + ".new", self.args.progress)

    def run(self):
        # The other kind waits whole milliseconds.
        args, selector = self.args, selectors.SelectSelector() if self.args.rate else selectors.DefaultSelector()
        for index, client in enumerate(self.clients):
            client.sock.setblocking(False)
            selector.register(client.sock, selectors.EVENT_READ, index)
            for extent in range(args.extents):
                for _ in range(0 if args.rate else args.depth):
                    self.issue(index, extent)
        self.due = time.monotonic()
        end = time.monotonic() + args.seconds if args.seconds else None
        next_progress, give_up = 0.0, None
        while any(self.clients):
            now = time.monotonic()
            if self.switch:
                self.switch = False
                self.new_phase()
            if args.progress and now >= next_progress:
                self.progress()
                next_progress = now + 0.1
            self.stopping = self.stopping or (end is not None and now >= end) or 0 < args.requests <= self.reads + self.writes
            if self.stopping:
                give_up = give_up or now + args.drain
                if not self.outstanding or now >= give_up:
                    break
            wait = self.issue_due(now) if args.rate and not self.stopping else 0.05
            for index, client in enumerate(self.clients):
                if client and self.out[index]:
                    try:
                        self.flush_out(index, selector)
                    except ConnectionError:
                        selector.unregister(client.sock)
                        self.closed(index)
            for key, events in selector.select(wait):
                if self.clients[key.data] and events & selectors.EVENT_READ:
                    self.take(key.data, selector)

    def issue_due(self, now):
        """Begins what is due, on each connection and extent in turn. Returns the time until more is."""
        places = [(index, extent) for index, client in enumerate(self.clients) if client for extent in range(self.args.extents)]
        while self.due <= now and len(self.outstanding) < self.args.depth * len(places):
            self.issue(*places[self.cookie % len(places)], self.due)
            self.due += 1 / self.args.rate
        return min(self.due - now, 0.05) if self.due > now else 0.05

    def take(self, index, selector):
        """Reads what has come on a connection and issues a new request for each answer."""
        client = self.clients[index]
        try:
            data = client.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            selector.unregister(client.sock)
            self.closed(index)
            return
        client.replies.feed(data)
        for cookie, error, body in client.replies.parse():
            _, extent = self.answered(cookie, error, body)
            if not self.stopping and not self.args.rate:
                self.issue(index, extent)

    def report(self):
        now = time.monotonic()
        self.phases[-1]["end"] = now
        phases = [{"seconds": round(p["end"] - p["start"], 3), "extents": [f.report(p["end"]) for f in p["extents"]]}
                  for p in self.phases]
        errors = {}
        for phase in phases:
            for extent in phase["extents"]:
                for name, count in extent["errors"].items():
                    errors[name] = errors.get(name, 0) + count
        return {"reads": self.reads, "writes": self.writes, "errors": errors, "mismatches": self.mismatches,
                "first_mismatches": self.first_mismatches, "disconnects": self.disconnects,
                "unanswered": self.unanswered, "uncertain": len(self.model.uncertain), "phases": phases}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("uri")
    parser.add_argument("--seconds", type=float, help="default: until SIGTERM")
    parser.add_argument("--requests", type=int, default=0, help="end after so many good answers")
    parser.add_argument("--extents", type=int, default=1)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--depth", type=int, default=16, help="outstanding per extent and connection")
    parser.add_argument("--rate", type=float, help="requests begun in a second, in place of one for each answer")
    parser.add_argument("--block", type=int, default=4096, help="bytes per block and write")
    parser.add_argument("--bytes", type=int, help="use only so many bytes at the start of the volume")
    parser.add_argument("--read-bytes", type=int, help="bytes per read, at a random place in a block; default: a block")
    parser.add_argument("--reads", type=int, default=70, help="percentage of reads")
    parser.add_argument("--fill", action="store_true", help="write every block once, and end")
    parser.add_argument("--verify", action="store_true", help="read every block once, and end")
    parser.add_argument("--final", action="store_true", help="writes without an answer are over: what a read shows of them now must stay")
    parser.add_argument("--structured", action="store_true", help="negotiate structured replies")
    parser.add_argument("--model", help="file that keeps what was written")
    parser.add_argument("--progress", help="file renewed ten times a second")
    parser.add_argument("--drain", type=float, default=30, help="seconds to wait at the end for what is outstanding")
    parser.add_argument("--seed", type=int, default=1)
    load = Load(parser.parse_args())

    def end(*_):
        load.stopping = True

    def switch(*_):
        load.switch = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGUSR1, switch)
    load.run()
    load.give_up()
    if load.args.model:
        load.model.save(load.args.model)
    result = load.report()
    print(json.dumps(result))
    return 1 if result["mismatches"] else 0


if __name__ == "__main__":
    sys.exit(main())
