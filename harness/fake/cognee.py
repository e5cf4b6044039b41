"""Stand-in for Cognee Cloud's HTTP API: datasets, remember (text, or an entry of a session), recall, forget.

It answers from memory by shared words; no model runs, so `search_type`, `system_prompt` and `custom_prompt` are checked
and have no effect. The form of recalled items and of errors (`{"detail": …}`) is our own. One account per X-Api-Key.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness.clock import Clock
from harness.fake.kit import Account, AccountBook, Entry, JsonObject, Settings
from harness.fake.kit_store import Ids, ranked

SEARCH_TYPES: Final = frozenset(
    {"CHUNKS", "SUMMARIES", "RAG_COMPLETION", "GRAPH_COMPLETION", "GRAPH_SUMMARY_COMPLETION", "TEMPORAL", "FEELING_LUCKY"}
)
_MOST_BYTES: Final = 10_000_000
_DEFAULT_TOP_K: Final = 15


@dataclass(frozen=True, slots=True)
class CogneeSettings(Settings):
    """The operations that latency and failures are keyed by: datasets, remember, remember_entry, recall, forget.

    index_delay_by_dataset  dataset name → seconds until what is written to it from now on is indexed; others: index_delay_s
    answers                 operation → JSON that is sent in place of the true answer, None for an empty body; effects still happen
    """

    index_delay_s: float = 5.0
    index_delay_by_dataset: Mapping[str, float] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered text. `session_id` is set for an entry of a session, which is found there at once."""

    id: str
    text: str
    session_id: str | None = None


@dataclass(slots=True)
class Dataset:
    id: str
    name: str
    created_at: datetime
    indexed_at: datetime
    memories: list[Memory] = field(default_factory=list)


@dataclass(slots=True)
class Store:
    """The datasets of one account, by name."""

    ids: Ids
    datasets: dict[str, Dataset] = field(default_factory=dict)

    def dataset(self, name: str, now: datetime) -> Dataset:
        """The dataset, made (and with nothing to index) if it is new."""
        if name not in self.datasets:
            self.datasets[name] = Dataset(self.ids.uuid("dataset"), name, now, now)
        return self.datasets[name]

    def indexed(self, name: str, now: datetime) -> Dataset:
        """The dataset, if recall may read it: 404 if there is none, 409 until it is indexed."""
        found = self.datasets.get(name)
        if found is None:
            raise HTTPException(404, f"Dataset not found: {name}")
        if now < found.indexed_at:
            raise HTTPException(409, f"Dataset is still being indexed: {name}")
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """One authenticated request whose body was read."""

    store: Store
    settings: CogneeSettings
    now: datetime
    body: JsonObject

    def text(self, name: str, default: str | None = None) -> str:
        """A string that is not blank; 422 otherwise."""
        value = self.body.get(name, default)
        if not isinstance(value, str) or not value.strip():
            raise HTTPException(422, f"{name}: a string that is not blank is needed")
        return value

    def maybe(self, name: str) -> str | None:
        return None if self.body.get(name) is None else self.text(name)


Operation = Callable[[Asked], Any]
Reader = Callable[[Request], Awaitable[JsonObject]]


def _datasets(request: Asked) -> Any:
    return [{"id": one.id, "name": one.name, "created_at": one.created_at.isoformat()} for one in request.store.datasets.values()]


def _remember(request: Asked) -> Any:
    name, text = request.text("datasetName"), request.text("data")
    request.maybe("custom_prompt")
    dataset = request.store.dataset(name, request.now)
    memory = Memory(request.store.ids.uuid("data"), text)
    dataset.memories.append(memory)
    delay = request.settings.index_delay_by_dataset.get(name, request.settings.index_delay_s)
    dataset.indexed_at = max(dataset.indexed_at, request.now + timedelta(seconds=delay))
    status = "running" if request.now < dataset.indexed_at else "completed"
    return {"status": status, "dataset_id": dataset.id, "dataset_name": name, "items": [{"id": memory.id}]}


def _remember_entry(request: Asked) -> Any:
    entry = request.body.get("entry")
    if not isinstance(entry, dict) or entry.get("type") != "qa":
        raise HTTPException(422, 'entry: an object of type "qa" is needed')
    parts = [entry.get(part, "") for part in ("question", "context", "answer")]
    if not all(isinstance(part, str) for part in parts) or not parts[2].strip():
        raise HTTPException(422, "entry: question, context and answer must be strings, and the answer not blank")
    name, session_id = request.text("dataset_name"), request.text("session_id")
    dataset = request.store.dataset(name, request.now)
    memory = Memory(request.store.ids.uuid("entry"), "\n".join(part for part in parts if part.strip()), session_id)
    dataset.memories.append(memory)
    return {"status": "session_stored", "dataset_name": name, "session_id": session_id, "entry_id": memory.id}


def _recall(request: Asked) -> Any:
    query, session_id = request.text("query"), request.maybe("session_id")
    request.maybe("system_prompt")
    top_k = request.body.get("top_k", _DEFAULT_TOP_K)
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
        raise HTTPException(422, "top_k: a whole number from 1 is needed")
    kind = request.maybe("search_type")
    if kind is not None and kind not in SEARCH_TYPES:
        raise HTTPException(422, f"search_type: one of {', '.join(sorted(SEARCH_TYPES))} is needed")
    names = request.body.get("datasets")
    if names is not None and (not isinstance(names, list) or not all(isinstance(name, str) for name in names)):
        raise HTTPException(422, "datasets: a list of names is needed")
    found = ranked(query, _readable(request, names, session_id), lambda pair: pair[1].text)
    return [
        {"id": memory.id, "dataset_id": dataset.id, "dataset_name": dataset.name, "text": memory.text, "score": round(score, 4)}
        for score, (dataset, memory) in found[:top_k]
    ]


