"""Cassettes on disk: read strictly, and written whole or not at all."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from harness.cassette.format import FORMAT, HEADER, ORIGIN, BadCassette, Cassette, Header, Interaction, content_hash
from harness.cassette.sensitive import exposed
from harness.cassette.yaml_file import load_yaml
from harness.errors import UsageError

MAX_BYTES = 64 * 1024 * 1024
AGAIN = "record it again: harness run SCENARIO --record all"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,119}\Z")
_END_OF_HEADER = re.compile(r"^interactions:", re.MULTILINE)
_FIELDS = {"request": {"method", "uri", "body", "headers"}, "response": {"status", "headers", "body"}}


def cassette_path(folder: Path, provider: str, scenario: str, connection: str) -> Path:
    """`<provider>/<scenario>.yaml`; a connection that is not named like its provider has a file of its own: `<scenario>@<connection>.yaml`.

    Raises UsageError when that would lead out of the folder.
    """
    name = scenario if connection == provider else f"{scenario}@{connection}"
    if not _NAME.match(provider) or not _NAME.match(name) or ".." in (*provider.split("/"), *name.split("/")):
        raise UsageError(f"{provider}/{name} is no name of a cassette", where=str(folder), fix="use letters, digits, '.', '_' and '-' in the id")
    path = folder / provider / f"{name}.yaml"
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError("the cassette would be outside its folder", where=str(path), fix="remove the link that leads out of it")
    return path


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadCassette(f"larger than {MAX_BYTES // 1024 // 1024} MiB", where=str(path), fix="record less in one scenario")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise BadCassette("there is no such cassette", where=str(path), fix="record one: harness record SCENARIO --level LEVEL") from None
    except UnicodeDecodeError as error:
        raise BadCassette("not UTF-8", where=f"{path}:byte {error.start}", fix=AGAIN) from None
    except OSError as error:
        raise BadCassette(f"it cannot be read: {error.strerror}", where=str(path), fix="make it readable") from error


def read_header(path: Path) -> Header:
    """The header block alone, without parsing any body. Raises BadCassette."""
    text = read_text(path)
    end = _END_OF_HEADER.search(text)
    if end is None:
        raise BadCassette("it holds no interactions: it is cut off, or no cassette", where=str(path), fix=AGAIN)
    document = load_yaml(text[: end.start()], str(path))
    return header_of(document, str(path))


def read_cassette(path: Path) -> Cassette:
    """A cassette of ours, whole and unaltered. Raises BadCassette."""
    where = str(path)
    collecting = gc.isenabled()
    gc.disable()  # a hundred thousand new objects, none of them garbage: looking through them would double the time
    try:
        found = parse_cassette(read_text(path), where)
    finally:
        if collecting:
            gc.enable()
    if found.header is None:
        raise BadCassette("no header block: not recorded by this harness, so nobody knows what it is evidence of", where=where, fix=AGAIN)
    if content_hash(found.interactions) != found.header.content:
        raise BadCassette("it was edited after it was recorded (content hash)", where=where, fix=AGAIN)
    return found


def parse_cassette(text: str, where: str) -> Cassette:
    """Any file in vcr's format. Raises BadCassette naming file, interaction and field."""
    document = load_yaml(text, where)
    if not isinstance(document, dict) or "interactions" not in document:
        raise BadCassette("it holds no list of interactions", where=where, fix="use a cassette in vcr's format")
    if document.get("version") != 1:
        found = "the end of the file is missing (no version)" if "version" not in document else f"version {document['version']!r} is not 1"
        raise BadCassette(found, where=where, fix=AGAIN)
    unknown = sorted(set(document) - {"interactions", "version", HEADER}, key=str)
    if unknown:
        raise BadCassette(f"unknown key {unknown[0]!r}", where=where, fix="remove it")
    header = header_of(document, where) if HEADER in document else None
    listed = document["interactions"]
    if not isinstance(listed, list):
        raise BadCassette("interactions is no list", where=where, fix=AGAIN)
    problems: list[str] = []
    interactions = []
    for number, raw in enumerate(listed):
        try:
            interactions.append(interaction_of(raw))
        except ValueError as error:
            problems.append(f"interaction {number} {error}")
        problems += [f"interaction {number}: {leak}" for leak in exposed(raw)]
    if problems:
        raise BadCassette(problems[0], where=where, fix="use vcr's own serializer, and record with redaction on", problems=tuple(problems))
    gates = [gate for one in interactions for _, gate in one.gates]
    if any(not 0 <= gate < len(interactions) for gate in gates):
        raise BadCassette("an event waits for an interaction that is not there", where=where, fix=AGAIN)
    return Cassette(where, header, tuple(interactions))


