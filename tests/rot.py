#!/usr/bin/env python3
"""Damages the data of an extent as a bad flash does, and drops it from the page cache.

    rot.py flipped|zeroed|misplaced FILE [--record RECORD]
    rot.py old FILE OLDER_COPY
    rot.py restore FILE RECORD      # puts back what nobody has written since

Some forty blocks that hold data, spread over the file. Prints how many."""

import argparse
import json
import os
import sys

BLOCK = 4096
COUNT = 40


def pick(fd):
    """The places of blocks that hold data, some of all."""
    size = os.fstat(fd).st_size
    data = [at for at in range(0, size, BLOCK) if any(os.pread(fd, BLOCK, at))]
    return data[:: max(1, len(data) // COUNT)]


def damaged(what, fd, some, index, older):
    """What becomes of a block."""
    at = some[index]
    if what == "zeroed":
        return bytes(BLOCK)
    if what == "misplaced":
        return os.pread(fd, BLOCK, some[(index + 1) % len(some)])
    if what == "old":
        return os.pread(older, BLOCK, at)
    block = bytearray(os.pread(fd, BLOCK, at))
    bit = (index * 7919) % (len(block) * 8)
    block[bit // 8] ^= 1 << bit % 8
    return bytes(block)


def damage(what, fd, older, record):
    some = pick(fd)
    places = []
    for index, at in enumerate(some):
        before = os.pread(fd, BLOCK, at)
        after = damaged(what, fd, some, index, older)
        os.pwrite(fd, after, at)
        places.append([at, before.hex(), after.hex()])
    if record:
        with open(record, "w", encoding="ascii") as out:
            json.dump(places, out)
    return len(places)


def restore(fd, record):
    with open(record, encoding="ascii") as places:
        places = json.load(places)
    left = [(at, bytes.fromhex(before)) for at, before, after in places if os.pread(fd, BLOCK, at).hex() == after]
    for at, before in left:
        os.pwrite(fd, before, at)
    return len(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["flipped", "zeroed", "misplaced", "old", "restore"])
    parser.add_argument("file")
    parser.add_argument("other", nargs="?", help="the older copy, or the record")
    parser.add_argument("--record", help="where to note what was changed")
    args = parser.parse_args()
    fd = os.open(args.file, os.O_RDWR)
    if args.what == "restore":
        count = restore(fd, args.other)
    else:
        older = os.open(args.other, os.O_RDONLY) if args.what == "old" else None
        count = damage(args.what, fd, older, args.record)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    print(count)


if __name__ == "__main__":
    sys.exit(main())
