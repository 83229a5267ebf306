"""Downloads of benchmark sets: damaged and oversized archives, and sets that are known by their MD5 alone."""

import io
import json
import logging
import re
import zipfile

import pytest

from doxa.data import benchmarks as catalog
from doxa.errors import BadFile
from tests.data.test_benchmarks import PARTS, archive, listed, server  # noqa: F401


def test_without_a_sha256_the_first_download_is_remembered(listed, server, caplog):  # noqa: F811
    listed.write_text(re.sub(r', sha256 = "\w+"', "", listed.read_text()))
    with caplog.at_level(logging.WARNING, "doxa"):
        folder = catalog.get("toy", path=listed)
    assert "toy, train: checked by MD5 alone" in caplog.text
    record = json.loads((catalog.cache() / catalog.FIRST).read_text())["toy"]
    for path in folder.iterdir():
        path.unlink()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "doxa"):
        catalog.get("toy", path=listed)
    assert caplog.text == ""
    forged = record | {"test.tsv": "0" * 64}
    (catalog.cache() / catalog.FIRST).write_text(json.dumps({"toy": forged}))
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(BadFile, match="toy, test: the SHA256 is"):
        catalog.get("toy", path=listed)


def test_an_archive_unpacks_to_a_bounded_size(listed, server):  # noqa: F811
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("toy/train.txt", b"\n" * 10_000_000)
    server.content = packed.getvalue()
    with pytest.raises(BadFile, match=r"toy, train: more than the expected 2,000 bytes"):
        catalog.get("toy", path=listed)
    assert catalog.cached("toy") is None


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_archive_is_refused(listed, server, seed):  # noqa: F811
    content = bytearray(archive(PARTS))
    for place in range(seed, len(content), 7):
        content[place] ^= 0x5A
    server.content = bytes(content)
    with pytest.raises(BadFile, match="toy: the download is not the expected archive"):
        catalog.get("toy", path=listed)
    assert catalog.cached("toy") is None


def test_a_damaged_record_is_said_as_such(listed):  # noqa: F811
    folder = catalog.get("toy", path=listed)
    (folder / catalog.RECORD).write_text("{")
    with pytest.raises(BadFile, match=f"{catalog.RECORD} is damaged"):
        catalog.get("toy", path=listed)