def header_of(document: Any, where: str) -> Header:
    block = document.get(HEADER) if isinstance(document, dict) else None
    if not isinstance(block, dict):
        raise BadCassette("no header block: not recorded by this harness, so nobody knows what it is evidence of", where=where, fix=AGAIN)
    if block.get("format") != FORMAT:
        raise BadCassette(f"format {block.get('format')!r}: this version reads {FORMAT}", where=where, fix=AGAIN)
    try:
        return Header.model_validate(block)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise BadCassette(f"{HEADER}.{at}: {first['msg']}", where=where, fix=AGAIN) from None


def interaction_of(raw: Any) -> Interaction:
    """Raises ValueError that reads on from "interaction 0 "."""
    if not isinstance(raw, dict) or not isinstance(raw.get("request"), dict) or not isinstance(raw.get("response"), dict):
        raise ValueError("has no request and response")
    for part, known in _FIELDS.items():
        if unknown := sorted(set(raw[part]) - known, key=str):
            lost = "no body; custom serializer field" if "body" not in raw[part] else "an unknown field"
            raise ValueError(f"has {lost} {unknown[0]}")
    request, response, tap = raw["request"], raw["response"], raw.get("tap") or {}
    status = response.get("status")
    if "body" not in request:
        raise ValueError("has no request body")
    if not isinstance(status, dict) or type(status.get("code")) is not int:
        raise ValueError("has no status code")
    if not isinstance(tap, dict) or set(tap) - {"outcome", "gates"}:
        raise ValueError("has an unknown field beside request and response")
    outcome = tap.get("outcome", "answered")
    if outcome not in ("answered", "left_open", "broken_off"):
        raise ValueError(f"ended as {outcome!r}, which is unknown")
    return Interaction(
        method=_text(request.get("method"), "request method"),
        target=_target(_text(request.get("uri"), "request uri")),
        request_headers=_headers(request.get("headers"), "request"),
        request_body=None if request["body"] is None else _bytes(request["body"], "request"),
        status=status["code"],
        reason=str(status.get("message") or ""),
        response_headers=_headers(response.get("headers"), "response"),
        response_body=_body(response),
        outcome=outcome,
        gates=_gates(tap.get("gates", [])),
    )


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"has no {what}")
    return value


def _target(uri: str) -> str:
    return "/" + uri.partition("://")[2].partition("/")[2] if "://" in uri else uri


def _bytes(value: Any, what: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    raise ValueError(f"has a {what} body that is neither text nor bytes")


def _body(response: Mapping[str, Any]) -> bytes:
    body = response.get("body")
    if not isinstance(body, dict) or set(body) != {"string"}:
        raise ValueError("has no body" if not isinstance(body, dict) else "has a body that is no string")
    return _bytes(body["string"], "response")


def _headers(value: Any, what: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"has no {what} headers")
    found = []
    for name, values in value.items():
        for one in values if isinstance(values, list) else [values]:
            if not isinstance(name, str) or not isinstance(one, str):
                raise ValueError(f"has a {what} header that is no text")
            found.append((name.lower(), one))
    return tuple(found)


def _gates(value: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or any(not isinstance(g, list) or len(g) != 2 or any(type(n) is not int for n in g) for g in value):
        raise ValueError("has gates that are no pairs of numbers")
    return tuple((event, after) for event, after in value)


# ---- writing


def dump_cassette(header: Header, interactions: tuple[Interaction, ...]) -> bytes:
    """The file. Long texts stay on one line, so that nothing that was searched is torn apart afterwards."""
    document = {HEADER: header.model_dump(mode="json"), "interactions": [_plain(one) for one in interactions], "version": 1}
    text = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=True, width=1 << 30, allow_unicode=True)
    return text.encode("utf-8")


def _plain(one: Interaction) -> dict[str, Any]:
    tap: dict[str, Any] = {}
    if one.outcome != "answered":
        tap["outcome"] = one.outcome
    if one.gates:
        tap["gates"] = [list(gate) for gate in one.gates]
    plain = {
        "request": {
            "method": one.method,
            "uri": ORIGIN + one.target,
            "body": None if one.request_body is None else _shown(one.request_body),
            "headers": _listed(one.request_headers),
        },
        "response": {
            "status": {"code": one.status, "message": one.reason},
            "headers": _listed(one.response_headers),
            "body": {"string": _shown(one.response_body)},
        },
    }
    return plain | ({"tap": tap} if tap else {})


def _listed(headers: tuple[tuple[str, str], ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value)
    return found


def _shown(body: bytes) -> str | bytes:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return body
    return text if _PRINTABLE.fullmatch(text) else body


_PRINTABLE = re.compile("[\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]*")


def write_whole(path: Path, content: bytes) -> None:
    """Beside it first, flushed, then in its place: whoever looks sees the old file or the new one. Raises UsageError; nothing is half-written."""
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.stem}-", suffix=".part", delete=False) as file:
            name = file.name
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        os.replace(name, path)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        what = f"the cassette cannot be written: {error.strerror}"
        raise UsageError(what, where=str(path), fix="make room or make the folder writable; the cassette before it is as it was") from error
