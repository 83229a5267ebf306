"""The curator's commands as a new user meets them."""

import json
from dataclasses import replace

import polars as pl
import pytest

from doxa import formats as files
from doxa.curation.complete import _Search, complete
from doxa.data.beliefs import Beliefs
from doxa.model import Model, fit
from tests.worlds import board, board_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curation")
    files.write(board(5), folder / "b.tsv")
    settings = {"dimension": 8, "epochs": 20, "batch_size": 16, "num_candidates": 32, "threads": 1}
    fit(Beliefs.from_frame(board(5)), **settings).save(folder / "m")
    return folder / "m"


def reviewed(path, answers):
    """Fill the column `review` as a curator would."""
    table = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    answers = [*answers, *[""] * (len(table) - len(answers))]
    table.with_columns(review=pl.Series(answers)).write_csv(path, separator="\t", quote_style="never")
    return table


def test_from_proposals_through_review_to_a_new_model(doxa, model, tmp_path):
    missing, decided = tmp_path / "missing.tsv", tmp_path / "decided"
    code, text, _ = doxa("complete", model, "--out", missing, "--min-credence", 0, "--top", 6)
    assert code == 0
    assert "6 new beliefs" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["missing.tsv"]
    table = reviewed(missing, ["accept", "Reject ", "unsure"])
    assert {"rank", "credence", "pr_head", "pr_relation", "pr_tail", "head_rank", "tail_rank"} <= set(table.columns)
    code, text, err = doxa("review", "apply", missing, "--out", decided)
    assert code == 0
    assert "added.tsv: 1 beliefs" in text
    assert "1 unsure, 3 without an answer" in err
    added = pl.read_csv(decided / "added.tsv", separator="\t")
    assert added.row(0)[:3] == table.row(0)[:3]
    assert added["source"][0].startswith("missing.tsv:2 missing accept by model ")
    assert pl.read_csv(decided / "labels.tsv", separator="\t")["label"].to_list() == [1, -1]
    code, text, _ = doxa("update", model, decided / "added.tsv", "--out", tmp_path / "m2", "--epochs", 1)
    assert code == 0
    assert "1 beliefs added, 0 retracted" in text
    assert "filtered MRR" in text
    assert len(Model.load(tmp_path / "m2").known) == len(Model.load(model).known) + 1


@pytest.fixture(scope="module")
def large_board(tmp_path_factory):
    """The folder of a model with enough validation facts to measure the credence of proposals."""
    folder = tmp_path_factory.mktemp("large") / "m"
    model, _ = board_model(16)
    model.calibrate(Beliefs.from_triples(model.vocabularies, model.valid)).save(folder)
    return folder


def test_complete_says_how_many_proposals_are_expected_to_be_right(doxa, large_board, tmp_path):
    out, loaded = tmp_path / "missing.tsv", Model.load(large_board)
    text = {}
    for options in ((), ("--base-rate", 0.2)):
        code, text[options], _ = doxa("complete", large_board, "--out", out, "--min-credence", 0.1, *options)
        assert code == 0
        proposals = complete(loaded, min_credence=0.1, base_rate=options[1] if options else None)
        assert text[options].splitlines() == [
            f"{out}: {len(proposals):,} new beliefs",
            f"credence {proposals.credence[0]:.3f} to {proposals.credence[-1]:.3f}; "
            f"{proposals.expected_right:,.0f} expected to be right",
            proposals.basis,
            "review them as accept, reject or unsure, then run `doxa review apply`",
        ]
        table = pl.read_csv(out, separator="\t", quote_char=None)
        assert table.select("head", "relation", "tail").rows() == proposals.beliefs.to_frame().rows()
        assert table["credence"].sum() == pytest.approx(proposals.expected_right, rel=1e-4)
        assert len(proposals) > 20
    assert "if 0.1 of the facts are missing" in text[()]
    assert "if 0.2 of the facts are missing" in text["--base-rate", 0.2]
    assert text[()].splitlines()[1] != text["--base-rate", 0.2].splitlines()[1]
    assert doxa("complete", large_board, "--out", out, "--base-rate", 1)[0] == 2


def test_complete_says_why_there_are_no_proposals(doxa, large_board, tmp_path):
    out = tmp_path / "missing.tsv"
    code, text, err = doxa("complete", large_board, "--out", out, "--min-credence", 1, "--base-rate", 0.001)
    assert code == 0
    assert text == f"{out}: 0 new beliefs\n"
    assert "none has a credence of 1 or more; a smaller --min-credence may show some" in err
    assert pl.read_csv(out, separator="\t").columns[:3] == ["head", "relation", "tail"]


def test_complete_says_when_credence_is_not_calibrated(doxa, model, tmp_path):
    code, text, _ = doxa("complete", model, "--out", tmp_path / "missing.tsv", "--min-credence", 0, "--top", 3)
    assert code == 0
    assert "not calibrated: too few validation facts" in text
    assert "expected to be right" not in text


def test_complete_is_restricted_to_relations_and_entities(doxa, large_board, tmp_path):
    out = tmp_path / "missing.csv"
    options = ("--min-credence", 0, "--relation", "up", "--entity", "3,15", "--no-contradicting")
    assert doxa("complete", large_board, "--out", out, *options)[0] == 0
    table = pl.read_csv(out)
    expected = complete(
        Model.load(large_board), min_credence=0, relations="up", entities="3,15", contradicting=False
    ).beliefs.to_frame()
    assert table.select("head", "relation", "tail").rows() == expected.rows()
    assert len(expected) > 0
    assert all(relation == "up" and "3,15" in (head, tail) for head, relation, tail in expected.rows())


