"""providers/<id>.yaml: what is known of a provider apart from its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from harness.model.location import Frozen


class RecallShape(Frozen):
    """Where a recall tool's answer keeps its items: JSON pointers, the inner ones relative to an item.

    `items` is looked up in structured content, else in JSON-in-text; "" is the answer itself.
    `scope` maps an argument's name to the pointer of the item's field that must equal it.
    """

    items: str
    text: str
    id: str | None = None
    scope: Mapping[str, str] = Field(default_factory=dict)
    heading: str | None = None
    """Regular expression of the line that opens an item in an answer that is prose only."""


class Operation(Frozen):
    """A REST request that is the dispatch of one tool (bridges only)."""

    method: str
    path: str
    tool: str


class Auth(Frozen):
    """How the gateway presents the credential, and under which paths its vault keeps it."""

    scheme: Literal["bearer", "token", "header", "oauth", "cognee"]
    paths: tuple[str, ...]
    header: str | None = None
    scopes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class Manifest(Frozen):
    id: str
    title: str
    docs: str
    transport: Literal["mcp_http", "cognee_cloud"]
    endpoint: str
    path: str
    mount: Literal["reverse", "mapped"]
    auth: Auth
    selectors: tuple[str, ...] = ()
    instructions: str = ""
    recall: Mapping[str, RecallShape] = Field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    extra: Mapping[str, Any] = Field(default_factory=dict)
