import json

import numpy as np
import polars as pl
import pytest

import doxa as doxa_package
from doxa import formats
from doxa.errors import BadFile, UsageError
from doxa.lab import experiments, page, paper, report
from doxa.lab.experiments import Run
from doxa.lab.selection import TABLES, experiments_of
from doxa.lab.summary import summary
from doxa.training import VERSION
from tests.worlds import board

SETTINGS = {"system": "pbe", "score": "translation", "dimension": 8, "epochs": 3, "batch_size": 16, "threads": 1,
            "patience": 0}  # fmt: skip


@pytest.fixture
def data(tmp_path):
    """A dataset with mentions and confidence, and one with labels."""
    table = board(6).with_columns(confidence=pl.Series(np.linspace(0.5, 1.0, 60)))
    order = np.random.default_rng(0).permutation(60).tolist()
    for name, rows in (("train", order[:40]), ("valid", order[40:50]), ("test", order[50:])):
        formats.write(table[rows], tmp_path / "world" / f"{name}.tsv")
        label = pl.Series([1, -1] * (len(rows) // 2))
        part = table[rows].drop("mention", "confidence")
        formats.write(part if name == "train" else part.with_columns(label=label), tmp_path / "labeled" / f"{name}.tsv")
    return tmp_path


def run_of(folder, seed=0, **more):
    experiment = {"data": "world", "tasks": ["entity", "relation"], "settings": SETTINGS} | more
    run = Run("one", experiment, seed)
    result = experiments.perform(run, folder, folder / "out")
    assert json.loads(run.result(folder / "out").read_text()) == result
    return result


def test_a_result_has_its_experiment_curve_and_evaluation(data):
    result = run_of(data, seed=3)
    assert (result["seed"], result["experiment"]["settings"]) == (3, SETTINGS)
    assert len(result["curve"]) == 3
    assert {"entity", "relation", "relation_by_pair", "relation_by_mention", "entity_by_confidence"} <= set(
        result["evaluation"]
    )
    weighted = result["evaluation"]["entity_by_confidence"]
    assert 0 < weighted["high"] < 10
    assert 0 < weighted["mrr_of_high"] <= 1


def test_a_result_states_which_doxa_made_it_and_is_outdated_once_training_or_settings_change(data, monkeypatch):
    result = run_of(data)
    assert (result["doxa"]["version"], result["doxa"]["training"]) == (doxa_package.__version__, VERSION)
    assert result["settings"].items() >= SETTINGS.items()
    run = Run("one", result["experiment"], 0)
    assert experiments.is_current(run, result)
    other = Run("one", result["experiment"] | {"settings": SETTINGS | {"epochs": 4}}, 0)
    assert not experiments.is_current(other, result)
    monkeypatch.setattr(experiments, "VERSION", VERSION + 1)
    assert not experiments.is_current(run, result)
    assert not experiments.is_current(run, {"experiment": result["experiment"]})


def test_every_model_classifies_by_the_same_rules(data):
    by_rule = {}
    for rule in ("score", "learned"):
        settings = SETTINGS | {"decision_rule": rule, "validation_fraction": 0.0}
        result = run_of(data, tasks=["classification"], settings=settings)
        by_rule[rule] = result["evaluation"]["classification_by_rule"]
        assert result["evaluation"]["classification"]["accuracy"] == by_rule[rule][rule]["accuracy"]
    assert by_rule["score"] == by_rule["learned"]
    assert set(by_rule["score"]) == {"product", "score", "learned"}


def test_dropped_labels_rank_the_false_beliefs_too(data):
    result = run_of(data, data="labeled", labels=False, tasks=["entity", "relation", "classification"])
    assert result["evaluation"]["protocol"]["queries"] == 10
    assert result["evaluation_of_positives"]["protocol"]["queries"] == 5
    assert "classification" not in result["evaluation_of_positives"]


def test_negatives_of_confidence_0_join_the_test_beliefs(data):
    result = run_of(data, tasks=["confidence"], negatives="all", settings=SETTINGS | {"confidence": "label"})
    alone = run_of(data, tasks=["confidence"], settings=SETTINGS | {"confidence": "label"})
    assert result["evaluation"]["confidence"]["mse"] != alone["evaluation"]["confidence"]["mse"]
    assert experiments.summary(result).startswith("confidence MSE ")


def test_a_missing_dataset_is_an_error(data):
    with pytest.raises(BadFile, match="no dataset folder"):
        experiments.perform(Run("one", {"data": "none", "tasks": [], "settings": {}}, 0), data, data)


def test_names_may_end_in_a_star_and_must_be_known():
    names = [run.name for run in experiments.runs(["fb15k-trans*"])]
    assert list(dict.fromkeys(names)) == ["fb15k-transe", "fb15k-transh", "fb15k-transm"]
    with pytest.raises(UsageError, match="Did you mean 'fb15k-transe'"):
        list(experiments.runs(["fb15k-trnse"]))


@pytest.mark.parametrize(
    ("ours", "theirs", "column", "text"),
    [
        ((44.6, 0.0, 1), 44.6, "Hits@10 raw", "44.6 ✓"),
        ((44.58, 0.0, 1), 44.6, "Hits@10 raw", "44.6 ✗"),
        ((165.0, 0.0, 1), 165, "MR raw", "165.0 ✓"),
        ((165.4, 0.0, 1), 165, "MR raw", "165.4 ✗"),
        ((2.58, 0.25, 3), 2.6, "average rank", "2.58 ± 0.25 ✓"),
        ((2.64, 0.25, 3), 2.6, "average rank", "2.64 ± 0.25 ✗"),
        (None, 2.6, "average rank", "–"),
    ],
)
def test_a_mean_is_marked_by_itself_before_it_is_rounded(ours, theirs, column, text):
    assert report.compared(ours, theirs, column) == text


def test_seeds_are_averaged():
    runs = [{"evaluation": {"classification_by_rule": {"score": {"accuracy": share}}}} for share in (0.5, 0.6, 0.7)]
    assert report.over_seeds(runs, report.classification("score")) == [(pytest.approx(60), pytest.approx(10), 3)]
    assert report.over_seeds([{"evaluation": {}}], report.entity) == [None] * 4


def test_table_6_has_one_rule_in_a_column():
    """A result with figures for no rule has that of its settings, and none for the others."""
    old = {"experiment": {"settings": {"system": "transe"}}, "evaluation": {"classification": {"accuracy": 0.8}}}
    assert report.classification("score")(old) == (80,)
    assert report.classification("product")(old) == report.classification("learned")(old) == (None,)
    assert report.classification("score")({"evaluation": {}}) == (None,)


def test_rows_say_how_many_seeds_they_have_and_whether_they_are_outdated():
    assert report.label("A", [{"current": True}] * 3) == "A"
    assert report.label("A", [{"current": True}, {"current": False}]) == "A (2 seeds) †"
    assert report.label("A", [{"current": True, "blind": False}] * 3) == "A ‡"


def test_rows_of_few_seeds_and_outdated_rows_have_no_mark():
    current, old = {"current": True}, {"current": False}
    assert report.firm([current] * 3)
    assert not report.firm([current] * 2)
    assert not report.firm([current, current, old])
    assert not report.firm([current, current, current | {"blind": False}])
    assert report.compared((44.6, 0.0, 1), 44.6, "Hits@10 raw", is_firm=False) == "44.6"


def test_the_summary_counts_the_reached_figures_of_firm_rows_alone():
    figures = {"entity": {kind: {"mr": 100.0, "hits@10": 0.6} for kind in ("raw", "filtered")}}
    rows_of = (("fb15k-pbe-paper", True, 3), ("fb15k-pbe", True, 2), ("wn11-pbe-paper-published", False, 3))
    results = {
        name: [{"current": current, "evaluation": figures, "experiment": {"settings": {}}}] * count
        for name, current, count in rows_of
    }
    rows = [line for line in summary(results).splitlines() if line.startswith("|")]
    assert "| FB-500K, entities (Table 4) | 2 of 4 | not run yet |" in rows
    assert "| WN-100K, entities (Table 3) | not run yet | not run yet |" in rows
    assert "| **together** | **2 of 4** | **not run yet** |" in rows


def test_the_order_compares_rows_of_three_seeds_and_blind_settings():
    """The paper has PBE before TransE before TransM; here TransE is first."""
    ranks = {"fb15k-transe": 50.0, "fb15k-pbe": 60.0, "fb15k-transm": 90.0}
    results = {
        name: [{"evaluation": {"entity": {kind: {"mr": mr, "hits@10": 1 / mr} for kind in ("raw", "filtered")}}}] * 3
        for name, mr in ranks.items()
    }
    columns = ("MR raw", "MR filtered", "Hits@10 raw", "Hits@10 filtered")
    everywhere = "; ".join(f"FB-500K, entities, {column}" for column in columns)
    text = summary(results)
    assert "Of 12 pairs of systems in these columns, 8 stand in the other\norder here" in text
    assert f"- TransE and PBE, as doxa trains it: {everywhere}" in text
    assert f"- TransE and TransM: {everywhere}" in text  # the paper has TransM first in all four
    assert "- FB-500K, entities, MR raw: TransE 50.0 ± 0.0, PBE 60.0 ± 0.0" in text
    for left_out in (results["fb15k-transe"][:1], [one | {"blind": False} for one in results["fb15k-transe"]]):
        text = summary(results | {"fb15k-transe": left_out})
        assert "Of 4 pairs of systems in these columns, 0 stand" in text
        assert "8 pairs have a row with †, ‡ or fewer seeds and are left out" in text
        assert "another system is first" not in text


def half(mr, hits):
    sides = {f"filtered_{side}": {"mr": mr} for side in ("heads", "tails")}
    return {"entity": sides, "relation": {"raw": {"hits@1": hits}}, "protocol": {"unseen": 1, "queries": 10}}


def test_the_limits_of_wn_100k_come_from_the_best_false_half_and_from_guesses():
    """The false halves have heads at 50 and at 40, relations right in .4 and in .3; chance is 50, a tenth guessed."""

    def run(mr, hits):
        halves = {"evaluation": half(mr, hits), "evaluation_of_positives": half(10.0, 0.8)}
        return halves | {"training": {"entities": 100}}

    text = page.halves({"wn11-pbe-published": [run(30.0, 0.6)], "wn11-transe-published": [run(25.0, 0.55)]})
    assert "| the false half | 50 | 50 | 40.0 |" in text
    mean, hits = (0.1 * 50 + 0.9) / 2 + (40 + 50) / 4, (90 + 40) / 2
    assert f"then {mean:,.0f} and its Hits@1 {hits:.1f}; the paper has 8,409 and 72.6" in text


def test_a_system_that_judged_fewer_beliefs_has_no_figure_in_table_6():
    def run(judged, system):
        evaluation = {"protocol": {"judged": judged}, "classification": {"accuracy": 0.5}}
        return [
            {"evaluation": evaluation, "experiment": {"settings": {"system": system, "decision_rule": "score"}}}
        ] * 3

    made = page.classification_table({"fb15k-transe": run(8, "transe"), "fb15k-transm": run(10, "transm")}, "score")
    assert "TransE" not in made
    assert "| **TransM** | – | 50.0 ± 0.0 |" in made


def test_the_best_of_a_column_is_bold():
    runs = {
        name: [{"evaluation": {"relation": {"raw": {"mr": mr, "hits@10": 0.5, "hits@1": hits}}}}] * 3
        for name, mr, hits in (("a", 3.0, 0.2), ("b", 2.0, 0.1))
    }
    made = report.ours(runs, "x", paper.RELATION, {"A": "a", "B": "b"}, report.relation)
    assert made.splitlines()[2:] == ["| A | 3.00 ± 0.00 | **50.0 ± 0.0** | **20.0 ± 0.0** |",
                                     "| B | **2.00 ± 0.00** | **50.0 ± 0.0** | 10.0 ± 0.0 |"]  # fmt: skip


def test_an_experiment_with_an_unknown_key_is_refused(tmp_path):
    (tmp_path / "one.toml").write_text('data = "wn11"\ntask = ["entity"]\n[settings]\n')
    with pytest.raises(BadFile, match=r"one\.toml: no experiment has the key 'task'\. Did you mean 'tasks'\?"):
        experiments.every(tmp_path)


def test_every_table_of_the_paper_is_made_of_experiments_that_are_there():
    known = set(experiments.every())
    for name, names in TABLES.items():
        assert set(names) <= known, name


def test_stored_results_are_read_under_the_present_names(tmp_path):
    stored = {
        "experiment": {"data": "cn15k", "tasks": [], "falsehoods": "all", "settings": {"dimension": 8}},
        "curve": [{"epoch": 1, "quality": 0.5}],
        "evaluation_of_true_ones": {"entity": {}},
    }
    run = Run("one", {"data": "cn15k", "tasks": [], "settings": {}}, 0)
    run.result(tmp_path).write_text(json.dumps(stored))
    result = experiments.result(run, tmp_path)
    assert result["experiment"] == {"data": "cn15k", "tasks": [], "negatives": "all", "settings": {"dimension": 8}}
    assert result["curve"] == [{"epoch": 1, "metric": 0.5}]
    assert result["evaluation_of_positives"] == {"entity": {}}


def test_reproduce_takes_every_name_that_it_lists(doxa, tmp_path):
    """Each name in the first column is understood, and stands for what its line says."""
    for run in experiments.runs(["nell-pbe"]):
        if run.seed < 2:
            run.result(tmp_path).write_text("{}")
    lines = doxa("reproduce", "list", "--out", tmp_path)[1].splitlines()
    listed = {line.split()[0]: line.split()[1:] for line in lines if not line.startswith(" ")}
    assert set(listed) == {"all", *(f"table{number}" for number in range(1, 7)), *experiments.every()}
    for name, (first, *_) in listed.items():
        runs = list(experiments.runs(experiments_of([name])))
        assert first in (runs[0].experiment["data"], str(len({run.name for run in runs})))
        assert f"of {len(runs)} run" in " ".join(listed[name])
        assert doxa("reproduce", name, "--out", tmp_path / "none")[2].endswith("for example: --data ../shared/data\n")
    assert " ".join(listed["nell-pbe"]) == "nell 2 of 3 runs with a result"
    assert listed["table2"][:2] == ["6", "experiments"]
    members = {name.strip(" ,") for line in lines if line.startswith(" ") for name in line.split(",") if name}
    assert members == {name for names in TABLES.values() for name in names}


def test_outdated_results_are_run_again_on_request(doxa, tmp_path):
    for run in experiments.runs(["nell-pbe"]):
        run.result(tmp_path).write_text(json.dumps({"experiment": run.experiment, "training": {}}))
    code, _, err = doxa("reproduce", "nell-pbe", "--out", tmp_path, "--outdated")
    assert (code, "needs --data" in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tabel4", "no experiment 'tabel4'. Did you mean 'table4'"),
        ("nell-pbe.0", "no experiment 'nell-pbe.0'. Did you mean 'nell-pbe'"),
        ("table7", "no experiment 'table7'. Did you mean 'table"),
        ("fb16k*", "no experiment begins with 'fb16k'."),
        ("al", "Did you mean 'all'"),
    ],
)
def test_reproduce_refuses_other_names_with_near_ones(doxa, tmp_path, name, hint):
    code, _, err = doxa("reproduce", "table1", name, "--out", tmp_path)
    assert (code, hint in err) == (2, True)
    assert err.endswith("`doxa reproduce list` lists them all\n")


def test_names_of_experiments_and_tables_are_joined_once_each():
    assert experiments_of(["table2", "nell-pbe", "nell-trans*"]) == list(TABLES["table2"])
    assert experiments_of(["all"]) == list(experiments.every())
    assert experiments_of([]) == []


def test_reproduce_lists_refuses_and_reports(doxa, tmp_path):
    code, output, _ = doxa("reproduce", "list", "--out", tmp_path)
    assert code == 0
    assert "fb15k-transe" in output
    assert "0 of 3 runs with a result" in output
    code, _, err = doxa("reproduce", "fb15k-transe", "--out", tmp_path)
    assert (code, "needs --data" in err) == (2, True)
    code, output, _ = doxa("reproduce", "report", "--out", tmp_path)
    assert code == 0
    assert (tmp_path / "results.md").read_text().startswith("# Results")
