"""A client that asks for more than is good: very many requests outstanding, and answers read slowly or not at all.

    flood.py URI --command read|write --length BYTES --outstanding N --connections C --requests R [--slow] [--abort]

Every connection keeps N requests outstanding until R of its own were answered. --slow takes 64 KiB from each
connection 50 times a second at most. --abort: kills itself with SIGKILL when R answers have come altogether, with
everything else still in flight. Answers are counted and checked for errors, data is thrown away. Prints JSON.
"""

import argparse
import collections
import json
import os
import random
import selectors
import signal
import sys
import time

from nbdproto import READ, REQUEST, REQUEST_MAGIC, SIMPLE, SIMPLE_MAGIC, WRITE, Client


class Flood:
    """One connection: what is still to be sent, and where in the stream of replies it is."""

    def __init__(self, args, seed):
        self.args, self.random = args, random.Random(seed)
        self.client = Client(args.uri, receive_buffer=65536 if args.slow else None)
        assert self.client.size >= args.start + args.length, f"the volume has {self.client.size} bytes"
        self.command = READ if args.command == "read" else WRITE
        self.payload = memoryview(bytes(args.length)) if self.command == WRITE else None
        self.sent = self.answered = self.errors = self.skip = 0
        self.head = bytearray()
        self.queue = collections.deque()
        self.sock = self.client.sock
        self.sock.setblocking(False)
        self.due, self.watched = 0.0, 0

    def finished(self):
        return self.answered >= self.args.requests

    def wants_to_send(self):
        return bool(self.queue) or (self.sent < self.args.requests and self.sent - self.answered < self.args.outstanding)

    def send(self):
        try:
            while self.wants_to_send():
                if not self.queue:
                    self.next_requests()
                sent = self.sock.send(self.queue[0])
                if sent == len(self.queue[0]):
                    self.queue.popleft()
                else:
                    self.queue[0] = self.queue[0][sent:]
        except BlockingIOError:
            pass

    def watch(self, selector, now):
        """Tells the selector what this connection waits for; a slow one does not read before its time."""
        wanted = (selectors.EVENT_READ if self.due <= now else 0) | (selectors.EVENT_WRITE if self.wants_to_send() else 0)
        if wanted == self.watched:
            return
        if self.watched:
            selector.unregister(self.sock)
        if wanted:
            selector.register(self.sock, wanted, self)
        self.watched = wanted

    def next_requests(self):
        """A run of reads is one piece of the stream, a write is a header and a shared payload."""
        run = min(self.args.outstanding - (self.sent - self.answered), self.args.requests - self.sent)
        requests = bytearray()
        for _ in range(run if self.command == READ else 1):
            offset = self.random.randrange(self.args.start, self.client.size - self.args.length + 1)
            requests += REQUEST.pack(REQUEST_MAGIC, 0, self.command, self.sent, offset, self.args.length)
            self.sent += 1
        self.queue.append(memoryview(bytes(requests)))
        if self.command == WRITE:
            self.queue.append(self.payload)

    def take(self):
        data = self.sock.recv(65536 if self.args.slow else 1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        at = 0
        while at < len(data):
            step = min(self.skip, len(data) - at)
            self.skip -= step
            at += step
            if at == len(data):
                break
            part = data[at:at + 16 - len(self.head)]
            self.head += part
            at += len(part)
            if len(self.head) == 16:
                magic, error, _ = SIMPLE.unpack(self.head)
                assert magic == SIMPLE_MAGIC, hex(magic)
                self.head.clear()
                self.answered += 1
                self.errors += error != 0
                self.skip = self.args.length if self.command == READ and not error else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("uri")
    parser.add_argument("--command", choices=["read", "write"], default="read")
    parser.add_argument("--length", type=int, default=32768)
    parser.add_argument("--outstanding", type=int, default=1024)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--requests", type=int, default=2048, help="per connection; with --abort altogether")
    parser.add_argument("--start", type=int, default=0, help="leave alone so many bytes at the start of the volume")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--abort", action="store_true")
    args = parser.parse_args()
    abort_at = args.requests if args.abort else None
    if args.abort:
        args.requests = 1 << 40
    floods = [Flood(args, seed) for seed in range(args.connections)]
    selector = selectors.DefaultSelector()
    print("running", file=sys.stderr, flush=True)
    started = time.monotonic()
    while not all(flood.finished() for flood in floods):
        now = time.monotonic()
        for flood in floods:
            flood.send()
            flood.watch(selector, now)
        for key, events in selector.select(0.02):
            if events & selectors.EVENT_READ:
                key.data.take()
                if args.slow:
                    key.data.due = time.monotonic() + 0.02
        if abort_at is not None and sum(flood.answered for flood in floods) >= abort_at:
            os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps({"answered": sum(f.answered for f in floods), "errors": sum(f.errors for f in floods),
                      "seconds": round(time.monotonic() - started, 3)}))


main()
