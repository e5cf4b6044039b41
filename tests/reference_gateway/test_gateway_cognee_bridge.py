"""The Cognee bridge against a stand-in of Cognee's HTTP API on loopback, under its real host name and a test authority."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from reference_gateway.bridge.cognee import BridgeError, BridgeResult, CogneeBridge
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError

TENANT = "0f0e0d0c-1111-2222-3333-444455556666"
HOST = f"tenant-{TENANT}.aws.cognee.ai"
ORIGIN = f"https://{HOST}"
KEY = "ck-canary-7f3a"
LIMIT = 10_000

Run = Callable[..., Any]


@dataclass(frozen=True)
class Certificate:
    pem: str
    cert: str
    key: str


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert(HOST, "other.aws.cognee.ai")
    made = Certificate(str(folder / "ca.pem"), str(folder / "cert.pem"), str(folder / "key.pem"))
    authority.cert_pem.write_to_path(made.pem)
    issued.private_key_pem.write_to_path(made.key)
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(made.cert, append=number > 0)
    return made


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    json: Any = None
    form: dict[str, Any] = field(default_factory=dict)


class StandIn:
    """Records every request and answers by path; `answers` maps "METHOD path" to a response."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self.seen: list[Seen] = []
        self.answers: dict[str, Callable[[], Response]] = {}
        self.held = asyncio.Event()

    async def _handle(self, request: Request) -> Response:
        seen = Seen(request.method, request.url.path, dict(request.headers))
        kind = request.headers.get("content-type", "")
        if kind.startswith("multipart/form-data"):
            async with request.form() as form:
                for name, value in form.multi_items():
                    if isinstance(value, UploadFile):
                        seen.form[name] = (value.filename, value.content_type, (await value.read()).decode())
                    else:
                        seen.form[name] = value
        elif kind:
            seen.json = json.loads(await request.body())
        self.seen.append(seen)
        answer = self.answers.get(f"{request.method} {request.url.path}")
        if answer is None:
            self.held.set()
            await asyncio.Event().wait()
        assert answer is not None
        return answer()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        app = Starlette(routes=[Route("/{path:path}", self._handle, methods=["GET", "POST"])])
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, http="h11", ws="none", lifespan="off", log_level="critical",
            ssl_certfile=self.certificate.cert, ssl_keyfile=self.certificate.key, timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True
            await serving


Act = Callable[[CogneeBridge], Awaitable[Any]]


@dataclass(frozen=True)
class Bench:
    """One stand-in and one guarded client for the whole module, in a loop of their own."""

    stand: StandIn
    egress: Egress
    portal: BlockingPortal


@asynccontextmanager
async def bench_running(certificate: Certificate) -> AsyncIterator[tuple[StandIn, Egress]]:
    stand = StandIn(certificate)
    async with stand.running() as port:
        egress = Egress({"*.aws.cognee.ai": ("127.0.0.1", port)}, certificate.pem)
        yield stand, egress
        await egress.aclose()


@pytest.fixture(scope="module")
def bench(certificate: Certificate) -> Iterator[Bench]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(bench_running(certificate)) as (stand, egress):
        yield Bench(stand, egress, portal)


@pytest.fixture
def stand(bench: Bench) -> StandIn:
    bench.stand.seen.clear()
    bench.stand.answers.clear()
    return bench.stand


@pytest.fixture
def with_bridge(bench: Bench) -> Run:
    def run(act: Act, base_url: str = ORIGIN) -> Any:
        return bench.portal.call(act, CogneeBridge(bench.egress, base_url, KEY))

    return run


def calling(name: str, arguments: dict[str, Any], limit: int = LIMIT) -> Act:
    return lambda bridge: bridge.call(name, arguments, limit=limit)


# requests


