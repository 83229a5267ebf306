"""The index of a model: fast answers over millions of entities."""

from __future__ import annotations

from typing import Annotated

import typer

from doxa.cli.hints import faults_of_data
from doxa.cli.options import MemoryOption, ModelFolder, memory_limit


def index(
    model: ModelFolder,
    recall: Annotated[
        float, typer.Option(help="Share of the 10 best answers that the index shall return.", min=0.01, max=1)
    ] = 0.95,
    cells: Annotated[
        int, typer.Option(help="Number of cells that the entities are grouped in; 0 = 8 · √entities.", min=0)
    ] = 0,
    memory: MemoryOption = "",
) -> None:
    """Build an index of a model's entities, for answers over millions of entities in milliseconds.

    Works for the scores translation, complex, distmult and rotate, and needs faiss: `pip install 'doxa[index]'`. The
    index is stored in the model folder. Its recall is measured on 1,000 questions about known facts against exact
    answers, and as many cells are searched for each question as the wanted recall needs, and as probabilities within
    10 % for 95 % of the questions need.

    From a million entities on `doxa ask` and `doxa complete` then use the index. The probabilities of its answers are
    estimated from a sample of the entities, with the standard error printed. --index and --exact choose for any size.

    Example: `doxa index model --recall 0.98`
    """
    from doxa.render import terminal
    from doxa.storage import folders, models

    with terminal.progress("indexing") as bar, faults_of_data():
        index_ = models.build_index(model, recall, cells, memory_limit(memory), bar).index
    assert index_ is not None
    size = sum(entry.size for entry in folders.index_entries(model, folders.read_manifest(model)).values())
    built = index_.summary
    terminal.say(
        f"{model}: index of {built.members:,} entities in {built.cells:,} cells, {size / 1e6:,.1f} MB, "
        f"{built.seconds:.1f} s"
    )
    terminal.say(
        f"recall of the 10 best answers {built.recall:.3f} on {built.questions:,} questions, probabilities within "
        f"{100 * built.probability_error:.1f} % for 95 % of them"
    )
    terminal.say(f"for each question, {built.probes:,} cells are searched and {built.draws:,} entities drawn")
    if built.recall < recall:
        terminal.remark("all cells are searched: the recall that was asked for is not reached")
