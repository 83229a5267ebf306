"""One Ray cluster of two nodes on this machine for all tests: starting a node takes seconds."""

import os
from pathlib import Path

import pytest

ATTEMPTS = 5
"""Times that a node is started: Ray gives up after 30 seconds, which a busy machine may need."""

HEAD = {"num_cpus": 1, "object_store_memory": 10**8, "include_dashboard": False}

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def cluster():
    """The head node with the driver, and one more; both have one core."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from doxa.cluster.connection import ENVIRONMENT

    os.environ.update(ENVIRONMENT)
    os.environ["PYTHONPATH"] = str(ROOT)
    started = start_head(Cluster)
    add_node(started)
    ray.init(address=started.address, log_to_driver=False)
    yield started
    ray.shutdown()
    started.shutdown()


def add_node(cluster):
    """One more node with one core."""
    for attempt in range(ATTEMPTS):
        try:
            return cluster.add_node(num_cpus=1, object_store_memory=10**8)
        except Exception:
            if attempt == ATTEMPTS - 1:
                raise


def start_head(kind):
    """A cluster of the head node alone, with one core."""
    for attempt in range(ATTEMPTS):
        try:
            return kind(initialize_head=True, head_node_args=HEAD)
        except Exception:
            if attempt == ATTEMPTS - 1:
                raise