def test_remember_uploads_the_text_under_its_hash(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["POST /api/v1/remember"] = lambda: JSONResponse({"status": "running"})
    text = "The navigator keeps a compass — ünïcode\nline\r\n"
    result: BridgeResult = with_bridge(calling("remember", {"data": text, "dataset_name": "ds", "custom_prompt": "p"}))
    (seen,) = stand.seen
    assert seen.form == {
        "data": (f"memory_{hashlib.sha256(text.encode()).hexdigest()}.txt", "text/plain", text),
        "datasetName": "ds",
        "custom_prompt": "p",
    }
    assert (seen.headers["x-api-key"], seen.headers["x-tenant-id"], seen.headers["host"]) == (KEY, TENANT, HOST)
    assert (result.is_error, result.status, result.endpoint) == (False, 200, f"{ORIGIN}/api/v1/remember")


def test_remember_has_a_default_dataset_and_no_prompt_of_its_own(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["POST /api/v1/remember"] = lambda: JSONResponse({})
    with_bridge(calling("remember", {"data": ""}))
    assert stand.seen[0].form["datasetName"] == "agent_memory"
    assert set(stand.seen[0].form) == {"data", "datasetName"}


def test_remember_in_a_session_is_an_entry(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["POST /api/v1/remember/entry"] = lambda: JSONResponse({"status": "session_stored"})
    result: BridgeResult = with_bridge(calling("remember", {"data": "fact", "session_id": "s1", "dataset_name": "ds"}))
    assert stand.seen[0].json == {
        "entry": {"type": "qa", "question": "", "answer": "fact", "context": ""},
        "dataset_name": "ds",
        "session_id": "s1",
    }
    assert result.endpoint == f"{ORIGIN}/api/v1/remember/entry"


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({"query": "q", "datasets": " a, ,b ,"}, {"query": "q", "top_k": 15, "search_type": None, "datasets": ["a", "b"]}),
        ({"query": "q", "session_id": "s"}, {"query": "q", "top_k": 15, "search_type": None, "session_id": "s"}),
        (
            {"query": "q", "datasets": "a", "search_type": "chunks", "top_k": 3, "system_prompt": "p", "session_id": "s"},
            {"query": "q", "top_k": 3, "search_type": "CHUNKS", "datasets": ["a"], "session_id": "s", "system_prompt": "p"},
        ),
    ],
)
def test_recall_is_one_request_when_it_names_where(stand: StandIn, with_bridge: Run, arguments: dict[str, Any], body: dict[str, Any]) -> None:
    stand.answers["POST /api/v1/recall"] = lambda: JSONResponse([])
    result: BridgeResult = with_bridge(calling("recall", arguments))
    assert [(seen.path, seen.json) for seen in stand.seen] == [("/api/v1/recall", body)]
    assert result.result == {"content": [{"type": "text", "text": "[]"}], "structuredContent": {"result": []}, "isError": False}


def test_recall_that_names_nothing_asks_for_the_datasets_first(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["GET /api/v1/datasets/"] = lambda: JSONResponse([{"id": "1", "name": "a, with comma"}, {"id": "2", "name": "b"}])
    stand.answers["POST /api/v1/recall"] = lambda: JSONResponse([])
    result: BridgeResult = with_bridge(calling("recall", {"query": "q"}))
    assert [(seen.method, seen.path) for seen in stand.seen] == [("GET", "/api/v1/datasets/"), ("POST", "/api/v1/recall")]
    assert stand.seen[1].json["datasets"] == ["a, with comma", "b"]
    assert all(seen.headers["x-tenant-id"] == TENANT for seen in stand.seen)
    assert not result.is_error


def test_recall_in_an_empty_account_fails_honestly(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["GET /api/v1/datasets/"] = lambda: JSONResponse([])
    result: BridgeResult = with_bridge(calling("recall", {"query": "q"}))
    assert result.is_error
    assert [seen.method for seen in stand.seen] == ["GET"]


@pytest.mark.parametrize("listed", [{"datasets": []}, [{"id": "1"}], ["a"], "a", None, 7, [{"name": 7}]])
def test_a_list_of_datasets_that_is_none_is_malformed(stand: StandIn, with_bridge: Run, listed: Any) -> None:
    stand.answers["GET /api/v1/datasets/"] = lambda: JSONResponse(listed)
    with pytest.raises(BridgeError) as caught:
        with_bridge(calling("recall", {"query": "q"}))
    assert caught.value.code == "remote_mcp_malformed_response"
    assert len(stand.seen) == 1


def test_a_refused_list_of_datasets_ends_the_recall(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["GET /api/v1/datasets/"] = lambda: JSONResponse({"detail": "no"}, 403)
    result: BridgeResult = with_bridge(calling("recall", {"query": "q"}))
    assert (result.is_error, result.status, len(stand.seen)) == (True, 403, 1)


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({"dataset": "ds"}, {"everything": False, "dataset": "ds"}),
        ({"dataset": "ds", "everything": False}, {"everything": False, "dataset": "ds"}),
        ({"everything": True}, {"everything": True}),
    ],
)
def test_forget_sends_what_was_asked(stand: StandIn, with_bridge: Run, arguments: dict[str, Any], body: dict[str, Any]) -> None:
    stand.answers["POST /api/v1/forget"] = lambda: JSONResponse({"status": "success"})
    with_bridge(calling("forget", arguments))
    assert [seen.json for seen in stand.seen] == [body]


def test_a_host_that_names_no_tenant_sends_no_tenant_header(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["POST /api/v1/forget"] = lambda: JSONResponse({})
    with_bridge(calling("forget", {"dataset": "ds"}), "https://other.aws.cognee.ai")
    assert "x-tenant-id" not in stand.seen[0].headers
    assert stand.seen[0].headers["host"] == "other.aws.cognee.ai"


# refusals before anything is sent


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("forget", {}, "invalid_arguments"),
        ("forget", {"dataset": "ds", "everything": True}, "invalid_arguments"),
        ("remember", {"data": "x", "session_id": "s", "custom_prompt": "p"}, "invalid_arguments"),
        ("recall", {"query": "q", "datasets": " , "}, "invalid_arguments"),
        ("cognify", {"data": "x"}, "tool_not_found"),
    ],
)
def test_a_refused_call_sends_nothing(stand: StandIn, with_bridge: Run, name: str, arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(GatewayError) as caught:
        with_bridge(calling(name, arguments))
    assert caught.value.code == code
    assert stand.seen == []


def test_the_endpoint_of_the_intent_record_is_where_the_request_goes(stand: StandIn, with_bridge: Run) -> None:
    cases = [
        ("remember", {"data": "x"}),
        ("remember", {"data": "x", "session_id": "s"}),
        ("recall", {"query": "q", "datasets": "a"}),
        ("forget", {"dataset": "a"}),
    ]

    async def act(bridge: CogneeBridge) -> None:
        for name, arguments in cases:
            result = await bridge.call(name, arguments, limit=LIMIT)
            assert bridge.endpoint(name, arguments) == result.endpoint == bridge.origin + stand.seen[-1].path

    for path in ("remember", "remember/entry", "recall", "forget"):
        stand.answers[f"POST /api/v1/{path}"] = lambda: JSONResponse({})
    with_bridge(act)


# answers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 503])
def test_a_status_beyond_2xx_is_a_failed_result_without_the_body(stand: StandIn, with_bridge: Run, status: int) -> None:
    stand.answers["POST /api/v1/recall"] = lambda: JSONResponse({"detail": "canary-body"}, status)
    result: BridgeResult = with_bridge(calling("recall", {"query": "q", "datasets": "a"}))
    assert (result.is_error, result.status) == (True, status)
    assert result.result["isError"] is True
    assert str(status) in result.result["content"][0]["text"]
    assert "canary" not in json.dumps(result.result)
    assert "structuredContent" not in result.result
    assert len(stand.seen) == 1  # nothing is tried again


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_is_not_followed(stand: StandIn, with_bridge: Run, status: int) -> None:
    stand.answers["POST /api/v1/forget"] = lambda: RedirectResponse("/api/v1/elsewhere", status)
    stand.answers["GET /api/v1/elsewhere"] = stand.answers["POST /api/v1/elsewhere"] = lambda: JSONResponse({})
    result: BridgeResult = with_bridge(calling("forget", {"dataset": "a"}))
    assert (result.is_error, result.status) == (True, status)
    assert [seen.path for seen in stand.seen] == ["/api/v1/forget"]


def test_the_text_is_the_providers_own_bytes(stand: StandIn, with_bridge: Run) -> None:
    text = '[ {"score": 1.10, "id": 725653563933458433, "text": "caf\\u00e9 ☕", "score": 2E0} ]\n'
    stand.answers["POST /api/v1/recall"] = lambda: Response(text.encode(), media_type="application/json")
    result: BridgeResult = with_bridge(calling("recall", {"query": "q", "datasets": "a"}))
    assert result.result["content"] == [{"type": "text", "text": text}]
    assert result.result["structuredContent"] == {"result": [{"score": 2.0, "id": 725653563933458433, "text": "café ☕"}]}


@pytest.mark.parametrize("body", [b"", b"  \n"])
@pytest.mark.parametrize("status", [200, 201])
def test_an_empty_answer_is_a_success(stand: StandIn, with_bridge: Run, body: bytes, status: int) -> None:
    stand.answers["POST /api/v1/forget"] = lambda: Response(body, status)
    result: BridgeResult = with_bridge(calling("forget", {"dataset": "a"}))
    assert result.result["structuredContent"] == {"result": {"status": "success"}}
    assert result.status == status


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"{", b"{} {}", b"NaN", b"[1e400]", b"-Infinity", b"\xff\xfe", b'"\xff"', b"[" * 100_000, b"1" * 9_000],
    ids=lambda body: repr(body[:12]),
)
def test_an_answer_that_is_not_json_is_no_answer(stand: StandIn, with_bridge: Run, body: bytes) -> None:
    stand.answers["POST /api/v1/recall"] = lambda: Response(body, media_type="application/json")
    with pytest.raises(BridgeError) as caught:
        with_bridge(calling("recall", {"query": "q", "datasets": "a"}, limit=200_000))
    assert (caught.value.code, caught.value.status, caught.value.http_status) == ("mcp_remote_invalid_json", 200, 502)


