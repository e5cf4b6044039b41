"""What the pipeline replied, as the protocol says it, whichever way the call came."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp.shared.exceptions import MCPError

from reference_gateway.log import logger
from reference_gateway.outcomes import OutcomeNotRecorded
from reference_gateway.results import INPUT_REQUIRED, PREFIX, Reply
from reference_gateway.store.base import StoreError
from reference_gateway.wire import Json

log = logger("surface")


@contextmanager
def recorded(invocation: str) -> Iterator[None]:
    """A call that could not be recorded ends as an internal error that names it, and the store's own code. Raises MCPError.

    One that was sent, and whose outcome could not be recorded, is told apart: it may have been executed.
    """
    try:
        yield
    except StoreError as error:
        log.error("call_not_recorded", code=error.code, invocation=invocation)
        data = {f"{PREFIX}invocation": invocation, f"{PREFIX}reason": error.code}
        what = error.message if isinstance(error, OutcomeNotRecorded) else "the gateway could not record the call"
        raise MCPError(-32603, what, data) from error


def unwrapped(reply: Reply) -> Json:
    """The result as it goes out. Raises MCPError for a reply that is a JSON-RPC error."""
    if reply.rpc is not None:
        raise MCPError(reply.rpc["code"], reply.rpc["message"], reply.rpc.get("data"))
    assert reply.result is not None
    return {key: value for key, value in reply.result.items() if key != "resultType" or value == INPUT_REQUIRED}
