"""Request bodies of the operator API, as strict types: unknown keys and wrong types never get past the door."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reference_gateway.errors import GatewayError

ProviderName = Literal["mem0", "zep", "supermemory", "cognee", "honcho", "generic"]
Version = Literal["auto", "2025-06-18", "2025-11-25", "2026-07-28"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TenantBody(Body):
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None


class AuthBody(Body):
    scheme: Literal["bearer", "token", "header", "none"]
    path: Name | None = None
    header: Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")] | None = None


class ConnectionBody(Body):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    provider: ProviderName
    transport: Literal["mcp_http", "cognee_cloud"]
    url: str | None = None
    protocol_version: Version = "auto"
    grant: Any = None
    auth: AuthBody = AuthBody(scheme="none")
    credentials: dict[str, str] = Field(default_factory=dict)
    permissions: dict[str, str] = Field(default_factory=dict)
    quarantine: bool | None = None
    agents: list[Name] | None = None
    tool_timeout_s: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] | None = None


class PermissionsBody(Body):
    permissions: dict[str, str]


class PolicyBody(Body):
    """Lists that are left out select everything, empty ones nothing."""

    id: Name
    permission: Literal["allowed", "ask_first", "off"]
    agents: list[Name] | None = None
    connections: Annotated[list[str], Field(min_length=1)] | None = None
    tools: Annotated[list[str], Field(min_length=1)] | None = None
    risks: Annotated[list[Literal["read", "write", "destructive"]], Field(min_length=1)] | None = None


class PoliciesBody(Body):
    policies: Annotated[list[PolicyBody], Field(max_length=1000)]


class AgentsBody(Body):
    """None: every agent; an empty list: no agent."""

    agents: list[Name] | None


class OperatorBody(Body):
    operator: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    role: Literal["operator", "viewer"]


class ModeBody(Body):
    mode: Literal["execute", "planning", "ask"]


class RunBody(Body):
    connections: Annotated[list[str], Field(min_length=1, max_length=100)]
    task: Name
    agent: Name
    subject: Name | None = None
    mode: Literal["execute", "planning", "ask"] = "execute"
    ttl_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 900.0
    waiting: Literal["result", "hold", "input_required"] = "result"
    takes_task: bool = False


class ApproveBody(Body):
    by: Name | None = None


class RejectBody(Body):
    by: Name | None = None
    reason: Annotated[str, Field(max_length=2000)] | None = None


class ReviewBody(Body):
    decision: Literal["allow", "keep_blocked"]
    by: Name | None = None
    reason: Annotated[str, Field(max_length=2000)] | None = None


class AdvanceBody(Body):
    seconds: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]


class EmptyBody(Body):
    pass


BodyT = TypeVar("BodyT", bound=Body)


def parse(model: type[BodyT], raw: bytes) -> BodyT:
    """Raises GatewayError 422 `unknown_field` or `invalid_field`, naming the first offending field and never its value."""
    try:
        return model.model_validate_json(raw or b"{}")
    except ValidationError as error:
        first = next((e for e in error.errors(include_url=False, include_input=False) if e["type"] == "extra_forbidden"), None)
        unknown = first is not None
        problem = first or error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in problem["loc"]) or "body"
        if unknown:
            raise GatewayError("unknown_field", "there is no such field", where=where, fix="remove it", http_status=422) from None
        raise GatewayError("invalid_field", problem["msg"], where=where, fix="see docs/operator-api.md", http_status=422) from None


def invalid(message: str, where: str, fix: str) -> GatewayError:
    return GatewayError("invalid_field", message, where=where, fix=fix, http_status=422)
