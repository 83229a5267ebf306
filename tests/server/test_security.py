"""Who may do what: every route with every role; hosts, origins, limits and headers."""

import hashlib
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from doxa.errors import UsageError
from doxa.model import Model
from doxa.server.app import Options, create_app
from doxa.server.limits import Limits, Rate
from doxa.server.living import StoreSource
from doxa.server.security import ROLES, rule_of
from doxa.server.served import Source
from tests.server.conftest import ADMIN, TOKEN

PUBLIC = {"/", "/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/me"}
READING = ("GET", "HEAD")
POSTED_READS = {"/api/v1/ask", "/api/v1/judge", "/api/v1/reconcile"}
MOUNTS = {"/static", "/mcp"}
"""Applications with a path of their own, each with a test of its own."""


def walk(routes):
    """Every route with its path; those of a router that was included may still be within it."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from walk(route.original_router.routes)
        else:
            yield route.path, route


ROUTES = [
    (method, path, route)
    for path, route in walk(create_app(Source(Path("nothing"))).routes)
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]


def test_there_is_nothing_but_routes_with_a_rule_and_known_mounts():
    paths = {path for _, path, _ in ROUTES}
    assert len(paths) > 30
    others = [(path, route) for path, route in walk(create_app(Source(Path("nothing"))).routes)
              if not isinstance(route, APIRoute)]  # fmt: skip
    assert {path for path, _ in others} == MOUNTS


@pytest.mark.parametrize(("method", "path", "route"), ROUTES, ids=lambda part: part if isinstance(part, str) else "")
def test_every_route_states_a_rule(method, path, route):
    rule = rule_of(route)
    assert rule is not None, f"{path} states no rule"
    if path in PUBLIC:
        assert rule.role is None
    elif method in READING or path in POSTED_READS or path in ("/metrics",):
        assert rule.role in ("reader", "admin")
    else:
        assert rule.role in ("curator", "admin")


@pytest.mark.parametrize(("method", "path", "route"), ROUTES, ids=lambda part: part if isinstance(part, str) else "")
def test_no_route_takes_a_thread_for_what_it_depends_on(method, path, route):
    for dependency in route.dependant.dependencies:
        call = dependency.call if inspect.isfunction(dependency.call) else type(dependency.call).__call__
        assert inspect.iscoroutinefunction(call), dependency.call


def test_each_role_may_do_what_the_rule_of_each_route_says(store, tokens):
    """Requests with an empty body, so that what is allowed is refused for another reason than the role."""
    for who, headers in tokens.items():
        role = {"owner": "admin", "nobody": "reader"}.get(who, who)
        for method, path, route in ROUTES:
            needed = rule_of(route).role
            allowed = needed is None or ROLES.index(role) >= ROLES.index(needed)
            address = path.replace("{number:int}", "999").replace("{name}", "x").replace("{name:path}", "x")
            body = {"json": {}} if method == "POST" and path != "/api/v1/beliefs/import" else {}
            status = store.request(method, address, headers=headers, **body).status_code
            if allowed:
                assert status not in (401, 403, 500), (who, method, path, status)
            else:
                assert status == (401 if who == "nobody" else 403), (who, method, path, status)


def test_another_machine_without_a_token_gets_what_is_public_and_nothing_else(kb):
    served = create_app(StoreSource(kb), Options(token=TOKEN))
    with TestClient(served, base_url="http://127.0.0.1", client=("192.0.2.7", 50000)) as client:
        for method, path, _ in ROUTES:
            status = client.request(method, path.replace("{number:int}", "1").replace("{name:path}", "x")).status_code
            assert status == (200 if path in PUBLIC else 401), (method, path, status)
        assert client.post("/mcp", json={}).status_code == 401


def test_a_wrong_token_is_refused_everywhere_even_for_reading(store):
    wrong = {"Authorization": "Bearer wrong"}
    assert {store.get(path, headers=wrong).status_code for path in ("/api/v1/models", "/metrics", "/")} == {401}


def test_many_wrong_tokens_are_slowed_down_but_the_right_one_is_not(folder):
    with TestClient(
        create_app(Source(folder), Options(token=TOKEN), Limits(failures=3)), base_url="http://[::1]"
    ) as client:
        tries = [client.get("/healthz", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(5)]
        assert tries == [401, 401, 401, 429, 429]
        assert client.get("/api/v1/models", headers=ADMIN).status_code == 200


def test_without_a_token_other_machines_read_nothing(folder):
    served = create_app(Source(folder), Options(token=TOKEN))
    with TestClient(served, base_url="http://127.0.0.1", client=("192.0.2.7", 50000)) as client:
        assert client.get("/api/v1/models").status_code == 401
        assert client.get("/api/v1/models", headers=ADMIN).status_code == 200
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_a_forwarded_request_is_not_of_this_machine(client, header):
    assert client.get("/api/v1/models").status_code == 200
    assert client.get("/api/v1/models", headers={header: "127.0.0.1"}).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200), ("localhost", 200), ("[::1]:8000", 200), ("192.0.2.1", 200), ("kb.example", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421),
        ("user@localhost", 421), ("[", 421), ("[::1", 421),
    ],
)  # fmt: skip
def test_no_foreign_host_name_leads_here(folder, host, status):
    with TestClient(create_app(Source(folder), Options(hosts=("kb.example",))), base_url="http://127.0.0.1") as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == status


def test_other_sites_may_not_use_the_server_unless_they_are_allowed(folder, client):
    foreign = {"Origin": "https://evil.example"}
    assert client.get("/api/v1/models", headers=foreign).status_code == 403
    assert client.post("/api/v1/review/undo", headers=foreign | ADMIN, json={}).status_code == 403
    for origin in ("null", "http://[", "http://[::1"):
        assert client.get("/api/v1/models", headers={"Origin": origin}).status_code == 403
    assert client.get("/api/v1/models", headers={"Origin": "http://127.0.0.1"}).status_code == 200
    allowing = create_app(Source(folder), Options(token=TOKEN, origins=("https://good.example",)))
    with TestClient(allowing, base_url="http://127.0.0.1") as other:
        response = other.get("/api/v1/models", headers={"Origin": "https://good.example"})
        assert response.headers["access-control-allow-origin"] == "https://good.example"
        assert other.get("/api/v1/models", headers=foreign).status_code == 403


def test_the_printed_address_becomes_a_cookie(client):
    response = client.get("/", params={"token": TOKEN}, follow_redirects=False)
    cookie = response.headers["set-cookie"].lower()
    assert response.status_code == 303
    assert response.headers["location"] == "/"
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/", params={"token": "wrong"}, follow_redirects=False).status_code == 401
    client.cookies.clear()
    name = client.get("/api/v1/me", headers={"Cookie": f"doxa_token={TOKEN}"}).json()
    assert name == {"name": "admin", "role": "admin", "writable": False}
    assert client.get("/api/v1/me").json()["role"] == "reader"


def test_the_printed_address_works_behind_a_proxy(folder):
    served = create_app(Source(folder), Options(token=TOKEN))
    with TestClient(served, base_url="http://127.0.0.1", root_path="/kb") as client:
        response = client.get("/kb/", params={"token": TOKEN}, follow_redirects=False)
        assert (response.status_code, response.headers["location"]) == (303, "/kb/")
        assert client.get("/kb/healthz").status_code == 200


def test_every_response_has_a_strict_policy(client):
    for path in ("/", "/api/v1/models", "/nothing", "/static/index.html"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_is_served_and_nothing_beside_it(client):
    assert client.get("/").headers["content-type"].startswith("text/html")
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2fapp.py"):
        assert client.get(path).status_code == 404


def test_a_bucket_fills_with_time():
    now = [0.0]
    rate = Rate(10, 2, lambda: now[0])
    assert [rate.take("a"), rate.take("a"), rate.take("a"), rate.take("b")] == [True, True, False, True]
    now[0] = 0.1
    assert [rate.take("a"), rate.take("a")] == [True, False]


def test_too_many_requests_are_refused(folder):
    with TestClient(create_app(Source(folder), limits=Limits(rate=0.001, burst=2)), base_url="http://[::1]") as client:
        assert [client.get("/healthz").status_code for _ in range(3)] == [200, 200, 429]


def test_an_address_that_is_too_long_is_refused(folder):
    with TestClient(create_app(Source(folder), limits=Limits(query_length=50)), base_url="http://[::1]") as client:
        assert client.get("/healthz", params={"x": "a" * 100}).status_code == 200
        refused = client.get("/healthz", params={"x": "a" * 200})
        assert (refused.status_code, refused.json()["title"]) == (414, "Address too long")


def test_slow_requests_beyond_those_that_may_wait_are_refused(folder, monkeypatch):
    begun, released = threading.Event(), threading.Event()

    def similar(self, *arguments):
        begun.set()
        released.wait(60)
        raise UsageError("released")

    monkeypatch.setattr(Model, "similar", similar)
    limits = Limits(slow=1, slow_waiting=0)
    with TestClient(create_app(Source(folder), limits=limits), base_url="http://[::1]") as client:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.get, "/api/v1/similar?entity=0,0")
            assert begun.wait(60)
            second = client.get("/api/v1/similar?entity=0,0")
            quick = client.get("/api/v1/names?q=0")
            released.set()
        assert (second.status_code, second.headers["retry-after"]) == (503, "1")
        assert (quick.status_code, first.result().status_code) == (200, 422)
        assert client.get("/api/v1/similar?entity=0,0").status_code == 422


def test_a_store_has_hashes_of_tokens_and_no_token(kb):
    token = kb.accounts.add("ada", "curator")
    content = b"".join(path.read_bytes() for path in kb.place.path.parent.glob("kb.db*"))
    assert hashlib.sha256(token.encode()).hexdigest().encode() in content
    assert token.encode() not in content


def test_a_model_folder_is_read_only(client):
    for path, body in {
        "/api/v1/beliefs": {"head": "a", "relation": "b", "tail": "c"},
        "/api/v1/review/next": None,
        "/api/v1/jobs": {"kind": "update"},
        "/api/v1/models/rollback": None,
        "/api/v1/accounts": {"name": "x"},
    }.items():
        response = client.post(path, headers=ADMIN, json=body)
        assert (response.status_code, "serve a knowledge base" in response.json()["hints"][0]) == (409, True), path