def _readable(request: Asked, names: list[str] | None, session_id: str | None) -> list[tuple[Dataset, Memory]]:
    """Indexed texts of the named datasets and entries of the named session; without either, every dataset."""
    store = request.store
    if not names:
        names = [] if session_id is not None else list(store.datasets)
    readable = [(one, memory) for one in (store.indexed(name, request.now) for name in names) for memory in one.memories]
    indexed = [pair for pair in readable if pair[1].session_id is None]
    entries = [(one, memory) for one in store.datasets.values() for memory in one.memories if memory.session_id is not None]
    return indexed + [pair for pair in entries if pair[1].session_id == session_id]


def _forget(request: Asked) -> Any:
    """Everything wins over a dataset that is named as well."""
    if not isinstance(request.body.get("everything", False), bool):
        raise HTTPException(422, "everything: true or false is needed")
    if request.body.get("everything", False):
        gone = list(request.store.datasets)
    else:
        gone = [request.text("dataset")]
        if gone[0] not in request.store.datasets:
            raise HTTPException(404, f"Dataset not found: {gone[0]}")
    for name in gone:
        del request.store.datasets[name]
    return {"status": "success", "forgotten": gone}


async def _no_body(_: Request) -> JsonObject:
    return {}


async def _json_body(request: Request) -> JsonObject:
    try:
        body = json.loads(await request.body())
    except ValueError:
        raise HTTPException(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise HTTPException(422, "a JSON object is needed")
    return body


async def _form_body(request: Request) -> JsonObject:
    """The fields of the form, with the text of its file `data`."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise HTTPException(422, "multipart/form-data is needed")
    async with request.form(max_files=1, max_fields=20) as form:
        data = form.get("data")
        if not isinstance(data, UploadFile):
            raise HTTPException(422, "data: a file is needed")
        raw = await data.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise HTTPException(413, f"data: at most {_MOST_BYTES} bytes")
        try:
            return {**{name: value for name, value in form.items() if isinstance(value, str)}, "data": raw.decode()}
        except UnicodeDecodeError:
            raise HTTPException(422, "data: UTF-8 text is needed") from None


@dataclass(frozen=True, slots=True)
class _Served:
    method: str
    path: str
    name: str
    read: Reader
    act: Operation


_OPERATIONS: Final = (
    _Served("GET", "/api/v1/datasets/", "datasets", _no_body, _datasets),
    _Served("POST", "/api/v1/remember", "remember", _form_body, _remember),
    _Served("POST", "/api/v1/remember/entry", "remember_entry", _json_body, _remember_entry),
    _Served("POST", "/api/v1/recall", "recall", _json_body, _recall),
    _Served("POST", "/api/v1/forget", "forget", _json_body, _forget),
)


class CogneeFake:
    """A built stand-in; satisfies kit.FakeApp. An operation takes effect on the clock, whether or not its caller still waits."""

    path = ""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._book: AccountBook[Store] = AccountBook("cognee", lambda account: Store(Ids("cognee", account.credential)), CogneeSettings())
        routes = [Route(one.path, self._endpoint(one), methods=[one.method]) for one in _OPERATIONS]
        self._app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})

    @property
    def app(self) -> ASGIApp:
        return self._app

    def admit(self, account: Account) -> None:
        self._book.admit(account)

    def revoke(self, credential: str) -> None:
        self._book.revoke(credential)

    def configure(self, credential: str, **settings: object) -> None:
        self._book.configure(credential, **settings)

    def _endpoint(self, served: _Served) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            entry = self._book.find(request.headers.get("x-api-key"))
            if entry is None:
                raise HTTPException(401, "Unauthorized", {"WWW-Authenticate": 'ApiKey realm="cognee"'})
            return await self._answer(entry, served, await served.read(request))

        return endpoint

    async def _answer(self, entry: Entry[Store], served: _Served, body: JsonObject) -> Response:
        settings: CogneeSettings = entry.settings
        clock = entry.account.clock or self._clock
        await _wait(clock, settings.of(settings.latency_s, served.name))
        broken = settings.of(settings.fail, served.name)
        if broken is not None:
            raise HTTPException(500, broken)
        answer = served.act(Asked(entry.store, settings, clock.now(), body))
        await _wait(clock, settings.of(settings.answer_latency_s, served.name))
        if served.name in settings.answers:
            answer = settings.answers[served.name]
        return Response(status_code=200) if answer is None else JSONResponse(answer)


async def _wait(clock: Clock, seconds: float | None) -> None:
    if seconds:
        await clock.sleep(seconds)


async def _refused(_: Request, problem: Exception) -> Response:
    if not isinstance(problem, HTTPException):  # Starlette's signature is wider than what it registers
        raise problem
    return JSONResponse({"detail": problem.detail}, problem.status_code, problem.headers)


class CogneeProvider:
    """FAKE of Cognee. It is no MCP server: its tools are those of the gateway's bridge, so no shape is assumed here."""

    id = "cognee"
    assumed_shapes: frozenset[str] = frozenset()

    def build(self, clock: Clock) -> CogneeFake:
        return CogneeFake(clock)


FAKE = CogneeProvider()
