"""The index in the model folder: stored, checked, of its weights alone."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa.errors import BadModel
from doxa.model import Model
from doxa.storage import folders, indexes, models
from tests.index.models import grouped_model
from tests.model_folders import forge, manifest


@pytest.fixture(scope="module")
def indexed():
    return grouped_model(entities=200, groups=10).build_index()


@pytest.fixture
def folder(indexed, tmp_path):
    indexed.save(tmp_path / "m")
    return tmp_path / "m"


def test_a_stored_index_answers_as_before(indexed, folder):
    loaded = Model.load(folder)
    question = [("e1", "r0", "?")]
    before, after = (model.ask(question, use_index=True)[0] for model in (indexed, loaded))
    assert [c.name for c in before] == [c.name for c in after]
    assert loaded.index.summary == indexed.index.summary


def test_a_model_that_keeps_its_weights_keeps_its_index(folder, tmp_path):
    """As `doxa calibrate` does; a model with other weights is saved without it."""
    loaded = Model.load(folder)
    replace(loaded, origin={"beliefs": 1}).save(folder, force=True)
    assert Model.load(folder).index.summary == loaded.index.summary
    other = replace(loaded, pbe=grouped_model(entities=200, seed=1).pbe)
    other.save(folder, force=True)
    assert Model.load(folder).index is None
    assert not [path for path in folder.iterdir() if path.name.startswith(("cells", "lists"))]


def test_build_index_adds_two_files_and_changes_no_other(tmp_path):
    model = grouped_model(entities=200, groups=10)
    model.save(tmp_path / "m")
    files = {path.name for path in (tmp_path / "m").iterdir()}
    models.build_index(tmp_path / "m", cells=5)
    more = {path.name for path in (tmp_path / "m").iterdir()} - files
    assert sorted(name[:5] for name in more) == ["cells", "lists"]
    assert Model.load(tmp_path / "m").index.summary.cells == 5
    models.build_index(tmp_path / "m", cells=4)
    assert len({path.name for path in (tmp_path / "m").iterdir()} - files) == 2, "the earlier index is gone"


def test_an_index_is_not_added_to_other_weights(indexed, folder):
    with pytest.raises(BadModel, match="was replaced while its index was built"):
        indexes.add(indexed.index, folder, "0" * 64)


@pytest.mark.parametrize("part", folders.INDEX_ENDINGS)
def test_a_damaged_index_is_not_used(folder, part, caplog):
    path = folders.index_entries(folder, folders.read_manifest(folder))[part].path
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING, "doxa"):
        assert Model.load(folder).index is None
    assert "it is not used" in caplog.text
    with pytest.raises(BadModel, match="checksum"):
        models.load(folder, everything=True)


def test_a_stale_index_is_not_used(folder, caplog):
    """The weights of the folder are others than those that the index was made of."""
    content = manifest(folder)
    content["index"]["weights"] = "0" * 64
    forge(folder, content)
    with caplog.at_level(logging.WARNING, "doxa"):
        assert Model.load(folder).index is None
    assert "is of other weights" in caplog.text


@pytest.mark.parametrize("change", ["dimension", "order", "entity"])
def test_forged_cells_are_not_used(indexed, folder, change):
    cells = indexed.index.cells
    forged = {
        "dimension": replace(cells, centroids=torch.zeros(len(cells), 3)),
        "order": replace(cells, bounds=cells.bounds[::-1].copy()),
        "entity": replace(cells, members=np.full_like(cells.members, 200)),
    }[change]
    index = indexed.index
    other = type(index)(indexed.pbe, forged, index.lists, index.summary)
    replace(indexed, index=other).save(folder, force=True)
    assert Model.load(folder).index is None
