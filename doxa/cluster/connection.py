"""The connection to a Ray cluster: one on this machine, one that runs here already, or one at an address."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from doxa.errors import DoxaError, UsageError

log = logging.getLogger(__name__)

ENVIRONMENT = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Variables of a cluster that is started here: Ray starts workers at nice 15 otherwise, and reports its use."""

LOCAL_STORE = 256 * 2**20
"""Bytes of the object store of a cluster on this machine: files are as near as the store."""


def ray_module() -> ModuleType:
    """Ray, which is an extra."""
    try:
        import ray
    except ImportError:
        raise UsageError(
            "a cluster needs Ray, which is not installed", "install it: pip install 'doxa[cluster]'"
        ) from None
    return ray


def check_address(address: str) -> None:
    """Refuse what is no cluster."""
    if address not in ("local", "auto") and not re.fullmatch(r"ray://[^/\s]+:\d+", address):
        raise UsageError(f"cluster {address!r}; expected local, auto, or ray://HOST:10001")


@contextlib.contextmanager
def connected(address: str, cpus: int = 0) -> Iterator[ModuleType]:
    """A connection to the cluster, closed in the end unless it was there before.

    `local` starts a cluster on this machine, on so many cores; `auto` joins one that runs here; ray://HOST:PORT is one
    elsewhere.
    """
    check_address(address)
    ray = ray_module()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        options |= {"include_dashboard": False, "object_store_memory": LOCAL_STORE}
        options |= {"num_cpus": cpus} if cpus else {}
    try:
        ray.init(**options)
    except Exception as fault:  # Ray raises many kinds
        hint = "start one with `ray start --head`, or use local" if address == "auto" else "see docs/scale.md"
        raise DoxaError(f"cannot reach a Ray cluster ({address}): {_first_line(fault)}", hint) from fault
    try:
        yield ray
    finally:
        ray.shutdown()


def _first_line(fault: BaseException) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]


def cores_of(ray: ModuleType) -> int:
    """The cores of the cluster that can be used now; at least one."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def on_this_node(ray: ModuleType) -> Any:
    """Scheduling of an actor on the node of this process, or on the head node of a cluster elsewhere."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def is_lost(fault: BaseException) -> bool:
    """Whether Ray lost a worker, a node or an object, so that the same task may succeed elsewhere."""
    from ray.exceptions import RayError, RayTaskError

    return isinstance(fault, RayError) and not isinstance(fault, RayTaskError)


def error_of(fault: BaseException) -> BaseException:
    """The error that a task raised, in place of Ray's report of it."""
    cause = getattr(fault, "cause", None)
    return cause if isinstance(cause, BaseException) else fault
