"""The pending normaliser: how a gateway says that a call waits for a person, one dialect a class, declared by each target.

dialect         a call that waits is                                              said by
success_meta    a successful result whose `_meta` or structured content says so   gateways that keep agents from giving up
rpc_error       a JSON-RPC error with a code of its own, details in its data      ctrlrun (-41002)
error_text      a result with isError true whose text says so                     gateways without anything better
held            no answer at all until somebody decides                           gateways that hold the connection
input_required  a result that asks for input (2026-07-28)                         gateways that ask the agent's own user
http_409        HTTP 409 with a body that names the request                       REST-minded gateways

What a dialect says is the gateway's claim. Whether the call really waited, the witness decides: see `pending: approval`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.model.answer import text_of

Said = Mapping[str, Any]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: at most one of `result` and `error` (code, message, data); neither when nothing came in time."""

    result: Json | None = None
    error: Json | None = None


class Dialect(Protocol):
    """`read` answers what the reply says (outcome, approval, reason, origin, dialect), or None when it is not in this dialect."""

    def read(self, reply: Reply) -> Said | None: ...


def first(dialects: Sequence[Dialect], reply: Reply) -> Said:
    """The first dialect that knows the reply; nothing is said when none does."""
    for dialect in dialects:
        said = dialect.read(reply)
        if said is not None:
            return said
    return {}


def waiting(dialect: str, approval: Any) -> Said:
    """`approval` is the id that a person decides on; a dialect that names none leaves it out."""
    said: dict[str, Any] = {"outcome": "pending", "origin": "gateway", "reason": "requires_approval_policy", "dialect": dialect}
    return {**said, "approval": str(approval)} if approval not in (None, "") else said


def at(value: Any, path: Sequence[str]) -> Any:
    """The value below these keys, or None."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


@dataclass(frozen=True, slots=True)
class SuccessMeta:
    """`status`: path to a value that is one of `words`; `approval`: path to the id. Paths begin at the result."""

    status: Sequence[str]
    approval: Sequence[str]
    words: frozenset[str] = frozenset({"pending", "pending_approval", "approval_required"})

    def read(self, reply: Reply) -> Said | None:
        if reply.result is None or at(reply.result, self.status) not in self.words:
            return None
        return waiting("success_meta", at(reply.result, self.approval))


@dataclass(frozen=True, slots=True)
class RpcError:
    """`approval`: path to the id, from the error's data. `invocation`: the id is also what its record calls the call."""

    code: int
    approval: Sequence[str]
    invocation: bool = False

    def read(self, reply: Reply) -> Said | None:
        if reply.error is None or reply.error.get("code") != self.code:
            return None
        said = waiting("rpc_error", at(reply.error.get("data"), self.approval))
        return {**said, "invocation": said["approval"]} if self.invocation and "approval" in said else said


@dataclass(frozen=True, slots=True)
class ErrorText:
    """`pattern` is searched in the text of an isError result; its group `id`, if there is one, is the approval."""

    pattern: re.Pattern[str]

    def read(self, reply: Reply) -> Said | None:
        if reply.result is None or reply.result.get("isError") is not True:
            return None
        found = self.pattern.search(text_of(reply.result))
        return waiting("error_text", found.groupdict().get("id")) if found else None


@dataclass(frozen=True, slots=True)
class Held:
    """Nothing came within the agent's time: for a gateway that declares to hold calls, and for no other."""

    def read(self, reply: Reply) -> Said | None:
        return waiting("held", None) if reply.result is None and reply.error is None else None


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The result asks for input; its request state is what a person's answer refers to."""

    def read(self, reply: Reply) -> Said | None:
        if reply.result is None or reply.result.get("resultType") != "input_required":
            return None
        return waiting("input_required", reply.result.get("requestState"))


@dataclass(frozen=True, slots=True)
class Http409:
    """HTTP 409 as the agent's transport hands it on: an error whose data (or whose data's `status`) is that number."""

    approval: Sequence[str] = ("approval",)

    def read(self, reply: Reply) -> Said | None:
        data = reply.error.get("data") if reply.error is not None else None
        status = data.get("status", data.get("http_status")) if isinstance(data, Mapping) else None
        return waiting("http_409", at(data, self.approval)) if status == 409 else None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A JSON-RPC error by which the gateway refuses: `reason` in the audit's own words, `reasons` where its data says more.

    `invocation`: path to what its record calls the call, from the error's data.
    """

    code: int
    reason: str
    outcome: str = "denied"
    reasons: Mapping[str, str] = field(default_factory=dict)
    invocation: Sequence[str] = ()

    def read(self, reply: Reply) -> Said | None:
        if reply.error is None or reply.error.get("code") != self.code:
            return None
        data = reply.error.get("data")
        reason = self.reasons.get(str(at(data, ("reason",))), self.reason)
        said = {"outcome": self.outcome, "origin": "gateway", "reason": reason, "dialect": "rpc_error"}
        named = at(data, self.invocation) if self.invocation else None
        return {**said, "invocation": str(named)} if named else said


@dataclass(frozen=True, slots=True)
class ErrorRefusal:
    """`pattern` is searched in the text of an isError result by which the gateway refuses; `reason` in the audit's own words."""

    pattern: re.Pattern[str]
    reason: str = "policy_block"

    def read(self, reply: Reply) -> Said | None:
        if reply.result is None or reply.result.get("isError") is not True or not self.pattern.search(text_of(reply.result)):
            return None
        return {"outcome": "denied", "origin": "gateway", "reason": self.reason, "dialect": "error_text"}
