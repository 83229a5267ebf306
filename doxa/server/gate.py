"""The gate: what every request passes before a route sees it, and the headers that every response carries.

Host      an IP address, localhost, or a name that --allow-host lists: no other site's name leads here by DNS
Origin    this server, or an origin that --allow-origin lists
token     whose it is; wrong tokens are counted, and a client with many of them is refused for a while
limits    rate, requests at a time, size of the body
"""

from __future__ import annotations

import ipaddress
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from doxa.server.limits import RETRY, Limits, Rate
from doxa.server.metrics import Metrics
from doxa.server.page import is_page
from doxa.server.problems import Refused, refusal
from doxa.server.security import NOBODY, VISITOR, Keys, Principal, cookie_name, is_local, token_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy: nothing from elsewhere, no inline script or style."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

UPLOADS = "/api/v1/beliefs/import"


@dataclass
class Gate:
    """ASGI middleware: checks requests, names their sender, counts and times them."""

    app: ASGIApp
    keys: Keys
    limits: Limits
    metrics: Metrics
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    local: bool = True
    """Whether requests of this machine may read without a token."""
    rate: Rate = field(init=False)
    wrong: Rate = field(init=False)
    in_flight: int = 0

    def __post_init__(self) -> None:
        self.rate = Rate(self.limits.rate, self.limits.burst)
        self.wrong = Rate(self.limits.failures / 60, self.limits.failures)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":  # there is no websocket here
            return await send({"type": "websocket.close", "code": 1008})
        start, status = time.perf_counter(), 500

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self.in_flight += 1
        try:
            refused = await self._refused(scope)
            if refused is not None:
                await refused(scope, receive, answered)
            else:
                await self._limited(scope, receive, answered)
        finally:
            self.in_flight -= 1
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self.metrics.request(scope["method"], path, status, time.perf_counter() - start)

    async def _refused(self, scope: Scope) -> Response | None:
        """The response to a request that may not pass; otherwise its sender is in scope["state"]["principal"]."""
        headers, client = Headers(scope=scope), (scope.get("client") or (None,))[0]
        if not self._host_allowed(headers.get("host", "")):
            return refusal(421, "this server does not answer under that host name", "doxa serve --allow-host NAME")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and _address(origin) != headers.get("host"):
            return refusal(403, "another site may not use this server", "doxa serve --allow-origin ORIGIN")
        if self.in_flight > self.limits.in_flight:
            return refusal(503, "too many requests at a time", headers=RETRY)
        if len(scope.get("query_string", b"")) + len(scope["path"]) > 4 * self.limits.query_length:
            return refusal(414, "the address is too long", "send long texts in the body of a POST request")
        address = str(client)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in ("", "/") and b"token=" in scope.get("query_string", b""):
            return await self._log_in(scope, address)
        principal = await self._principal(headers, client)
        if principal is None and is_page(path) and "authorization" not in headers:
            principal = NOBODY  # the cookie of yesterday: the page itself says what to do
        if principal is None:
            return self._wrong_token(address)
        if not self.rate.take(principal.name if principal not in (NOBODY, VISITOR) else address):
            return refusal(429, f"more than {self.limits.rate:g} requests per second", headers=RETRY)
        scope.setdefault("state", {})["principal"] = principal
        return None

    def _host_allowed(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname if host.isprintable() and "@" not in host else None
            if not name:
                return False
            if name in self.hosts or name == "localhost" or name.endswith(".localhost"):
                return True
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True

    async def _principal(self, headers: Headers, client: str | None) -> Principal | None:
        """The sender; None for a token that is not known."""
        token = token_of(headers)
        if token is not None:
            return self.keys.remembered(token) or await anyio.to_thread.run_sync(self.keys.of, token)
        return VISITOR if self.local and is_local(client, headers) else NOBODY

    def _wrong_token(self, address: str) -> Response:
        if not self.wrong.take(address):
            return refusal(429, "too many wrong tokens; wait a minute", headers={"Retry-After": "60"})
        hint = "open the address that `doxa serve` printed, or ask an admin for an account"
        return refusal(401, "the token is not known here", hint, headers={"WWW-Authenticate": 'Bearer realm="doxa"'})

    async def _log_in(self, scope: Scope, address: str) -> Response:
        """Take the token of the printed address into a cookie, so that it stays in no history and no link."""
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if await anyio.to_thread.run_sync(self.keys.of, token) is None:
            return self._wrong_token(address)
        root = scope.get("root_path", "")
        response = RedirectResponse(f"{root}/", 303, {"Cache-Control": "no-store"})
        secure = scope.get("scheme") == "https"
        name = cookie_name(Headers(scope=scope))
        response.set_cookie(name, token, httponly=True, samesite="strict", secure=secure, path=f"{root}/")
        return response

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; a body that is too large ends it."""
        most = self.limits.upload_bytes if scope["path"].endswith(UPLOADS) else self.limits.body_bytes
        length, started = 0, False
        stated = Headers(scope=scope).get("content-length", "0")
        if not stated.isdecimal() or int(stated) > most:
            return await refusal(413, f"a body of more than {most:,} bytes")(scope, receive, send)

        async def counted() -> Message:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > most:
                raise Refused(413, f"a body of more than {most:,} bytes")
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except Refused as fault:
            if started:
                raise
            await fault.response(scope, receive, send)


def _address(origin: str) -> str | None:
    """Host and port of an origin, None if it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
