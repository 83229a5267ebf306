"""System calls that fail: the kernel asks this process about each call of a child that writes, whoever makes it.

A filter (seccomp with user notification) sees what every thread and every process of the child asks of the system: the
calls of Python, of compiled libraries and those inside libc, which a preloaded library would miss. No call is counted
twice or lost when threads write at the same time, because one process hears them one after the other.
"""

import ctypes
import errno
import fcntl
import functools
import os
import platform
import select
import socket
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import tools

WRITES = {"write": (1, 64), "pwrite64": (18, 68), "writev": (20, 66), "pwritev": (296, 70), "pwritev2": (328, 287),
          "sendfile": (40, 71), "fallocate": (285, 47), "ftruncate": (77, 46), "fsync": (74, 82),
          "fdatasync": (75, 83), "sync_file_range": (277, 84)}  # fmt: skip
"""Calls whose first argument is a file, by their numbers on x86_64 and aarch64; None where the system has none."""

NAMES = {"open": (2, None), "creat": (85, None), "truncate": (76, 45), "rename": (82, None), "mkdir": (83, None),
         "link": (86, None), "openat": (257, 56), "mkdirat": (258, 34), "renameat": (264, 38), "linkat": (265, 37),
         "renameat2": (316, 276)}  # fmt: skip
"""Calls that make or move names; of the calls that open a file, those that may make it. A full disk refuses them, and
never removes a name: unlink and rmdir do not fail."""

COPY = {"copy_file_range": (326, 285)}
"""The file that it writes to is its third argument."""

MACHINES = ("x86_64", "aarch64")
SECCOMP, PRCTL = {"x86_64": 317, "aarch64": 277}, {"no_new_privileges": 38}
FILTER_MODE, NEW_LISTENER = 1, 8
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
"""Constants of linux/seccomp.h and linux/prctl.h."""

NEW_FILE = os.O_CREAT | 0o20000000
"""Flags of an open that makes a file: O_CREAT, and the one bit of O_TMPFILE that no other flag has."""

LONGEST_PATH = 4096
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


def why_not():
    """The reason why calls cannot be made to fail here; empty when they can."""
    available = Path("/proc/sys/kernel/seccomp/actions_avail")
    if platform.machine() not in MACHINES or not available.exists():
        return "failing writes need Linux on x86_64 or aarch64"
    return "" if "user_notif" in available.read_text() else "the kernel has no user notification of seccomp"


@functools.cache
def _numbers():
    """The names of the calls by their numbers on this machine."""
    place = MACHINES.index(platform.machine())
    return {numbers[place]: name for name, numbers in (WRITES | NAMES | COPY).items() if numbers[place] is not None}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _listen():
    """Put the filter on this process and all it will start; returns the file on which the kernel asks."""
    numbers = list(_numbers())
    program = [(0x20, 0, 0, 0)]  # load the number of the call
    program += [(0x15, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    program += [(0x06, 0, 0, ALLOW), (0x06, 0, 0, NOTIFY)]
    content = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PRCTL["no_new_privileges"], 1, 0, 0, 0) == 0
    pointer = ctypes.byref(_Program(len(program), ctypes.addressof(content)))
    listener = libc.syscall(SECCOMP[platform.machine()], FILTER_MODE, NEW_LISTENER, pointer)
    assert listener >= 0, os.strerror(ctypes.get_errno())
    return listener


@dataclass
class Failing:
    """A child whose `place`-th writing call fails as on a full disk, and with `every` all that follow.

    `calls` are the calls that were counted, each with what it was about.
    """

    place: int
    every: bool = False
    calls: list = field(default_factory=list)

    def run(self, action, log, longest=tools.LONGEST):
        """Run a function in a child, as `tools.start` does; returns its exit code."""
        ours, theirs = socket.socketpair()

        def work():
            ours.close()
            listener = _listen()
            socket.send_fds(theirs, [b"listener"], [listener])
            os.close(listener)
            action()

        child = tools.start(work, log)
        theirs.close()
        with ours:
            listeners = socket.recv_fds(ours, 8, 1)[1]
        patience = tools.Patience(longest)
        for listener in listeners:
            try:
                self._answer_all(listener, child, patience)
            finally:
                os.close(listener)
        return tools.ended(child, max(1.0, patience.left))

    def _answer_all(self, listener, child, patience):
        """Answer the kernel until the child has ended, or the time is over."""
        asked = select.poll()
        asked.register(listener, select.POLLIN)
        while not patience.is_over() and os.waitid(os.P_PID, child, ENDED) is None:
            for _, event in asked.poll(100):
                if not event & select.POLLIN:
                    return
                self._answer(listener)

    def _answer(self, listener):
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, request)
        except OSError:  # the process has been killed meanwhile
            return
        number, process, _, call = struct.unpack_from("QIIi", request)
        code = self._code(process, _numbers()[call], struct.unpack_from("6Q", request, 32))
        answer = struct.pack("QqiI", number, 0, -code, 0 if code else CONTINUE)
        try:
            fcntl.ioctl(listener, SEND, answer)
        except OSError as fault:
            if fault.errno != errno.ENOENT:  # the process has been killed meanwhile
                raise

    def _code(self, process, name, arguments):
        """The error that a call gets; 0 lets the system do what it asks."""
        try:
            subject = _subject(process, name, arguments)
        except OSError:
            return 0
        if subject is None:
            return 0
        self.calls.append((name, subject))
        number = len(self.calls)
        if number != self.place and not (self.every and number > self.place):
            return 0
        if name in ("write", "pwrite64"):
            _write_half(process, name, arguments)
        return errno.EIO if "sync" in name else errno.ENOSPC

    @property
    def failed(self):
        """The call that failed first, and what it was about."""
        return " of ".join(self.calls[self.place - 1]) if self.place <= len(self.calls) else "none"


def _subject(process, name, arguments):
    """What a call writes to; None for what is no file of a disk, and for standard output and error."""
    if name in WRITES or name in COPY:
        file = arguments[2 if name in COPY else 0] & 0xFFFFFFFF
        path = f"/proc/{process}/fd/{file}"
        return os.readlink(path) if file > 2 and stat.S_ISREG(os.stat(path).st_mode) else None
    if name in ("open", "openat") and not arguments[1 if name == "open" else 2] & NEW_FILE:
        return None
    path = _text(process, arguments[1 if name.removesuffix("2").endswith("at") else 0])
    return None if path.startswith(("/dev/null", "/dev/tty", "/proc/")) else path


def _text(process, address):
    """The path at an address of a process."""
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        page = 4096 - address % 4096  # what follows may not be readable
        text = memory.read(page)
        if b"\0" not in text:
            text += memory.read(LONGEST_PATH)
    return os.fsdecode(text.split(b"\0")[0])


def _write_half(process, name, arguments):
    """Write the first half of what a call was to write: a full disk takes a part."""
    file, address, size, place = arguments[:4]
    values = dict(line.split(":\t") for line in Path(f"/proc/{process}/fdinfo/{file}").read_text().splitlines()[:2])
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        data = memory.read(min(size // 2, 2**20))
    target = os.open(f"/proc/{process}/fd/{file}", os.O_WRONLY)
    try:
        if name == "write":
            place = os.fstat(target).st_size if int(values["flags"], 8) & os.O_APPEND else int(values["pos"])
        os.pwrite(target, data, place)
    finally:
        os.close(target)
