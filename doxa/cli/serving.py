"""Serving a model or a knowledge base: over HTTP, with a page, and as tools of language models."""

from __future__ import annotations

import gc
import importlib.util
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.errors import UsageError

if TYPE_CHECKING:
    from doxa.server.served import Source

ServedArgument = Annotated[
    str, typer.Argument(metavar="MODEL | KB", help="A model folder, or a knowledge base: kb.db, postgresql://….")
]
LONGEST_HEAD = 2**20
"""Bytes of address and headers that are read, so that an address that is too long gets a problem as its answer."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
NEEDED = {"fastapi": "FastAPI", "uvicorn": "uvicorn", "mcp": "the MCP SDK", "prometheus_client": "prometheus-client"}


def require_extra() -> None:
    """Refuse to go on without the packages of the extra."""
    for module, name in NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"serving needs {name}, which is not installed", "pip install 'doxa[serve]'")


def source_of(path: str) -> Source:
    """The model folder or knowledge base to serve."""
    from doxa.storage.store.place import store_place

    if store_place(path) is None:
        from doxa.server.served import Source

        return Source(Path(path))
    from doxa.server.living import StoreSource
    from doxa.storage.store.knowledge_base import KnowledgeBase

    return StoreSource(KnowledgeBase(path))


def serve(
    served: ServedArgument,
    host: Annotated[str, typer.Option(help="Address to listen at; another than loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.", min=0, max=65535)] = 8000,
    token: Annotated[
        str, typer.Option(help="Token of the admin; a new one is made and printed by default.", envvar="DOXA_TOKEN")
    ] = "",
    allow_origin: Annotated[
        list[str], typer.Option("--allow-origin", metavar="ORIGIN", help="Another site that may use the API.")
    ] = [],  # noqa: B006
    allow_host: Annotated[
        list[str], typer.Option("--allow-host", metavar="NAME", help="Host name under which the server is reached.")
    ] = [],  # noqa: B006
    root_path: Annotated[
        str, typer.Option("--root-path", metavar="PATH", help="Path under which a proxy shows the server.")
    ] = "",
    proxy: Annotated[
        str, typer.Option("--proxy", metavar="ADDRESS", help="Proxy whose X-Forwarded headers are trusted.")
    ] = "",
) -> None:
    """Serve a model or a knowledge base: a page for people at /, an API for programs under /api/v1.

    Prints an address with a token; whoever opens it may write. Without the token, this machine may read. A model folder
    is served read-only; a knowledge base can also be reviewed and changed.

    Example: `doxa serve model --port 8000`
    """
    require_extra()
    with _spared_start():
        import uvicorn

        from doxa.render import terminal
        from doxa.server.app import Options, create_app
        from doxa.server.security import new_token

        source = source_of(served)
        if host not in LOOPBACK and not token and not (source.kb is not None and source.kb.accounts.all()):
            raise UsageError(
                f"serving at {host} lets other machines in",
                "choose a token for the admin with --token or DOXA_TOKEN, or make accounts in the knowledge base",
            )
        source.refresh()
        chosen = token or new_token()
        owner = source.kb.curator if source.kb is not None else "admin"
        options = Options(chosen, owner, host in LOOPBACK, (host, *allow_host), tuple(allow_origin))
        config = uvicorn.Config(
            create_app(source, options), host=host, port=port, log_level="warning", access_log=False,
            server_header=False, proxy_headers=bool(proxy), forwarded_allow_ips=proxy or None,
            root_path=root_path.rstrip("/"), timeout_graceful_shutdown=5, h11_max_incomplete_event_size=LONGEST_HEAD,
        )  # fmt: skip
        bound = _bound(config)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{bound.getsockname()[1]}{config.root_path}/"
    terminal.say(f"doxa serves {source.name} at {address}?token={chosen}")
    terminal.remark("Ctrl+C stops the server")
    uvicorn.Server(config).run(sockets=[bound])


@contextmanager
def _spared_start() -> Iterator[None]:
    """Spare the garbage collector what a start makes: it stays, and a look at all of it stops requests for .25 s."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def _bound(config: Any) -> socket.socket:
    """The socket of a server that sends at once: the body of a response would wait 40 ms for its head to arrive."""
    bound: socket.socket = config.bind_socket()
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def mcp(served: ServedArgument) -> None:
    """Offer a model or a knowledge base to language models as tools (MCP), over standard input and output.

    The tools are ask, judge, explain, similar, complete, names and propose; propose writes to the review queue of a
    knowledge base, where a curator decides. `doxa serve` offers the same tools at /mcp.

    Example: `doxa mcp kb.db`, as the command of a server in the settings of an MCP client
    """
    require_extra()
    from doxa.server.security import Principal
    from doxa.server.tools import in_thread, tool_server

    source = source_of(served)
    source.refresh()
    user = Principal(source.kb.curator if source.kb is not None else "user", "curator")

    async def run(work: Callable[[], Any]) -> Any:
        await in_thread(source.refresh)
        return await in_thread(work)

    tool_server(source, lambda context: user, run).run("stdio")
