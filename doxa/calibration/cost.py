"""The cost of fitting a judge, in queries that are scored against all entities, and the time that a query takes."""

from __future__ import annotations

import time

import numpy as np

from doxa.calibration.judge import sample_size
from doxa.calibration.proposals import CHEAP_SCORES, proposal_queries
from doxa.calibration.rules import log_terms
from doxa.calibration.temperatures import MAX_TABLE
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS

PROBE = 128
"""Beliefs that are scored to see how long a query takes."""

LABEL, TEMPERATURE, PROPOSAL = 0.25, 15.0, 2.0
"""Work in queries, rough estimates from one profile on FB15k: of a label in thresholds and curves, of a query whose
temperature is fitted, and of a query for proposals."""


def judging_queries(
    pbe: PBE, facts: TripleIndex, beliefs: Beliefs, *, held_out: bool = True, can_classify: bool = True
) -> float:
    """About how many queries `Judge.fit` asks with these arguments."""
    queries = 0.0
    if can_classify:
        sample = sample_size(pbe.entities, len(beliefs))
        keys = (beliefs.relation * pbe.entities + beliefs.triples[:, slot] for slot in ENTITY_SLOTS)
        distinct = sum(min(len(np.unique(key)), sample) for key in keys)
        mentioned = pbe.mention is not None and len(beliefs.mention.values) > 0
        confident = not np.isnan(beliefs.confidence).all()
        passes = 1 + mentioned + 2 * confident  # a negative shares one of its two queries with its positive
        queries += passes * (distinct + sample) + 2 * LABEL * sample
    if held_out:
        queries += TEMPERATURE * 2 * min(len(beliefs), MAX_TABLE / pbe.entities)
    if held_out and can_classify:
        proposals = proposal_queries(facts, beliefs.triples)
        queries += PROPOSAL * proposals if proposals * pbe.entities <= CHEAP_SCORES else 0.0
    return queries


def seconds_per_query(pbe: PBE, beliefs: Beliefs) -> float:
    """How long scoring a query against all entities takes at present; a few are scored."""
    probe = beliefs.take(np.arange(min(PROBE, len(beliefs))))
    before = time.perf_counter()
    log_terms(pbe, probe)
    return (time.perf_counter() - before) / (2 * len(probe))