@pytest.mark.parametrize("packed", [False, True])
def test_the_limit_is_exact(stand: StandIn, with_bridge: Run, packed: bool) -> None:
    body = b'"' + b"x" * (LIMIT - 2) + b'"'

    def answer() -> Response:
        return Response(gzip.compress(body), headers={"content-encoding": "gzip"}) if packed else Response(body)

    stand.answers["POST /api/v1/recall"] = answer
    result: BridgeResult = with_bridge(calling("recall", {"query": "q", "datasets": "a"}, limit=LIMIT))
    assert result.result["content"][0]["text"] == body.decode()
    with pytest.raises(BridgeError) as caught:
        with_bridge(calling("recall", {"query": "q", "datasets": "a"}, limit=LIMIT - 1))
    assert caught.value.code == "mcp_remote_response_too_large"


def test_a_provider_that_is_not_there_is_a_failed_fetch(certificate: Certificate) -> None:
    async def run() -> None:
        async with StandIn(certificate).running() as port:
            pass
        egress = Egress({"*.aws.cognee.ai": ("127.0.0.1", port)}, certificate.pem)
        bridge = CogneeBridge(egress, ORIGIN, KEY)
        with pytest.raises(BridgeError) as caught:
            await bridge.call("forget", {"dataset": "a"}, limit=LIMIT)
        assert caught.value.code == "mcp_remote_fetch_failed"
        assert KEY not in str(caught.value)
        with pytest.raises(BridgeError) as probed:
            await bridge.probe()
        assert (probed.value.code, probed.value.http_status) == ("provider_unreachable", 502)
        await egress.aclose()

    asyncio.run(run())


