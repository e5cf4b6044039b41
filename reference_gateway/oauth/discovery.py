"""From a provider's URL and its challenge to the authorization server that guards it (RFC 9728, then RFC 8414 and its OpenID forms)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from reference_gateway.defects import Defects
from reference_gateway.oauth.challenge import Challenge
from reference_gateway.oauth.documents import ResourceMetadata, ServerMetadata, malformed, resource_metadata, server_metadata
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.oauth.fetch import Fetched, Fetcher

RESOURCE_SUFFIX = "/.well-known/oauth-protected-resource"
SERVER_SUFFIX = "/.well-known/oauth-authorization-server"
OPENID_SUFFIX = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Found:
    """`resource` is what tokens are to be for: the provider's own word for itself, which was compared with the URL that is called."""

    resource: str
    resource_scopes: tuple[str, ...]
    server: ServerMetadata


class Discovery:
    def __init__(self, fetcher: Fetcher, defects: Defects) -> None:
        self._fetcher = fetcher
        self._defects = defects

    async def find(self, url: str, challenge: Challenge | None) -> Found:
        """Raises OAuthError: nothing is guessed, and a server that is not the one that was named is not used."""
        resource = await self._resource(url, challenge)
        if not same_resource(resource.resource, url):
            raise OAuthError(
                "oauth_resource_mismatch", "the metadata is that of another resource", where="protected resource metadata", fix="ask the provider"
            )
        server = await self._server(resource.servers[0])
        return Found(resource.resource, resource.scopes, server)

    async def _resource(self, url: str, challenge: Challenge | None) -> ResourceMetadata:
        if challenge is not None and challenge.metadata_url is not None:
            # Where the provider points, there it is or nowhere: a guess beside it might be somebody else's.
            fetched = await self._fetcher.get(self._fetcher.check(challenge.metadata_url, "resource_metadata"), "resource_metadata")
            if not fetched.good or fetched.document is None:
                raise malformed("protected resource metadata", _why(fetched))
            return resource_metadata(fetched.document)
        for place in resource_places(url):
            fetched = await self._fetcher.get(place, "resource_metadata")
            if fetched.good and fetched.document is not None:
                return resource_metadata(fetched.document)
        raise OAuthError(
            "oauth_challenge_unusable", "the provider publishes no protected resource metadata", where="protected resource metadata",
            fix="check the URL; a provider without it cannot be connected by OAuth", http_status=502,
        )  # fmt: skip

    async def _server(self, issuer: str) -> ServerMetadata:
        self._fetcher.check(issuer, "issuer")
        if "?" in issuer:
            raise malformed("issuer", "it has a query")
        refusal: OAuthError | None = None
        for place in server_places(issuer):
            fetched = await self._fetcher.get(place, "issuer")
            if not fetched.good or fetched.document is None:
                continue
            try:
                return server_metadata(fetched.document, issuer, self._fetcher.check, plain_allowed="oauth-pkce-plain" in self._defects)
            except OAuthError as error:
                if error.code != "oauth_issuer_mismatch":
                    raise
                refusal = error  # another form of the address may hold the right one
        raise refusal or malformed("authorization server metadata", "none of its addresses answers with a JSON object")


def resource_places(url: str) -> tuple[str, ...]:
    """Path-aware first, then the root (RFC 9728 §3.1)."""
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return (*((origin + RESOURCE_SUFFIX + path,) if path else ()), origin + RESOURCE_SUFFIX)


def server_places(issuer: str) -> tuple[str, ...]:
    """RFC 8414 with its suffix inserted before the path, OpenID Connect the same way, and OpenID's own way of appending it."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (origin + SERVER_SUFFIX + path, origin + OPENID_SUFFIX + path)
    return (*places, origin + path + OPENID_SUFFIX) if path else places


def same_resource(resource: str, url: str) -> bool:
    """Whether metadata for `resource` speaks for `url`: the same origin, and the same path or one above it."""
    try:
        theirs, ours = urlsplit(resource), urlsplit(url)
        if theirs.query or theirs.fragment or "@" in theirs.netloc:
            return False
        if (theirs.scheme.lower(), theirs.hostname, theirs.port) != (ours.scheme.lower(), ours.hostname, ours.port):
            return False
    except ValueError:
        return False
    above = theirs.path.rstrip("/")
    if "/../" in f"{above}/" or "/./" in f"{above}/" or "%" in above:
        return False
    return ours.path.rstrip("/") == above or ours.path.startswith(above + "/")


def _why(fetched: Fetched) -> str:
    return f"HTTP {fetched.status}" if fetched.status != 200 else "it is not a JSON object"
