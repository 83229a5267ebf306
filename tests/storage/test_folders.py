"""The model folder as files: checksums, one rename, the lock of its writers, modes, and what killed runs left."""

import errno
import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
import torch

from doxa.cli.models import check
from doxa.data.atomic import Busy, locked
from doxa.errors import BadModel, DoxaError, UsageError
from doxa.model import Model
from doxa.storage import folders
from tests.model_folders import forge, manifest, part
from tests.worlds import random_model

LITTER = (".tmpAb3xY9", ".checkpoint.safetensors.4711.unfinished", ".doxa-0123456789ab.partial")


@pytest.fixture(scope="module")
def model():
    return random_model(0)[0]


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def put_litter(folder):
    """What processes of this version and of earlier ones leave when they are killed."""
    for name in LITTER[:2]:
        (folder / name).write_bytes(b"x")
    (folder / LITTER[2]).mkdir()
    (folder / LITTER[2] / ".tmpAb3xY9").write_bytes(b"x")
    (folder / f"weights-{'0' * 16}.safetensors").write_bytes(b"x")


@pytest.mark.parametrize("name", [*folders.ENDINGS, "manifest"])
def test_every_flipped_bit_is_refused(folder, name):
    path = folder / folders.MANIFEST if name == "manifest" else part(folder, name)
    whole = path.read_bytes()
    for place in np.linspace(0, 8 * len(whole) - 1, 25).astype(int).tolist():
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(BadModel):
            Model.load(folder)
    path.write_bytes(whole)
    Model.load(folder)


def test_large_models_are_compared_with_their_checksums_by_check_alone(folder, monkeypatch):
    path = part(folder, "words")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    monkeypatch.setattr(folders, "CHECKED_BYTES", 100)
    files = folders.entries(folder, folders.read_manifest(folder))
    folders.check_files(folder, files)
    with pytest.raises(BadModel, match="checksum"):
        folders.check_files(folder, files, everything=True)
    with pytest.raises(BadModel, match="checksum"):
        check(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(value, tmp_path):
    model, _ = random_model(1)
    with torch.no_grad():
        model.pbe.score.relation.weight[1, 1] = value
    model.save(tmp_path / "m")
    with pytest.raises(BadModel, match=r"score\.relation\.weight have values that are not finite"):
        Model.load(tmp_path / "m")


def test_a_model_is_replaced_by_one_rename_of_the_manifest(folder, tmp_path, monkeypatch):
    """Up to that rename readers see the old model, whatever else was written; a failure leaves no file of the new."""
    before, real = sorted(os.listdir(folder)), os.replace

    def replace(source, target):
        assert Model.load(folder).pbe.score.entity.weight.shape == (12, 3)
        if str(target).endswith(folders.MANIFEST):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(BadModel, match="No space left on device"):
        random_model(1, entities=9)[0].save(folder, force=True)
    assert sorted(os.listdir(folder)) == before
    monkeypatch.undo()
    random_model(1, entities=9)[0].save(folder, force=True)
    assert len(os.listdir(folder)) == 6
    assert len(Model.load(folder).vocabularies.entities) == 9


def test_a_reader_takes_the_new_model_where_the_old_one_goes_meanwhile(folder, monkeypatch):
    real, replaced = folders.entries, []

    def entries(place, content):
        if not replaced:
            replaced.append(True)
            random_model(1, entities=9)[0].save(folder, force=True)
        return real(place, content)

    monkeypatch.setattr(folders, "entries", entries)
    assert len(Model.load(folder).vocabularies.entities) == 9


def test_what_killed_processes_left_is_no_obstacle_and_goes(model, folder):
    put_litter(folder)
    Model.load(folder)
    folders.check_vacant(folder, force=True, resume=False)
    model.save(folder, force=True)
    assert len(os.listdir(folder)) == 6


def test_a_first_run_that_was_killed_leaves_a_vacant_folder(model, tmp_path):
    (tmp_path / "m").mkdir()
    put_litter(tmp_path / "m")
    folders.check_vacant(tmp_path / "m", force=False, resume=False)
    model.save(tmp_path / "m")
    assert len(os.listdir(tmp_path / "m")) == 6


def test_two_writers_into_one_folder(model, folder):
    """The second one is refused while another process holds the lock; forked children do not keep it."""
    code = "import sys; from pathlib import Path; from doxa.data.atomic import locked\n"
    code += "with locked(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"locked\n"
    for attempt in (lambda: model.save(folder, force=True), lambda: folders.check_vacant(folder, True, False)):
        with pytest.raises(Busy, match="another process is writing to"):
            attempt()
    Model.load(folder)
    other.kill()
    other.wait()
    model.save(folder, force=True)


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    reading, writing = os.pipe()
    with locked(tmp_path):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    os.close(reading)
    with locked(tmp_path):
        pass
    os.close(writing)
    os.waitpid(child, 0)


def test_modes_follow_the_umask(model, tmp_path):
    before = os.umask(0o027)
    try:
        model.save(tmp_path / "m")
    finally:
        os.umask(before)
    modes = {path.name.partition("-")[0]: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "m").iterdir()}
    assert set(modes.values()) == {0o640}, modes


