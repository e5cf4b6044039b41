"""What speaks for the provider's side, read from what the tap saw of it and from the harness's own look. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.model.answer import json_of, pointer, text_of
from harness.model.cause import CauseClass, Sign
from harness.model.evidence import ClientExchange
from harness.model.exchange import ProviderExchange
from harness.nightly.case import Case, at_tap

REFUSES = re.compile(
    r"\b(401|unauthori[sz]ed|unauthenticated|forbidden|invalid (api )?key|(token|key|credential)s? (has |is |was )?(expired|revoked|invalid))\b", re.I
)
FAILS = re.compile(
    r"\b(429|50[0-4]|internal (server )?error|unexpected error|time[d]? ?out|unavailable|overload(ed)?|try again|maintenance|rate limit|quota"
    r"|temporarily|upstream|connection (reset|refused))\b",
    re.I,
)
DIFFERS = re.compile(
    r"\b(unknown (tool|argument|parameter|field)|validation error|invalid (arguments?|params?|input)|unexpected (keyword|argument|property)"
    r"|unrecogni[sz]ed|missing (required )?(argument|parameter|field)|field required|is (not )?required|required property|deprecated"
    r"|no longer|not (be )?supported|method not found|tool [^ ]+ not found)\b",
    re.I,
)
CHANGED_STATUS = frozenset({400, 404, 405, 410, 415, 422})
CHANGED_CODE = frozenset({-32602, -32601})
CATALOG = frozenset({"no_drift", "drifted", "discovered", "hashes"})


def provider_signs(case: Case) -> Iterator[Sign]:
    near = [sign for connection, exchange in case.relevant() for sign in of_exchange(case, connection, exchange)]
    # A step can fail because an earlier one brought nothing, as when an approved write came to nothing and its id was never captured.
    yield from near or [sign for connection, exchange in case.view.exchanges for sign in of_exchange(case, connection, exchange)]
    yield from of_probes(case)
    yield from of_catalog(case)
    yield from of_shapes(case)


def of_exchange(case: Case, connection: str, exchange: ProviderExchange) -> Iterator[Sign]:
    """A request that the tap stopped itself is no word of the provider's."""
    if "live-guard" in (exchange.fault or ""):
        return
    where, status = at_tap(connection, exchange), exchange.status
    bridge = case.view.operations(connection)
    if exchange.outcome == "upstream_failed":
        yield sign("provider_outage", "the provider broke off, or could not be reached", where)
    elif exchange.outcome in (None, "client_gone") and exchange.forwarded and status is None and exchange.method != "GET":
        yield sign("provider_outage", "the provider did not answer until the gateway gave up", where)
    elif status in (401, 403):
        # That the harness may list tools with this credential says nothing about whether it may call one: 403 is about the call.
        yield from refused(case, connection, where, status, comparable=status == 401 or exchange.tool is None)
    elif status is not None and (status >= 500 or status == 429):
        yield sign("provider_outage", f"the provider answered HTTP {status}", where)
    elif status in CHANGED_STATUS and not bridge:
        yield sign("provider_change", f"the provider answered HTTP {status} to a request that was agreed", where)
    elif exchange.rpc_error_code is not None:
        cause: CauseClass = "provider_change" if exchange.rpc_error_code in CHANGED_CODE else "provider_outage"
        yield sign(cause, f"the provider answered with JSON-RPC error {exchange.rpc_error_code}", where)
    elif exchange.is_error:
        yield from spoken(text_of(exchange.result), where)
    elif bridge and status in CHANGED_STATUS:
        yield from spoken(str(exchange.result), where)
    elif exchange.tool and status == 200 and exchange.outcome == "answered" and exchange.result_digest is None and exchange.is_error is None:
        yield sign("provider_outage", "the provider answered 200 with something that is no answer to a call", where)
    elif exchange.rpc_method in ("tools/list", "initialize", "server/discover") and status == 200 and exchange.result_digest is None:
        yield sign("provider_outage", "the provider answered 200 with something that is no answer to a request", where)


def refused(case: Case, connection: str, where: str, status: int, *, comparable: bool) -> Iterator[Sign]:
    """The same credential, tried by the harness itself, tells a bad credential from a gateway that does not present it."""
    probe = case.probe_of(connection)
    if comparable and probe is not None and probe.state == "answers":
        yield sign("gateway_defect", f"HTTP {status} for the gateway, while the same credential lets the harness in", where)
    else:
        yield sign("credentials", f"the provider refused the credential with HTTP {status}", where)


def spoken(text: str, where: str) -> Iterator[Sign]:
    """An error in the provider's own words; only plain words count."""
    for cause, pattern in (("credentials", REFUSES), ("provider_outage", FAILS), ("provider_change", DIFFERS)):
        if found := pattern.search(text):
            yield Sign.model_validate({"speaks_for": cause, "what": f"the provider's own error says {found.group()!r}", "where": where})
            return


def of_probes(case: Case) -> Iterator[Sign]:
    words: Mapping[str, CauseClass] = {
        "unreachable": "provider_outage",
        "limited": "provider_outage",
        "changed": "provider_change",
        "incomplete": "provider_outage",
        "refused": "credentials",
    }
    for provider in dict.fromkeys(case.view.providers.values()):
        probe = case.probes.get(provider)
        if probe is not None and probe.state in words:
            yield sign(words[probe.state], f"asked without the gateway: {probe.detail.splitlines()[0][:200]}", f"probe of {provider}")


def of_catalog(case: Case) -> Iterator[Sign]:
    """Drift of the list; that the gateway's list is the provider's own is for the gateway's signs to doubt."""
    for finding in case.findings:
        if finding.severity == "drift" or (case.words.get(finding.expectation) in CATALOG and finding.severity == "fail"):
            yield sign("provider_change", f"{finding.id}: {finding.message}", f"finding at {finding.expectation or 'the list'}")


def of_shapes(case: Case) -> Iterator[Sign]:
    """An answer that came through unchanged and no longer has what was agreed where it was agreed."""
    for finding in case.findings:
        word = case.words.get(finding.expectation)
        call = case.view.last_call(finding.step) if finding.step else None
        if word not in ("recalled", "result") or call is None or call.result is None or call.result.get("isError") is True:
            continue
        manifest = case.view.manifest_of(call.connection)
        shape = manifest.recall.get(call.tool) if manifest else None
        answer = json_of(call.result)
        if shape is not None and not listed(answer, shape.items):
            yield sign(
                "provider_change", f"the answer has no list at {shape.items or 'its root'}, where {call.tool} keeps its items", f"call {call.step}"
            )
        elif shape is not None and (lost := lost_field(answer, shape.items, shape.text)):
            yield sign("provider_change", f"the items have nothing at {lost}", f"call {call.step}")
        elif word == "result":
            yield from lost_member(finding.message, call)


def listed(answer: Any, at: str) -> bool:
    found, items = pointer(answer, at)
    return found and isinstance(items, list)


def lost_field(answer: Any, at: str, field: str) -> str:
    _, items = pointer(answer, at)
    return field if items and not any(pointer(item, field)[0] for item in items) else ""


def lost_member(message: str, call: ClientExchange) -> Iterator[Sign]:
    if message.startswith("the answer has nothing at "):
        yield sign("provider_change", message, f"call {call.step}")


def sign(speaks_for: CauseClass, what: str, where: str) -> Sign:
    return Sign(speaks_for=speaks_for, what=what, where=where)
