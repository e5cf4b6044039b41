"""PKCE (RFC 7636), S256 and nothing else."""

from __future__ import annotations

import base64
import hashlib

from reference_gateway.defects import Defects
from reference_gateway.ids import Ids


def new_verifier(ids: Ids) -> str:
    """86 unreserved characters: two independent secrets."""
    return "".join(ids.token().removeprefix("rt_") for _ in range(2))


def challenge_fields(verifier: str, defects: Defects) -> dict[str, str]:
    if "oauth-pkce-plain" in defects:
        return {"code_challenge": verifier, "code_challenge_method": "plain"}
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()
    return {"code_challenge": digest, "code_challenge_method": "S256"}
