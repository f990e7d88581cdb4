"""A device as adb sees it, over TCP: adb's transport protocol, a shell, files, and ports.

    fake_adbd.py FOLDER

FOLDER/device.json says what the device is and which faults it has; it is read anew at each connection and for each thing that is asked:

    {"model": "Nexus 7", "abilist": "armeabi-v7a", "android": "6.0.1", "machine": "armv7l", "old": false, "fault": null,
     "uid": 2000, "address": "192.168.1.7", "free_kib": 1000000}

old: a device before Android 7: no shell protocol, so no exit status and one stream with carriage returns, and no sha256sum.
uid: the user of its shell, as on devices without root; address: that of its Wi-Fi; free_kib: what is free. All three may be left out.
fault: unauthorized, no-space, cut (the connection breaks in the middle of a file), corrupt (a byte of a file changes), noexec, silent.

Commands run by this machine's shell with FOLDER/data/local/tmp in the place of /data/local/tmp; processors that this machine has
not need a runner that the kernel knows. It prints its port. It must never write outside of FOLDER, but for what a command is told.
"""

import json
import os
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

CNXN, AUTH, OPEN, OKAY, CLSE, WRTE = (int.from_bytes(name, "little") for name in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE"))
VERSION = 0x01000001
DATA_MAX = 256 * 1024
FOLDER = os.path.abspath(sys.argv[1])
PLACE = "/data/local/tmp"


def device():
    with open(os.path.join(FOLDER, "device.json")) as file:
        return json.load(file)


def here(text):
    """What the device calls so, on this machine."""
    return text.replace(PLACE, FOLDER + PLACE)


class Stream:
    """One thing that was asked: bytes from adb in a queue, bytes to adb one message at a time."""

    def __init__(self, connection, number, peer):
        self.connection, self.number, self.peer = connection, number, peer
        self.arrived = queue.Queue()
        self.may_write = threading.Semaphore(0)
        self.closed = False
        self.left = b""

    def write(self, data):
        for begin in range(0, len(data), self.connection.data_max):
            if self.closed:
                raise BrokenPipeError
            self.connection.send(WRTE, self.number, self.peer, data[begin : begin + self.connection.data_max])
            self.may_write.acquire()

    def read(self, size):
        """So many bytes, or fewer at the end."""
        while len(self.left) < size:
            data = self.arrived.get()
            if data is None:
                break
            self.left += data
        data, self.left = self.left[:size], self.left[size:]
        return data

    def close(self):
        if not self.closed:
            self.closed = True
            self.connection.send(CLSE, self.number, self.peer)

    def peer_closed(self):
        self.closed = True
        self.arrived.put(None)
        self.may_write.release()


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.lock = threading.Lock()
        self.streams = {}
        self.numbers = 0
        self.data_max = 4096

    def send(self, command, first, second, data=b""):
        head = struct.pack("<6I", command, first, second, len(data), sum(data) & 0xFFFFFFFF, command ^ 0xFFFFFFFF)
        try:
            with self.lock:
                self.sock.sendall(head + data)
        except OSError:
            pass

    def receive(self, size):
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def run(self):
        try:
            while True:
                command, first, second, length, _, _ = struct.unpack("<6I", self.receive(24))
                self.handle(command, first, second, self.receive(length))
        except (EOFError, OSError):
            pass
        finally:
            for stream in list(self.streams.values()):
                stream.peer_closed()
            self.sock.close()

    def handle(self, command, first, second, data):
        if command == CNXN:
            self.data_max = min(second, DATA_MAX)
            about = device()
            if about.get("fault") == "unauthorized":
                self.send(AUTH, 1, 0, b"x" * 20)
                return
            banner = f"device::ro.product.name=fake;ro.product.model={about['model']};ro.product.device=fake;"
            banner += "features=" + ("cmd" if about.get("old") else "shell_v2,cmd")
            self.send(CNXN, VERSION, DATA_MAX, banner.encode())
        elif command == AUTH:
            # Signatures (2) are of no key that it knows; the key itself (3) waits for an answer on the screen that never comes.
            if first == 2:
                self.send(AUTH, 1, 0, b"x" * 20)
        elif command == OPEN:
            self.numbers += 1
            stream = self.streams[self.numbers] = Stream(self, self.numbers, first)
            threading.Thread(target=self.serve, args=(stream, data.rstrip(b"\0").decode()), daemon=True).start()
        elif command == WRTE and second in self.streams:
            self.streams[second].arrived.put(data)
            self.send(OKAY, second, first)
        elif command == OKAY and second in self.streams:
            self.streams[second].may_write.release()
        elif command == CLSE and second in self.streams:
            stream = self.streams.pop(second)
            stream.peer_closed()

    def serve(self, stream, service):
        try:
            if device().get("fault") == "silent":
                threading.Event().wait()
            if service.startswith("shell"):
                self.send(OKAY, stream.number, stream.peer)
                kind, command = service.split(":", 1)
                shell(stream, command, "v2" in kind.split(","))
            elif service == "sync:":
                self.send(OKAY, stream.number, stream.peer)
                Files(stream).run()
            elif service.startswith("tcp:"):
                port(self, stream, int(service[4:]))
            else:
                self.send(CLSE, 0, stream.peer)
        except (OSError, EOFError):
            pass
        stream.close()
        self.streams.pop(stream.number, None)


def shell(stream, command, packets):
    about = device()
    programs = os.path.join(FOLDER, "bin")
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "ANDROID_ROOT": "/system", "HOME": "/"}
    for name in ("model", "abilist", "android", "machine", "uid", "address", "free_kib"):
        environment["FAKE_" + name.upper()] = str(about.get(name) or "")
    if about.get("fault") == "noexec":
        environment["FAKE_NOEXEC"] = "1"
    process = subprocess.Popen(
        ["sh", "-c", here(command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if packets else subprocess.STDOUT,
        env=environment,
        cwd=FOLDER,
        **user(about),
    )
    names = {process.stdout: 1}
    if packets:
        names[process.stderr] = 2
    while names and not stream.closed:
        for pipe in select.select(list(names), [], [], 0.1)[0]:
            data = os.read(pipe.fileno(), 65536)
            if not data:
                del names[pipe]
                continue
            # What the device says of itself is in its own words.
            data = data.replace(FOLDER.encode() + PLACE.encode(), PLACE.encode())
            stream.write(struct.pack("<BI", names[pipe], len(data)) + data if packets else data.replace(b"\n", b"\r\n"))
    if stream.closed:
        # Who asked went away: a real one leaves the processes alone too.
        return
    status = process.wait()
    if packets:
        stream.write(struct.pack("<BIB", 3, 1, status & 0xFF))


def user(about):
    """Who commands run as: without root where the device says so and this test has it, but for a namespace with no other user."""
    uid = about.get("uid")
    with open("/proc/self/uid_map") as file:
        has_others = int(file.read().split()[2]) > 1
    if not uid or not has_others or os.geteuid() != 0:
        return {}
    other = {"user": uid, "group": uid, "extra_groups": []}
    # A temporary folder may be below one that is its owner's alone.
    return other if subprocess.run(["test", "-x", FOLDER], **other).returncode == 0 else {}


def give(path):
    """Lets the device's user own it."""
    owner = user(device())
    if owner:
        os.chown(path, owner["user"], owner["group"])


class Files:
    """The service of files: version 1."""

    def __init__(self, stream):
        self.stream = stream

    def run(self):
        while True:
            head = self.stream.read(8)
            if len(head) < 8:
                return
            name, length = head[:4], struct.unpack("<I", head[4:])[0]
            if name == b"QUIT":
                return
            path = here(self.stream.read(length).decode())
            getattr(self, name.decode().lower())(path)

    def stat(self, path):
        try:
            found = os.stat(path)
            values = (found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime))
        except OSError:
            values = (0, 0, 0)
        self.stream.write(b"STAT" + struct.pack("<III", *values))

    def send(self, path):
        path, mode = path.rsplit(",", 1)
        fault, got, trouble = device().get("fault"), 0, None
        with open(path, "wb") as file:
            while True:
                name, length = struct.unpack("<4sI", self.stream.read(8))
                if name == b"DONE":
                    break
                data = self.stream.read(length)
                got += length
                if fault == "no-space":
                    trouble = trouble or "No space left on device"
                elif fault == "cut" and got > 1 << 20:
                    self.stream.connection.sock.shutdown(socket.SHUT_RDWR)
                    raise EOFError
                elif fault == "corrupt" and got == length:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                if not trouble:
                    file.write(data)
        os.chmod(path, int(mode) & 0o777)
        give(path)
        if trouble:
            self.stream.write(b"FAIL" + struct.pack("<I", len(trouble)) + trouble.encode())
        else:
            self.stream.write(b"OKAY" + struct.pack("<I", 0))

    def recv(self, path):
        with open(path, "rb") as file:
            while data := file.read(65536):
                self.stream.write(b"DATA" + struct.pack("<I", len(data)) + data)
        self.stream.write(b"DONE" + struct.pack("<I", 0))


def port(connection, stream, number):
    """A port of the device: this machine's."""
    try:
        sock = socket.create_connection(("127.0.0.1", number))
    except OSError:
        connection.send(CLSE, 0, stream.peer)
        return
    connection.send(OKAY, stream.number, stream.peer)

    def inward():
        while (data := stream.arrived.get()) is not None:
            sock.sendall(data)
        sock.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=inward, daemon=True).start()
    while data := sock.recv(65536):
        stream.write(data)


