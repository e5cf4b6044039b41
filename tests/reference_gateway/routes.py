"""Every operator route, with a case that its tests use: a route that is not here makes them red."""

from __future__ import annotations

from typing import Any

from reference_gateway.app import Gateway, Options, opened_store

from .conftest import OPERATOR_TOKEN

C, R, A, V = "/connections/notes", "/runs/{run}", "/approvals/{approval}", "/connections/notes/reviews/none"
OWNERS = {("GET", "/health"), ("POST", "/clock/advance"), ("POST", "/shutdown"), ("POST", "/tenants")} | {
    ("POST", "/vault/rotate"),
    ("PUT", "/development/names"),
    ("GET", "/development/names"),
    ("GET", "/audit/export"),
    ("GET", "/audit/key"),
}
OWNERS_OF_TENANTS = {("GET", "/operators"), ("POST", "/operators"), ("DELETE", "/operators/{operator}")}
ROUTES: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/me"): ("/me", None),
    ("GET", "/connections"): ("/connections", None),
    ("GET", "/approvals/{approval}/outcome"): ("/approvals/{approval}/outcome", None),
    ("POST", "/connections"): ("/connections", {"name": "x"}),
    ("GET", "/connections/{connection}"): (C, None),
    ("DELETE", "/connections/{connection}"): ("/connections/none", None),
    ("POST", "/connections/{connection}/refresh"): (f"{C}/refresh", None),
    ("GET", "/connections/{connection}/tools"): (f"{C}/tools", None),
    ("GET", "/connections/{connection}/reviews"): (f"{C}/reviews", None),
    ("POST", "/connections/{connection}/reviews/{review}"): (V, {"decision": "allow", "by": None}),
    ("GET", "/connections/{connection}/permissions"): (f"{C}/permissions", None),
    ("PUT", "/connections/{connection}/permissions"): (f"{C}/permissions", {"permissions": {}}),
    ("GET", "/connections/{connection}/access"): (f"{C}/access", None),
    ("POST", "/connections/{connection}/revoke"): ("/connections/none/revoke", None),
    ("PUT", "/connections/{connection}/agents"): (f"{C}/agents", {"agents": None}),
    ("PUT", "/connections/{connection}/offers"): (f"{C}/offers", {"offers": []}),
    ("PUT", "/connections/{connection}/audience"): (f"{C}/audience", {"audience": None}),
    ("POST", "/runs"): ("/runs", {"connections": ["notes"], "task": "t", "agent": "a"}),
    ("GET", "/runs/{run}"): (R, None),
    ("POST", "/runs/{run}/end"): ("/runs/none/end", None),
    ("POST", "/runs/{run}/mode"): (f"{R}/mode", {"mode": "execute"}),
    ("GET", "/approvals"): ("/approvals", None),
    ("GET", "/approvals/{approval}"): (A, None),
    ("POST", "/approvals/{approval}/approve"): (f"{A}/approve", {}),
    ("POST", "/approvals/{approval}/reject"): (f"{A}/reject", {}),
    ("GET", "/audit"): ("/audit", None),
    ("GET", "/policies"): ("/policies", None),
    ("PUT", "/policies"): ("/policies", {"policies": []}),
    ("GET", "/operators"): ("/operators", None),
    ("POST", "/operators"): ("/operators", {"operator": "new", "role": "viewer"}),
    ("DELETE", "/operators/{operator}"): ("/operators/none", None),
    ("GET", "/experimental"): ("/experimental", None),
    ("PUT", "/experimental"): ("/experimental", {"memory_connectors": True}),
    ("GET", "/gallery"): ("/gallery", None),
    ("GET", "/gallery/{connector}"): ("/gallery/mem0", None),
    ("GET", "/templates"): ("/templates", None),
    ("POST", "/setups"): ("/setups", {"connector": "none", "name": "x"}),
    ("GET", "/setups/{connection}"): ("/setups/none", None),
    ("POST", "/setups/{connection}/identity"): ("/setups/none/identity", {"subject": "s"}),
    ("POST", "/setups/{connection}/credentials"): ("/setups/none/credentials", {"values": {}}),
    ("POST", "/setups/{connection}/authorize"): ("/setups/none/authorize", {}),
    ("POST", "/oauth/callback"): ("/oauth/callback", {}),
    ("GET", "/connections/{connection}/oauth"): (f"{C}/oauth", None),
    ("PUT", "/connections/{connection}/oauth/client"): (f"{C}/oauth/client", {"id": "x"}),
    ("POST", "/connections/{connection}/state"): (f"{C}/state", {"state": "active"}),
    ("POST", "/connections/{connection}/reconnect"): ("/connections/none/reconnect", None),
    ("POST", "/connections/{connection}/rotate"): (f"{C}/rotate", {"values": {}}),
    ("POST", "/connections/{connection}/check"): ("/connections/none/check", None),
    ("GET", "/connections/{connection}/instructions"): (f"{C}/instructions", None),
    ("PUT", "/connections/{connection}/instructions"): (f"{C}/instructions", {}),
    ("PUT", "/connections/{connection}/managed"): (f"{C}/managed", {"managed": {}}),
    ("GET", "/runs/{run}/delivery"): (f"{R}/delivery", None),
    ("POST", "/runs/{run}/delivery"): ("/runs/none/delivery", {"form": "codex", "token": "t"}),
}


def every_route() -> set[tuple[str, str]]:
    settings = Options(operator_token=OPERATOR_TOKEN)
    with opened_store(None) as store:
        return {(method, path) for method, path, _ in Gateway(settings, store, lambda: None).control.routes()}
