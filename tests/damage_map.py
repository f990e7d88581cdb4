"""Damages the last batch of a map's file (docs/map-format.md): cut in its middle, or with one bit that is not what it was.

usage: damage_map.py FILE cut|flip
"""

import struct
import sys

HEADER_BYTES = 24
CHANGES = 3


def last_batch(bytes_of_map):
    """Where the last batch of changes begins, and where it ends."""
    at, last = 0, None
    while bytes_of_map[at : at + 4] == b"FMap":
        part = bytes_of_map[at + 5]
        end = at + HEADER_BYTES + struct.unpack_from("<I", bytes_of_map, at + 8)[0]
        last = (at, end, part)
        at = end
    if last is None or last[2] != CHANGES or last[1] > len(bytes_of_map):
        sys.exit("the map has no changes behind its snapshot")
    return last[0], last[1]


def main():
    path, how = sys.argv[1:]
    with open(path, "r+b") as file:
        found = file.read()
        start, end = last_batch(found)
        middle = (start + HEADER_BYTES + end) // 2
        if how == "cut":
            file.truncate(middle)
        else:
            file.seek(middle)
            file.write(bytes([found[middle] ^ 1]))


main()