def test_pipes_and_devices_are_refused(folder):
    (folder / folders.MANIFEST).unlink()
    os.mkfifo(folder / folders.MANIFEST)
    with pytest.raises(BadModel, match=r"model\.json is not a regular file"):
        Model.load(folder)
    (folder / folders.MANIFEST).unlink()
    (folder / folders.MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(BadModel, match=r"model\.json is not a regular file"):
        Model.load(folder)


def test_a_part_that_is_a_pipe_is_refused(folder):
    path = part(folder, "facts")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadModel, match="not a regular file"):
        Model.load(folder)


def test_a_file_that_may_not_be_read_is_called_so(folder, monkeypatch):
    """Played, since root may read anything."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folders, "sha256_of", refuse)
    with pytest.raises(BadModel, match=r"cannot read .*: permission denied"):
        Model.load(folder)
    monkeypatch.setattr(folders, "_read", refuse)
    with pytest.raises(BadModel, match=r"cannot read .*model\.json: permission denied"):
        Model.load(folder)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("judge", "temperatures", "head"), "a"),
        (("judge", "temperatures", "tail"), 0),
        (("judge", "contradictions", "shift"), []),
        (("judge", "curve", "slope"), None),
        (("judge", "curve", "steps"), [[1.0], []]),
        (("judge", "curve", "losses"), 3),
        (("judge", "rule"), "coin"),
        (("judge", "unseen"), {"by_kind": [1.0], "overall": 0.0}),
        (("settings", "dimension"), 10**15),
        (("settings", "score"), "neural_tensor"),
        (("files", "weights", "sha256"), "../../etc/passwd"),
        (("files", "weights", "bytes"), -1),
        (("files",), {}),
        (("origin",), 7),
        (("curve",), [1]),
        (("version",), "3"),
        (("settings", "scale"), 10**400),
        (("settings", "scale"), 1e308),
    ],
    ids=str,
)
def test_forged_manifests_are_refused(folder, place, value):
    content = manifest(folder)
    node = content
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    forge(folder, content)
    with pytest.raises(DoxaError):
        Model.load(folder)


def test_the_manifest_has_a_checksum_of_itself(folder):
    text = (folder / folders.MANIFEST).read_text()
    (folder / folders.MANIFEST).write_text(text.replace(": ", ":  ", 1))
    with pytest.raises(BadModel, match=r"model\.json was changed or damaged"):
        Model.load(folder)
    content = json.loads(text)
    del content["sha256"]
    (folder / folders.MANIFEST).write_text(json.dumps(content))
    with pytest.raises(BadModel, match=r"model\.json was changed or damaged"):
        Model.load(folder)


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "m").write_text("x")
    with pytest.raises(BadModel, match="it is a file"):
        Model.load(tmp_path / "m")
    with pytest.raises(UsageError, match="is a file"):
        folders.check_vacant(tmp_path / "m", force=True, resume=False)


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.ENOSPC, BadModel), (errno.EIO, BadModel), (errno.EACCES, UsageError)]
)
def test_a_full_disk_is_no_wrong_usage(tmp_path, monkeypatch, code, kind):
    def refused(folder):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(folders, "workspace", refused)
    with pytest.raises(kind, match=f"cannot write to {tmp_path / 'm'}: {os.strerror(code)}"):
        folders.check_vacant(tmp_path / "m", force=False, resume=False)
