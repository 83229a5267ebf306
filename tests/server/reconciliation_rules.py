"""The rules of the W3C Reconciliation API 0.2 for what a service answers, as types: required fields and their kinds."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Template = Annotated[str, StringConstraints(pattern=r"\{\{id\}\}")]


class Rule(BaseModel):
    """An object that may have more fields than the specification names."""

    model_config = ConfigDict(strict=True, extra="allow")


class Exactly(BaseModel):
    """An object without other fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Type(Rule):
    id: str
    name: str


class TypeOfCandidate(Rule):
    id: str
    name: str | None = None


class Feature(Rule):
    id: str
    value: bool | int | float


class Candidate(Rule):
    id: str
    name: str
    score: int | float
    description: str = ""
    match: bool = False
    type: list[TypeOfCandidate | str] = []
    features: list[Feature] = []


class Candidates(Rule):
    result: list[Candidate]


class Endpoint(Rule):
    service_url: str = ""
    service_path: str = ""
    flyout_service_url: str = ""
    flyout_service_path: Annotated[str, StringConstraints(pattern=r"\$\{id\}")] | None = None


class Suggest(Rule):
    entity: Endpoint | None = None
    property: Endpoint | None = None
    type: Endpoint | None = None


class View(Rule):
    url: Template


class Preview(Rule):
    url: Template
    width: int
    height: int


class Number(Rule):
    type: Literal["number"]
    name: str
    label: str
    default: int | float = 0
    help_text: str = ""


class Text(Rule):
    type: Literal["text"]
    name: str
    label: str
    default: str = ""
    help_text: str = ""


class Checkbox(Rule):
    type: Literal["checkbox"]
    name: str
    label: str
    default: bool = False
    help_text: str = ""


class Choice(Rule):
    value: str
    name: str


class Select(Rule):
    type: Literal["select"]
    name: str
    label: str
    choices: list[Choice]
    default: str = ""
    help_text: str = ""


class Extend(Rule):
    propose_properties: Endpoint | None = None
    property_settings: list[Annotated[Number | Text | Checkbox | Select, Field(discriminator="type")]] = []


class Manifest(Rule):
    versions: list[str]
    name: str
    identifierSpace: str  # noqa: N815
    schemaSpace: str  # noqa: N815
    view: View | None = None
    defaultTypes: list[Type] = []  # noqa: N815
    suggest: Suggest | None = None
    preview: Preview | None = None
    extend: Extend | None = None


class Empty(Exactly):
    pass


class EntityCell(Exactly):
    id: str
    name: str
    description: str = ""


class TextCell(Exactly):
    str: str


class FloatCell(Exactly):
    float: int | float


class IntegerCell(Exactly):
    int: int


class DateCell(Exactly):
    date: str


class Column(Rule):
    id: str
    name: str
    type: TypeOfCandidate | None = None


class Extension(Rule):
    meta: list[Column]
    rows: dict[str, dict[str, list[Empty | EntityCell | TextCell | FloatCell | IntegerCell | DateCell]]]


class Suggestion(Rule):
    id: str
    name: str
    description: str = ""
    notable: list[TypeOfCandidate | str] = []


class Suggestions(Rule):
    result: list[Suggestion]


class Proposal(Rule):
    type: str
    properties: list[Suggestion]
    limit: int | None = None
