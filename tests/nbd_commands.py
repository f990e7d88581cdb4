"""Every NBD command through libnbd's Python module, and the ones that libnbd will not send through a raw socket.

    nbd_commands.py writable|read-only TCP-URI UNIX-URI

Run by nbdsh.sh against a volume of 12 MiB, three nodes, striped by 4 KiB. Prints one line per behaviour shown.
"""

import errno
import random
import struct
import sys

import nbd

import nbdproto
from nbdproto import FLUSH, FUA, READ, TRIM, WRITE, ZEROES

MIB = 1 << 20
LARGEST = 32 * MIB


def show(what):
    print(f"    ok: {what}", file=sys.stderr)


def connect(uri, structured=True, strict=True):
    handle = nbd.NBD()
    handle.set_request_structured_replies(structured)
    handle.connect_uri(uri)
    assert handle.get_structured_replies_negotiated() == structured
    if not strict:
        handle.set_strict_mode(0)
    return handle


def expect(name, what, call, *args):
    """The call must fail with the errno of that name."""
    try:
        call(*args)
    except nbd.Error as error:
        got = errno.errorcode.get(error.errnum, str(error.errnum))
        assert got == name, f"{what}: {got}, not {name}"
        return
    raise AssertionError(f"{what}: accepted")


def any_alignment(uri, structured):
    """Reads and writes of every odd size and place agree with a plain byte array."""
    handle = connect(uri, structured)
    size = handle.get_size()
    chance = random.Random(structured)
    mirror = bytearray(handle.pread(size, 0))
    for step in range(400):
        length = chance.choice([1, 2, 511, 513, 4095, 4096, 4097, 12289, chance.randrange(1, 100_000)])
        offset = chance.choice([0, 1, size - length, chance.randrange(size - length + 1)])
        if step % 2:
            data = chance.randbytes(length)
            handle.pwrite(data, offset, nbd.CMD_FLAG_FUA if step % 8 == 1 else 0)
            mirror[offset:offset + length] = data
        else:
            assert handle.pread(length, offset) == mirror[offset:offset + length], f"{length} bytes at {offset}"
    assert handle.pread(size, 0) == mirror
    handle.shutdown()
    show(f"reads and writes at any alignment, {'structured' if structured else 'simple'} replies, {uri.split(':')[0]}")


def zero_and_trim(uri):
    handle = connect(uri)
    data = random.Random(7).randbytes(MIB)
    for flags, name in [(0, "zero"), (nbd.CMD_FLAG_NO_HOLE, "zero NO_HOLE"), (nbd.CMD_FLAG_FUA, "zero FUA"),
                        (nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA, "zero NO_HOLE FUA")]:
        handle.pwrite(data, 0)
        handle.zero(50_001, 10_007, flags)
        expected = data[:10_007] + bytes(50_001) + data[60_008:]
        assert handle.pread(MIB, 0) == expected, name
    handle.pwrite(data, 0)
    handle.trim(500_000, 4096)
    handle.trim(4096, 600_000, nbd.CMD_FLAG_FUA)
    got = handle.pread(MIB, 0)
    assert got[:4096] == data[:4096] and got[604_096:] == data[604_096:], "trim touched what lies beside it"
    handle.flush()
    handle.zero(handle.get_size(), 0)
    assert handle.pread(handle.get_size(), 0) == bytes(handle.get_size())
    show("zero with each flag, trim, flush; the neighbours untouched; the whole volume in one request")


def large(uri):
    """The largest read and write that a volume of this size allows, and many of them outstanding at once."""
    handle = connect(uri)
    size = handle.get_size()
    data = random.Random(9).randbytes(size)
    handle.pwrite(data, 0)
    buffers = [nbd.Buffer(size) for _ in range(8)]
    cookies = [handle.aio_pread(buffer, 0) for buffer in buffers]
    while handle.aio_in_flight():
        handle.poll(-1)
    assert all(handle.aio_command_completed(cookie) for cookie in cookies)
    for buffer in buffers:
        assert bytes(buffer.to_bytearray()) == data
    show(f"eight reads of {size // MIB} MiB at once")


def beyond_the_rules(uri, structured):
    """libnbd with its own checks off: the server must find the errors."""
    handle = connect(uri, structured, strict=False)
    size = handle.get_size()
    handle.pwrite(b"last", size - 4)
    assert handle.pread(4, size - 4) == b"last"
    for offset, length in [(size - 3, 4), (size, 1), (size + 4096, 4096), (1 << 62, 4096), ((1 << 63) - 1, 1)]:
        expect("EINVAL", f"a read of {length} at {offset}", handle.pread, length, offset)
        expect("ENOSPC", f"a write of {length} at {offset}", handle.pwrite, bytes(length), offset)
        expect("ENOSPC", f"zero of {length} at {offset}", handle.zero, length, offset)
        expect("EINVAL", f"trim of {length} at {offset}", handle.trim, length, offset)
    assert handle.pread(4, size - 4) == b"last"
    for flag in (1 << 5, 1 << 15):
        expect("EINVAL", f"a read with flag {flag:#x}", handle.pread, 512, 0, flag)
        expect("EINVAL", f"a write with flag {flag:#x}", handle.pwrite, bytes(512), 0, flag)
        expect("EINVAL", f"a flush with flag {flag:#x}", handle.flush, flag)
    assert handle.pread(4, size - 4) == b"last"
    handle.shutdown()
    show(f"out of range and unknown flags, {'structured' if structured else 'simple'} replies")


