#!/usr/bin/env python3
"""Strangers at a port: connections that say nothing, or a byte now and then, and come again when they are dropped.

    strangers.py HOST:PORT [--silent N] [--trickling N] [--again SECONDS] [--open FILE]

Each comes from an address of its own in 127.0.0.0/8. Trickling ones send a TLS handshake that never ends, a byte each second. Whoever is dropped comes
again after --again seconds. Writes to FILE, once a second, how often they were dropped. Until SIGTERM.
"""

import argparse
import random
import selectors
import signal
import socket
import struct
import sys
import time

# A record of TLS whose length is never reached: a client's hello of 16,000 bytes.
HELLO = struct.pack(">BHH", 22, 0x0301, 16000) + struct.pack(">I", 0x01000000 | 15996)


class Stranger:
    def __init__(self, place, trickles, number):
        self.place, self.trickles = place, trickles
        self.source = f"127.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"
        self.sock, self.sent, self.due = None, 0, 0.0

    def come(self, now):
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((self.source, 0))
        try:
            sock.connect(self.place)
        except BlockingIOError:
            pass
        self.sock, self.sent, self.due = sock, 0, now + random.random()

    def go(self):
        self.sock.close()
        self.sock = None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("place")
    parser.add_argument("--silent", type=int, default=1000)
    parser.add_argument("--trickling", type=int, default=1000)
    parser.add_argument("--again", type=float, default=2.0)
    parser.add_argument("--open")
    args = parser.parse_args()
    host, port = args.place.rsplit(":", 1)
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    strangers = [Stranger((host, int(port)), i >= args.silent, i) for i in range(args.silent + args.trickling)]
    selector = selectors.DefaultSelector()
    dropped, told = 0, 0.0
    for stranger in strangers:
        stranger.due = time.monotonic() + args.again * random.random()
    while not over:
        now = time.monotonic()
        for stranger in strangers:
            if stranger.due > now:
                continue
            if stranger.sock is None:
                stranger.come(now)
                selector.register(stranger.sock, selectors.EVENT_READ, stranger)
            elif stranger.trickles:
                try:
                    stranger.sock.send(HELLO[stranger.sent:stranger.sent + 1] or b"\0")
                    stranger.sent += 1
                except OSError:
                    pass
                stranger.due = now + 1
            else:
                stranger.due = now + 3600
        for key, _ in selector.select(0.05):
            stranger = key.data
            try:
                ended = not stranger.sock.recv(4096)
            except BlockingIOError:
                continue
            except OSError:
                ended = True
            if ended:
                selector.unregister(stranger.sock)
                stranger.go()
                stranger.due = now + args.again
                dropped += 1
        if args.open and now >= told:
            told = now + 1
            with open(args.open, "w") as out:
                print(sum(s.sock is not None for s in strangers), dropped, file=out)
    print(dropped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
