"""Benchmark sets by name, against a server on this machine: whole, resumed, damaged, offline."""

import hashlib
import http.server
import io
import json
import os
import threading
import zipfile

import pytest

from doxa.data import benchmarks as catalog
from doxa.errors import BadFile, UnknownName

PARTS = {"train": b"a\tr\tb\nb\tr\tc\n", "valid": b"a\tr\tc\n", "test": b"c\tr\ta\n"}


def archive(parts=PARTS):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in parts.items():
            file.writestr(f"toy/{name}.txt", content)
    return packed.getvalue()


class Server(http.server.BaseHTTPRequestHandler):
    content = b""
    ranges = True
    breaks_after = None
    asked: list = []  # noqa: RUF012

    def do_GET(self):
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if self.ranges else 0
        type(self).asked.append(start)
        if start >= len(self.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        end = len(self.content) if self.breaks_after is None else start + self.breaks_after
        self.wfile.write(self.content[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    handler = type("Handler", (Server,), {"content": archive(), "asked": []})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    handler.url = f"http://127.0.0.1:{running.server_port}/toy.zip"
    yield handler
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def listed(tmp_path, server, monkeypatch):
    """A list with one set, served here."""
    monkeypatch.setenv("DOXA_CACHE", str(tmp_path / "cache"))
    rows = [
        f'[toy]\ntitle = "A toy"\nsource = "here"\nlicense = "none"\nurl = "{server.url}"\nentities = 3\nrelations = 1'
    ]
    for name, content in PARTS.items():
        rows.append(
            f'{name} = {{ member = "toy/{name}.txt", md5 = "{hashlib.md5(content).hexdigest()}", '
            f'beliefs = {content.count(10)}, sha256 = "{hashlib.sha256(content).hexdigest()}" }}'
        )
    path = tmp_path / "list.toml"
    path.write_text("\n".join(rows))
    monkeypatch.setattr(catalog, "LIST", path)
    return path


def test_a_set_is_downloaded_checked_and_then_there_offline(listed, server):
    reports = []
    folder = catalog.get("toy", progress=lambda have, total: reports.append((have, total)), path=listed)
    assert {part: (folder / f"{part}.tsv").read_bytes() for part in PARTS} == PARTS
    assert reports[-1] == (len(server.content), len(server.content))
    assert len(server.asked) == 1
    assert catalog.get("toy", path=listed) == folder
    assert len(server.asked) == 1
    assert list((catalog.cache() / "downloads").iterdir()) == []


def test_a_download_that_broke_off_goes_on(listed, server):
    server.breaks_after = 100
    with pytest.raises(BadFile, match="the same call resumes from there"):
        catalog.get("toy", path=listed)
    assert (catalog.cache() / "downloads" / "toy.zip.part").stat().st_size == 100
    assert catalog.cached("toy") is None
    server.breaks_after = None
    assert catalog.get("toy", path=listed)
    assert server.asked == [0, 100]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_not_taken_for_a_fault_of_the_server(listed, server):
    part = catalog.cache() / "downloads" / "toy.zip.part"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    with pytest.raises(BadFile, match=r"cannot write .*toy\.zip\.part: No space left on device") as fault:
        catalog.get("toy", path=listed)
    assert fault.value.hints == (catalog.KEPT,)
    part.unlink()
    assert catalog.get("toy", path=listed)


def test_a_server_without_ranges_starts_again(listed, server):
    (catalog.cache() / "downloads").mkdir(parents=True)
    (catalog.cache() / "downloads" / "toy.zip.part").write_bytes(b"left from before")
    server.ranges = False
    assert catalog.get("toy", path=listed)


def test_a_download_that_was_complete_is_used(listed, server):
    (catalog.cache() / "downloads").mkdir(parents=True)
    (catalog.cache() / "downloads" / "toy.zip.part").write_bytes(server.content)
    assert catalog.get("toy", path=listed)
    assert server.asked == [len(server.content)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive(PARTS | {"test": b"c\tr\tb\n"}), "toy, test: the MD5 is"),
        (archive({"train": b"a\tr\tb\n"}), "not the expected archive"),
        (b"no archive at all", "not the expected archive"),
    ],
)
def test_a_wrong_download_is_refused_and_removed(listed, server, content, message):
    server.content = content
    with pytest.raises(BadFile, match=message):
        catalog.get("toy", path=listed)
    assert catalog.cached("toy") is None
    assert not (catalog.cache() / "downloads" / "toy.zip").exists()
    assert not any(path.name.endswith(".unfinished") for path in catalog.cache().iterdir())


def test_a_cached_file_that_changed_is_noticed(listed):
    folder = catalog.get("toy", path=listed)
    (folder / "train.tsv").write_text("x\tr\ty\n")
    with pytest.raises(BadFile, match="has changed since its download"):
        catalog.get("toy", path=listed)


def test_no_server_and_no_such_set(listed):
    with pytest.raises(BadFile, match=r"cannot get http://127\.0\.0\.1:9/x\.zip"):
        catalog.get("toy", url="http://127.0.0.1:9/x.zip", path=listed)
    with pytest.raises(BadFile, match="cannot get nowhere"):
        catalog.get("toy", url="nowhere", path=listed)
    with pytest.raises(UnknownName, match="Did you mean 'toy'"):
        catalog.get("toi", path=listed)


def test_the_commands(doxa, tmp_path, monkeypatch, server):
    monkeypatch.setenv("DOXA_CACHE", str(tmp_path / "cache"))
    code, text, _ = doxa("data", "list", "--json")
    sets = {one["name"]: one for one in json.loads(text)}
    assert code == 0
    assert sets["fb15k"]["parts"]["test"]["beliefs"] == 59071
    assert all(part["md5"] or part["sha256"] for one in sets.values() for part in one["parts"].values())
    assert "wn18rr" in doxa("data", "list")[1]
    code, _, err = doxa("data", "get", "wn18rr", "--from", server.url)
    assert (code, "wn18rr, train: the MD5 is" in err) == (1, True)
