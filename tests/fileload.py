#!/usr/bin/env python3
"""Random reads, writes, zeros and syncs of a file or block device, each byte compared with what was written last.

    fileload.py FILE [--from BYTES] [--bytes BYTES] [--threads N] [--seed S] [--progress FILE]

The range is cut into a part for each thread. Lengths and places are random, to the byte; the file is opened with O_DIRECT, so that
the page cache answers nothing. It works until SIGTERM; then everything is read once more. The result is one JSON object on stdout.
An error ends a thread, and fails the run. What the file holds at the start is read first, and is taken for right.
"""

import argparse
import ctypes
import json
import os
import random
import signal
import sys
import threading

LENGTH_MAX = 128 << 10
ZEROS = 0x11  # FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE
LIBC = ctypes.CDLL(None, use_errno=True)


def zero(file, offset, length):
    """Leaves zeros."""
    if LIBC.fallocate(file, ZEROS, ctypes.c_long(offset), ctypes.c_long(length)):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Part(threading.Thread):
    """The part of one thread, and what must be there."""

    def __init__(self, path, start, length, seed, align, stop):
        super().__init__()
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.start_byte, self.align, self.stop = start, align, stop
        self.random = random.Random(seed)
        self.model = bytearray(os.pread(self.file, length, start))
        self.counts = {"reads": 0, "writes": 0, "zeros": 0, "syncs": 0}
        self.mismatches, self.error = [], None

    def compare(self, offset, length):
        data = os.pread(self.file, length, self.start_byte + offset)
        expected = self.model[offset:offset + length]
        if data != expected:
            at = next((i for i in range(min(len(data), length)) if data[i] != expected[i]), len(data))
            self.mismatches.append({"at": self.start_byte + offset + at, "read_at": self.start_byte + offset, "bytes": len(data)})

    def step(self):
        choice = self.random.randrange(100)
        length = self.random.randrange(1, LENGTH_MAX + 1) if choice % 4 == 0 else self.random.randrange(1, 9000)
        offset = self.random.randrange(len(self.model) - length)
        if self.align > 1:
            offset -= offset % self.align
            length += -length % self.align
        if choice < 45:
            self.counts["reads"] += 1
            self.compare(offset, length)
        elif choice < 90:
            self.counts["writes"] += 1
            data = self.random.randbytes(length)
            written = os.pwrite(self.file, data, self.start_byte + offset)
            self.model[offset:offset + written] = data[:written]
        elif choice < 95:
            self.counts["zeros"] += 1
            zero(self.file, self.start_byte + offset, length)
            self.model[offset:offset + length] = bytes(length)
        else:
            self.counts["syncs"] += 1
            os.fdatasync(self.file)

    def run(self):
        try:
            while not self.stop.is_set() and not self.mismatches:
                self.step()
            for offset in range(0, len(self.model), LENGTH_MAX):
                self.compare(offset, min(LENGTH_MAX, len(self.model) - offset))
        except OSError as error:
            self.error = str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("file")
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--bytes", type=int, help="default: to the end")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--align", type=int, default=1, help="of places and lengths, in bytes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--progress", help="file renewed five times a second")
    args = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with open(args.file, "rb") as file:
        size = file.seek(0, os.SEEK_END) - args.start
    size = min(size, args.bytes or size) // args.threads // 4096 * 4096
    parts = [Part(args.file, args.start + i * size, size, args.seed * 1000 + i, args.align, stop) for i in range(args.threads)]
    for part in parts:
        part.start()
    while any(part.is_alive() for part in parts):
        parts[0].join(0.2) if parts[0].is_alive() else stop.wait(0.2)
        if args.progress:
            with open(args.progress + ".new", "w", encoding="utf-8") as file:
                json.dump({"phase": 0, "phase_done": sum(sum(part.counts.values()) for part in parts)}, file)
            os.rename(args.progress + ".new", args.progress)
    result = {name: sum(part.counts[name] for part in parts) for name in parts[0].counts}
    result["mismatches"] = [mismatch for part in parts for mismatch in part.mismatches]
    result["errors"] = [part.error for part in parts if part.error]
    print(json.dumps(result))
    return 1 if result["mismatches"] or result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