def test_a_cancelled_call_closes_its_request_and_the_next_one_works(stand: StandIn, with_bridge: Run) -> None:
    async def act(bridge: CogneeBridge) -> None:
        call = asyncio.create_task(bridge.call("recall", {"query": "q", "datasets": "a"}, limit=LIMIT))
        await stand.held.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        stand.answers["POST /api/v1/recall"] = lambda: JSONResponse([])
        assert not (await bridge.call("recall", {"query": "q", "datasets": "a"}, limit=LIMIT)).is_error

    with_bridge(act)
    assert len(stand.seen) == 2


# the probe


def test_the_probe_asks_for_datasets_with_the_key_alone(stand: StandIn, with_bridge: Run) -> None:
    stand.answers["GET /api/v1/datasets/"] = lambda: JSONResponse([])
    with_bridge(lambda bridge: bridge.probe())
    (seen,) = stand.seen
    assert (seen.method, seen.path, seen.headers["x-api-key"]) == ("GET", "/api/v1/datasets/", KEY)
    assert "x-tenant-id" not in seen.headers


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda: Response(status_code=401), "memory_api_key_rejected"),
        (lambda: Response(status_code=403), "memory_api_key_rejected"),
        (lambda: Response(status_code=404), "cognee_access_unverified"),
        (lambda: Response(status_code=500), "cognee_access_unverified"),
        (lambda: RedirectResponse("https://127.0.0.1/"), "cognee_access_unverified"),
        (lambda: JSONResponse({"datasets": []}), "cognee_access_unverified"),
        (lambda: Response("<html>"), "cognee_access_unverified"),
        (lambda: Response(b"[" + b" " * 1_000_000 + b"]"), "cognee_access_unverified"),
    ],
)
def test_a_probe_that_proves_nothing_is_refused(stand: StandIn, with_bridge: Run, answer: Callable[[], Response], code: str) -> None:
    stand.answers["GET /api/v1/datasets/"] = answer
    with pytest.raises(BridgeError) as caught:
        with_bridge(lambda bridge: bridge.probe())
    assert (caught.value.code, caught.value.http_status) == (code, 422)
    assert KEY not in str(caught.value)
