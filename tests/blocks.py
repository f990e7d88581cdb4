#!/usr/bin/env python3
"""Writes and reads blocks of a volume one by one, and keeps an image of what the volume must hold.

    blocks.py URI IMAGE fill              # every block gets bytes that no other has
    blocks.py URI IMAGE write BLOCK...    # some get new ones, and a flush follows
    blocks.py URI IMAGE half BLOCK...     # the first half of some gets new ones, and a flush follows
    blocks.py URI IMAGE read BLOCK...     # these are read, and are as in the image
    blocks.py URI IMAGE verify [BLOCK...] # every block is read: these fail with EIO, all others are as in the image

Ends with status 1, and names the block, where something else happens."""

import os
import sys

from nbdproto import FLUSH, READ, WRITE, Client

BLOCK = 4096


def write(client, image, block, size=BLOCK):
    data = os.urandom(size)
    error, _ = client.call(WRITE, block * BLOCK, size, data)
    if error != "OK":
        sys.exit(f"block {block} cannot be written: {error}")
    os.pwrite(image, data, block * BLOCK)


def main():
    uri, path, what, *numbers = sys.argv[1:]
    client = Client(uri)
    image = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    numbers = [int(number) for number in numbers]
    blocks = range(client.size // BLOCK)
    if what in ("verify", "read"):
        for block in blocks if what == "verify" else numbers:
            error, data = client.call(READ, block * BLOCK, BLOCK)
            if block in numbers and what == "verify":
                if error != "EIO":
                    sys.exit(f"block {block} is answered with {error}, not EIO")
            elif error != "OK" or data != os.pread(image, BLOCK, block * BLOCK):
                sys.exit(f"block {block} is answered with {error}, and bytes that are {'not ' * (error == 'OK')}expected")
        return
    for block in blocks if what == "fill" else numbers:
        write(client, image, block, BLOCK // 2 if what == "half" else BLOCK)
    error, _ = client.call(FLUSH, 0, 0)
    if error != "OK":
        sys.exit(f"the flush fails: {error}")


if __name__ == "__main__":
    main()
