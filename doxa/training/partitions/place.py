"""Where a partitioned run has its files: beside the checkpoint, in a temporary folder, or where the settings say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from doxa.config import Settings
from doxa.storage.folders import PARTITIONS
from doxa.training.partitions.files import Storage
from doxa.training.partitions.run import remove_epochs


@contextlib.contextmanager
def partition_folder(settings: Settings, checkpoint: Path | None) -> Iterator[Path | None]:
    """A local folder for the files of the run and for mapped tables; None for a run without partitions."""
    if not settings.partitions:
        yield None
    elif checkpoint is not None:
        yield checkpoint.parent.resolve() / PARTITIONS
    else:
        with TemporaryDirectory(prefix="doxa-", dir=gettempdir()) as folder:
            yield Path(folder)


def discard_files(settings: Settings) -> None:
    """Remove the files of a finished run from the storage that its settings name."""
    if settings.partitions and settings.storage:
        remove_epochs(Storage(settings.storage))
