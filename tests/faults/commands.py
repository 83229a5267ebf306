"""The commands of doxa that write, as data: arguments that begin with @ are names in the folder of a trial.

`serve` and `mcp` have a harness of their own. Commands that only print are not here, `data list` and `kb status` say.
"""

from tests.faults.tools import QUICK

TRAIN = ("--set", "epochs=2", *QUICK)
TUNE = ("--set", "epochs=1", *QUICK)

OUTPUTS = {
    "convert": ("new.tsv",),
    "convert_parquet": ("beliefs.parquet",),
    "convert_turtle": ("beliefs.ttl.gz",),
    "convert_piped": ("piped.tsv",),
    "complete": ("missing.tsv",),
    "audit": ("suspects.csv",),
    "judge": ("judged.tsv",),
    "ask": ("answers.jsonl",),
    "evaluate": ("report.json", "reliability.png"),
    "compare": ("comparison.json",),
    "negatives": ("labeled.tsv",),
    "generate": ("made.csv.zst",),
    "inspect": ("overview.png",),
    "duplicates": ("pairs.tsv",),
    "explain": ("explanation.html",),
    "map": ("map.png", "map.html"),
    "reproduce": ("results/results.md", "results/results.png"),
    "experiment": ("runs/results.md", "runs/results.png"),
    "bench": ("bench.json",),
    "bench_answer": ("answer.json",),
    "kb_export": ("facts.nt",),
    "kb_decisions": ("decisions.tsv",),
    "kb_prov": ("log.ttl",),
    "kb_log": ("log.tsv",),
    "review_stats": ("field.png",),
}
"""Files that a command replaces: each is the old one or the new one, whenever the command was cut."""

TIMED = ("report.json", "comparison.json", "bench.json", "answer.json")
"""Outputs with the seconds that the command took: no two are equal."""

FOLDERS = {"train": "new", "average": "new", "resume": "run", "force": "model", "update": "new", "kb_train": "new",
           "train_partitions": "new"}  # fmt: skip
"""Model folders that a command writes."""

EXPORTS = {"export": "new.npz", "export_parquet": "new.parquet", "export_words": "new.txt", "export_projector": "new"}
"""Files with the vectors of a model, and a folder of TensorBoard's projector."""

NEW = {"split": "dataset", "kb_init": "new.db", "kb_backup": "new.db", "demo": "demo"}
"""What a command makes under the name that is its last argument, and replaces nothing."""

DEMO_FILES = 12
"""Files of a demo: three parts of the data, six files of the model, two plots and a page."""

_MODELS = {
    "train": ("train", "@b.tsv", "--out", "@new", *TRAIN),
    "resume": ("train", "@b.tsv", "--out", "@run", "--resume", *TRAIN),
    "force": ("train", "@b.tsv", "--out", "@model", "--force", "--seed", 7, *TRAIN),
    "update": ("update", "@model", "@new.tsv", "--out", "@new", "--epochs", 1),
    "tune": ("tune", "@b.tsv", "--out", "@study", "--trials", 1, *TUNE),
    "review": ("review", "apply", "@second.tsv", "--out", "@decided"),
    "convert": ("data", "convert", "@b.tsv", "@new.tsv"),
    "convert_folder": ("data", "convert", "@parts", "@numbers", "--to", "openke"),
    "complete": ("complete", "@model", "--out", "@missing.tsv", "--min-credence", 0),
    "calibrate": ("calibrate", "@model", "@new.tsv"),
    "average": ("average", "@product", "@product", "--valid", "@new.tsv", "--out", "@new"),
    "train_partitions": ("train", "@b.tsv", "--out", "@new", *TRAIN, "--set", "partitions=2"),
    "index": ("index", "@model"),
    "audit": ("audit", "@model", "--out", "@suspects.csv", "--top", 9, "--show", 0),
    "judge": ("judge", "@model", "@b.tsv", "--out", "@judged.tsv"),
    "ask": ("ask", "@model", "--questions", "@questions.tsv", "--out", "@answers.jsonl"),
    "evaluate": ("evaluate", "@model", "@new.tsv", "--json", "@report.json", "--plot", "@reliability.png"),
    "compare": ("compare", "@model", "@model", "@new.tsv", "--keep-known", "--json", "@comparison.json"),
    "duplicates": ("duplicates", "@model", "--out", "@pairs.tsv", "--min-similarity", -1),
    "explain": ("explain", "@model", "1,1", "up", "1,2", "--html", "@explanation.html"),
    "map": ("map", "@model", "--layout", "pca", "--out", "@map"),
    **{name: ("export", "@model", f"@{file}") for name, file in EXPORTS.items()},
}

