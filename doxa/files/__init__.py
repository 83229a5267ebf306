"""Files of beliefs: one module per format, each with `read(path)` and `write(table, path)`.

A table is a polars frame with the columns line, head, relation, tail and, where given, mention, confidence, label.
"""

from doxa.files.dataset import Dataset, dataset
from doxa.files.tsv import blocks, read, write

__all__ = ["Dataset", "blocks", "dataset", "read", "write"]
