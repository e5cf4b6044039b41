"""What an operator may declare of a connection, judged before anything is stored or dialled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from reference_gateway.bodies import AuthBody, ConnectionBody, invalid
from reference_gateway.bridge import papr
from reference_gateway.bridge.cognee import CogneeBridge, check_base_url
from reference_gateway.catalog import Catalog
from reference_gateway.connection import Settings
from reference_gateway.egress import Egress, split_url
from reference_gateway.errors import GatewayError
from reference_gateway.grant import parse as parse_grant
from reference_gateway.managed import check as check_managed
from reference_gateway.permission import WORDS, Word
from reference_gateway.stdio.templates import Template

COGNEE_URL = "env.COGNEE_BASE_URL"
COGNEE_KEY = "env.COGNEE_API_KEY"

Secret = Callable[[str], str]
"""Credential path to the secret itself."""

_HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,8192}")


def auth_headers(auth: Mapping[str, str | None], secret: Secret) -> dict[str, str]:
    scheme, path = auth["scheme"], auth["path"]
    if scheme in ("none", "oauth") or path is None:  # a token is put on each request by whoever renews it
        return {}
    if scheme == "header":
        return {str(auth["header"]): secret(path)}
    return {"authorization": f"{'Bearer' if scheme == 'bearer' else 'Token'} {secret(path)}"}


def settings_of(body: ConnectionBody, egress: Egress, templates: Mapping[str, Template]) -> Settings:
    """What was declared, judged, less the secrets. Raises GatewayError."""
    grant = parse_grant(body.grant if body.grant is not None else {"kind": "organization"})
    if body.transport == "stdio":
        host = check_stdio(body, templates)
    else:
        host = {"cognee_cloud": check_cognee, "papr_cloud": check_papr}.get(body.transport, check_mcp)(body, egress)
    check_managed(body.provider, body.managed)
    return Settings(
        name=body.name,
        provider=body.provider,
        transport=body.transport,
        url=body.url,
        protocol_version=body.protocol_version,
        grant=grant,
        auth=body.auth.model_dump(),
        credential_paths=tuple(body.credentials),
        quarantine=body.provider == "generic" if body.quarantine is None else body.quarantine,
        tool_timeout_s=body.tool_timeout_s,
        host=host,
        agents=tuple(body.agents) if body.agents is not None else None,
        template=body.template,
        managed=dict(body.managed),
        offers=tuple(dict.fromkeys(body.offers)),
    )


def body_of(settings: Settings, credentials: Mapping[str, str]) -> ConnectionBody:
    """A connection as it would be declared today, with these credentials."""
    return ConnectionBody.model_validate(
        {
            "name": settings.name,
            "provider": settings.provider,
            "transport": settings.transport,
            "url": settings.url,
            "protocol_version": settings.protocol_version,
            "grant": settings.grant.document(),
            "auth": AuthBody.model_validate(dict(settings.auth)),
            "credentials": dict(credentials),
            "quarantine": settings.quarantine,
            "agents": list(settings.agents) if settings.agents is not None else None,
            "tool_timeout_s": settings.tool_timeout_s,
            "template": settings.template,
            "managed": dict(settings.managed),
        }
    )


def check_mcp(body: ConnectionBody, egress: Egress) -> str:
    """The host. Raises GatewayError for a URL that is never dialled, and for a credential that could not be sent."""
    if body.template is not None:
        raise invalid("template belongs to the transport stdio", "template", "leave it out")
    if body.url is None:
        raise invalid("an mcp_http connection needs a url", "url", "give the provider's MCP endpoint")
    egress.check_url(body.url)
    auth = body.auth
    if (auth.scheme == "header") != (auth.header is not None):
        raise invalid("header belongs to the scheme of that name, and only to it", "auth.header", "give both or neither")
    if auth.scheme not in ("none", "oauth"):
        value = body.credentials.get(auth.path or "")
        if value is None:
            raise invalid("auth.path names no credential that was given", "auth.path", "give the credential under exactly this path")
        if not _HEADER_VALUE.fullmatch(value):
            raise invalid("the credential is empty or holds characters that a header cannot carry", "credentials", "give it as it was issued")
    return split_url(body.url)[1]


def check_cognee(body: ConnectionBody, egress: Egress) -> str:
    if body.url is not None:
        raise invalid("a cognee_cloud connection takes its address from its credentials", "url", f"leave it out; give {COGNEE_URL}")
    for path in (COGNEE_URL, COGNEE_KEY):
        if path not in body.credentials:
            raise invalid("a credential is missing", f"credentials.{path}", "give it")
    CogneeBridge(egress, body.credentials[COGNEE_URL], body.credentials[COGNEE_KEY])
    return check_base_url(body.credentials[COGNEE_URL]).removeprefix("https://")


def check_papr(body: ConnectionBody, egress: Egress) -> str:
    """The host. Without a url it is Papr's own; exactly one credential, presented in the way its path names."""
    if body.auth.scheme != "none":
        raise invalid("how a Papr credential is presented follows from its path", "auth.scheme", "leave auth out")
    path = papr.the_credential(body.credentials)
    origin = papr.check_base_url(body.url or papr.DEFAULT_URL)
    egress.check_url(origin)
    papr.PaprBridge(egress, origin, (path, body.credentials[path]))
    return split_url(origin)[1]


def check_stdio(body: ConnectionBody, templates: Mapping[str, Template]) -> str:
    """No host. Raises GatewayError for anything but an approved command with exactly the credentials that it takes."""
    if body.url is not None or body.auth.scheme != "none":
        raise invalid("a local server has neither a url nor an auth of its own", "url", "leave both out; its credentials are its environment")
    template = templates.get(body.template or "")
    if template is None:
        raise GatewayError(
            "template_unknown", "there is no such approved command", where="template", fix="see GET /tenants/{t}/templates", http_status=422
        )
    if body.protocol_version == "2026-07-28":
        raise invalid("local servers are spoken to in versions with a handshake", "protocol_version", "use auto")
    wanted = set(template.env.values())
    for path in sorted(wanted ^ set(body.credentials)):
        raise invalid("a credential is missing, or is not one that the command takes", f"credentials.{path}"[:200], "give exactly the template's")
    if any("\0" in secret or not secret for secret in body.credentials.values()):
        raise invalid("a credential is empty or holds a NUL", "credentials", "give it as it was issued")
    return ""


def check_words(words: Mapping[str, str]) -> None:
    for tool, word in words.items():
        if word not in WORDS:
            raise GatewayError(
                "permission_unknown",
                "there is no such permission",
                where=f"permissions.{tool}"[:200],
                fix=f"use one of: {', '.join(WORDS)}",
                http_status=422,
            )


def words_for(catalog: Catalog, words: Mapping[str, str]) -> dict[str, Word]:
    for tool in words:
        if tool not in catalog.tools:
            raise GatewayError("tool_unknown", "the catalog has no such tool", where=tool[:200], fix="list the connection's tools", http_status=404)
    return {tool: cast(Word, word) for tool, word in words.items()}
