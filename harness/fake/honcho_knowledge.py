"""Honcho's tools for conclusions, representations, search and chat.

Chat is deterministic: it quotes the stored message that shares the most words with the question. No model, no tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from harness.fake.honcho_call import Call, Handler, Json, show_conclusion, show_message
from harness.fake.honcho_store import Conclusion, Message, Refused, Work
from harness.fake.kit_store import ranked

S = TypeVar("S", Message, Conclusion)


def create_conclusions(call: Call) -> Json:
    contents: list[str] = call.arguments["conclusions"]
    if not contents or not all(one.strip() for one in contents):
        raise Refused("Give at least one conclusion, none of them blank")
    session = call.maybe_session()
    observer, observed = call.peer().id, call.target()
    made = [
        call.workspace.conclude(observer, observed, content, call.now, session_id=session.id if session else None) for content in contents
    ]
    return {"conclusions": [show_conclusion(one) for one in made]}


def list_conclusions(call: Call) -> Json:
    held = call.workspace.about(call.peer().id, call.target(), call.maybe("session_id"))
    return call.page(call.kept_conclusions(held), show_conclusion)


def query_conclusions(call: Call) -> Json:
    held = call.kept_conclusions(call.workspace.about(call.peer().id, call.target()))
    found = _best(call.text("query"), held, call.count("top_k", 10))
    return {"conclusions": [show_conclusion(one) for one in found]}


def get_conclusions(call: Call) -> Json:
    return {"conclusions": [show_conclusion(call.workspace.conclusion(one)) for one in call.arguments["conclusion_ids"]]}


def get_derived_conclusions(call: Call) -> Json:
    source = call.workspace.conclusion(call.text("conclusion_id"))
    return call.page([one for one in call.workspace.conclusions.values() if source.id in one.premises], show_conclusion)


def delete_conclusion(call: Call) -> Json:
    found = call.workspace.conclusion(call.text("conclusion_id"))
    if (found.observer, found.observed) != (call.text("peer_id"), call.text("target_peer_id")):
        raise Refused(f"Conclusion {found.id} not found for {call.text('peer_id')[:80]} about {call.text('target_peer_id')[:80]}")
    del call.workspace.conclusions[found.id]
    return {"conclusion_id": found.id, "deleted": True}


def schedule_dream(call: Call) -> Json:
    session = call.maybe_session()
    observer, observed = call.peer().id, call.target()
    call.workspace.queue.append(Work(call.now, call.delay_s, observer, observed, session.id if session else None))
    return {"peer_id": observer, "target_peer_id": observed, "scheduled": True}


def _best(query: str, items: Sequence[S], most: int) -> list[S]:
    """The items that share words with the query, best first."""
    return [item for _, item in ranked(query, items, lambda item: item.content)][:most]


def _represented(call: Call) -> list[Conclusion]:
    """The conclusions a representation is made of: those that fit the search, or the newest."""
    most = call.count("max_conclusions", 25)
    held = call.workspace.about(call.peer().id, call.target(), call.maybe("session_id"))
    query = call.maybe("search_query")
    return held[-most:] if query is None else _best(query, held, most)


def get_representation(call: Call) -> str:
    return "\n".join(f"- {one.content}" for one in _represented(call)) or "(nothing concluded yet)"


def get_peer_context(call: Call) -> Json:
    observer, observed = call.peer(), call.target()
    return {
        "peer_id": observer.id,
        "target_peer_id": observed,
        "peer_card": observer.cards.get(observed),
        "representation": get_representation(call),
    }


def search(call: Call) -> Json:
    session, author = call.maybe_session(), call.maybe("peer_id")
    messages = [one for one in (session.messages if session else call.workspace.messages()) if author in (None, one.peer_id)]
    conclusions = [
        one
        for one in call.workspace.conclusions.values()
        if author in (None, one.observer, one.observed) and (session is None or one.session_id == session.id)
    ]
    kept_messages = call.kept_messages(messages, "message_filters")
    kept_conclusions = call.kept_conclusions(conclusions, "conclusion_filters")
    query = call.text("query")
    return {
        "messages": [show_message(one) for one in _best(query, kept_messages, call.count("message_limit", 10))],
        "conclusions": [show_conclusion(one) for one in _best(query, kept_conclusions, call.count("conclusion_top_k", 10))],
    }


def _within(call: Call) -> list[Message]:
    """The messages that a question may draw on: of the named session, sessions and scope, or of all."""
    named = {*call.arguments.get("sessions", ()), *((call.text("session_id"),) if call.maybe("session_id") else ())}
    for session_id in named:
        if session_id not in call.workspace.sessions:
            raise Refused(f"Session {session_id[:80]} not found")
    scope = call.maybe("scope")
    allowed = None if scope is None else set(call.workspace.scope(scope).session_ids)
    return [
        one
        for one in call.workspace.messages()
        if (not named or one.session_id in named) and (allowed is None or one.session_id in allowed)
    ]


def _answer(call: Call, messages: list[Message]) -> Json:
    if not call.text("query").strip():
        raise Refused("query must not be blank")
    evidence = _best(call.text("query"), messages, 5)
    answer = f"{evidence[0].peer_id} said: {evidence[0].content}" if evidence else "Nothing that was stored answers this."
    shown = {"evidence": [show_message(one) for one in evidence]} if call.arguments.get("include_evidence") else {}
    return {"answer": answer, **shown}


def chat(call: Call) -> Json:
    messages = _within(call)
    call.peer()
    about = call.target()
    return _answer(call, [one for one in messages if one.peer_id == about])


def workspace_chat(call: Call) -> Json:
    return _answer(call, _within(call))


HANDLERS: Final[dict[str, Handler]] = {
    one.__name__: one
    for one in (
        create_conclusions,
        list_conclusions,
        query_conclusions,
        get_conclusions,
        get_derived_conclusions,
        delete_conclusion,
        schedule_dream,
        get_representation,
        get_peer_context,
        search,
        chat,
        workspace_chat,
    )
}
