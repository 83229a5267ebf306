"""Model folders of version 1 answer as they did: tests/data_old holds four, with what they answered."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

import doxa
from doxa.storage import folders
from tests.model_folders import forge

OLD = Path(__file__).parents[1] / "data_old"
NAMES = sorted(path.stem for path in OLD.glob("*.json"))
SIZE = 6
STEPS = {
    "right": ((1, 0), "one step to the right"),
    "up": ((0, 1), "one step up"),
    "diagonal": ((1, 1), "diagonally above"),
}


def asked():
    """All steps of the board, with mentions, in the order in which the answers were written down."""
    return [
        (f"{x},{y}", relation, f"{x + dx},{y + dy}", words)
        for x in range(SIZE)
        for y in range(SIZE)
        for relation, ((dx, dy), words) in STEPS.items()
        if x + dx < SIZE and y + dy < SIZE
    ]


def assert_same(answer, expected):
    assert list(answer.question) == expected["question"]
    assert [(c.name, c.known) for c in answer] == [(c["name"], c["known"]) for c in expected["answers"]]
    probabilities = [c["probability"] for c in expected["answers"]]
    assert [c.probability for c in answer] == pytest.approx(probabilities, rel=1e-5)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_version_1_answers_the_same_also_once_written_as_this_version(name, again, tmp_path):
    expected = json.loads((OLD / f"{name}.json").read_text())
    model = doxa.load(OLD / name)
    if again:
        model.save(tmp_path / name)
        assert json.loads((tmp_path / name / "model.json").read_text())["version"] == folders.VERSION
        model = doxa.load(tmp_path / name)
    model.pbe.log_loop_factor.zero_()  # version 1 had no factor for self-loops
    assert len(model.known) == expected["known"]
    assert_same(model.tails("1,1", "right", top=5), expected["tails"])
    assert_same(model.heads("up", "2,2", top=5, new_only=True), expected["heads"])
    assert_same(model.relations("1,1", "2,1", mention="a step to the right", top=3), expected["relations"])
    judgment = model.judge(asked())
    assert judgment.credence.tolist() == pytest.approx(expected["credence"], rel=1e-5)
    assert judgment.accepted.tolist() == expected["verdict"]
    unseen = model.judge([("zz", "right", "1,1"), ("2,2", "up", "zz")])
    assert unseen.accepted.tolist() == expected["unseen_verdict"]
    assert unseen.verdict.tolist() == ["unknown", "unknown"]
    if "confidence" in expected:
        assert model.confidence(asked()).tolist() == pytest.approx(expected["confidence"], rel=1e-5)


def test_the_old_folders_differ_in_what_they_keep():
    judges = {name: doxa.load(OLD / name).calibration for name in NAMES}
    assert judges["pbe"].rule == "learned"
    assert judges["pbe"].weights is not None
    assert judges["pbe"].unseen is not None
    assert judges["pbe"].mention_exponent != 1.0
    assert judges["transh"].rule == "score"
    assert judges["label"].expected_confidence is not None
    assert len(doxa.load(OLD / "label").known_confidence) == len(doxa.load(OLD / "label").train) + len(
        doxa.load(OLD / "label").valid
    )


@pytest.mark.parametrize("version", [1, folders.VERSION])
def test_an_unknown_setting_is_a_notice(version, tmp_path, caplog):
    if version == 1:
        shutil.copytree(OLD / "pbe", tmp_path / "m")
    else:
        doxa.load(OLD / "pbe").save(tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "model.json").read_text())
    manifest["settings"]["color"] = "red"
    forge(tmp_path / "m", manifest)
    with caplog.at_level(logging.WARNING, logger="doxa"):
        model = doxa.load(tmp_path / "m")
    assert "color" in caplog.text
    assert np.array_equal(model.credence(asked()), doxa.load(OLD / "pbe").credence(asked()))
