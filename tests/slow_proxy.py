"""A proxy that passes bytes on no faster, and no sooner, than a slow network would.

    slow_proxy.py ADDRESS BYTES-PER-SECOND [DELAY-MS]

Prints `listening on 127.0.0.1:PORT`. Each direction of each connection has that rate, and that delay.
"""

import queue
import socket
import sys
import threading
import time

CHUNK_BYTES = 16 * 1024


def relay(source, sink, rate, delay):
    on_its_way = queue.Queue()
    threading.Thread(target=deliver, args=(on_its_way, source, sink), daemon=True).start()
    due = time.monotonic()
    try:
        while data := source.recv(CHUNK_BYTES):
            due = max(due, time.monotonic() - 0.05) + len(data) / rate
            time.sleep(max(0.0, due - time.monotonic()))
            on_its_way.put((time.monotonic() + delay, data))
    except OSError:
        pass
    on_its_way.put((time.monotonic() + delay, None))


def deliver(on_its_way, source, sink):
    while True:
        at, data = on_its_way.get()
        time.sleep(max(0.0, at - time.monotonic()))
        try:
            if data is not None:
                sink.sendall(data)
                continue
        except OSError:
            pass
        break
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    rate = float(sys.argv[2])
    delay = float(sys.argv[3]) / 1e3 if len(sys.argv) > 3 else 0.0
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    while True:
        client = listener.accept()[0]
        node = socket.create_connection((host, int(port)))
        for source, sink in ((client, node), (node, client)):
            # Small buffers: what is on its way waits at the sender, as on a slow network.
            source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            threading.Thread(target=relay, args=(source, sink, rate, delay), daemon=True).start()


main()
