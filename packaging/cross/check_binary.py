#!/usr/bin/env python3
"""Says what an ARM binary is, and fails unless it runs by itself on any kernel of that architecture.

    check_binary.py aarch64|armv7 FILE [BYTES_MAX]

Static (no dynamic section, no interpreter), stripped (no table of symbols), of the right machine, and aligned for
kernels with pages of 16 KiB, which 64-bit Android has had since 15; and no larger than BYTES_MAX.
"""

import struct
import sys

MACHINE = {"aarch64": (2, 183), "armv7": (1, 40)}  # class, e_machine
PT_LOAD, PT_DYNAMIC, PT_INTERP, SHT_SYMTAB = 1, 2, 3, 2
HARD_FLOAT = 0x400


def main():
    architecture, path, *limits = sys.argv[1:]
    with open(path, "rb") as file:
        data = file.read()
    bits = data[4]
    if data[:4] != b"\x7fELF" or (bits, struct.unpack_from("<H", data, 18)[0]) != MACHINE[architecture]:
        sys.exit(f"{path}: not a program for {architecture}")
    word, at = ("<Q", (32, 40, 48, 54)) if bits == 2 else ("<I", (28, 32, 36, 42))
    programs, sections = (struct.unpack_from(word, data, offset)[0] for offset in at[:2])
    flags = struct.unpack_from("<I", data, at[2])[0]
    size, count, section_size, section_count = struct.unpack_from("<HHHH", data, at[3])
    kinds, alignments = set(), []
    for i in range(count):
        begin = programs + i * size
        kind = struct.unpack_from("<I", data, begin)[0]
        kinds.add(kind)
        if kind == PT_LOAD:
            alignments.append(struct.unpack_from(word, data, begin + size - (8 if bits == 2 else 4))[0])
    faults = []
    if PT_DYNAMIC in kinds or PT_INTERP in kinds:
        faults.append("has a dynamic section or an interpreter: it is not static")
    if any(struct.unpack_from("<I", data, sections + i * section_size + 4)[0] == SHT_SYMTAB for i in range(section_count)):
        faults.append("has a table of symbols: it is not stripped")
    if bits == 2 and min(alignments) < 16384:
        faults.append(f"is aligned to {min(alignments)} B: kernels with pages of 16 KiB refuse it")
    if architecture == "armv7" and not flags & HARD_FLOAT:
        faults.append("passes floating-point numbers in integer registers")
    if limits and len(data) > int(limits[0]):
        faults.append(f"has {len(data):,} bytes, more than {int(limits[0]):,}: packaging/cross/sizes says what they are")
    if faults:
        sys.exit("".join(f"{path}: {fault}\n" for fault in faults).rstrip())
    print(f"{path}: {len(data):,} bytes, {architecture}, {32 * bits} bits, static, stripped")


main()
