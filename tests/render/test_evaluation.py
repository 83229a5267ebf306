"""Evaluations and comparisons on the terminal: the popularity baseline, what was not run, verdicts and warnings."""

from dataclasses import replace

import numpy as np
import pytest

from doxa.evaluation.calibration import AnswerReliability, CalibrationReport, Reliability
from doxa.evaluation.compare import Comparison, Difference
from doxa.evaluation.confidence import ConfidenceErrors
from doxa.evaluation.parts import ClassificationReport, EntityReport, RelationReport
from doxa.evaluation.ranks import Metrics
from doxa.evaluation.report import Evaluation, PopularityReport
from doxa.render import terminal
from doxa.render.evaluation import SEEN, show_calibration, show_comparison, show_evaluation, show_ranking

ODD = "[bold]x[/] :cat: [/r]"


def test_ranking_has_a_line_per_name(capsys):
    metrics = Metrics(12.5, 0.25, {1: 0.1, 3: 0.2, 10: 0.5})
    show_ranking("Entity inference", {"raw": metrics, "filtered": metrics})
    text = capsys.readouterr().out
    assert "Entity inference" in text
    assert text.splitlines()[-1].split() == ["filtered", "12.5", "0.250", "10.0%", "20.0%", "50.0%"]


def test_an_evaluation_says_what_was_not_run_and_by_which_protocol(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    metrics = Metrics(2.0, 0.5, {1: 0.1, 3: 0.2, 10: 0.5})
    reliability = Reliability(np.array([0.5]), np.array([0.5]), np.array([1]), 0.1, 0.2, 0.3)
    slot = AnswerReliability(temperature=1.5, nll_before=2.0, nll=1.0, ece_before=0.2, ece=0.1)
    show_evaluation(
        Evaluation(
            entity=EntityReport(metrics, metrics, metrics, metrics, {"1-N": metrics}, {}, filtered_seen=metrics),
            classification=ClassificationReport(0.75, 0.8, {}),
            confidence=ConfidenceErrors(0.01, 0.1),
            calibration=CalibrationReport(
                reliability, reliability, {"ece": (0.0, 0.2), "brier": (0.1, 0.3), "nll": (0.2, 0.4)}, 0.9,
                {"tail": slot}, ece_floor=0.05,
            ),
            skipped={"relation": f"no {ODD}"},
            protocol={"queries": 1000, "unseen": 3, "filter": "all", "ties": "expected", "candidates": "all",
                      "judged": 20, "negatives": "made"},
            seconds={"entity": 1.5},
            peak_rss_mb=123.4,
        )
    )  # fmt: skip
    text = capsys.readouterr().out
    for part in ("1-N", "accuracy 75.0%, 80.0% where all names are known", "MSE 0.0100", "0.1000 (0.0000 to 0.2000)",
                 "2.000 → 1.000", "as many beliefs: 0.0500", SEEN, f"relation: not run, no {ODD}",
                 "1,000 beliefs, 3 of them with unseen names",
                 "20 judged, negatives: made; 1.5 s, peak memory 123 MB"):  # fmt: skip
        assert part in text


def test_a_model_without_a_calibration_is_not_called_calibrated(capsys):
    share = Reliability(np.array([0.5]), np.array([0.5]), np.array([1]), 0.1, 0.2, 0.3)
    report = CalibrationReport(share, share, dict.fromkeys(("ece", "brier", "nll"), (0.0, 1.0)), 0.9, {})
    for calibrated in (True, False):
        show_calibration(replace(report, calibrated=calibrated))
        text = capsys.readouterr().out
        assert ("judged true from credence ½ up: 90.0% right" in text) == calibrated
        assert ("not calibrated" in text) != calibrated


def test_popularity_stands_in_parentheses_beside_each_figure(capsys, monkeypatch):
    monkeypatch.setattr(terminal.out, "width", 100)
    value, other = (
        Metrics(1234.5, 0.25, {1: 0.1, 3: 0.2, 10: 1.0}),
        Metrics(9999.5, 0.125, {1: 0.01, 3: 0.02, 10: 0.05}),
    )
    share = Reliability(np.array([0.5]), np.array([0.5]), np.array([1]), 0.0, 0.25, 0.6931)

    def entity(metrics):
        return EntityReport(metrics, metrics, metrics, metrics, {"1-N": metrics}, {})

    calibration = CalibrationReport(share, share, dict.fromkeys(("ece", "brier", "nll"), (0.0, 1.0)), 0.9, {})
    evaluation = Evaluation(
        entity=entity(value),
        relation=RelationReport(value, value),
        classification=ClassificationReport(0.75, 0.8, {}),
        confidence=ConfidenceErrors(0.01, 0.1),
        calibration=calibration,
        protocol={"queries": 10, "unseen": 0, "filter": "all", "ties": "expected", "candidates": "all", "judged": 0},
        popularity=PopularityReport(
            entity(other), RelationReport(other, other), ClassificationReport(0.6, 0.6, {}),
            ConfidenceErrors(0.04, 0.2), share,
        ),
    )  # fmt: skip
    show_evaluation(evaluation)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines[:16])) <= 100
    figures = ["1,234.5", "(9,999.5)", "0.250", "(0.125)", "10.0%", "(1.0%)", "20.0%", "(2.0%)", "100.0%", "(5.0%)"]
    for name in ("raw", "filtered", "heads", "tails", "1-N"):
        assert [name, *figures] in [line.split() for line in lines]
    assert sum(line.split()[1:] == figures for line in lines) == 7
    for part in ("accuracy 75.0% (popularity 60.0%), 80.0% where all names are known", "always 50%",
                 "MSE 0.0100 (0.0400)   MAE 0.1000 (0.2000)", "Popularity is a baseline that knows only"):  # fmt: skip
        assert part in text


