"""File formats of beliefs: one module per format, each with `blocks(source, …)` and `write(frames, …)`.

A frame of beliefs has the columns line, head, relation, tail and, where present, mention, confidence, label. Files are
read and written block by block, so that memory stays bounded.
"""

from doxa.data.iris import Prefixes
from doxa.formats.dataset import Dataset, dataset
from doxa.formats.faults import OnError
from doxa.formats.options import Options
from doxa.formats.reading import blocks, inspect, read_beliefs, read_frame
from doxa.formats.writing import write, write_frames, write_parts

__all__ = [
    "Dataset",
    "OnError",
    "Options",
    "Prefixes",
    "blocks",
    "dataset",
    "inspect",
    "read_beliefs",
    "read_frame",
    "write",
    "write_frames",
    "write_parts",
]
