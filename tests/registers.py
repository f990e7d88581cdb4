#!/usr/bin/env python3
"""Clients that read and write registers of a volume through several gateways, and what they saw.

Each register is a block of 4 KiB whose first eight bytes count; it is written with a number that is written once. A client asks one
gateway until that does not answer or its connection ends, and then the next one that listens. What it asked then has an unknown
outcome, and the client goes on under another number. The history goes to a file, one operation a line:

    {"client": 3, "op": "write", "register": 5, "value": 77, "call": NS, "return": NS or null}

A read that was not answered is left out. Values that were there before are written first, by one client.
"""

import argparse
import json
import os
import random
import signal
import struct
import sys
import threading
import time

import nbd

BLOCK = 4096


class Lost(Exception):
    """The gateway does not answer."""


class Clients:
    def __init__(self, args):
        self.args = args
        self.lock = threading.Lock()
        self.next_value = 1
        self.next_client = 0
        self.history = []
        self.answered = 0
        self.lost = 0
        self.errors = {}
        self.last_answer = time.monotonic()
        self.longest_gap = 0.0
        self.reads = 0
        self.is_over = threading.Event()

    def value(self):
        with self.lock:
            self.next_value += 1
            return self.next_value

    def client(self):
        with self.lock:
            self.next_client += 1
            return self.next_client

    def record(self, client, op, register, value, call, end):
        with self.lock:
            if end is not None:
                self.answered += 1
                self.reads += op == "read"
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - self.last_answer)
                self.last_answer = now
            if end is not None or op == "write":
                self.history.append((client, op, register, value, call, end))

    def progress(self):
        with self.lock:
            gap = max(self.longest_gap, time.monotonic() - self.last_answer)
            done = {"answered": self.answered, "reads": self.reads, "lost": self.lost, "errors": self.errors, "longest_gap_s": round(gap, 3)}
        with open(self.args.progress + ".new", "w") as file:
            json.dump(done, file)
        os.replace(self.args.progress + ".new", self.args.progress)
        return done


def connect(clients, first):
    """A handle to a gateway that listens, and its place in the list."""
    uris = clients.args.uri
    while not clients.is_over.is_set():
        for turn in range(len(uris)):
            at = (first + turn) % len(uris)
            handle = nbd.NBD()
            try:
                handle.aio_connect_uri(uris[at])
                end = time.monotonic() + clients.args.patience
                while not (handle.aio_is_ready() or handle.aio_is_dead() or handle.aio_is_closed()):
                    if time.monotonic() > end:
                        raise nbd.Error("no answer", 0)
                    handle.poll(100)
                if handle.aio_is_ready():
                    return handle, at
            except nbd.Error:
                pass
            time.sleep(0.1)
    return None, first


def wait(handle, cookie, patience):
    """Waits for an answer."""
    end = time.monotonic() + patience
    while True:
        if handle.aio_command_completed(cookie):
            return
        if handle.aio_is_dead() or handle.aio_is_closed() or time.monotonic() > end:
            raise Lost
        try:
            handle.poll(100)
        except nbd.Error as error:
            raise Lost from error


def work(clients, seed, registers, only_once):
    rng, client, at = random.Random(seed), clients.client(), 0
    handle = None
    for register in registers if only_once else iter(lambda: rng.choice(registers), None):
        if clients.is_over.is_set():
            break
        while handle is None:
            handle, at = connect(clients, at)
            if clients.is_over.is_set():
                return
        is_write = only_once or rng.random() < 0.4
        value = clients.value() if is_write else None
        call = time.monotonic_ns()
        try:
            if is_write:
                buffer = nbd.Buffer.from_bytearray(bytearray(struct.pack("<Q", value) + bytes(BLOCK - 8)))
                cookie = handle.aio_pwrite(buffer, register * BLOCK)
            else:
                buffer = nbd.Buffer(BLOCK)
                cookie = handle.aio_pread(buffer, register * BLOCK)
            wait(handle, cookie, clients.args.patience)
            if not is_write:
                value = struct.unpack_from("<Q", buffer.to_bytearray())[0]
            clients.record(client, "write" if is_write else "read", register, value, call, time.monotonic_ns())
        except (Lost, nbd.Error) as error:
            if isinstance(error, nbd.Error) and handle.aio_is_ready():
                # The gateway has answered that it failed.
                with clients.lock:
                    clients.errors[error.errno] = clients.errors.get(error.errno, 0) + 1
            with clients.lock:
                clients.lost += 1
            if is_write:
                clients.record(client, "write", register, value, call, None)
            # What was asked may still happen.
            client = clients.client()
            handle, at = None, at + 1
        time.sleep(rng.random() * clients.args.pause)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="+")
    parser.add_argument("--history", required=True)
    parser.add_argument("--progress", required=True)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--registers", type=int, default=12)
    parser.add_argument("--patience", type=float, default=2.0, help="seconds without an answer after which a client asks another gateway")
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    clients = Clients(args)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: clients.is_over.set())
    # Spread over the chunks, so that copies are on different nodes.
    registers = [n * 331 for n in range(args.registers)]
    work(clients, 0, registers, True)
    threads = [threading.Thread(target=work, args=(clients, args.seed * 1000 + n, registers, False)) for n in range(args.clients)]
    for thread in threads:
        thread.start()
    while not clients.is_over.wait(0.2):
        clients.progress()
    for thread in threads:
        thread.join()
    with open(args.history, "w") as file:
        for client, op, register, value, call, end in clients.history:
            line = {"client": client, "op": op, "register": register, "value": value, "call": call, "return": end}
            file.write(json.dumps(line) + "\n")
    json.dump(clients.progress(), sys.stdout)


main()
