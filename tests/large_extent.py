"""Writes, trims and zeroes around 2, 4 and 6 GiB of a volume of one node, and what must be there afterwards.

    large_extent.py change URI EXPECTED    does it, reads it back, and keeps what was expected
    large_extent.py read URI EXPECTED      reads it again
    large_extent.py file PATH EXPECTED     looks for it in the node's file, and for anything besides

Run by large-extent.sh. Each place has its own bytes, and places whose offsets agree in their lower 31 or 32 bits are among them, so that
a truncated offset shows.
"""

import hashlib
import os
import pickle
import sys

KIB, GIB = 1 << 10, 1 << 30
SIZE = 6 * GIB
BORDERS = (2 * GIB, 4 * GIB)
AROUND = 256 * KIB
# Everything that is ever touched lies in one of these.
PLACES = [(0, AROUND), (GIB, GIB + AROUND), (3 * GIB, 3 * GIB + AROUND), (5 * GIB, 5 * GIB + AROUND), (SIZE - AROUND, SIZE)]
PLACES += [(border - AROUND, border + AROUND) for border in BORDERS]
# NBD_CMD_FLAG_NO_HOLE.
NO_HOLE = 2


def pattern(offset, length, salt=0):
    return hashlib.shake_128(f"{offset} {salt}".encode()).digest(length)


def show(what):
    print(f"    ok: {what}", file=sys.stderr)


class Expected:
    """The bytes of each place; zero elsewhere."""

    def __init__(self):
        self.places = {begin: bytearray(end - begin) for begin, end in PLACES}

    def put(self, offset, data):
        begin = max(b for b in self.places if b <= offset)
        at = offset - begin
        assert at + len(data) <= len(self.places[begin])
        self.places[begin][at : at + len(data)] = data

    def compare(self, what, read):
        for begin, data in sorted(self.places.items()):
            found = read(begin, len(data))
            if found != data:
                at = next(i for i in range(len(data)) if found[i] != data[i])
                sys.exit(f"    FAIL: {what}: byte {begin + at} is {found[at]} and not {data[at]}")


def connect(uri):
    import nbd

    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle


def change(uri, expected):
    handle = connect(uri)

    def write(offset, length, salt=0):
        data = pattern(offset, length, salt)
        handle.pwrite(data, offset)
        expected.put(offset, data)

    def compare(what):
        expected.compare(what, lambda offset, length: handle.pread(length, offset))
        show(what)

    for begin, end in PLACES:
        write(begin, end - begin)
    compare("each place holds its own bytes")
    for border in BORDERS:
        write(border - 1, 1, 1)
        write(border, 1, 1)
        write(border - 3, 7, 2)
        write(border - 5 * KIB, 9 * KIB + 1, 3)
    write(SIZE - 1, 1, 1)
    compare("single bytes and odd pieces at and across 2 and 4 GiB, and the last byte")
    for border in BORDERS:
        handle.trim(64 * KIB, border - 32 * KIB)
        expected.put(border - 32 * KIB, bytes(64 * KIB))
    compare("trimmed across the borders: zeros there, and no byte besides")
    for border in BORDERS:
        write(border - 32 * KIB, 64 * KIB, 4)
        handle.zero(32 * KIB + 3, border - 16 * KIB - 1)
        expected.put(border - 16 * KIB - 1, bytes(32 * KIB + 3))
        handle.zero(8 * KIB, border + 128 * KIB, NO_HOLE)
        expected.put(border + 128 * KIB, bytes(8 * KIB))
    handle.zero(4 * KIB, SIZE - 4 * KIB)
    expected.put(SIZE - 4 * KIB, bytes(4 * KIB))
    compare("written again and zeroed across the borders, with and without holes")
    # One request from before 2 GiB to behind 4 GiB, in the middle of which the place at 3 GiB lies.
    begin, length = BORDERS[0] + 8 * KIB, BORDERS[1] - BORDERS[0] - 16 * KIB
    handle.trim(length, begin)
    expected.put(begin, bytes(AROUND - 8 * KIB))
    expected.put(3 * GIB, bytes(AROUND))
    expected.put(BORDERS[1] - AROUND, bytes(AROUND - 8 * KIB))
    compare("one trim of nearly 2 GiB, from 2 to 4 GiB")
    handle.flush()
    handle.shutdown()


def look_into(path, expected):
    with open(path, "rb") as file:
        assert os.fstat(file.fileno()).st_size == SIZE, "its size"
        expected.compare("the file", lambda offset, length: os.pread(file.fileno(), length, offset))
        show("the node's file has the same bytes at the same offsets")
        offset = 0
        while True:
            try:
                begin = os.lseek(file.fileno(), offset, os.SEEK_DATA)
            except OSError:
                break
            offset = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            for at in range(begin, offset, 64 * KIB):
                data = os.pread(file.fileno(), min(64 * KIB, offset - at), at)
                known = any(at < end and at + len(data) > start for start, end in PLACES)
                if data.count(0) != len(data) and not known:
                    sys.exit(f"    FAIL: the file: something lies at {at}")
        show("and nothing anywhere else")


def main():
    what, where, kept = sys.argv[1:]
    if what == "change":
        expected = Expected()
        change(where, expected)
        with open(kept, "wb") as file:
            pickle.dump(expected, file)
        return
    with open(kept, "rb") as file:
        expected = pickle.load(file)
    if what == "read":
        handle = connect(where)
        expected.compare("read again", lambda offset, length: handle.pread(length, offset))
    else:
        look_into(where, expected)


main()
