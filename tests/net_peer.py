"""Peers of `flashmob bench net` that misbehave.

`net_peer.py PART` listens, prints its port, and plays the part of a server; `net_peer.py to PORT WHAT` is a client.
"""
import json
import socket
import struct
import sys
import time


def exactly(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def running(listener):
    """A test of one stream that has begun: the control connection and the data connection."""
    control, _ = listener.accept()
    exactly(control, 37)
    control.sendall(b"\x09")
    exactly(control, struct.unpack(">I", exactly(control, 4))[0])
    control.sendall(b"\x0a")
    data, _ = listener.accept()
    exactly(data, 37)
    control.sendall(b"\x01\x02")
    return control, data


def serve(part):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0 if part == "full" else 16)
    port = listener.getsockname()[1]
    keep = []
    if part == "full":
        # A queue that is full: the kernel drops whoever knocks, as a firewall does.
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
            keep.append(sock)
        time.sleep(0.2)
    print(port, flush=True)
    if part == "banner":
        sock, _ = listener.accept()
        sock.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n")
        keep.append(sock)
    elif part == "silent":
        keep.append(listener.accept()[0])
    elif part == "close":
        control, data = running(listener)
        time.sleep(0.3)
        control.close()
        data.close()
    elif part == "stop":
        keep.extend(running(listener))
    time.sleep(120)


def come(port, what):
    sock = socket.create_connection(("127.0.0.1", port))
    if what == "half":
        sock.sendall(b"abcdefghijkl")
    elif what == "garbage":
        sock.sendall(bytes(range(256)) * 40)
    elif what == "nothing":
        pass
    elif what == "long":
        for _ in range(100):
            sock.sendall(b"a" * 36 + b"\0")
            if sock.recv(1) == b"\x09":
                break
            time.sleep(0.1)
            sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(struct.pack(">I", 0x7FFFFFFF) + b"{" * 1000)
    sock.settimeout(0.2)
    try:
        print(sock.recv(100))
    except OSError:
        pass


if sys.argv[1] == "to":
    come(int(sys.argv[2]), sys.argv[3])
else:
    serve(sys.argv[1])