def test_a_search_resumed_with_other_options_says_how_to_start_again(doxa, model, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    out, place, loaded = tmp_path / "missing.tsv", tmp_path / "m", Model.load(model)
    replace(loaded, settings=loaded.settings.changed(checkpoint_seconds=0.0)).save(place)
    with monkeypatch.context() as patch:
        patch.setattr(_Search, "finish", stopped)
        assert doxa("complete", place, "--out", out, "--top", 6)[0] == 130
    assert (tmp_path / ".missing.tsv.search").exists()
    code, _, err = doxa("complete", place, "--out", out, "--top", 7, "--resume")
    assert code == 2
    assert err.endswith("had other options\n  repeat `doxa complete` without --resume to start a new search\n")


def test_from_suspects_through_review_to_a_retraction(doxa, model, tmp_path):
    suspects, decided = tmp_path / "suspects.tsv", tmp_path / "decided"
    code, text, _ = doxa("audit", model, model.parent / "b.tsv", "--top", 5, "--show", 2, "--out", suspects)
    assert code == 0
    assert "credence" in text
    assert "review them as wrong, replace (the suggestion is right), right or unsure" in text
    table = reviewed(suspects, ["wrong", "right"])
    doxa("review", "apply", suspects, "--out", decided)
    assert pl.read_csv(decided / "retracted.tsv", separator="\t").row(0)[:3] == table.row(0)[:3]
    assert not (decided / "added.tsv").exists()
    code, text, _ = doxa("update", model, "--retract", decided / "retracted.tsv", "--out", tmp_path / "m2")
    assert code == 0
    assert "retracted beliefs: mean credence" in text
    code, _, err = doxa("update", model, "--retract", suspects, "--out", model)
    assert code == 2
    assert "is the model being updated" in err


def test_explain_similar_and_duplicates(doxa, model, tmp_path):
    page = tmp_path / "page.html"
    code, text, _ = doxa("explain", model, "1,1", "up", "1,2", "--mention", "one step up", "--html", page)
    assert code == 0
    assert "before calibration" in text
    assert page.read_text().startswith("<!doctype html>")
    code, text, _ = doxa("explain", model, "1,1", "up", "1,2", "--json")
    assert json.loads(text)["belief"] == ["1,1", "up", "1,2", None]
    code, text, _ = doxa("similar", model, "1,1", "--top", 3)
    assert len(text.splitlines()) == 3
    loaded = Model.load(model)
    text = doxa("similar", model, "1,1", "--top", 3, "--json")[1]
    assert json.loads(text) == loaded.similar("1,1", 3).as_dict()
    text = doxa("duplicates", model, "--min-similarity", -1, "--json")[1]
    assert json.loads(text) == loaded.duplicates(20, -1).as_dict()
    code, *_ = doxa("duplicates", model, "--min-similarity", -1, "--out", tmp_path / "pairs.tsv")
    assert code == 0
    assert (tmp_path / "pairs.tsv").read_text().startswith("first\tsecond\tsimilarity")


def test_a_review_that_cannot_be_read_is_named_by_its_line(doxa, tmp_path):
    file = tmp_path / "r.tsv"
    file.write_text("head\trelation\ttail\tfinding\treview\na\tr\tb\tmissing\taccept\na\tr\tc\tmissing\tmaybe\n")
    code, _, err = doxa("review", "apply", file, "--out", tmp_path / "d")
    assert code == 1
    assert "line 3: the review is 'maybe'" in err
    file.write_text("head\trelation\ttail\na\tr\tb\n")
    code, _, err = doxa("review", "apply", file, "--out", tmp_path / "d")
    assert code == 1
    assert "no column 'finding'" in err
    assert doxa("complete", tmp_path / "none", "--out", tmp_path / "o.tsv", "--resume")[0] == 1


def test_proposals_and_suspects_are_reviewed_as_csv(doxa, model, tmp_path):
    missing, suspects = tmp_path / "missing.csv", tmp_path / "suspects.csv"
    assert doxa("complete", model, "--out", missing, "--min-credence", 0, "--top", 3)[0] == 0
    assert doxa("audit", model, model.parent / "b.tsv", "--out", suspects)[0] == 0
    for file, answer, name in ((missing, "accept", "added"), (suspects, "wrong", "retracted")):
        table = pl.read_csv(file, infer_schema=False)
        assert "," in table["head"][0]  # squares of the board are named by two numbers
        table.with_columns(review=pl.Series([answer] + [""] * (len(table) - 1))).write_csv(file, separator=";")
        code, text, _ = doxa("review", "apply", file, "--out", tmp_path / name)
        assert (code, f"{name}.tsv: 1 beliefs" in text) == (0, True)
        assert files.read_frame(tmp_path / name / f"{name}.tsv").row(0)[1:4] == table.row(0)[:3]


def test_help_teaches(doxa):
    for command in ("complete", "audit", "explain", "similar", "duplicates", "update", "review"):
        code, text, _ = doxa(command, "--help")
        assert code == 0
        assert "Example" in text or command == "review"