_DATA = {
    "convert_parquet": ("data", "convert", "@b.tsv", "@beliefs.parquet"),
    "convert_turtle": ("data", "convert", "@b.tsv", "@beliefs.ttl.gz"),
    "convert_piped": ("data", "convert", "-", "@piped.tsv"),
    "convert_printed": ("data", "convert", "@b.tsv", "-", "--to", "csv"),
    "split": ("data", "split", "@b.tsv", "@dataset"),
    "negatives": ("data", "negatives", "@b.tsv", "@labeled.tsv"),
    "generate": ("data", "generate", "@made.csv.zst", "--beliefs", 50, "--entities", 9, "--relations", 2),
    "inspect": ("data", "inspect", "@b.tsv", "--plot", "@overview.png"),
    "get": ("data", "get", "wn18rr", "--out", "@got"),
    "reproduce": ("reproduce", "report", "--out", "@results"),
    "experiment": ("reproduce", "wn11-unstructured", "--data", "@sets", "--out", "@runs"),
    "bench": ("bench", "rank", "--data", "@sets/wn11", "--dimension", 8, "--json", "@bench.json"),
    "bench_answer": ("bench", "answer", "--data", "@sets/wn11", "--dimension", 8, "--json", "@answer.json"),
    "demo": ("demo", "--out", "@demo"),
    "demo_force": ("demo", "--force", "--out", "@earlier"),
}

_STORES = {
    "kb_init": ("kb", "init", "@new.db"),
    "kb_import": ("kb", "import", "@kb.db", "@new.tsv", "--source", "more"),
    "kb_add": ("kb", "add", "@kb.db", "a", "up", "b"),
    "kb_retract": ("kb", "retract", "@kb.db", "1,1", "up", "1,2"),
    "kb_rename": ("kb", "rename", "@kb.db", "1,1", "corner"),
    "kb_merge": ("kb", "merge", "@kb.db", "1,1", "1,2"),
    "kb_undo": ("kb", "undo", "@kb.db", 1),
    "kb_rollback": ("kb", "rollback", "@full.db", "--to", 1),
    "kb_account": ("kb", "account", "add", "@kb.db", "ann", "--role", "curator"),
    "kb_account_remove": ("kb", "account", "remove", "@full.db", "bob"),
    "kb_publish": ("kb", "publish", "@full.db", 1),
    "kb_export": ("kb", "export", "@kb.db", "@facts.nt"),
    "kb_decisions": ("kb", "export", "@kb.db", "@decisions.tsv", "--decisions"),
    "kb_prov": ("kb", "export", "@kb.db", "@log.ttl", "--prov"),
    "kb_log": ("kb", "log", "@kb.db", "--out", "@log.tsv"),
    "kb_backup": ("kb", "backup", "@kb.db", "@new.db"),
    "kb_update": ("update", "@kb.db", "--epochs", 1),
    "kb_train": ("train", "@kb.db", "--out", "@new", *TRAIN),
    "complete_into": ("complete", "@model", "--into", "@kb.db", "--min-credence", 0, "--top", 9),
    "audit_into": ("audit", "@model", "--into", "@kb.db", "--top", 9, "--show", 0),
    "review_next": ("review", "next", "@full.db", "--no-explain"),
    "review_lease": ("review", "next", "@full.db", "--json"),
    "review_decide": ("review", "decide", "@full.db", 3, "accept"),
    "review_undo": ("review", "undo", "@full.db"),
    "review_stats": ("review", "stats", "@full.db", "--plot", "@field.png"),
}

COMMANDS = _MODELS | _DATA | _STORES
"""Arguments by name."""

INPUT = {"review_next": "a\nq\n", "convert_piped": "a\tup\tb\nb\tup\tc\n"}
"""Standard input of a command."""

ADDING = ("train", "average", "update", "convert_folder", "convert_printed", "split", "get", "kb_init", "kb_backup",
          "kb_train", "demo", "experiment", *EXPORTS)  # fmt: skip
"""Commands that only add files."""

STORES = {name: part for name, arguments in COMMANDS.items() for part in arguments if part in ("@kb.db", "@full.db")}
"""The knowledge base that a command reads or changes."""

NAMES = ("train", "resume", "force", "update", "tune", "review", "convert", "convert_folder", "complete", "calibrate")
"""The commands that are killed."""

SLOW = ("demo", "demo_force", "bench_answer")
"""Commands that take seconds: their writes fail at fewer random places."""

WRITING = (*NAMES, *(name for name in COMMANDS if name not in (*NAMES, *SLOW)), *SLOW)
"""All commands that write, those that take seconds in the end."""