def raw(uri, structured):
    """What no client library sends; after each the connection must still serve."""
    client = nbdproto.Client(uri, structured)
    top = (1 << 64) - 1

    def answer(wanted, what, command, offset, length, data=b"", flags=0):
        got, _ = client.call(command, offset, length, data, flags)
        assert got in wanted, f"{what}: {got}, not {' or '.join(wanted)}"

    answer(("OK",), "a write", WRITE, 0, 4, b"here")
    for command in (8, 77, 0xFFFF):
        answer(("EINVAL", "ENOTSUP"), f"unknown command {command}", command, 0, 4096)
    answer(("EINVAL",), "a read beyond 2^64", READ, top - 100, 4096)
    answer(("ENOSPC", "EINVAL"), "a write beyond 2^64", WRITE, top, 16, bytes(16))
    answer(("ENOSPC", "EINVAL"), "zero beyond 2^64", ZEROES, top, 16)
    answer(("EINVAL",), "trim beyond 2^64", TRIM, top, 16)
    answer(("EINVAL", "EOVERFLOW"), "a read larger than 32 MiB", READ, 0, LARGEST + 1)
    answer(("EINVAL", "EOVERFLOW"), "a read of 4 GiB", READ, 0, 0xFFFFFFFF)
    for command, name in [(READ, "read"), (WRITE, "write"), (TRIM, "trim"), (ZEROES, "zero")]:
        answer(("EINVAL", "OK"), f"a {name} of no bytes", command, 0, 0)
    answer(("EINVAL",), "a flush with an unknown flag", FLUSH, 0, 0, flags=1 << 9)
    answer(("EINVAL",), "a write with an unknown flag; its payload is consumed", WRITE, 0, 4, b"lost", flags=1 << 9)
    answer(("ENOSPC",), "a write out of range; its payload is consumed", WRITE, client.size, 4, b"lost", flags=FUA)
    got, data = client.call(READ, 0, 4)
    assert (got, data) == ("OK", b"here"), (got, data)
    # Many outstanding, good and bad, each answered once to its own cookie.
    sent = {}
    for cookie in range(500):
        good = cookie % 3 != 0
        client.send(READ, cookie, 0 if good else client.size, 4)
        sent[cookie] = good
    while sent:
        cookie, error, data = client.answer()
        assert (error == 0) == sent.pop(cookie) and (error or data == b"here")
    client.send(nbdproto.DISC, 1, 0, 0)
    assert client.sock.recv(1) == b"", "bytes after a disconnect"
    show(f"unknown commands, overflowing ranges, empty and oversized requests, {'structured' if structured else 'simple'} replies")


def oversized_write(uri):
    """A write larger than 32 MiB: an error or a closed connection, nothing stored, the next client served."""
    client = nbdproto.Client(uri)
    before = client.call(READ, 0, 65536)
    try:
        client.send(WRITE, 1, 0, 0xFFFFFFF0, b"x" * 65536)
        _, error, _ = client.answer()
        assert error in (22, 75), error
    except ConnectionError:
        pass
    client.sock.close()
    assert nbdproto.Client(uri).call(READ, 0, 65536) == before
    show("a write of 4 GiB is refused and costs nothing")


def options(uri):
    """Unknown and malformed options get an error and the negotiation goes on."""
    sock, _ = nbdproto.dial(uri)
    nbdproto.receive(sock, 18)
    sock.sendall(struct.pack(">I", 3))

    def refused(number, code, data=b""):
        try:
            nbdproto.option(sock, number, data)
        except nbdproto.Refused as refusal:
            assert f"error {code}:" in str(refusal), f"option {number}: {refusal}"
            return
        raise AssertionError(f"option {number} was accepted")

    refused(0x1234, 1)
    refused(nbdproto.OPT_LIST, 3, b"no data belongs here")
    refused(nbdproto.OPT_INFO, 3, b"\x00")
    refused(nbdproto.OPT_GO, 3, struct.pack(">I", 1000) + b"short")
    refused(nbdproto.OPT_GO, 6, struct.pack(">I", 6) + b"nosuch" + struct.pack(">H", 0))
    names = [body[4:] for kind, body in nbdproto.option(sock, nbdproto.OPT_LIST) if kind == 2]
    assert names == [b"pool"], names
    nbdproto.option(sock, nbdproto.OPT_ABORT)
    show("unknown and malformed options")


def read_only(uri):
    handle = connect(uri, strict=False)
    assert handle.is_read_only()
    before = handle.pread(4096, 0)
    expect("EPERM", "a write", handle.pwrite, bytes(4096), 0)
    expect("EPERM", "a trim", handle.trim, 4096, 0)
    expect("EPERM", "a zero", handle.zero, 4096, 0)
    assert handle.pread(4096, 0) == before
    show("a read-only export refuses every change with EPERM and goes on reading")


def main():
    mode, tcp, unix = sys.argv[1:]
    if mode == "read-only":
        read_only(tcp)
        return
    for structured in (False, True):
        any_alignment(tcp, structured)
        beyond_the_rules(tcp, structured)
        raw(tcp, structured)
    oversized_write(tcp)
    any_alignment(unix, True)
    zero_and_trim(tcp)
    large(tcp)
    options(tcp)


main()
