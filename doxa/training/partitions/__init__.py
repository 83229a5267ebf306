"""Partitioned training: entities in P partitions, beliefs in P × P buckets, tables larger than memory.

An epoch cuts the entities anew at random. A task trains the beliefs whose two entities are both in its one or two
partitions, by the same steps as a single process. Tasks without a common partition can run side by side. Files are the
truth: an epoch starts from the files of the one before, and is whole when its own are written.
"""
