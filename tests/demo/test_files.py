"""Files of the demo on a full disk, and the folder of a demo that was killed."""

import errno
import os
from unittest.mock import MagicMock

import pytest

from doxa.demo import run
from doxa.errors import BadFile

FILES = ("learning_curve.png", "reliability.png", "explanation.html")


@pytest.mark.parametrize("place", range(len(FILES)))
def test_a_full_disk_leaves_the_old_files_and_is_reported_by_name(tmp_path, monkeypatch, place):
    for name in ("learning_curve", "reliability_diagram"):
        monkeypatch.setattr(run.plots, name, lambda _, path: path.write_text("new"))
    monkeypatch.setattr(run, "explanation_page", lambda _: "new")
    results = MagicMock()
    for name in FILES:
        (tmp_path / name).write_text("old")
    count, plain = [0], os.fsync

    def fsync(file):
        count[0] += 1
        if count[0] > 2 * place:  # a file and its folder reach the disk, one after the other
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(BadFile, match=f"{FILES[place]}: No space left on device"):
        run._write_files(tmp_path, results, results, results)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    assert [(tmp_path / name).read_text() for name in FILES] == ["new"] * place + ["old"] * (3 - place)


def filled(content, fault=None):
    def fill(folder):
        (folder / "data").mkdir()
        (folder / "data" / "train.tsv").write_text(content)
        if fault is not None:
            raise fault

    return fill


@pytest.mark.parametrize("fault", [BadFile("disk full"), OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_an_earlier_demo_stays_until_the_next_one_is_whole(tmp_path, monkeypatch, capsys, fault):
    folder = tmp_path / "demo"
    monkeypatch.setattr(run, "_fill", filled("old"))
    run.run(folder)
    monkeypatch.setattr(run, "_fill", filled("half", fault))
    with pytest.raises((BadFile, KeyboardInterrupt)):
        run.run(folder, force=True)
    assert (folder / "data" / "train.tsv").read_text() == "old"
    monkeypatch.setattr(run, "_fill", filled("new"))
    run.run(folder, force=True)
    assert (folder / "data" / "train.tsv").read_text() == "new"
    assert list(tmp_path.iterdir()) == [folder]
    assert f"{folder / 'learning_curve.png'} " in capsys.readouterr().out.replace("\n", "")


def test_the_folder_of_a_demo_that_was_killed_while_it_wrote_a_file_is_replaced(tmp_path, monkeypatch):
    folder = tmp_path / "demo"
    (folder / ".doxa-0123456789ab.partial").mkdir(parents=True)
    (folder / "data").mkdir()
    monkeypatch.setattr(run, "_fill", filled("new"))
    run.run(folder, force=True)
    assert [path.name for path in folder.rglob("*")] == ["data", "train.tsv"]
