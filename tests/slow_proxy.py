"""A proxy that passes bytes on no faster than a slow network would.

    slow_proxy.py ADDRESS-OF-NODE BYTES-PER-SECOND

Prints `listening on 127.0.0.1:PORT`. Each direction of each connection has that rate.
"""

import socket
import sys
import threading
import time

CHUNK_BYTES = 16 * 1024


def relay(source, sink, rate):
    due = time.monotonic()
    try:
        while data := source.recv(CHUNK_BYTES):
            due = max(due, time.monotonic() - 0.05) + len(data) / rate
            time.sleep(max(0.0, due - time.monotonic()))
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    rate = float(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    while True:
        client = listener.accept()[0]
        node = socket.create_connection((host, int(port)))
        for source, sink in ((client, node), (node, client)):
            # Small buffers: what is on its way waits at the sender, as on a slow network.
            source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            threading.Thread(target=relay, args=(source, sink, rate), daemon=True).start()


main()
