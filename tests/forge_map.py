#!/usr/bin/env python3
"""Does to the map of a volume in etcd what can do who writes there: python3 forge_map.py HOST:PORT COMMAND [FILE]

save FILE     keeps all keys of the map in a file
restore FILE  puts them back as they were, and removes what was not there
forge         adds a batch in which copy 0 of all chunks that lack a copy is behind, and the others are current; prints its key
junk          puts a head there that is none, and a batch of noise
behead        removes the head
flood MIB     puts a snapshot of so many MiB there that begins as the signed one does, and goes on as noise
unsign        takes the signatures away, as builds without them have left the map
kinds         prints the first four bytes of each part and batch, each kind once
"""

import base64
import json
import os
import struct
import sys
import urllib.request
import zlib

PREFIX = b"/flashmob/pool/map/"
HEADER_BYTES, SIGNATURE_BYTES = 120, 64
AT, COMMAND = sys.argv[1:3]


def ask(path, **body):
    text = {name: base64.b64encode(value).decode() for name, value in body.items()}
    request = urllib.request.Request(f"http://{AT}/v3/kv/{path}", json.dumps(text).encode())
    return json.load(urllib.request.urlopen(request, timeout=20))


def everything():
    found = ask("range", key=PREFIX, range_end=PREFIX[:-1] + b"0").get("kvs", [])
    return {base64.b64decode(kv["key"]): base64.b64decode(kv["value"]) for kv in found}


def content(part):
    """What a signed part has, and how many parts are before it."""
    assert part[:4] == b"FMch", part[:4]
    (signer,), (number, _, version, length, volume) = struct.unpack_from("<H", part, 6), struct.unpack_from("<QQQIH", part, 24)
    start = HEADER_BYTES + volume + signer
    assert start + length + SIGNATURE_BYTES == len(part), "nothing else"
    return part[start:start + length], version


def put(keys):
    for key, value in keys.items():
        ask("put", key=key, value=value)


def current(keys):
    """The name of the snapshot that counts, its bytes, and its batches with their keys."""
    base = PREFIX + b"snapshot/" + json.loads(keys[PREFIX + b"head"])["snapshot"].encode()
    snapshot = b"".join(value for key, value in sorted(keys.items()) if key.startswith(base + b"/part/"))
    return base, snapshot, sorted((key, value) for key, value in keys.items() if key.startswith(base + b"/batch/"))


keys = everything()
if COMMAND == "save":
    with open(sys.argv[3], "w") as out:
        json.dump([[key.decode(), base64.b64encode(value).decode()] for key, value in keys.items()], out)
elif COMMAND == "restore":
    ask("deleterange", key=PREFIX, range_end=PREFIX[:-1] + b"0")
    put({key.encode(): base64.b64decode(value) for key, value in json.load(open(sys.argv[3]))})
elif COMMAND == "forge":
    base, snapshot, batches = current(keys)
    _, version = content(batches[-1][1] if batches else snapshot)
    # A record of marks for each chunk of the volume, which has four: settled, and copy 0 lacks something.
    records = b"".join(struct.pack("<BIIBBB", 6, chunk, 1, 0, 1, 0) for chunk in range(4))
    batch = struct.pack("<4sBBHIQ", b"FMap", 1, 3, 0, len(records), version + 1)
    key = base + b"/batch/%020d" % (version + 1)
    put({key: batch + struct.pack("<I", zlib.crc32(batch + records)) + records})
    print(key.decode())
elif COMMAND == "junk":
    base, _, _ = current(keys)
    put({PREFIX + b"head": b"no JSON", base + b"/batch/%020d" % 1: b"FMch" + bytes(200)})
elif COMMAND == "behead":
    ask("deleterange", key=PREFIX + b"head")
elif COMMAND == "flood":
    base, snapshot, _ = current(keys)
    (signer,), (volume,) = struct.unpack_from("<H", snapshot, 6), struct.unpack_from("<H", snapshot, 52)
    beginning = HEADER_BYTES + volume + signer
    parts, part_bytes = 2 * int(sys.argv[3]), 1 << 19
    total = parts * part_bytes
    first = snapshot[:48] + struct.pack("<I", total - beginning - SIGNATURE_BYTES) + snapshot[52:beginning]
    ask("deleterange", key=PREFIX + b"snapshot/", range_end=PREFIX + b"snapshot0")
    for part in range(parts):
        noise = (b"" if part else first) + os.urandom(part_bytes)
        put({base + b"/part/%020d" % part: noise[:part_bytes]})
    put({PREFIX + b"head": json.dumps({"snapshot": base.rsplit(b"/", 1)[1].decode(), "parts": parts, "bytes": total}).encode()})
elif COMMAND == "unsign":
    base, snapshot, batches = current(keys)
    ask("deleterange", key=PREFIX + b"snapshot/", range_end=PREFIX + b"snapshot0")
    plain, _ = content(snapshot)
    head = json.dumps({"snapshot": base.rsplit(b"/", 1)[1].decode(), "parts": 1, "bytes": len(plain)}).encode()
    unsigned = {PREFIX + b"head": head, base + b"/part/%020d" % 0: plain}
    for _, batch in batches:
        records, version = content(batch)
        unsigned[base + b"/batch/%020d" % version] = records
    put(unsigned)
elif COMMAND == "kinds":
    _, snapshot, batches = current(keys)
    print(" ".join(sorted({part[:4].decode() for part in [snapshot, *(batch for _, batch in batches)]})))
else:
    sys.exit(__doc__)
