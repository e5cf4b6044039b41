"""The console without a browser: who gets in, what a form must prove, and that it can do no more than the operator API."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.console.app import console
from reference_gateway.console.web import BASE, CAME_BACK
from reference_gateway.ids import RandomIds
from tests.reference_gateway.conftest import OPERATOR_TOKEN, Bench, Operator, Provider, gateway_served

INJECTED = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def operator() -> Iterator[Operator]:
    with gateway_served(console=True) as served:
        yield served


@pytest.fixture
def bench(operator: Operator, provider: Provider) -> Bench:
    made = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
    made.connect()
    return made


class Browser:
    """Cookies and forms, as a browser keeps and sends them."""

    def __init__(self, operator: Operator) -> None:
        self.base = str(operator.http.base_url).split("/operator/")[0].rstrip("/")
        self.http = httpx2.Client(base_url=self.base, trust_env=False, follow_redirects=False, timeout=30, headers={"origin": self.base})

    def sign_in(self, tenant: str, token: str = OPERATOR_TOKEN) -> httpx2.Response:
        return self.http.post(f"{BASE}/sign-in", data={"tenant": tenant, "token": token})

    def get(self, path: str) -> httpx2.Response:
        return self.http.get(BASE + path)

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/").text)
        assert found is not None
        return html.unescape(found[1])

    def post(self, path: str, csrf: str | None = None, headers: dict[str, str] | None = None, **fields: str) -> httpx2.Response:
        return self.http.post(BASE + path, data={"csrf": self.csrf() if csrf is None else csrf, **fields}, headers=headers)


@pytest.fixture
def visit(operator: Operator) -> Iterator[Callable[[], Browser]]:
    """Makes visitors, each with cookies of their own."""
    made: list[Browser] = []

    def one() -> Browser:
        made.append(Browser(operator))
        return made[-1]

    yield one
    for each in made:
        each.http.close()


Visit = Callable[[], Browser]


@pytest.fixture
def browser(bench: Bench, visit: Visit) -> Browser:
    made = visit()
    assert made.sign_in(bench.tenant).status_code == 303
    return made


def test_nobody_sees_anything_before_signing_in(bench: Bench, visit: Visit) -> None:
    stranger = visit()
    for path in ("/", "/gallery", "/approvals", "/audit", "/runs", "/reviews", "/connections/notes", "/setups/notes"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{BASE}/sign-in"), path
    wrong = ((bench.tenant, "wrong"), ("no-such-tenant", OPERATOR_TOKEN), (bench.tenant, ""), ("", OPERATOR_TOKEN), (bench.tenant, "käse\n"))
    for tenant, token in wrong:
        refused = stranger.sign_in(tenant, token)
        assert refused.status_code == 403
        assert "does not open this tenant" in refused.text
        assert "set-cookie" not in refused.headers


def test_the_cookie_is_for_this_console_alone_and_the_token_is_in_no_page(browser: Browser, bench: Bench) -> None:
    again = browser.sign_in(bench.tenant)
    cookie = again.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"path={BASE}" in cookie
    pages = [browser.get(path).text for path in ("/", "/gallery", "/approvals", "/audit", "/runs", "/connections/notes")]
    assert not any(OPERATOR_TOKEN in page for page in pages)
    policy = browser.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert not any(re.search(r"<script(?![^>]*src=)|\son\w+=|javascript:", page) for page in pages)


@pytest.mark.parametrize(
    ("csrf", "headers"),
    [
        ("", None),
        ("wrong", None),
        (None, {"origin": "http://attacker.example"}),
        (None, {"origin": "null"}),
        (None, {"sec-fetch-site": "cross-site"}),
    ],
)
def test_a_form_that_is_not_ours_does_nothing(browser: Browser, bench: Bench, csrf: str | None, headers: dict[str, str] | None) -> None:
    answer = browser.post("/connections/notes/permissions", csrf, headers, tool="get_echo", word="off")
    assert answer.status_code == 403
    assert bench.op("GET", "/connections/notes/permissions")["permissions"]["get_echo"] == "allowed"


def test_a_form_of_another_shape_or_size_does_nothing(browser: Browser) -> None:
    encoded = "application/x-www-form-urlencoded"
    for kind, body in (("text/plain", b"csrf=x"), (encoded, b"csrf=" + b"x" * 300_000), (encoded, b"a=1&a=2")):
        assert browser.http.post(f"{BASE}/connections/notes/state", content=body, headers={"content-type": kind}).status_code == 403


def test_permissions_take_effect_and_are_recorded_under_the_owner(browser: Browser, bench: Bench) -> None:
    assert browser.post("/connections/notes/permissions", tool="get_echo", word="ask_first").status_code == 303
    assert bench.op("GET", "/connections/notes/permissions")["permissions"]["get_echo"] == "ask_first"
    wrong = browser.post("/connections/notes/permissions", tool="get_echo", word="sometimes")
    assert wrong.status_code == 422
    assert "permission_unknown" in wrong.text


def test_an_approval_is_given_once_and_under_the_operators_own_name(bench: Bench, visit: Visit) -> None:
    named = bench.op("POST", "/operators", {"operator": "ines", "role": "operator"})
    ines = visit()
    ines.sign_in(bench.tenant, named["token"])
    bench.permit(get_echo="ask_first")
    _, token = bench.run("notes")
    bench.call(token, "get_echo", {"text": INJECTED})
    (waiting,) = bench.op("GET", "/approvals", state="pending")["approvals"]
    inbox = ines.get("/approvals").text
    assert "Approve &amp; run" in inbox
    assert INJECTED not in inbox
    assert "&lt;script&gt;" in inbox
    assert ines.post(f"/approvals/{waiting['id']}/approve").status_code == 303
    decided = bench.op("GET", f"/approvals/{waiting['id']}")
    assert (decided["state"], decided["decided_by"]) == ("executed", "ines")
    again = ines.post(f"/approvals/{waiting['id']}/approve")
    assert again.status_code == 409
    assert "approval_not_pending" in again.text


def test_declining_keeps_the_reason(browser: Browser, bench: Bench) -> None:
    bench.permit(get_echo="ask_first")
    _, token = bench.run("notes")
    bench.call(token, "get_echo", {"text": "to be declined"})
    (waiting,) = bench.op("GET", "/approvals", state="pending")["approvals"]
    assert browser.post(f"/approvals/{waiting['id']}/reject", reason="not today").status_code == 303
    decided = bench.op("GET", f"/approvals/{waiting['id']}")
    assert (decided["state"], decided["reason"]) == ("rejected", "not today")
    assert "not today" in browser.get("/approvals").text


def test_a_viewer_sees_no_button_and_a_forged_one_is_refused(bench: Bench, visit: Visit) -> None:
    named = bench.op("POST", "/operators", {"operator": "vera", "role": "viewer"})
    vera = visit()
    vera.sign_in(bench.tenant, named["token"])
    page = vera.get("/connections/notes").text
    assert "/permissions" not in page
    forged = vera.post("/connections/notes/permissions", tool="get_echo", word="off")
    assert forged.status_code == 403
    assert "operator_forbidden" in forged.text
    assert bench.op("GET", "/connections/notes/permissions")["permissions"]["get_echo"] == "allowed"


def test_another_tenant_stays_out_of_sight(operator: Operator, bench: Bench, provider: Provider, visit: Visit) -> None:
    other = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
    other.connect("secretive")
    named = bench.op("POST", "/operators", {"operator": "omar", "role": "operator"})
    omar = visit()
    omar.sign_in(bench.tenant, named["token"])
    assert "secretive" not in omar.get("/").text
    assert omar.get("/connections/secretive").status_code == 404
    assert omar.post("/connections/secretive/state", state="archived").status_code == 404
    assert omar.sign_in(other.tenant, named["token"]).status_code == 403


def test_an_operator_who_was_removed_is_out_at_the_next_page(bench: Bench, visit: Visit) -> None:
    named = bench.op("POST", "/operators", {"operator": "gone", "role": "operator"})
    gone = visit()
    gone.sign_in(bench.tenant, named["token"])
    assert gone.get("/").status_code == 200
    bench.op("DELETE", "/operators/gone")
    assert gone.get("/").status_code == 303


def test_signing_out_and_idling_end_a_session(bench: Bench, browser: Browser) -> None:
    csrf = browser.csrf()
    assert browser.post("/sign-out", csrf).status_code == 303
    assert browser.get("/").status_code == 303
    browser.sign_in(bench.tenant)
    bench.advance(1799)
    assert browser.get("/").status_code == 200
    bench.advance(1801)
    assert browser.get("/").status_code == 303


def test_the_audit_page_filters_and_tells_of_the_chain(browser: Browser, bench: Bench) -> None:
    bench.permit(get_echo="off")
    page = browser.get("/audit?event=permission_changed").text
    assert "permission_changed" in page
    assert "connection_created" not in page.partition("<tbody>")[2]
    assert "carries its own hash" in page
    assert INJECTED not in browser.get(f"/audit?event={INJECTED}").text


FORGED = (
    'x"}\n{"seq":43,"event":"approval_resolved","outcome":"success","tool":"delete_all_memories"}\u2028[audit] approved: root',
    "</td></tr><tr><th>43</th><td>now</td><td>operator:root</td><td>approval_resolved</td></tr>",
    "[gw] call denied: user eve tool 'x'. [gw] call allowed: user root tool 'delete_all_memories'.",
)


def test_b09_the_audit_page_has_one_row_a_record_whatever_is_in_it(browser: Browser, bench: Bench) -> None:
    _, token = bench.run()
    for forged in FORGED:
        with pytest.raises(MCPError):
            bench.call(token, forged, {})
        bench.call(token, "add_note", {"text": forged})
    body = browser.get("/audit").text.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in body.split("<tr>")[1:]]
    records = list(reversed(bench.records()))
    assert len(rows) == len(records)
    assert [(row[0], row[3], row[4]) for row in rows] == [(str(r["seq"]), r["event"], r["outcome"]) for r in records]
    assert {len(row) for row in rows} == {8}
    assert "approval_resolved" not in {row[3] for row in rows}
    assert browser.get("/audit?run=%00").status_code == 422


def test_setups_walk_through_rejection_and_retry_without_showing_a_secret(browser: Browser) -> None:
    assert "mem0" in browser.get("/gallery").text
    started = browser.post("/setups", connector="mem0", name="My Mem0", grant="personal")
    assert started.headers["location"] == f"{BASE}/setups/my-mem0"
    page = browser.get("/setups/my-mem0").text
    assert "Waiting to learn whose connection this is" in page
    browser.post("/setups/my-mem0/identity", subject="user-1")
    page = browser.get("/setups/my-mem0").text
    assert 'type="password"' in page
    duplicate = browser.post("/setups", connector="mem0", name="my-mem0", grant="organization")
    assert duplicate.status_code == 409
    assert "connection_exists" in duplicate.text
    assert browser.post("/setups/my-mem0/discard").status_code == 303
    assert browser.get("/setups/my-mem0").status_code == 404


def test_every_route_of_the_console_asks_who_is_there(visit: Visit) -> None:
    """Routes are read from the application itself, so that a new one cannot be forgotten."""

    async def nobody(scope: object, receive: object, send: object) -> None:
        raise AssertionError("no route may reach the operator API without a session")

    from reference_gateway.clock import TestClock

    app = console(nobody, TestClock(), RandomIds())  # type: ignore[arg-type]
    open_to_all = {(f"{BASE}/sign-in", "GET"), (f"{BASE}/sign-in", "POST"), (f"{BASE}/static/{{name}}", "GET")}
    stranger = visit()
    tried = 0
    for route in app.routes:  # type: ignore[attr-defined]
        for method in route.methods - {"HEAD"}:
            if (route.path, method) in open_to_all:
                continue
            # Where providers send browsers back to, the second visit counts: the first cannot carry our cookie.
            asked = re.sub(r"\{\w+\}", "x", route.path) + ("?again=1" if route.path.endswith(CAME_BACK) else "")
            answer = stranger.http.request(method, asked, data={"csrf": "x"} if method == "POST" else None)
            assert (answer.status_code, answer.headers.get("location")) == (303, f"{BASE}/sign-in"), (method, route.path)
            tried += 1
    assert tried >= 20


def test_a_browser_that_was_sent_back_without_its_cookie_goes_on_by_itself(visit: Visit) -> None:
    stranger = visit()
    came = stranger.get(f"{CAME_BACK}?state=x&code=%22%3E%3Cb%3E")
    assert came.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=?state=x&amp;code=%22%3E%3Cb%3E&amp;again=1">' in came.text
    assert stranger.get(f"{CAME_BACK}?state=x&code=y&again=1").headers["location"] == f"{BASE}/sign-in"


def test_a_consent_that_nobody_here_asked_for_is_refused_and_named(visit: Visit, bench: Bench) -> None:
    browser = visit()
    browser.sign_in(bench.tenant)
    came = browser.get(f"{CAME_BACK}?state=unknown&code=x")
    assert (came.status_code, "oauth_state_unknown" in came.text) == (400, True)
    assert browser.get(CAME_BACK).status_code == 422
