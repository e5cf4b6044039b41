"""Honcho's tools for workspaces, peers, metadata and the background queue."""

from __future__ import annotations

from typing import Final

from harness.fake.honcho_call import Call, Handler, Json, show_peer
from harness.fake.honcho_store import Metadata, Peer, Refused, Session, Workspace


def _show(workspace: Workspace) -> Json:
    return {"id": workspace.id, "metadata": workspace.metadata, "created_at": workspace.created_at.isoformat()}


def list_workspaces(call: Call) -> Json:
    return call.page(list(call.memory.workspaces.values()), _show)


def create_workspace(call: Call) -> Json:
    if "metadata" in call.arguments:
        call.workspace.metadata = dict(call.arguments["metadata"])
    return _show(call.workspace)


def inspect_workspace(call: Call) -> Json:
    place = call.workspace
    return {
        **_show(place),
        "peers": list(place.peers),
        "sessions": list(place.sessions),
        "scopes": list(place.scopes),
        "message_count": sum(1 for _ in place.messages()),
        "conclusion_count": len(place.conclusions),
    }


def _holder(call: Call) -> Workspace | Peer | Session:
    """What the metadata tools speak of: the peer or the session if one is named, else the workspace."""
    if call.maybe("peer_id") is not None and call.maybe("session_id") is not None:
        raise Refused("Give peer_id or session_id, not both")
    if call.maybe("peer_id") is not None:
        return call.peer()
    return call.maybe_session() or call.workspace


def _show_metadata(holder: Workspace | Peer | Session) -> Json:
    return {"of": type(holder).__name__.lower(), "id": holder.id, "metadata": holder.metadata}


def get_metadata(call: Call) -> Json:
    return _show_metadata(_holder(call))


def set_metadata(call: Call) -> Json:
    holder = _holder(call)
    metadata: Metadata = dict(call.arguments["metadata"])
    holder.metadata = metadata
    return _show_metadata(holder)


def get_queue_status(call: Call) -> Json:
    done = sum(work.done for work in call.workspace.queue)
    total = len(call.workspace.queue)
    return {"totalWorkUnits": total, "completedWorkUnits": done, "inProgressWorkUnits": 0, "pendingWorkUnits": total - done}


def create_peer(call: Call) -> Json:
    peer = call.peer()
    if "observeMe" in call.arguments.get("configuration", {}):
        peer.observe_me = call.arguments["configuration"]["observeMe"]
    return show_peer(peer)


def list_peers(call: Call) -> Json:
    return {"items": [show_peer(peer) for peer in call.workspace.peers.values()], "total": len(call.workspace.peers)}


def get_peer_card(call: Call) -> Json:
    target = call.target()
    return {"peer_id": call.peer().id, "target_peer_id": target, "peer_card": call.peer().cards.get(target)}


def set_peer_card(call: Call) -> Json:
    call.peer().cards[call.target()] = list(call.arguments["peer_card"])
    return get_peer_card(call)


HANDLERS: Final[dict[str, Handler]] = {
    one.__name__: one
    for one in (
        list_workspaces,
        create_workspace,
        inspect_workspace,
        get_metadata,
        set_metadata,
        get_queue_status,
        create_peer,
        list_peers,
        get_peer_card,
        set_peer_card,
    )
}
