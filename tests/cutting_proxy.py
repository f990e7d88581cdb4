"""A proxy that closes connections in the middle of what it relays.

    cutting_proxy.py ADDRESS-OF-NODE LEAST-BYTES MOST-BYTES

Prints `listening on 127.0.0.1:PORT`. After a random number of bytes between the two bounds, counted over both
directions, it passes on half of what it has in hand and closes both sides. Every cut is a line `cut N` on stderr,
so that a test can wait for as many as it wants. SIGUSR1 ends the cutting: from then on it relays faithfully.
"""

import random
import signal
import socket
import struct
import sys
import threading


class Cutter:
    def __init__(self, target, least, most):
        host, port = target.rsplit(":", 1)
        self.target, self.least, self.most = (host, int(port)), least, most
        self.random, self.lock = random.Random(1), threading.Lock()
        self.cuts, self.faithful = 0, False

    def serve(self, client):
        try:
            node = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        with self.lock:
            left = [self.random.randint(self.least, self.most)]
        for source, sink in ((client, node), (node, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.relay, args=(source, sink, left), daemon=True).start()

    def relay(self, source, sink, left):
        try:
            while data := source.recv(65536):
                with self.lock:
                    left[0] -= len(data)
                    cut = left[0] <= 0 and not self.faithful
                    first = cut and left[0] + len(data) > 0
                    if first:
                        self.cuts += 1
                        print(f"cut {self.cuts}", file=sys.stderr, flush=True)
                if cut:
                    sink.sendall(data[:max(1, len(data) // 2)] if first else b"")
                    # Every other cut is a reset instead of an end of stream.
                    if self.cuts % 2:
                        for end in (source, sink):
                            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def main():
    cutter = Cutter(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    signal.signal(signal.SIGUSR1, lambda *_: setattr(cutter, "faithful", True))
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    while True:
        cutter.serve(listener.accept()[0])


main()
