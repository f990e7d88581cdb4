#!/usr/bin/env python3
"""Strangers that come to a port all the time, each from a fresh address, and go no further than they can without a key.

    knock.py HOST PORT --rate N --seconds S --from FROM [--send none|hello|starttls] [--ready FILE]

FROM: an address, or v4 for fresh ones of 127.64.0.0/10, or the first 64 bits of IPv6 addresses (fd00:9::) of which each has the other half drawn. --send: nothing;
the first bytes of a ClientHello; or NBD's STARTTLS and those. Prints how many came a second. It keeps its last 2,000 connections open.
"""

import argparse
import collections
import ipaddress
import random
import selectors
import signal
import socket
import struct
import time

HELLO = struct.pack(">BHH", 22, 0x0301, 512) + b"\1\0\1\374\3\3"
STARTTLS = struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 5, 0)
GREETING_BYTES = 18
OPEN_MAX = 2000


def source(args):
    if args.source == "v4":
        return f"127.{64 + random.randrange(64)}.{random.randrange(256)}.{random.randrange(1, 255)}"
    if args.source.endswith("::"):
        return str(ipaddress.ip_address(int(ipaddress.ip_address(args.source)) + random.getrandbits(64)))
    return args.source


def come(args, family):
    sock = socket.socket(family)
    sock.setblocking(False)
    sock.bind((source(args), 0))
    try:
        sock.connect((args.host, args.port))
    except BlockingIOError:
        pass
    return sock


def go_on(sock, send, state):
    """Takes what came, and goes one step further."""
    data = sock.recv(4096)
    if not data:
        raise ConnectionError
    if send != "starttls":
        return
    state["bytes"] += len(data)
    if state["sent"] == 0 and state["bytes"] >= GREETING_BYTES:
        sock.send(STARTTLS)
        state["sent"] = 1
    elif state["sent"] == 1:
        sock.send(HELLO)
        state["sent"] = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--send", choices=["none", "hello", "starttls"], default="none")
    parser.add_argument("--ready")
    args = parser.parse_args()
    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    selector, opened = selectors.DefaultSelector(), collections.deque()
    start, count, failed = time.monotonic(), 0, 0
    end = start + args.seconds
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    while not over and (now := time.monotonic()) < end:
        while count < (now - start) * args.rate:
            count += 1
            try:
                sock = come(args, family)
            except OSError:
                failed += 1
                continue
            state = {"bytes": 0, "sent": 0}
            wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if args.send == "hello" else 0)
            selector.register(sock, wants, state)
            opened.append(sock)
            if len(opened) > OPEN_MAX:
                old = opened.popleft()
                if old.fileno() >= 0:
                    selector.unregister(old)
                    old.close()
        if args.ready and now > start + 1:
            open(args.ready, "w").close()
            args.ready = None
        for key, events in selector.select(0.002):
            sock = key.fileobj
            try:
                if events & selectors.EVENT_WRITE:
                    sock.send(HELLO)
                    selector.modify(sock, selectors.EVENT_READ, key.data)
                if events & selectors.EVENT_READ:
                    go_on(sock, args.send, key.data)
            except OSError:
                selector.unregister(sock)
                sock.close()
    print(round((count - failed) / (time.monotonic() - start), 1))


main()
