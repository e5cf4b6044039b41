"""What an operator may declare of a connection, judged before anything is stored or dialled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from reference_gateway.bodies import ConnectionBody, invalid
from reference_gateway.bridge.cognee import CogneeBridge, check_base_url
from reference_gateway.catalog import Catalog
from reference_gateway.egress import Egress, split_url
from reference_gateway.errors import GatewayError
from reference_gateway.permission import WORDS, Word

COGNEE_URL = "env.COGNEE_BASE_URL"
COGNEE_KEY = "env.COGNEE_API_KEY"

Secret = Callable[[str], str]
"""Credential path to the secret itself."""

_HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,8192}")


def auth_headers(auth: Mapping[str, str | None], secret: Secret) -> dict[str, str]:
    scheme, path = auth["scheme"], auth["path"]
    if scheme == "none" or path is None:
        return {}
    if scheme == "header":
        return {str(auth["header"]): secret(path)}
    return {"authorization": f"{'Bearer' if scheme == 'bearer' else 'Token'} {secret(path)}"}


def check_mcp(body: ConnectionBody, egress: Egress) -> str:
    """The host. Raises GatewayError for a URL that is never dialled, and for a credential that could not be sent."""
    if body.url is None:
        raise invalid("an mcp_http connection needs a url", "url", "give the provider's MCP endpoint")
    egress.check_url(body.url)
    auth = body.auth
    if (auth.scheme == "header") != (auth.header is not None):
        raise invalid("header belongs to the scheme of that name, and only to it", "auth.header", "give both or neither")
    if auth.scheme != "none":
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
