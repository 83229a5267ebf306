"""The terminal: what is printed, where, and that names are printed as they are."""

import logging

from doxa.formats import inspect
from doxa.render import terminal
from doxa.training.loop import Progress

ODD = "[bold]x[/] :cat: [/r]"


def test_results_go_to_standard_output_and_remarks_to_standard_error(capsys):
    terminal.say(ODD)
    terminal.remark(ODD)
    assert capsys.readouterr() == (f"{ODD}\n", f"{ODD}\n")


def test_long_lines_are_not_wrapped(capsys):
    terminal.say("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_warnings_of_the_library_are_notes(capsys):
    terminal.show_notices()
    logging.getLogger("doxa.formats").warning("%s lines [x]", 3)
    logging.getLogger("doxa.formats").info("unseen")
    assert capsys.readouterr().err == "Note: 3 lines [x]\n"


def test_tables_align_numbers_and_print_names_as_they_are(capsys):
    terminal.show_table(ODD, ("name", "count"), [(ODD, 12345), ("y", 1)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == ODD
    assert lines[3].startswith(ODD)
    assert lines[3].rstrip().endswith("12,345")
    assert len(lines[3].rstrip()) == len(lines[4].rstrip())
    terminal.show_table("", ("name",), [])
    assert "name" in capsys.readouterr().out


def test_an_inspection_lists_counts_relations_and_inverses(capsys, tmp_path):
    pairs = [(f"a{number}", f"b{number}") for number in range(10)]
    (tmp_path / "train.tsv").write_text("".join(f"{h}\tparent\t{t}\n{t}\tchild\t{h}\n" for h, t in pairs))
    (tmp_path / "test.tsv").write_text("a1\tparent\tb2\nq\tchild\ta1 \n")
    terminal.show_profile(inspect(tmp_path), top=1)
    text = capsys.readouterr().out
    assert "with unseen entity" in text
    assert "Relations, 1 of 2" in text
    assert "Near-inverse relations, 1 of 1" in text
    assert "Names that differ only in spaces, case or Unicode form, 1 of 1" in text
    assert "'a1'  'a1 '" in text


def test_progress_without_a_terminal_prints_lines(capsys):
    with terminal.progress("completing") as report:
        for step in range(11):
            report(step / 10, f"step [{step}]")
    assert "step [10]" in capsys.readouterr().err
    with terminal.busy("drawing") as state:
        state("still drawing")


def test_every_stage_of_training_has_a_line(capsys):
    def now(stage, fraction):
        return Progress(fraction, 3, 0.5, 0.25, 100.0, 7.0, stage)

    with terminal.training_progress() as report:
        for stage in ("training", "thresholds", "saving"):
            report(now(stage, 0.5))
            report(now(stage, 1.0))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == ["50%", "100%", "thresholds", "saving"]


def test_info_marks_values_that_are_not_defaults(capsys):
    info = {
        "system": "pbe", "score": "complex", "entities": 5000, "relations": 3, "words": 0, "facts": 7,
        "settings": {"model": {"dimension": 8}, "running": {"seed": 0}},
        "training": {"epochs": 3, "learning_curve_end": {"loss": 0.123456}}, "calibration": {},
    }  # fmt: skip
    terminal.show_info(info, {"dimension": 200, "seed": 0})
    text = capsys.readouterr().out
    assert "pbe on the score complex: 5,000 entities, 3 relations, 7 facts" in text
    assert "* dimension" in text
    assert "* seed" not in text
    assert "loss 0.1235" in text
    assert "Calibration" not in text
