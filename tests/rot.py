#!/usr/bin/env python3
"""Damages the data of an extent as a bad flash does, and drops it from the page cache.

    rot.py flipped|zeroed|misplaced FILE [--record RECORD]
    rot.py old FILE OLDER_COPY
    rot.py lost FILE OLDER_COPY     # the checksum beside it is the older one, too: the flash lost the write
    rot.py restore FILE RECORD      # puts back what nobody has written since
    rot.py everywhere IMAGE FILE... --at BYTE [--bit]   # zeroes the block that the image has there, wherever it is in the files; or flips a bit

Some forty blocks that hold data, spread over the file, or some --count of them; the first is number --first. Prints how many."""

import argparse
import json
import os
import sys

BLOCK = 4096
COUNT = 40


def pick(fd, count=COUNT, first=0):
    """The places of blocks that hold data, some of all."""
    size = os.fstat(fd).st_size
    data = [at for at in range(0, size, BLOCK) if any(os.pread(fd, BLOCK, at))]
    return data[first :: max(1, len(data) // count)]


def sum_at(size, block):
    """Where the checksum of a block lies in the file of checksums (docs/sums-format.md)."""
    units = -(-size // (4 << 20))
    return 20480 + -(-(-(-units // 8)) // 4096) * 4096 + 4 * block


def lose_sum(path, older, size, at):
    """Gives a block the checksum that it had before."""
    with open(path + ".sums", "r+b") as sums, open(older + ".sums", "rb") as before:
        place = sum_at(size, at // BLOCK)
        before.seek(place)
        sums.seek(place)
        sums.write(before.read(4))


def everywhere(image, files, at, is_bit):
    """Zeroes a block wherever it is, or flips a bit of it. How often that was."""
    with open(image, "rb") as source:
        source.seek(at)
        block = source.read(BLOCK)
    count = 0
    for path in files:
        fd = os.open(path, os.O_RDWR)
        places = [at for at in range(0, os.fstat(fd).st_size, BLOCK) if os.pread(fd, BLOCK, at) == block]
        for place in places:
            os.pwrite(fd, bytes([block[0] ^ 1]) + block[1:] if is_bit else bytes(BLOCK), place)
        count += len(places)
        forget(fd)
    return count


def forget(fd):
    """Drops a file from the page cache."""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def damaged(what, fd, some, index, older):
    """What becomes of a block."""
    at = some[index]
    if what == "zeroed":
        return bytes(BLOCK)
    if what == "misplaced":
        return os.pread(fd, BLOCK, some[(index + 1) % len(some)])
    if what in ("old", "lost"):
        return os.pread(older, BLOCK, at)
    block = bytearray(os.pread(fd, BLOCK, at))
    bit = (index * 7919) % (len(block) * 8)
    block[bit // 8] ^= 1 << bit % 8
    return bytes(block)


def damage(what, fd, older, args):
    some, record = pick(fd, args.count, args.first), args.record
    places = []
    for index, at in enumerate(some):
        before = os.pread(fd, BLOCK, at)
        after = damaged(what, fd, some, index, older)
        os.pwrite(fd, after, at)
        if what == "lost":
            lose_sum(args.file, args.other[0], os.fstat(fd).st_size, at)
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
    parser.add_argument("what", choices=["flipped", "zeroed", "misplaced", "old", "lost", "restore", "everywhere"])
    parser.add_argument("file")
    parser.add_argument("other", nargs="*", help="the older copy, the record, or the files")
    parser.add_argument("--record", help="where to note what was changed")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--bit", action="store_true")
    args = parser.parse_args()
    if args.what == "everywhere":
        print(everywhere(args.file, args.other, args.at, args.bit))
        return
    fd = os.open(args.file, os.O_RDWR)
    if args.what == "restore":
        count = restore(fd, args.other[0])
    else:
        older = os.open(args.other[0], os.O_RDONLY) if args.what in ("old", "lost") else None
        count = damage(args.what, fd, older, args)
    forget(fd)
    print(count)


if __name__ == "__main__":
    sys.exit(main())
