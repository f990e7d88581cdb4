#!/usr/bin/env python3
"""Runs a command on a terminal of its own, waits until a text stands in what it writes, presses a key and waits for its end.

terminal.py TEXT KEY COMMAND... exits with the command's status; 1 if the text or the end does not come in 60 s each, or if the terminal is not as before."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

text, key, command = sys.argv[1], sys.argv[2], sys.argv[3:]
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
before = termios.tcgetattr(theirs)
pid = os.fork()
if pid == 0:
    os.close(ours)
    os.login_tty(theirs) if hasattr(os, "login_tty") else (os.setsid(), fcntl.ioctl(theirs, termios.TIOCSCTTY, 0), [os.dup2(theirs, fd) for fd in range(3)])
    os.environ["TERM"] = "xterm"
    os.execvp(command[0], command)

written, is_pressed, status, end = b"", False, None, time.monotonic() + 60
while time.monotonic() < end and status is None:
    if select.select([ours], [], [], 0.1)[0]:
        written += os.read(ours, 65536)
    # Where a cell is as it was, the cursor jumps over it: the text is compared without blanks and without control sequences.
    plain = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\s", b"", written)
    if not is_pressed and text.replace(" ", "").encode() in plain:
        os.write(ours, key.encode())
        is_pressed, end = True, time.monotonic() + 60
    ended, code = os.waitpid(pid, os.WNOHANG)
    status = code if ended else None
while select.select([ours], [], [], 0.1)[0]:
    written += os.read(ours, 65536)
if status is None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    sys.exit(f"it did not end: the key was {'' if is_pressed else 'not '}pressed: {written[-2000:]!r}")
if not is_pressed:
    sys.exit(f"'{text}' does not stand on the screen: {written[-2000:]!r}")
if b"\x1b[?1049h" not in written or b"\x1b[?1049l" not in written or termios.tcgetattr(theirs) != before:
    sys.exit("the terminal is not as it was before")
sys.exit(os.waitstatus_to_exitcode(status))
