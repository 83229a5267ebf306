"""The types of requests and responses; responses are the dictionaries of the library (`as_dict`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

LONGEST_NAME = 20_000

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Probability = Annotated[float, Field(ge=0, le=1)]

Top = Annotated[int, Query(ge=1, le=1000, description="Number of answers.")]
Part = Annotated[str, Query(max_length=LONGEST_NAME, description="A name; '?' or nothing for the missing part.")]
Entity = Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="The name of an entity.")]
Relation = Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="The name of a relation.")]
Mention = Annotated[
    str | None, Query(max_length=LONGEST_NAME, description="Words that state the belief, for example a sentence.")
]
BaseRate = Annotated[float | None, Query(gt=0, lt=1, description="Share of true beliefs that credence shall hold for.")]


class Body(BaseModel):
    """The body of a request: types are taken at their word, so that `false` is no number."""

    model_config = ConfigDict(strict=True)


class Lenient(BaseModel):
    """A response, which may gain fields in later versions."""

    model_config = ConfigDict(extra="allow")


class Candidate(Lenient):
    """A possible answer; `known` says that the knowledge base holds the belief it completes."""

    name: str = Field(examples=["France"])
    probability: Probability = Field(examples=[0.93])
    known: bool


class Answer(Lenient):
    """A question ⟨head, relation, tail, mention⟩ with '?' for the missing part, and its most probable answers."""

    question: list[str | None] = Field(examples=[["Lyon", "located in", "?", None]])
    answers: list[Candidate]
    note: str | None = None


class Answers(Lenient):
    """The answers to a batch, in the order of its questions."""

    answers: list[Answer]


class Questions(Body):
    """A batch of questions (head, relation, tail) or (head, relation, tail, mention); '?' is the missing part."""

    questions: list[tuple[Name, Name, Name] | tuple[Name, Name, Name, Name | None]] = Field(
        examples=[[["Lyon", "located in", "?"], ["?", "capital", "Paris"]]]
    )
    top: int = Field(10, ge=1, le=1000)
    new_only: bool = False


class Judged(Lenient):
    """A judged belief: credence is null where the model does not know a name."""

    head: str | None = Field(examples=["Lyon"])
    relation: str | None = Field(examples=["located in"])
    tail: str | None = Field(examples=["France"])
    credence: Probability | None = Field(examples=[0.97])
    verdict: Literal["true", "false", "unknown"]
    known: bool


class Judgment(Lenient):
    """Judged beliefs, and the mixture of true and false beliefs that credence holds for."""

    beliefs: list[Judged]
    base_rate: float | None
    mixture: str


class BeliefIn(Body):
    """A belief to judge."""

    head: Name = Field(examples=["Lyon"])
    relation: Name = Field(examples=["located in"])
    tail: Name = Field(examples=["France"])
    mention: Name | None = None


class BeliefsIn(Body):
    """A batch of beliefs to judge."""

    beliefs: list[BeliefIn]
    base_rate: float | None = Field(None, gt=0, lt=1)


class Explanation(Lenient):
    """Why a belief has its credence."""

    belief: list[str | None]
    known: bool
    credence: float | None
    verdict: bool
    uncalibrated: float
    terms: dict[str, float]
    mention: dict[str, Any] | None
    relation_runner_up: dict[str, Any] | None
    tail_runner_up: dict[str, Any] | None
    similar_facts: list[dict[str, Any]]
    influences: list[dict[str, Any]]
    neighborhood: list[dict[str, Any]]


class SimilarEntity(Lenient):
    """An entity and the cosine of its vector with the one in question."""

    name: str
    similarity: float


class Similar(Lenient):
    """The entities most similar to one."""

    entity: str
    similar: list[SimilarEntity]


class NameMatch(Lenient):
    """A name that matches: how (exact, prefix, word, similar), how well, and in how many facts it occurs."""

    name: str
    match: Literal["exact", "prefix", "word", "similar"]
    score: float
    facts: int


class Names(Lenient):
    """Names that match what was typed, best first."""

    query: str
    kind: Literal["entity", "relation"]
    names: list[NameMatch]


class Fact(Lenient):
    """A known belief; confidence is null where it has none."""

    head: str
    relation: str
    tail: str
    confidence: float | None


class EntityOut(Lenient):
    """What is known of an entity: its number of facts, how many per relation and slot, and the facts."""

    name: str
    total: int
    relations: list[dict[str, Any]]
    facts: list[Fact]


class Suspect(Lenient):
    """A known belief that is likely wrong, and the tail that may be right."""

    head: str
    relation: str
    tail: str
    suspicion: float
    credence: float | None
    suggestion: str | None
    suggestion_known: bool | None
    reason: str


class Suspects(Lenient):
    """Known beliefs, the most suspect first."""

    suspects: list[Suspect]
    expected_wrong: float | None
    base_rate: float | None
    unseen: int


class MapOut(Lenient):
    """Entities in the unit square, similar ones near each other."""

    title: str
    groups: list[str]
    entities: list[dict[str, Any]]


class ModelOut(Lenient):
    """A model version: one of them is live."""

    id: int | str
    state: Literal["live", "candidate", "retired"]
    version: str | None = None
    figures: dict[str, Any]


class Models(Lenient):
    """The versions of the model, in order."""

    models: list[ModelOut]


class Compared(Lenient):
    """Two versions, and the decisions between them."""

    a: ModelOut
    b: ModelOut
    decisions: list[dict[str, Any]]


class ModelInfo(Lenient):
    """The model in use: sizes, settings, training and calibration, and its learning curve."""

    version: str
    info: dict[str, Any]
    curve: list[dict[str, Any]]
    calibration: dict[str, Any]
