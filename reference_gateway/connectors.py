"""The gallery: which memory providers can be connected, and what each needs to be set up. Reviewed, and the gateway's own.

The harness has manifests of the same providers; nothing is shared with them, so that each side can find the other's mistakes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from reference_gateway.canonical import canonical_bytes
from reference_gateway.errors import GatewayError


@dataclass(frozen=True, slots=True)
class Field:
    """One value that is asked for. `path` is where the vault keeps it, exactly so. `secret`: hidden while it is entered."""

    path: str
    label: str
    secret: bool = True
    help: str = ""

    def public(self) -> dict[str, Any]:
        return {"path": self.path, "label": self.label, "secret": self.secret, "help": self.help}


@dataclass(frozen=True, slots=True)
class Connector:
    """`scheme`: how the credential is sent (the bridges know their own). `managed`: arguments that an operator may fix.

    `choose`: whether all fields are needed, or exactly one of them. `endpoint` is None where the address is a credential.
    """

    id: str
    title: str
    docs: str
    transport: str
    endpoint: str | None
    auth: Literal["api_key", "oauth"]
    fields: tuple[Field, ...]
    instructions: str
    choose: Literal["all", "one"] = "all"
    scheme: Literal["bearer", "token", "header", "none"] = "bearer"
    scopes: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    risk_note: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.fields)

    def public(self) -> dict[str, Any]:
        plain = {
            name: getattr(self, name) for name in ("id", "title", "docs", "transport", "endpoint", "auth", "choose", "instructions", "risk_note")
        }
        lists = {"fields": [each.public() for each in self.fields], "scopes": list(self.scopes), "managed": list(self.managed)}
        return {**plain, **lists}


_AUTHORIZATION = "credentials.authorization"
_OAUTH = "credentials.oauth"

_ALL = (
    Connector(
        id="cognee",
        title="Cognee Cloud",
        docs="https://docs.cognee.ai/cognee-cloud/connections/cloud-mcp",
        transport="cognee_cloud",
        endpoint=None,
        auth="api_key",
        scheme="none",
        fields=(
            Field("env.COGNEE_BASE_URL", "Tenant URL", secret=False, help="https://YOUR-TENANT.aws.cognee.ai, with nothing after it"),
            Field("env.COGNEE_API_KEY", "API key"),
        ),
        instructions="Recall from the dataset by name before you answer. What was just remembered is indexed later: a recall that fails with 409 "
        "means not yet, not never.",
        risk_note="forget with everything=true deletes every dataset of the tenant.",
    ),
    Connector(
        id="honcho",
        title="Honcho",
        docs="https://honcho.dev/docs/v3/guides/integrations/mcp",
        transport="mcp_http",
        endpoint="https://mcp.honcho.dev",
        auth="api_key",
        fields=(Field(_AUTHORIZATION, "API key"),),
        managed=("workspace_id",),
        instructions="Read the messages of the session before you answer. Save each message under the peer who said it; conclusions appear later.",
        risk_note="Several of its reading tools create what they do not find.",
    ),
    Connector(
        id="mem0",
        title="Mem0",
        docs="https://docs.mem0.ai/platform/mem0-mcp",
        transport="mcp_http",
        endpoint="https://mcp.mem0.ai/mcp/",
        auth="api_key",
        fields=(Field(_AUTHORIZATION, "API key"),),
        managed=("user_id", "agent_id", "app_id"),
        instructions="Search before you answer what the user may have told you before. Save lasting facts and preferences, each as its own memory.",
        risk_note="delete_all_memories without a filter falls back to a default user.",
    ),
    Connector(
        id="papr",
        title="Papr",
        docs="https://platform.papr.ai/docs",
        transport="papr_cloud",
        endpoint="https://memory.papr.ai",
        auth="api_key",
        scheme="none",
        fields=(
            Field("credentials.api_key", "API key"),
            Field("credentials.session_token", "Session token"),
            Field("credentials.bearer", "Bearer token"),
        ),
        choose="one",
        managed=("user_id", "external_user_id"),
        instructions="Search before you answer. Save a memory when the user states something lasting; one just added may be found later.",
        risk_note="delete_all_memories removes everything of one user.",
    ),
    Connector(
        id="supermemory",
        title="Supermemory",
        docs="https://supermemory.ai/docs/supermemory-mcp/mcp",
        transport="mcp_http",
        endpoint="https://mcp.supermemory.ai/mcp",
        auth="oauth",
        fields=(Field(_OAUTH, "Authorization"),),
        scopes=("openid", "profile", "email", "offline_access"),
        managed=("containerTag",),
        instructions="Search in the space you were given before you answer. What you save is queued: do not say that it can be recalled yet.",
        risk_note="add_memory can also forget.",
    ),
    Connector(
        id="zep",
        title="Zep",
        docs="https://help.getzep.com/memory-mcp-server",
        transport="mcp_http",
        endpoint="https://api.getzep.com/mcp",
        auth="oauth",
        fields=(Field(_OAUTH, "Authorization"),),
        scopes=("graph:read", "graph:write"),
        managed=("graph_id", "user_id"),
        instructions="Search the graph before you answer. Add what the user states as an episode; facts are derived from it later.",
    ),
)
CONNECTORS: Mapping[str, Connector] = MappingProxyType({each.id: each for each in _ALL})


def gallery_tag(*, on: bool) -> str:
    """The entity tag of the gallery as it is shown now. An empty gallery has another one, so no cached copy outlives the switch."""
    shown = [each.public() for each in _ALL] if on else []
    return '"' + hashlib.sha256(canonical_bytes(shown)).hexdigest()[:32] + '"'


def connector(name: str) -> Connector:
    """Raises GatewayError `connector_unknown`."""
    if (found := CONNECTORS.get(name)) is None:
        raise GatewayError(
            "connector_unknown", "the gallery has no such connector", where=name[:100], fix=f"use one of: {', '.join(CONNECTORS)}", http_status=404
        )
    return found


def default_instructions(provider: str) -> str:
    """What agents are told of a connection while nobody edited it; "" for providers that are not in the gallery."""
    return CONNECTORS[provider].instructions if provider in CONNECTORS else ""


def manageable(provider: str, name: str) -> bool:
    """Whether an operator may fix this argument of the provider's tools."""
    return provider not in CONNECTORS or name in CONNECTORS[provider].managed


def paths_of(provider: str) -> tuple[str, ...]:
    """Every path under which a connection of this provider might keep a secret."""
    return CONNECTORS[provider].paths if provider in CONNECTORS else ()
