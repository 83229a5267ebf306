"""Tools of language models (MCP): ask, judge, explain, similar, complete; `propose` writes to the review queue only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import anyio.to_thread
import polars as pl
from mcp.server.mcpserver import Context as ToolContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field

from doxa import __version__
from doxa.errors import DoxaError
from doxa.server.completion import new_beliefs, require_affordable
from doxa.server.problems import Refused
from doxa.server.schemas import LONGEST_NAME
from doxa.server.security import Principal
from doxa.server.served import Source

ABOUT = """Answers about a knowledge base with calibrated probabilities. Names must be those of the knowledge base: an
unknown name is an error that offers the nearest names. Check a claim with `judge`; a credence is the probability that
the claim is true. `propose` puts a claim before human reviewers; nothing else here writes."""

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Count = Annotated[int, Field(ge=1, le=1000)]
Work = Callable[[], Any]


async def in_thread(work: Work) -> Any:
    """Run a function beside the event loop."""
    return await anyio.to_thread.run_sync(work)


def tool_server(
    source: Source,
    sender: Callable[[ToolContext], Principal],
    run: Callable[[Work], Awaitable[Any]] = in_thread,
    searched: int | None = None,
) -> MCPServer:
    """The tools of a source. `sender` says who calls; `run` runs what takes long.

    `searched` are the scores that one search for new beliefs may compute; None = no limit.
    """
    server: MCPServer = MCPServer("doxa", instructions=ABOUT, version=__version__, log_level="WARNING")

    async def result(work: Work) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await run(work)
        except (DoxaError, Refused) as fault:
            raise ToolError(str(fault)) from fault
        return answer

    _add_questions(server, source, result)
    _add_search(server, source, result, searched)

    @server.tool()
    async def propose(
        head: Name, relation: Name, tail: Name, context: ToolContext, note: Name | None = None
    ) -> dict[str, Any]:
        """Propose a belief for review by a curator; it changes nothing until somebody accepts it."""
        who = sender(context)
        if not who.may("curator"):
            raise ToolError("to propose needs the token of a curator")
        return await result(lambda: proposed(source, who, (head, relation, tail), note))

    return server


def _add_questions(server: MCPServer, source: Source, result: Callable[[Work], Awaitable[dict[str, Any]]]) -> None:
    @server.tool()
    async def ask(
        head: Name = "?",
        relation: Name = "?",
        tail: Name = "?",
        mention: Name | None = None,
        top: Count = 10,
        new_only: bool = False,
    ) -> dict[str, Any]:
        """The most probable answers for the missing part of a belief: leave exactly one of head, relation, tail out.
        `mention` is a sentence that helps to find the relation; `new_only` leaves out known facts."""
        question = (head or "?", relation or "?", tail or "?", mention or None)
        return await result(lambda: source.current.model.ask([question], top, new_only)[0].as_dict())

    @server.tool()
    async def judge(head: Name, relation: Name, tail: Name, mention: Name | None = None) -> dict[str, Any]:
        """The credence of a belief, and whether it is judged true, false or unknown."""

        def work() -> Any:
            row = (head, relation, tail) if mention is None else (head, relation, tail, mention, None)
            return source.current.model.judge([row]).as_dict()

        return await result(work)

    @server.tool()
    async def explain(head: Name, relation: Name, tail: Name, mention: Name | None = None) -> dict[str, Any]:
        """Why a belief has its credence: terms, similar facts, runners-up, and influential training beliefs."""

        def work() -> Any:
            explanation = source.current.model.explain(head, relation, tail, mention).as_dict()
            explanation.pop("neighborhood", None)
            return explanation

        return await result(work)


def _add_search(
    server: MCPServer, source: Source, result: Callable[[Work], Awaitable[dict[str, Any]]], searched: int | None
) -> None:
    @server.tool()
    async def similar(entity: Name, top: Count = 10) -> dict[str, Any]:
        """The entities most similar to one."""
        return await result(lambda: source.current.model.similar(entity, top).as_dict())

    @server.tool()
    async def complete(
        entities: Annotated[list[Name], Field(max_length=100)] = [],  # noqa: B006
        relations: Annotated[list[Name], Field(max_length=100)] = [],  # noqa: B006
        min_credence: Annotated[float, Field(ge=0, le=1)] = 0.2,
        top: Count = 20,
    ) -> dict[str, Any]:
        """The most credible beliefs that the knowledge base lacks, about some entities or relations or all."""

        def work() -> Any:
            served = source.current
            if searched is not None:
                require_affordable(served, entities, relations, searched)
            new = new_beliefs(
                source, served, entities=entities, relations=relations, min_credence=min_credence, top=top
            )
            return new.as_dict()

        return await result(work)

    @server.tool()
    async def names(
        query: Name, kind: str = "entity", limit: Annotated[int, Field(ge=1, le=100)] = 10
    ) -> dict[str, Any]:
        """Names of entities (or relations, with kind="relation") that begin with the query or resemble it."""

        def work() -> Any:
            index = source.current.relations if kind == "relation" else source.current.entities
            return {"names": [match._asdict() for match in index.search(query[:1000], min(limit, 100))]}

        return await result(work)


def proposed(source: Source, who: Principal, triple: tuple[str, str, str], note: str | None) -> dict[str, Any]:
    """Put a belief into the review queue with the model's credence; ½ where the model does not know a name."""
    kb = source.store().signed_by(who.name)
    judged = source.current.model.judge([triple]).as_dict()["beliefs"][0]
    credence = 0.5 if judged["credence"] is None else judged["credence"]
    names = dict(zip(("head", "relation", "tail"), triple, strict=True))
    row = {**names, "credence": credence, "proposed_by": who.name, "note": note, "verdict": judged["verdict"]}
    table = pl.DataFrame([row], schema_overrides={"note": pl.String})
    count = kb.queue.propose(table, "missing", settings={"proposed_by": who.name})
    state = "in the review queue" if count else "not queued: it is known, decided, or in somebody's hands already"
    return {"proposed": count, "credence": judged["credence"], "verdict": judged["verdict"], "state": state}


def sessions_of(server: MCPServer) -> StreamableHTTPSessionManager:
    """The sessions of tools over streamable HTTP."""
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the gate checks Host and Origin
    server.streamable_http_app(stateless_http=True, json_response=True, transport_security=checked)
    return server.session_manager


def http_sender(context: ToolContext) -> Principal:
    """Who sent the request that a tool is called by."""
    request: Any = context.request_context.request
    principal: Principal = request.scope["state"]["principal"]
    return principal
