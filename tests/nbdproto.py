"""The NBD protocol as far as the tests need it: a handshake, requests, and a parser of replies.

It is written against the public protocol document and shares nothing with the server under test. It checks
what a real client may not: it sends whatever it is told to, wrong or not.
"""

import socket
import struct
import urllib.parse

READ, WRITE, DISC, FLUSH, TRIM, CACHE, ZEROES, STATUS = range(8)
FUA, NO_HOLE, DF = 1, 2, 4
NAMES = {0: "OK", 1: "EPERM", 5: "EIO", 12: "ENOMEM", 22: "EINVAL", 28: "ENOSPC", 75: "EOVERFLOW", 95: "ENOTSUP",
         108: "ESHUTDOWN"}
REQUEST = struct.Struct(">IHHQQI")
SIMPLE = struct.Struct(">IIQ")
STRUCTURED = struct.Struct(">IHHQI")
REQUEST_MAGIC, SIMPLE_MAGIC, STRUCTURED_MAGIC = 0x25609513, 0x67446698, 0x668E33EF
OPTION_MAGIC, OPTION_REPLY_MAGIC = 0x49484156454F5054, 0x3E889045565A9
OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO, OPT_STRUCTURED = 1, 2, 3, 5, 6, 7, 8


class Refused(Exception):
    """The server answered an option with an error; the text is the server's."""


def dial(uri, timeout_s=30, receive_buffer=None):
    """A connected socket for nbd://HOST:PORT/NAME or nbd+unix:///NAME?socket=PATH, and the export's name."""
    parts = urllib.parse.urlparse(uri)
    if parts.scheme == "nbd+unix":
        sock = socket.socket(socket.AF_UNIX)
        target = urllib.parse.parse_qs(parts.query)["socket"][0]
    else:
        sock = socket.socket()
        target = (parts.hostname, parts.port)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(timeout_s)
    sock.connect(target)
    if parts.scheme == "nbd":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock, parts.path[1:]


def receive(sock, count):
    """Exactly count bytes, or ConnectionError."""
    data = bytearray()
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise ConnectionError("the server closed the connection")
        data += chunk
    return bytes(data)


def option(sock, number, data=b""):
    """Sends an option, returns the replies up to the final one as (type, data); raises Refused on an error."""
    sock.sendall(struct.pack(">QII", OPTION_MAGIC, number, len(data)) + data)
    replies = []
    while True:
        magic, _, kind, length = struct.unpack(">QIII", receive(sock, 20))
        assert magic == OPTION_REPLY_MAGIC, hex(magic)
        body = receive(sock, length)
        if kind & 0x80000000:
            raise Refused(f"error {kind & 0x7FFFFFFF}: {body.decode(errors='replace')}")
        if kind == 1:
            return replies
        replies.append((kind, body))


class Client:
    """A connection after the handshake: .sock, .size in bytes, .flags, .blocks (smallest, preferred, largest)."""

    def __init__(self, uri, structured=False, timeout_s=30, receive_buffer=None):
        self.sock, name = dial(uri, timeout_s, receive_buffer)
        greeting = receive(self.sock, 18)
        assert greeting[:16] == b"NBDMAGICIHAVEOPT", greeting
        self.sock.sendall(struct.pack(">I", 3))
        if structured:
            option(self.sock, OPT_STRUCTURED)
        self.blocks = None
        name = urllib.parse.unquote(name).encode()
        for kind, body in option(self.sock, OPT_GO, struct.pack(">I", len(name)) + name + struct.pack(">HH", 1, 3)):
            assert kind == 3, kind
            info = struct.unpack(">H", body[:2])[0]
            if info == 0:
                self.size, self.flags = struct.unpack(">QH", body[2:])
            elif info == 3:
                self.blocks = struct.unpack(">III", body[2:])
        self.replies = Replies()

    def send(self, command, cookie, offset, length, data=b"", flags=0, magic=REQUEST_MAGIC):
        """Sends one request as it is told to, right or wrong."""
        self.replies.expect(cookie, length if command == READ else 0)
        self.sock.sendall(REQUEST.pack(magic, flags, command, cookie, offset, length) + data)

    def answer(self):
        """The next complete answer as (cookie, errno, data)."""
        while True:
            for reply in self.replies.parse():
                return reply
            chunk = self.sock.recv(1 << 20)
            if not chunk:
                raise ConnectionError("the server closed the connection")
            self.replies.feed(chunk)

    def call(self, command, offset, length, data=b"", flags=0, cookie=None):
        """One request and its answer as (name of the errno, data)."""
        cookie = 0x1122334455667788 if cookie is None else cookie
        self.send(command, cookie, offset, length, data, flags)
        got, error, body = self.answer()
        assert got == cookie, f"an answer to {got:#x}, not to {cookie:#x}"
        return NAMES.get(error, str(error)), body


class Replies:
    """Takes bytes as they come and yields (cookie, errno, data); data of a structured reply is joined by offset."""

    def __init__(self):
        self.buffer = bytearray()
        self.lengths = {}
        self.parts = {}

    def expect(self, cookie, length):
        """Announces a request: a simple reply does not say how long its data is."""
        self.lengths[cookie] = length

    def feed(self, data):
        self.buffer += data

    def parse(self):
        """Yields what is complete; stops at the first incomplete reply."""
        buffer, at = self.buffer, 0
        try:
            while len(buffer) - at >= 16:
                magic = int.from_bytes(buffer[at:at + 4], "big")
                if magic == SIMPLE_MAGIC:
                    _, error, cookie = SIMPLE.unpack_from(buffer, at)
                    length = 0 if error else self.lengths[cookie]
                    if len(buffer) - at < 16 + length:
                        return
                    data = bytes(buffer[at + 16:at + 16 + length])
                    at += 16 + length
                    del self.lengths[cookie]
                    yield cookie, error, data
                elif magic == STRUCTURED_MAGIC:
                    if len(buffer) - at < 20:
                        return
                    _, flags, kind, cookie, length = STRUCTURED.unpack_from(buffer, at)
                    if len(buffer) - at < 20 + length:
                        return
                    body = bytes(buffer[at + 20:at + 20 + length])
                    at += 20 + length
                    done = self.chunk(cookie, kind, body, flags & 1)
                    if done:
                        yield done
                else:
                    raise AssertionError(f"no reply begins with {magic:#x}")
        finally:
            del buffer[:at]

    def chunk(self, cookie, kind, body, last):
        wanted = self.lengths[cookie]
        part = self.parts.setdefault(cookie, [0, {}])
        if kind == 1:
            part[1][int.from_bytes(body[:8], "big")] = body[8:]
        elif kind == 2:
            offset, length = struct.unpack(">QI", body)
            part[1][offset] = bytes(length)
        elif kind & 0x8000:
            part[0] = int.from_bytes(body[:4], "big")
        if not last:
            return None
        error, pieces = self.parts.pop(cookie)
        del self.lengths[cookie]
        data = b"".join(pieces[offset] for offset in sorted(pieces))
        assert error or len(data) == wanted, f"{len(data)} bytes in answer to a read of {wanted}"
        return cookie, error, data
