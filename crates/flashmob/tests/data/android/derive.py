#!/usr/bin/env python3
"""Derives the lists beside this file: the system calls that an app may make, by Android release and width.

    derive.py PATH_OF_A_CLONE_OF_bionic

Android's C library says what apps may call in three kinds of files: SYSCALLS.TXT (what the C library itself calls),
lists of what is allowed besides, and lists of what is not for all that. The filter that the zygote installs lets through

    (SYSCALLS.TXT - forbidden lists for all and for apps) + allowed lists for all and for apps

of the architecture in question, and traps everything else with SIGSYS. What is taken from those files are the names and
the architectures that they stand for. Numbers come from the kernel's headers of the newest release that is asked for.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASES = {"8": "android-8.0.0_r1", "10": "android-10.0.0_r1", "13": "android-13.0.0_r1", "15": "android-15.0.0_r1"}
WIDTHS = {"64": ("arm64", "lp64"), "32": ("arm", "lp32")}
# The columns of numbers.txt: the compiler's options under which the kernel's header says the numbers.
NUMBERS = {
    "x86_64": ("asm-x86", ["-m64"]),
    "i386": ("asm-x86", ["-m32"]),
    "arm64": ("asm-arm64", ["-m64"]),
    "arm": ("asm-arm", ["-m32", "-U__i386__", "-U__x86_64__", "-D__arm__", "-D__ARM_EABI__"]),
}
HERE = Path(__file__).parent


def git(clone, *args):
    return subprocess.run(["git", "-C", clone, *args], check=True, capture_output=True).stdout


def names(text, words):
    """The kernel's names of the calls that a file lists for an architecture."""
    found = set()
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        before, _, rest = line.partition("(")
        after = rest.rpartition(")")[2]
        # function|aliases:call:number
        parts = before.split()[-1].split(":")
        name = (parts[1] if len(parts) > 1 else parts[0]).split("|")[0]
        if not words.isdisjoint(after.replace(",", " ").split()):
            found.add(name)
    return found


def allowed(clone, tag, words):
    files = git(clone, "ls-tree", "--name-only", tag, "libc/").decode().split()

    def all_of(pattern):
        sets = [names(git(clone, "show", f"{tag}:{f}").decode(), words) for f in files if re.fullmatch(pattern, f)]
        return set().union(*sets)

    base = all_of(r"libc/SYSCALLS\.TXT")
    forbidden = all_of(r"libc/SECCOMP_(BLACK|BLOCK)LIST(_COMMON|_APP)?\.TXT")
    besides = all_of(r"libc/SECCOMP_(WHITE|ALLOW)LIST(_COMMON|_APP)?\.TXT")
    assert base and besides and forbidden <= base, tag
    return (base - forbidden) | besides


def numbers(clone, tag):
    columns = {}
    with tempfile.TemporaryDirectory() as folder:
        archive = git(clone, "archive", tag, "libc/kernel/uapi")
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        uapi = f"{folder}/libc/kernel/uapi"
        for column, (asm, options) in NUMBERS.items():
            cpp = ["gcc", "-E", "-nostdinc", *options, f"-I{uapi}/{asm}", f"-I{uapi}", "-"]
            include = "#include <asm/unistd.h>\n"
            macros = subprocess.run([*cpp, "-dM"], input=include, text=True, check=True, capture_output=True).stdout
            known = re.findall(r"^#define (__ARM_NR_|__NR_)([a-z_]\w*) ", macros, re.M)
            # Leaders of blocks of numbers and how many there are: no calls.
            known = [(p, n) for p, n in known if n not in ("syscalls", "arch_specific_syscall") and "BASE" not in n]
            ask = include + "".join(f'\n@ "{p if p == "__ARM_NR_" else ""}{n}" {p}{n}' for p, n in sorted(known)) + "\n"
            said = subprocess.run(cpp, input=ask, text=True, check=True, capture_output=True).stdout
            columns[column] = {}
            for name, value in re.findall(r'^@ "(\S+)" (.+)$', said, re.M):
                columns[column][name] = eval(value, {"__builtins__": {}})
    every = sorted(set().union(*columns.values()))
    head = f"# Numbers of system calls, by derive.py out of the kernel's headers in bionic at {tag}\n"
    head += "name " + " ".join(NUMBERS) + "\n"
    rows = (f"{n} " + " ".join(str(columns[c].get(n, "-")) for c in NUMBERS) + "\n" for n in every)
    (HERE / "numbers.txt").write_text(head + "".join(rows))


def main():
    clone = sys.argv[1]
    for release, tag in RELEASES.items():
        for width, (arch, alias) in WIDTHS.items():
            found = allowed(clone, tag, {"all", arch, alias})
            head = f"# System calls that an app may make on Android {release}, {width} bits ({arch}): by derive.py out of bionic at {tag}\n"
            (HERE / f"{release}-{width}.txt").write_text(head + "".join(f"{name}\n" for name in sorted(found)))
    numbers(clone, RELEASES["15"])


if __name__ == "__main__":
    main()
