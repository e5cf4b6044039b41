"""Where a provider's hosted endpoint is, and with which credentials: from its manifest and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from harness.errors import CredentialsMissing, UsageError
from harness.live.options import LiveOptions, signed_in
from harness.model.manifest import Manifest
from harness.model.scenario import Level

SHORTEST_SECRET = 6
"""Shorter ones could not be told from ordinary text, and so not be kept out of reports."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """`host` and `path` as the gateway is told them; `upstream` is where the tap goes on to. `credentials` by vault path.

    `signed_in`: the credential is in the gateway's vault already, under the connection that `harness login` made.
    """

    host: str
    path: str
    upstream: str
    level: Level
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    signed_in: bool = False

    @property
    def secret(self) -> tuple[str, str]:
        """(vault path, credential); two empty texts where the gateway has it already. A tenant's URL stands before its key."""
        return list(self.credentials.items())[-1] if self.credentials else ("", "")


def is_hosted(manifest: Manifest) -> bool:
    """False for a server that exists as a program only: there is nothing to be asked over the network."""
    return not manifest.endpoint.startswith("stdio:")


def wants(manifest: Manifest, options: LiveOptions) -> str:
    """What is missing before this provider can be had live ("credentials: …"), or ""."""
    if not is_hosted(manifest):
        return f"{manifest.id} is hosted nowhere: it is a program for this machine; select level local"
    if options.rehearsed and manifest.id not in options.rehearse:
        return f"rehearsal: no stand-in plays {manifest.id}; add --rehearse {manifest.id}=http://127.0.0.1:PORT"
    if manifest.auth.scheme == "oauth":
        if manifest.id in signed_in(options.home):
            return ""
        return f"credentials: {manifest.id} is not signed in; run harness login {manifest.id}"
    given = [name for name in manifest.auth.env if options.environment.get(name)]
    if manifest.auth.one_of and len(given) != 1:
        need = "needs one of" if not given else "takes exactly one of"
        return f"credentials: {manifest.id} {need} {', '.join(manifest.auth.env)}, set in the environment or in .env"
    absent = [name for name in manifest.auth.env if name not in given and not manifest.auth.one_of]
    if absent:
        return f"credentials: {manifest.id} needs {' and '.join(absent)}, set in the environment or in .env"
    short = [n for n in given if len(options.environment[n]) < SHORTEST_SECRET]
    return f"credentials: {short[0]} is shorter than {SHORTEST_SECRET} characters, which no credential is" if short else ""


def host_of(manifest: Manifest) -> str:
    """The name of a provider that has one host for everybody."""
    return (urlsplit(manifest.endpoint).hostname or "").lower()


def hosted(manifest: Manifest, options: LiveOptions) -> Hosted:
    """Raises CredentialsMissing for what `wants` names, UsageError for an endpoint that is none."""
    lack = wants(manifest, options)
    if lack:
        raise CredentialsMissing(lack.partition(": ")[2], where=manifest.id, fix="see `harness doctor`")
    values = [options.environment.get(name, "") for name in manifest.auth.env]  # none for OAuth, whose token is in the gateway's vault
    endpoint = values[0] if manifest.auth.scheme == "cognee" else manifest.endpoint
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.port not in (None, 443):
        raise UsageError(
            f"{manifest.id}: the endpoint is no https address", where=next(iter(manifest.auth.env), manifest.id), fix="use the provider's address"
        )
    host = parts.hostname.lower()
    played = options.rehearse.get(manifest.id)
    path = manifest.path if played or manifest.transport != "mcp_http" else parts.path or "/"
    return Hosted(
        host=host,
        path=path,
        upstream=played or f"https://{host}",
        level="fake" if options.rehearsed else "live",
        credentials={path: value for path, value in zip(manifest.auth.paths, values, strict=False) if value},
        signed_in=manifest.auth.scheme == "oauth",
    )