# Commands of the device; what they say of it is in their environment, which `shell` sets.
PROGRAMS = {
    "getprop": """case $1 in
    ro.product.model) echo "$FAKE_MODEL" ;;
    ro.product.cpu.abilist) echo "$FAKE_ABILIST" ;;
    ro.build.version.release) echo "$FAKE_ANDROID" ;;
    *) echo ;;
esac
""",
    "uname": 'echo "$FAKE_MACHINE"\n',
    "id": '[ -n "$FAKE_UID" ] || exec /usr/bin/id "$@"\necho "uid=$FAKE_UID(shell) gid=$FAKE_UID(shell)"\n',
    "ip": """echo '1: lo: <LOOPBACK,UP> mtu 65536'
echo '    inet 127.0.0.1/8 scope host lo'
[ -z "$FAKE_ADDRESS" ] || printf '2: wlan0: <UP> mtu 1500\\n    inet %s/24 scope global wlan0\\n' "$FAKE_ADDRESS"
""",
    "df": """[ -n "$FAKE_FREE_KIB" ] || exec /bin/df "$@"
echo 'Filesystem 1K-blocks Used Available Use% Mounted on'
echo "/dev/fake 99999999 1 $FAKE_FREE_KIB 1% /data"
""",
    # A file system that lets no program run.
    "chmod": 'if [ -n "$FAKE_NOEXEC" ]; then exec /bin/chmod 644 "$2"; fi\nexec /bin/chmod "$@"\n',
}


def main():
    os.makedirs(FOLDER + PLACE, exist_ok=True)
    os.makedirs(os.path.join(FOLDER, "bin"), exist_ok=True)
    give(FOLDER + PLACE)
    if device().get("old"):
        PROGRAMS["sha256sum"] = 'echo "/system/bin/sh: sha256sum: not found"\nexit 127\n'
    for name, text in PROGRAMS.items():
        path = os.path.join(FOLDER, "bin", name)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=Connection(sock).run, daemon=True).start()


main()
