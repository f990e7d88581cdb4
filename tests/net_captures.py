#!/usr/bin/env python3
"""Writes captures of known content into a folder: net_captures.py FOLDER.

A client sends 120 segments of 1,400 bytes, four in flight, with a round trip of 20 ms. Each capture holds that connection in another
encapsulation, or with a fault of the capture or of the network. No random number and no clock is used: every run writes the same bytes.
"""
import struct
import sys
from pathlib import Path

CLIENT, SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
SYN, ACK, PSH = 0x02, 0x10, 0x08
DATA = 1400


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tcp(up, sequence, acknowledgement, flags, window, data=0, options=b""):
    ports = (40000, 5001) if up else (5001, 40000)
    offset = (20 + len(options)) // 4 << 4
    return struct.pack("!HHIIBBHHH", *ports, sequence, acknowledgement, offset, flags, window, 0, 0) + options + bytes(data)


def ipv4(up, payload, identification, protocol=6, fragment=0):
    ends = (CLIENT, SERVER) if up else (SERVER, CLIENT)
    head = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(payload), identification, fragment, 64, protocol)
    return head + struct.pack("!H", checksum(head + b"\0\0" + b"".join(ends))) + b"".join(ends) + payload


def stamps(own, echoed):
    return struct.pack("!BBBBII", 1, 1, 8, 10, own, echoed)


