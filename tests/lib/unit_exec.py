#!/usr/bin/env python3
"""Becomes a program as systemd starts it for a unit: its user, without capabilities, in a user namespace of its own, with its filter of system calls.

    unit_exec.py UNIT USER COMMAND [ARGUMENT...]

Run by root. Of the unit it reads PrivateUsers, SystemCallFilter and UMask; sets of system calls are those of `systemd-analyze
syscall-filter`, and numbers those of the C headers. Where one of these is not there, it says so and goes on without the filter.
"""

import ctypes
import errno
import os
import re
import struct
import subprocess
import sys

CLONE_NEWUSER = 0x10000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 24, 38, 22
SECCOMP_MODE_FILTER, RET_ALLOW, RET_ERRNO = 2, 0x7FFF0000, 0x00050000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def directives(unit: str) -> dict[str, list[str]]:
    """All values of each directive, in their order."""
    found: dict[str, list[str]] = {}
    with open(unit) as lines:
        for line in lines:
            if match := re.match(r"(\w+)=(.*)", line):
                found.setdefault(match[1], []).append(match[2].strip())
    return found


def numbers() -> dict[str, int]:
    """The number of each system call of this processor."""
    text = "#include <sys/syscall.h>\n"
    out = subprocess.run(["cc", "-E", "-dM", "-"], input=text, capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)$", out, re.M)}


def sets() -> dict[str, list[str]]:
    """The content of each set, by its name; a set may be in another one."""
    out = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    name = ""
    for line in out.splitlines():
        if line.startswith("@"):
            name = line.strip()
            found[name] = []
        elif name and line.startswith("    ") and not line.strip().startswith("#"):
            found[name].append(line.strip())
    return found


def allowed(filters: list[str], known: dict[str, list[str]]) -> set[str]:
    """The names that the directives allow, of which the first is a list of what may be called."""

    def expand(word: str) -> set[str]:
        if not word.startswith("@"):
            return {word}
        return set().union(*(expand(inner) for inner in known[word]))

    names = expand("@default")
    for text in filters:
        words = set().union(*(expand(word) for word in text.lstrip("~").split()))
        names = names - words if text.startswith("~") else names | words
    return names


def program(calls: list[int]) -> bytes:
    """The filter: these calls, and no others, of any architecture; x86-64 is the only one with two, whose other one no program here uses."""
    code = [struct.pack("HBBI", LOAD_WORD, 0, 0, 0)]
    for call in calls:
        code.append(struct.pack("HBBI", JUMP_IF_EQUAL, 0, 1, call))
        code.append(struct.pack("HBBI", RETURN, 0, 0, RET_ALLOW))
    code.append(struct.pack("HBBI", RETURN, 0, 0, RET_ERRNO | errno.EPERM))
    return b"".join(code)


def own_namespace(user: int) -> None:
    """A user namespace that knows root and this user alone, as PrivateUsers makes it."""
    (told, tell), (done, finish) = os.pipe(), os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.read(told, 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{parent}/{name}", "w") as mapping:
                mapping.write(f"0 0 1\n{user} {user} 1\n")
        os.write(finish, b".")
        os._exit(0)
    checked(LIBC.unshare(CLONE_NEWUSER))
    os.write(tell, b".")
    if os.read(done, 1) != b".":
        sys.exit("unit_exec.py: the user namespace has no users")
    os.wait()
    for end in (told, tell, done, finish):
        os.close(end)


def main() -> None:
    unit, user, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    asked = directives(unit)
    try:
        named = numbers()
        calls = sorted(named[name] for name in allowed(asked["SystemCallFilter"], sets()) if name in named)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"unit_exec.py: no filter of system calls: {error}", file=sys.stderr)
        calls = []
    os.umask(int(asked["UMask"][-1], 8))
    os.setgroups([])
    if asked.get("PrivateUsers", ["no"])[-1] == "yes":
        own_namespace(user)
    with open("/proc/sys/kernel/cap_last_cap") as last:
        for capability in range(int(last.read()) + 1):
            checked(LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if calls:
        code = ctypes.create_string_buffer(program(calls))
        pointer = struct.pack("HxxxxxxP", (len(code.raw) - 1) // 8, ctypes.addressof(code))
        checked(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(pointer), 0, 0))
    os.execvp(command[0], command)


main()
