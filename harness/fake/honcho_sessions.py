"""Honcho's tools for sessions, the peers that sit in them, and their messages."""

from __future__ import annotations

from typing import Any, Final

from harness.fake.honcho_call import Call, Handler, Json, show_message, show_session
from harness.fake.honcho_store import Message, Refused, Seat, Session, checked_id


def create_session(call: Call) -> Json:
    return show_session(call.session())


def list_sessions(call: Call) -> Json:
    return call.page(list(call.workspace.sessions.values()), show_session)


def inspect_session(call: Call) -> Json:
    session = call.session()
    return {**show_session(session), "peers": _seats(session), "message_count": len(session.messages)}


def delete_session(call: Call) -> Json:
    call.workspace.delete_session(checked_id(call.text("session_id"), "session id"))
    return {"session_id": call.text("session_id"), "deleted": True}


def clone_session(call: Call) -> Json:
    """Messages of the copy have ids of their own; nothing is queued for them, for the originals were queued already."""
    original = call.session()
    last = call.maybe("message_id")
    kept = original.messages if last is None else original.messages[: _place(original, last) + 1]
    copy = Session(call.workspace.ids.short("session"), call.now, dict(original.metadata))
    copy.seats = {peer_id: Seat(seat.observe_me, seat.observe_others) for peer_id, seat in original.seats.items()}
    copy.messages = [
        Message(call.workspace.ids.short("message"), copy.id, one.peer_id, one.content, one.created_at, dict(one.metadata)) for one in kept
    ]
    call.workspace.sessions[copy.id] = copy
    return {**show_session(copy), "cloned_from": original.id, "message_count": len(copy.messages)}


def _seats(session: Session) -> list[Json]:
    return [
        {"peer_id": peer_id, "observe_me": seat.observe_me, "observe_others": seat.observe_others}
        for peer_id, seat in session.seats.items()
    ]


def get_session_peers(call: Call) -> Json:
    session = call.session()
    return {"session_id": session.id, "peers": _seats(session)}


def add_peers_to_session(call: Call) -> Json:
    wanted: list[dict[str, Any]] = [{"peer_id": one} if isinstance(one, str) else one for one in call.arguments["peers"]]
    for one in wanted:  # all or none: judged before the first is seated
        checked_id(one["peer_id"], "peer id")
    session = call.session()
    for one in wanted:
        seat = call.workspace.seated(session, one["peer_id"], call.now)
        seat.observe_me = one.get("observe_me", seat.observe_me)
        seat.observe_others = one.get("observe_others", seat.observe_others)
    return {"session_id": session.id, "peers": _seats(session)}


def remove_peers_from_session(call: Call) -> Json:
    session = call.session()
    strangers = [peer_id for peer_id in call.arguments["peer_ids"] if peer_id not in session.seats]
    if strangers:
        raise Refused(f"Peer {strangers[0][:80]} is not in session {session.id}")
    for peer_id in call.arguments["peer_ids"]:
        session.seats.pop(peer_id, None)  # None: the same id may be named twice
    return {"session_id": session.id, "peers": _seats(session)}


def add_messages_to_session(call: Call) -> Json:
    wanted: list[dict[str, Any]] = call.arguments["messages"]
    if not 1 <= len(wanted) <= 100:
        raise Refused("Give 1 to 100 messages")
    for one in wanted:
        checked_id(one["peer_id"], "peer id")
    session = call.session()
    said = [
        call.workspace.say(session, one["peer_id"], one["content"], dict(one.get("metadata", {})), call.now, call.delay_s) for one in wanted
    ]
    return {"session_id": session.id, "messages": [show_message(one) for one in said]}


def get_session_messages(call: Call) -> Json:
    page = call.page(call.kept_messages(call.session().messages), show_message)
    return {"messages": page.pop("items"), **page}  # as Honcho's own server puts it


def get_session_message(call: Call) -> Json:
    session = call.session()
    return show_message(session.messages[_place(session, call.text("message_id"))])


def _place(session: Session, message_id: str) -> int:
    for place, message in enumerate(session.messages):
        if message.id == message_id:
            return place
    raise Refused(f"Message {message_id[:80]} not found in session {session.id}")


def get_session_context(call: Call) -> Json:
    """A summary exists only once every message of the session has been worked through."""
    session = call.session()
    budget = call.count("tokens", 4000, most=1_000_000)
    fitting: list[Message] = []
    for message in reversed(session.messages):
        budget -= message.tokens
        if budget < 0:
            break
        fitting.insert(0, message)
    work = [one for one in call.workspace.queue if one.session_id == session.id and one.message is not None]
    summary = None
    if call.arguments.get("summary", True) and work and all(one.done for one in work):
        summary = f"{len(session.messages)} messages by {', '.join(sorted({one.peer_id for one in session.messages}))}"
    return {"session_id": session.id, "summary": summary, "messages": [show_message(one) for one in fitting]}


HANDLERS: Final[dict[str, Handler]] = {
    one.__name__: one
    for one in (
        create_session,
        list_sessions,
        inspect_session,
        delete_session,
        clone_session,
        get_session_peers,
        add_peers_to_session,
        remove_peers_from_session,
        add_messages_to_session,
        get_session_messages,
        get_session_message,
        get_session_context,
    )
}
