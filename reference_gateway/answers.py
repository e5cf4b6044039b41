"""What a provider answered to a call, judged: a result within bounds, or (2026-07-28) a request for something that the agent offers."""

from __future__ import annotations

from collections.abc import Callable, Collection

from reference_gateway.call import Call
from reference_gateway.defects import Defects
from reference_gateway.peer import ASKS, Agent, Limited
from reference_gateway.provider import Answer
from reference_gateway.results import INPUT_REQUIRED, judged
from reference_gateway.screen import suspicions
from reference_gateway.sealing import Sealer
from reference_gateway.wire import MALFORMED, Json, UpstreamFailure


def agent_side(agent: Agent | None, offers: Collection[str], told: Callable[[str, str], None]) -> Limited | None:
    """The agent as far as the connection lets a provider reach it; None where nothing but tools crosses."""
    return Limited(agent, offers, told) if agent is not None and offers else None


def rounds(call: Call, sealer: Sealer) -> str | None:
    """What is wrong with what an agent came back with; None, and the call's own part of it, when nothing is."""
    offers = call.target.settings.offers
    if not set(ASKS.values()) & set(offers) or (call.request_state is None and call.responses is None):
        return None
    if call.request_state is None:
        call.extra = {"inputResponses": call.responses}
        return None
    good, state = sealer.opened(call.request_state, belongs(call))
    if not good:
        return "requestState does not belong to this call, or is too old"
    came = {"inputResponses": call.responses, "requestState": state}
    call.extra = {name: value for name, value in came.items() if value is not None}
    return None


def belongs(call: Call) -> tuple[str, ...]:
    return (call.run.tenant, call.run.run, call.target.name, "tools/call", call.entry.name, call.digest or "")


def guarded(call: Call, answer: Answer, defects: Defects, peer: Limited | None) -> Answer:
    """Measures and flags too. Raises UpstreamFailure."""
    if answer.result.get("resultType") == INPUT_REQUIRED and call.approval is None and peer is not None:
        asked(answer.result, peer)
        return answer
    result, call.measure = judged(answer.result)
    call.flags = () if "unflagged-result" in defects else suspicions(result)
    return Answer(result, answer.status)


def output_missing(call: Call) -> bool:
    """Whether a success lacks the structured content that its tool declares. It passes as it came; on record it is no clean success."""
    answer, declared = call.answer, call.entry.wire.get("outputSchema")
    if not isinstance(answer, Answer) or not isinstance(declared, dict):
        return False
    result = answer.result
    return result.get("isError") is not True and "structuredContent" not in result and result.get("resultType") != INPUT_REQUIRED


def asked(result: Json, peer: Limited) -> None:
    """Raises UpstreamFailure for a request that is not well-formed, or for what this agent does not offer here."""
    requests, state = result.get("inputRequests", {}), result.get("requestState")
    if not isinstance(requests, dict) or not isinstance(state, (str, type(None))) or (not requests and state is None):
        raise UpstreamFailure(MALFORMED, "the provider asks for something without saying what", answered=True)
    for request in requests.values():
        method = request.get("method") if isinstance(request, dict) else None
        if not isinstance(method, str) or ASKS.get(method) not in peer.capabilities:
            raise UpstreamFailure(MALFORMED, "the provider asks for what the agent does not offer here", answered=True)
