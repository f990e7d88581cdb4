#!/usr/bin/env python3
"""Lets programs that know TLS and not NBD talk to a TLS port of NBD: asks for STARTTLS, then passes bytes.

    starttls_relay.py HOST:PORT

Prints the port on which it listens on 127.0.0.1; each connection is relayed by itself. The answers are those of the NBD document: newstyle
greeting, fixed newstyle, NBD_OPT_STARTTLS acknowledged.
"""

import socket
import struct
import sys
import threading

OPTION_MAGIC, REPLY_MAGIC, STARTTLS, ACK = b"IHAVEOPT", 0x3E889045565A9, 5, 1


def exactly(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def secured(place):
    sock = socket.create_connection(place)
    greeting = exactly(sock, 18)
    assert greeting[:16] == b"NBDMAGICIHAVEOPT", greeting
    sock.sendall(struct.pack(">I", 1) + OPTION_MAGIC + struct.pack(">II", STARTTLS, 0))
    magic, option, reply, length = struct.unpack(">QIII", exactly(sock, 20))
    assert (magic, option, reply, length) == (REPLY_MAGIC, STARTTLS, ACK, 0), (magic, option, reply, length)
    return sock


def carry(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        near, _ = listener.accept()
        try:
            far = secured((host, int(port)))
        except (OSError, EOFError, AssertionError) as error:
            print(f"not relayed: {error!r}", file=sys.stderr, flush=True)
            near.close()
            continue
        for pair in (near, far), (far, near):
            threading.Thread(target=carry, args=pair, daemon=True).start()


if __name__ == "__main__":
    main()