def connection(window=1400, lost=(), lose_tail=0):
    """(time in us, is from the client, segment) of a connection near the sender; `lost` segments are sent again 30 ms later."""
    opening = struct.pack("!BBHBBB", 2, 4, 1460, 1, 3, 3) + b"\x02"
    out = [
        (0, True, tcp(True, 0, 0, SYN, 65535, options=opening)),
        (20_000, False, tcp(False, 0, 1, SYN | ACK, 65535, options=opening)),
        (20_050, True, tcp(True, 1, 1, ACK, 1600, options=stamps(21, 20))),
    ]
    now, sent, number = 20_100, 1, 0
    for burst in range(30):
        ms = now // 1000
        missing = None
        for at in range(4):
            out.append((now + 100 * at, True, tcp(True, sent, 1, ACK, 1600, DATA, stamps(ms, ms - 1))))
            if number in lost:
                missing = sent
            elif missing is not None:
                # The receiver repeats itself for each segment behind the lost one.
                out.append((now + 100 * at + 20_000, False, tcp(False, 1, missing, ACK, window, options=stamps(ms + 20, ms))))
            elif at % 2:
                out.append((now + 100 * at + 20_000, False, tcp(False, 1, sent + DATA, ACK, window, options=stamps(ms + 20, ms))))
            sent, number = sent + DATA, number + 1
        now += 20_500
        if missing is not None:
            out.append((now, True, tcp(True, missing, 1, ACK, 1600, DATA, stamps(now // 1000, ms))))
            out.append((now + 20_000, False, tcp(False, 1, sent, ACK, window, options=stamps(now // 1000 + 20, ms))))
            now += 20_500
    return sorted(out, key=lambda packet: packet[0])


def tails():
    """Near the receiver: the last segment of each of 40 bursts is lost on the way; an empty segment shows it, 300 ms later it is sent again."""
    out = [
        (0, True, tcp(True, 0, 0, SYN, 60000)),
        (100, False, tcp(False, 0, 1, SYN | ACK, 60000)),
        (20_000, True, tcp(True, 1, 1, ACK, 60000)),
    ]
    now, sent, told = 20_000, 1, 1
    for _ in range(40):
        for at in range(9):
            out.append((now + 200 * at, True, tcp(True, sent, told, ACK, 60000, DATA)))
            sent += DATA
        out.append((now + 2_000, False, tcp(False, told, sent, ACK | PSH, 60000, 50)))
        told += 50
        out.append((now + 22_000, True, tcp(True, sent + DATA, told, ACK, 60000)))
        out.append((now + 322_000, True, tcp(True, sent, told, ACK | PSH, 60000, DATA)))
        sent += DATA
        out.append((now + 322_100, False, tcp(False, told, sent, ACK, 60000)))
        now += 350_000
    return out


def keep_alives():
    """A connection that was opened before the capture, and is idle: each end asks whether the other is there."""
    out = []
    for at in range(20):
        now = at * 75_000_000
        up = at % 2 == 0
        mine, other = (100, 500) if up else (500, 100)
        out.append((now, up, tcp(up, mine - 1, other, ACK, 1000)))
        out.append((now + 20_000, not up, tcp(not up, other, mine, ACK, 1000)))
    return out


def packets(segments):
    return [(at, ipv4(up, segment, number)) for number, (at, up, segment) in enumerate(segments, 1)]


def write(path, link, frames, cut=None):
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)]
    for at, frame in frames:
        at += 1_700_000_000_000_000
        kept = frame[:cut]
        out.append(struct.pack("<IIII", at // 1_000_000, at % 1_000_000, len(kept), len(frame)) + kept)
    path.write_bytes(b"".join(out))


def main(folder):
    plain = packets(connection())
    mac = bytes([2] * 6 + [4] * 6)
    snap = b"\xaa\xaa\x03\0\0\0\x08\0"
    wireless = b"\x08\x01\0\0" + bytes([2] * 18) + b"\0\0"

    def behind(name, link, head, frames=plain, **more):
        write(folder / f"{name}.pcap", link, [(at, head + frame) for at, frame in frames], **more)

    ethernet = mac + b"\x08\0"
    behind("plain", 1, ethernet)
    behind("pppoe", 1, mac + b"\x88\x64\x11\0\0\x01\x05\xe0\0\x21")
    behind("mpls", 1, mac + b"\x88\x47\0\x01\x10\x40\0\x01\x11\x40")
    behind("snap", 1, mac + b"\x05\xdc" + snap)
    behind("ppp", 9, b"\xff\x03\0\x21")
    behind("radiotap", 127, b"\0\0\x08\0\0\0\0\0" + wireless + snap)
    ah = b"\x06\x04\0\0" + struct.pack("!II", 7, 1) + bytes(12)
    behind("ah", 1, ethernet, [(at, ipv4(up, ah + tcp_, 1, 51)) for at, up, tcp_ in connection()])
    parts = []
    for number, (at, up, segment) in enumerate(connection(), 1):
        if len(segment) < 1000:
            parts.append((at, ipv4(up, segment, number)))
        else:
            parts.append((at, ipv4(up, segment[:800], number, fragment=0x2000)))
            parts.append((at + 1, ipv4(up, segment[800:], number, fragment=100)))
    behind("fragments", 1, ethernet, parts)
    behind("half-fragments", 1, ethernet, [packet for at, packet in enumerate(parts) if at % 30 != 5])
    behind("lost", 1, ethernet, packets(connection(lost=(17, 41, 88))))
    behind("tails", 1, ethernet, packets(tails()))
    behind("keep-alives", 1, ethernet, packets(keep_alives()))
    # Faults of the capture.
    half = len(plain) // 2
    behind("clock", 1, ethernet, [(at - 500_000 * (n >= half), p) for n, (at, p) in enumerate(plain)])
    behind("dropped", 1, ethernet, [p for n, p in enumerate(plain) if n < 4 or n % 5 or len(p[1]) < 1000])
    rival = (20_060, ipv4(False, tcp(False, 99_000_000, 1, SYN | ACK, 65535), 9000))
    behind("rival", 1, ethernet, plain[:3] + [rival] + plain[3:])
    behind("twice", 1, ethernet, [(at + more, p) for at, p in plain for more in (0, 3)])
    behind("cut", 1, ethernet, cut=50)
    behind("whole-and-short", 1, ethernet, [(at, p[:36]) for at, p in plain])
    behind("zigbee", 195, b"\x61\x88")


main(Path(sys.argv[1]))
