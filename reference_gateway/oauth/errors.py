"""What the broker refuses, by code. A provider's own words never get into a message: they may hold anything, and were written by others."""

from __future__ import annotations

import re
from typing import NoReturn

from reference_gateway.errors import GatewayError

_WORD = re.compile(r"[a-z0-9_-]{1,64}")
_KNOWN = frozenset(
    [
        "access_denied",
        "invalid_client",
        "invalid_client_metadata",
        "invalid_grant",
        "invalid_redirect_uri",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "invalid_token",
        "insufficient_scope",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_grant_type",
        "unsupported_response_type",
        "unsupported_token_type",
    ]
)


class OAuthError(GatewayError):
    """Codes begin with `oauth_` (docs/operator-api.md, *OAuth*). `retryable`: the same request may succeed later, unchanged."""

    http_status = 422

    def __init__(self, code: str, message: str, *, where: str = "oauth", fix: str = "", http_status: int | None = None) -> None:
        super().__init__(code, message, where=where, fix=fix, http_status=http_status)


def refuse(code: str, message: str, *, where: str = "oauth", fix: str = "", http_status: int | None = None) -> NoReturn:
    raise OAuthError(code, message, where=where, fix=fix, http_status=http_status)


def error_word(value: object) -> str:
    """A provider's error code if it is one of the registered ones, else `unrecognized`."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value in _KNOWN else "unrecognized"
