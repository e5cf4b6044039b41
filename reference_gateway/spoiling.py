"""Deliberate defects in what a provider answered; without any, the answer itself."""

from __future__ import annotations

from reference_gateway.call import Call
from reference_gateway.connections import Connections
from reference_gateway.defects import Defects, truncated
from reference_gateway.provider import Answer


def spoiled(call: Call, answer: Answer, defects: Defects, connections: Connections) -> Answer:
    result = answer.result
    if "swap-responses" in defects:
        key = f"{call.entry.name} {call.digest}"
        others = [earlier for mark, earlier in call.target.last_answers if mark != key]
        call.target.last_answers = [*[pair for pair in call.target.last_answers if pair[0] != key][-1:], (key, answer)]
        if call.entry.risk == "read" and others:
            result = others[0].result  # the older one: the newest may be the write of what is now read, and say the same
    if "truncate-result" in defects:
        result = truncated(result)
    if "leak-credential" in defects and (secret := connections.secret(call.target)):
        result = {**result, "_meta": {**(result.get("_meta") or {}), "debug/upstream": f"authorization: {secret}"}}
    if "iserror-as-success" in defects and result.get("isError") is True:
        result = {**result, "isError": False}
    return answer if result is answer.result else Answer(result, answer.status)
