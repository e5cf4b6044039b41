"""A look at a provider without any gateway: does it answer, does it take our credential, what does it list.

It is the second opinion that triage needs: what the harness itself can do there is not the gateway's fault.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Literal

import httpx2

from harness.discover.capture import capture_url
from harness.errors import CredentialsMissing, HarnessError, Unreachable
from harness.live.endpoint import hosted, wants
from harness.live.options import LiveOptions
from harness.model.manifest import Manifest
from harness.model.tool import Capture

WITHIN_S = 30.0
State = Literal["answers", "refused", "unreachable", "limited", "changed", "incomplete", "not-tried"]
"""`limited`: it asked to be left alone (429). `changed`: it is there, and not for what was agreed (404, 405, 410 and the like).

`incomplete`: it answered, and not with a whole list.
"""


@dataclass(frozen=True, slots=True)
class Probe:
    provider: str
    state: State
    detail: str
    capture: Capture | None = None


async def probe(manifest: Manifest, options: LiveOptions) -> Probe:
    """Never raises for what the provider does."""
    lack = wants(manifest, options)
    if lack:
        return Probe(manifest.id, "not-tried", lack)
    if manifest.auth.scheme == "oauth":
        return Probe(manifest.id, "not-tried", "its token is in the gateway's vault, which nothing else opens")
    try:
        found = hosted(manifest, options)
        context = ssl.create_default_context()
        async with httpx2.AsyncClient(verify=context, trust_env=False, follow_redirects=False, timeout=WITHIN_S) as client:
            key = found.secret[1]
            if manifest.transport != "mcp_http":
                return await _bridge(manifest, client, found.upstream, key)
            return await _mcp(manifest, client, found.upstream + found.path, key)
    except CredentialsMissing as error:
        return Probe(manifest.id, "refused", error.what)
    except Unreachable as error:
        return Probe(manifest.id, standing(error.what), error.what)
    except HarnessError as error:
        return Probe(manifest.id, "incomplete", error.what)


def standing(what: str) -> State:
    """What the HTTP status in an error tells."""
    if "HTTP 429" in what:
        return "limited"
    return "changed" if re.search(r"HTTP 4(00|04|05|06|10|15|22)\b", what) else "unreachable"


async def _mcp(manifest: Manifest, client: httpx2.AsyncClient, url: str, key: str) -> Probe:
    scheme = {"token": "Token"}.get(manifest.auth.scheme, "Bearer")
    headers = {manifest.auth.header: key} if manifest.auth.scheme == "header" and manifest.auth.header else {"Authorization": f"{scheme} {key}"}
    capture = await capture_url(url, headers=headers, client=client)
    if not capture.complete:
        return Probe(manifest.id, "incomplete", capture.reason, capture)
    return Probe(manifest.id, "answers", f"{len(capture.tools)} tools, protocol {capture.protocol_version}", capture)


async def _bridge(manifest: Manifest, client: httpx2.AsyncClient, upstream: str, key: str) -> Probe:
    """A REST API lists no tools; that it lets us in is all there is to see. Its datasets are a list that reads and changes nothing."""
    header = manifest.auth.header or "Authorization"
    try:
        answer = await client.get(f"{upstream}/api/v1/datasets", headers={header: key})
    except httpx2.HTTPError as error:
        raise Unreachable(f"no answer: {str(error) or type(error).__name__}", where=manifest.id) from None
    told = f"HTTP {answer.status_code}"
    state: State = "answers" if answer.is_success else "refused" if answer.status_code in (401, 403) else standing(told)
    return Probe(manifest.id, state, told)
