"""Calls that fail: whoever makes them, in the order of their number, as on a full disk."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading

import pytest

from tests.faults.failing import Failing, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "calls can be made to fail")


def in_python(path):
    path.write_bytes(b"x" * 10)


def in_libc(path):
    """A call inside libc, which a preloaded library would not see."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(os.fsencode(path), b"w"))
    libc.fputs(b"x" * 10, file)
    if libc.fclose(file):
        raise OSError(errno.ENOSPC, "fclose")


def in_a_process(path):
    code = f"import os; os.write(os.open({str(path)!r}, os.O_CREAT | os.O_WRONLY), b'x' * 10)"
    if subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode:
        raise OSError(errno.ENOSPC, "subprocess")


def in_a_thread(path):
    faults = []

    def work():
        try:
            in_python(path)
        except OSError as fault:
            faults.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]


def codes(action):
    def run():
        try:
            action()
        except OSError as fault:
            os._exit(fault.errno)

    return run


@pytest.mark.parametrize("write", [in_python, in_libc, in_a_process, in_a_thread])
def test_the_second_call_is_a_write_and_fails_with_half_of_it_done(tmp_path, write):
    failing = Failing(2)
    assert failing.run(codes(lambda: write(tmp_path / "a")), tmp_path / "log") == errno.ENOSPC
    assert failing.calls[:2] == [("openat", str(tmp_path / "a")), ("write", str(tmp_path / "a"))]
    assert failing.failed == f"write of {tmp_path / 'a'}"
    assert (tmp_path / "a").read_bytes() == b"x" * 5


def steps(folder):
    """One call of each kind that names or copies, after a file that is written by two."""
    in_python(folder / "a")
    (folder / "folder").mkdir()
    os.rename(folder / "a", folder / "b")
    os.link(folder / "b", folder / "c")
    os.truncate(folder / "c", 5)
    with open(folder / "b", "ab") as file:
        os.posix_fallocate(file.fileno(), 0, 20)
        os.pwrite(file.fileno(), b"y", 0)
        os.fdatasync(file.fileno())
    shutil.copy(folder / "b", folder / "d")


CALLS = {3: "mkdir", 4: "rename", 5: "link", 6: "truncate", 7: "open", 8: "fallocate", 9: "pwrite64", 10: "fdatasync"}


@pytest.mark.parametrize("place", [*CALLS, 12])
@pytest.mark.parametrize("every", [False, True])
def test_calls_of_every_kind_fail_by_their_number(tmp_path, place, every):
    failing = Failing(place, every)
    code = failing.run(codes(lambda: steps(tmp_path)), tmp_path / "log")
    name = failing.calls[place - 1][0]
    assert name.removesuffix("at") in ((CALLS[place],) if place in CALLS else ("sendfile", "copy_file_range", "write"))
    assert code == (errno.EIO if "sync" in name else errno.ENOSPC)


def test_what_is_not_on_a_disk_does_not_count(tmp_path):
    def work():
        pipe = os.pipe()
        os.write(pipe[1], b"x")
        with open(os.devnull, "w") as nothing:
            nothing.write("x")
        print("x", flush=True)
        (tmp_path / "a").read_bytes()

    in_python(tmp_path / "a")
    failing = Failing(1, True)
    assert failing.run(codes(work), tmp_path / "log") == 0
    assert failing.calls == []
