"""Speaks garbage to a port and expects to be dropped.

    garbage.py ADDRESS:PORT KIND        (garbage.py --list nbd|node names the kinds, one per line)

Each kind comes from a loopback address of its own, as few reasons are logged for each. Fails unless the peer closes the connection within
15 s. What the peer sends meanwhile is thrown away.
"""

import random
import socket
import struct
import sys

import nbdproto

ANY = {
    "random": random.Random(1).randbytes(4096),
    "http": b"GET / HTTP/1.1\r\nHost: flashmob\r\nUser-Agent: scanner\r\n\r\n",
    "tls": bytes.fromhex("16030102000100 01fc0303".replace(" ", "")) + bytes(507),
    "ones": b"\xff" * 65536,
    "zeros": bytes(65536),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n" + b"\r\n" * 40,
}
GREETED = struct.pack(">I", 3)
NBD = {
    "unknown-client-flags": struct.pack(">I", 0xFFFFFFF0) + bytes(16),
    "no-option": GREETED + b"this is not an option at all",
    "endless-option": GREETED + struct.pack(">QII", nbdproto.OPTION_MAGIC, nbdproto.OPT_INFO, 0xFFFFFFFF) + bytes(64),
    "request-magic": "after the handshake",
}


def main():
    if sys.argv[1] == "--list":
        print("\n".join(list(ANY) + (list(NBD) if sys.argv[2] == "nbd" else [])))
        return
    address, kind = sys.argv[1:]
    if kind == "request-magic":
        sock = nbdproto.Client(f"nbd://{address}/pool").sock
        data = b"\x00" + random.Random(2).randbytes(4095)
    else:
        host, port = address.rsplit(":", 1)
        kinds = {**ANY, **NBD}
        number = list(kinds).index(kind) + 1
        sock = socket.create_connection((host, int(port)), source_address=(f"127.0.1.{number}", 0))
        data = kinds[kind]
    sock.settimeout(15)
    try:
        sock.sendall(data)
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        sys.exit(f"{kind}: still connected after 15 s")


main()
