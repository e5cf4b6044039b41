"""Honcho's tools for scopes: named sets of sessions. A scope, unlike a session, is not made by reading it."""

from __future__ import annotations

from typing import Final

from harness.fake.honcho_call import Call, Handler, Json, show_session
from harness.fake.honcho_store import Refused, Scope, checked_id


def _show(scope: Scope) -> Json:
    return {
        "id": scope.id,
        "metadata": scope.metadata,
        "session_count": len(scope.session_ids),
        "created_at": scope.created_at.isoformat(),
    }


def create_scope(call: Call) -> Json:
    scope_id = checked_id(call.text("scope_id"), "scope id")
    scope = call.workspace.scopes.setdefault(scope_id, Scope(scope_id, call.now))
    if "metadata" in call.arguments:
        scope.metadata = dict(call.arguments["metadata"])
    return _show(scope)


def list_scopes(call: Call) -> Json:
    return call.page(list(call.workspace.scopes.values()), _show)


def get_scope_status(call: Call) -> Json:
    scope = call.workspace.scope(call.text("scope_id"))
    waiting = sum(not work.done for work in call.workspace.queue if work.session_id in scope.session_ids)
    return {**_show(scope), "status": "pending" if waiting else "ready", "pendingWorkUnits": waiting}


def get_scope_sessions(call: Call) -> Json:
    scope = call.workspace.scope(call.text("scope_id"))
    return call.page([call.workspace.sessions[one] for one in scope.session_ids], show_session)


def add_sessions_to_scope(call: Call) -> Json:
    scope = call.workspace.scope(call.text("scope_id"))
    for session_id in call.arguments["session_ids"]:  # all or none, and no session is made on the way
        if session_id not in call.workspace.sessions:
            raise Refused(f"Session {session_id[:80]} not found")
    for session_id in call.arguments["session_ids"]:
        if session_id not in scope.session_ids:
            scope.session_ids.append(session_id)
    return {**_show(scope), "session_ids": list(scope.session_ids)}


def remove_session_from_scope(call: Call) -> Json:
    scope = call.workspace.scope(call.text("scope_id"))
    if call.text("session_id") not in scope.session_ids:
        raise Refused(f"Session {call.text('session_id')[:80]} is not in scope {scope.id}")
    scope.session_ids.remove(call.text("session_id"))
    return {**_show(scope), "session_ids": list(scope.session_ids)}


HANDLERS: Final[dict[str, Handler]] = {
    one.__name__: one
    for one in (create_scope, list_scopes, get_scope_status, get_scope_sessions, add_sessions_to_scope, remove_session_from_scope)
}
