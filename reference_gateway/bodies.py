"""Request bodies of the operator API, as strict types: unknown keys and wrong types never get past the door."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from reference_gateway.errors import GatewayError
from reference_gateway.peer import Offer
from reference_gateway.texts import SAID, unprintable


def _printable(name: str) -> str:
    if unprintable(name):
        raise PydanticCustomError("unprintable", SAID)
    return name


ProviderName = Literal["mem0", "zep", "supermemory", "cognee", "honcho", "papr", "generic"]
Version = Literal["auto", "2025-06-18", "2025-11-25", "2026-07-28"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TenantBody(Body):
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None


class AuthBody(Body):
    scheme: Literal["bearer", "token", "header", "oauth", "none"]
    path: Name | None = None
    header: Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")] | None = None


class ConnectionBody(Body):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    provider: ProviderName
    transport: Literal["mcp_http", "cognee_cloud", "papr_cloud", "stdio"]
    url: str | None = None
    protocol_version: Version = "auto"
    grant: Any = None
    auth: AuthBody = AuthBody(scheme="none")
    credentials: dict[Name, str] = Field(default_factory=dict)
    permissions: dict[str, str] = Field(default_factory=dict)
    quarantine: bool | None = None
    agents: list[Name] | None = None
    tool_timeout_s: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] | None = None
    template: Name | None = None
    offers: list[Offer] = Field(default_factory=list)
    managed: dict[str, Any] = Field(default_factory=dict)


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


class OffersBody(Body):
    offers: list[Offer]


class AudienceBody(Body):
    """None: every subject; an empty list: none."""

    audience: Annotated[list[Name], Field(max_length=1000)] | None


class LeadBody(Body):
    """Connections to `address` and `port` end at port `to` of 127.0.0.1."""

    address: Annotated[str, Field(min_length=2, max_length=60)]
    port: Annotated[int, Field(gt=0, lt=65536)] = 443
    to: Annotated[int, Field(gt=0, lt=65536)]


class NamesBody(Body):
    """`names`: host to its answers, given in turn, the last one for ever."""

    names: dict[str, list[list[str]]]
    leads: Annotated[list[LeadBody], Field(max_length=100)] = Field(default_factory=list)


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
    place: Literal["local", "remote"] = "local"


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


class ExperimentalBody(Body):
    memory_connectors: bool


class SetupBody(Body):
    """`endpoint`: instead of the connector's own."""

    connector: Name
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    grant: Any = None
    endpoint: str | None = None
    protocol_version: Version = "auto"
    managed: dict[str, Any] = Field(default_factory=dict)
    quarantine: bool | None = None


class IdentityBody(Body):
    subject: Name


class ValuesBody(Body):
    """Credential path to secret."""

    values: dict[Name, Annotated[str, Field(max_length=16_384)]]


class CredentialsBody(ValuesBody):
    endpoint: str | None = None


class AuthorizeBody(Body):
    session: Name | None = None
    redirect_uri: str | None = None


class StateBody(Body):
    state: Literal["active", "paused", "disabled", "archived"]


class InstructionsBody(Body):
    """What is left out stays as it is; `text` None is the connector's own again."""

    text: Annotated[str, Field(max_length=4000)] | None = None
    enabled: bool = True


class ManagedBody(Body):
    managed: dict[str, Any]


class DeliveryBody(Body):
    form: Literal["codex", "claude_code", "gemini_cli", "generic"]
    token: Annotated[str, Field(min_length=1, max_length=500)]


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
