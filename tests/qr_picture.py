#!/usr/bin/env python3
"""The QR code that a terminal shows, as a picture for zbarimg: qr_picture.py FILE >CODE.pbm. FILE has its lines, with their colours, among others."""

import re
import sys

SCALE = 4

rows = []
with open(sys.argv[1], encoding="utf-8") as shown:
    for line in shown:
        found = re.search("\x1b\\[38;5;16;48;5;231m(.*)\x1b\\[0m", line)
        if found:
            rows.append("".join("1" if c in "█▀" else "0" for c in found[1]))
            rows.append("".join("1" if c in "█▄" else "0" for c in found[1]))
print("P1", len(rows[0]) * SCALE, len(rows) * SCALE)
for row in rows:
    for _ in range(SCALE):
        print("".join(c * SCALE for c in row))