def comparison(**protocol):
    differences = (
        Difference("entity", "mrr", 0.25, 0.5, 0.25, 0.125, 0.375, "better"),
        Difference("entity", "hits@1", 0.25, 0.125, -0.125, -0.2, -0.05, "worse"),
        Difference("calibration", "brier", 0.25, 0.25, 0.0, -0.01, 0.01, "no difference"),
    )
    protocol = {
        "beliefs": 1000, "judged": 2000, "negatives": "made, seed 0", "known": {"a": 0, "b": 0}, "left_out": 0,
        "unseen": {"a": 0, "b": 0}, "entities": {"a": 5, "b": 5}, "interval": {"rounds": 2000},
    } | protocol  # fmt: skip
    return Comparison(differences, protocol, {}, {"relation": f"no {ODD}"})


def test_a_comparison_prints_values_intervals_and_words(capsys, monkeypatch):
    monkeypatch.setattr(terminal.out, "width", 100)
    show_comparison(comparison(), "one", ODD)
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    assert ["MRR", "0.2500", "0.5000", "+0.2500", "+0.1250", "to", "+0.3750", "better"] in rows
    assert ["Hits@1", "25.0%", "12.5%", "-12.5", "pp", "-20.0", "to", "-5.0", "pp", "worse"] in rows
    assert "no difference\n" in text
    assert f"B  {ODD}" in text
    assert f"relation: not compared, no {ODD}" in text
    assert "Of 3 metrics, B is better in 1 and worse in 1; in 1 these beliefs show no difference." in text
    assert "1,000 beliefs, ranks without the known facts of both models; 2,000 judged, negatives: made, seed 0" in text
    assert "of 20 metrics" in text
    assert "Warning" not in text
    assert "unknown to" not in text


@pytest.mark.parametrize(("left_out", "words"), [(30, "left out here, --keep-known"), (0, "this favors that model")])
def test_a_comparison_warns_of_known_facts_and_unknown_names(capsys, monkeypatch, left_out, words):
    monkeypatch.setattr(terminal.out, "width", 200)
    known, unseen, entities = {"a": 30, "b": 2}, {"a": 0, "b": 7}, {"a": 50, "b": 40}
    show_comparison(comparison(known=known, left_out=left_out, unseen=unseen, entities=entities), "one", "two")
    text = capsys.readouterr().out
    assert f"30 of these beliefs are facts that A was trained or validated on, 2 that B was; {words}" in text
    assert "0 beliefs have names unknown to A, 7 to B" in text
    assert "A ranks among 50 entities, B among 40" in text
