#!/usr/bin/env python3
"""TCP traffic with a planted cause.

planted_traffic.py serve ADDRESS:PORT [--buffer N]    reads all it gets; --buffer is SO_RCVBUF
planted_traffic.py send ADDRESS:PORT [--buffer N] [--seconds S] [--write N] [--pause S]    --buffer is SO_SNDBUF
"""
import argparse
import socket
import time

parser = argparse.ArgumentParser()
parser.add_argument("role", choices=["serve", "send"])
parser.add_argument("address")
parser.add_argument("--buffer", type=int, default=0)
parser.add_argument("--seconds", type=float, default=1.2)
parser.add_argument("--write", type=int, default=128 << 10)
parser.add_argument("--pause", type=float, default=0.0)
args = parser.parse_args()
host, port = args.address.rsplit(":", 1)


def serve():
    listener = socket.socket()
    if args.buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, args.buffer)
    listener.bind((host, int(port)))
    listener.listen(8)
    while True:
        connection, _ = listener.accept()
        while connection.recv(1 << 20):
            pass
        connection.close()


def send():
    for _ in range(1000):
        sender = socket.socket()
        if args.buffer:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, args.buffer)
        try:
            sender.connect((host, int(port)))
            break
        except OSError:
            sender.close()
            time.sleep(0.01)
    data = b"x" * args.write
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        sender.sendall(data)
        time.sleep(args.pause)
    # Wait until all has arrived: the other end closes then.
    sender.shutdown(socket.SHUT_WR)
    sender.recv(1)


serve() if args.role == "serve" else send()
