"""Deliberate defects: each a switch, read at one place of the code, that a good judge of gateways must notice.

They exist so that the judge can be judged. Nothing in any answer of the operator API tells whether one is on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

# Name → (meaning of VALUE or "", what goes wrong).
KNOWN: Mapping[str, tuple[str, str]] = {
    "iserror-as-success": ("", "an isError result is returned and audited as a success"),
    "skip-approval": ("", "ask_first is ignored"),
    "approve-twice": ("", "an approved call is dispatched twice"),
    "dispatch-before-approval": ("", "a call is dispatched when it is requested, and held all the same"),
    "drop-audit": ("EVENT", "the audit record of a call's end (or of EVENT) is not written"),
    "wrong-outcome": ("", "a failed call is audited as a success while the agent still sees the failure"),
    "weaken-risk": ("", "destructive tools are classified as read"),
    "stale-catalog": ("", "a refresh picks up no change"),
    "drop-page": ("", "the last page of a tool list is ignored"),
    "leak-credential": ("", "the upstream credential appears in the result"),
    "truncate-result": ("", "long text of a result is cut"),
    "swap-responses": ("", "a read is answered with the answer of another call on the same connection"),
    "bypass-tap": ("ADDRESS", "tools/call goes to ADDRESS instead of the connection's URL"),
    "spawn-subprocess": ("", "a bridge call starts a local process"),
    "unflagged-result": ("", "a result that looks like an injected instruction is not flagged"),
    "quarantine-open": ("", "quarantined tools are listed and can be called"),
    "quarantine-schema-only": ("", "only a changed input schema, or a new tool, is quarantined"),
    "removed-callable": ("", "a tool that the provider no longer lists stays in use"),
    "relay-leaks-token": ("", "the relay hands the run's token to the place it serves"),
    "relay-open-to-other-run": ("", "the relay does not check whose channel it serves"),
    "relay-shares-network": ("", "the place keeps the network of the host (the bench builds it so)"),
    "empty-means-all": ("", "a connection that no agent may use is open to every agent"),
    "ask-grants": ("", "a tool under Ask first is open to agents that may not use the connection"),
    "replay-before-permit": ("", "a call that was executed once is answered from memory although its tool is off by now"),
    "replay-as-success": ("", "the repetition of a call that failed looks like a success"),
    "trust-approver-time": ("", "what changed between a request and its approval is not looked at"),
    "mode-ignored": ("", "a run that may only read can write"),
    "vault-aad-ignored": ("", "a sealed credential opens wherever its row was moved to"),
    "personal-path-prefixed-twice": ("", "a personal credential is looked for under a path that was prefixed once more than when it was stored"),
    "grant-of-another": ("", "a personal grant serves whoever asks"),
    "argument-names-user": ("", "the acting user is taken from the call's arguments when they name one"),
    "audience-ignored": ("", "an organization's grant serves users outside its audience"),
    "revoked-grant-cached": ("", "whether a grant was revoked is looked up once per run"),
    "redirect-followed": ("", "a redirect is followed, credential and all"),
    "check-then-resolve": ("", "one answer of the resolver is judged and another one dialled"),
    "is-global-guard": ("", "an address is taken for public when the standard library calls it global"),
    "unbounded-decompression": ("", "a compressed answer is unpacked whole before its size is looked at"),
    "leak-to-log": ("", "the upstream credential is written to the log"),
    "leak-to-store": ("", "the upstream credential is kept in the clear beside its sealed form"),
    "papr-deletes-unnamed": ("", "delete_all_memories may name nobody, and so the developer"),
    "papr-id-unchecked": ("", "what an agent gives as a memory's id becomes part of the path, whatever it is"),
    "papr-webhook-unchecked": ("", "a batch may name a webhook at a private address"),
    "papr-error-as-success": ("", "an error inside Papr's envelope of status 200 is taken for an answer"),
    "papr-limits-unchecked": ("", "content of more bytes than Papr takes is sent"),
    "oauth-state-reused": ("", "the answer to an authorization can be used again"),
    "oauth-iss-unchecked": ("", "nobody looks who answered an authorization"),
    "oauth-loser-wipes": ("", "a renewal that failed drops the tokens that somebody else stored meanwhile"),
    "oauth-loose-redirect": ("", "an authorization's answer counts wherever it arrived"),
    "oauth-pkce-plain": ("", "the PKCE challenge is the verifier itself"),
    "oauth-no-resource": ("", "tokens are asked for without naming the resource that they are for"),
    "oauth-echoes-error": ("", "what an authorization server says of an error is repeated"),
    "secret-before-validation": ("", "a credential is stored before the provider has let us in with it"),
    "flag-unchecked": ("", "new memory connections can be begun while memory connectors are off"),
    "gallery-ignores-flag": ("", "the gallery is shown, and an old copy of it confirmed, while memory connectors are off"),
    "paused-callable": ("", "a connection that is paused, disabled or archived can be called"),
    "rotation-forgets": ("", "new credentials are tried, and the old ones stay in the vault"),
    "unhealthy-hides-tools": ("", "the tools of a connection whose provider just failed are hidden"),
    "check-probes-bridge": ("", "a regular check of a bridge asks its API"),
    "provider-error-burns-budget": ("", "an error of the provider uses up a restart of the local server in front of it"),
    "child-inherits-environment": ("", "a local server is given the gateway's own environment"),
    "managed-argument-overridden": ("", "what an agent sends for a fixed argument goes out in its place"),
    "managed-argument-replaced": ("", "what an agent sends for a fixed argument is replaced without a word"),
    "codex-headers": ("", "the configuration for Codex names its headers as other programs do"),
    "loopback-to-remote": ("", "a remote run is handed a loopback address"),
    "instructions-always": ("", "instructions that were turned off are served"),
    "imitations-listed": ("", "a tool whose name only looks like another one's is listed and can be called"),
    "hold-answers-early": ("", "a call that is to be held until the decision is answered at once"),
    "changes-unrecorded": ("", "an operator's change of policies leaves no record"),
    "ended-run-waits": ("", "what a run asked for goes on waiting for a person after its end"),
    "policy-last-word": ("", "of the policies that apply the last one holds, not the strictest"),
    "policy-ignores-risk": ("", "a policy for classes of risk holds for no tool"),
    "policy-grants": ("", "a policy that allows opens what the tool's own permission has switched off"),
    "task-shared": ("", "a run goes on although another one has taken its task"),
    "viewer-decides": ("", "an operator who may only look may decide"),
    "operator-everywhere": ("", "one tenant's operators are let in at another's door"),
    "list-changed-ignored": ("", "a provider's word that its tools changed is not heard"),
    "list-changed-believed": ("", "a provider's word that its tools changed is passed on and nobody looks"),
    "state-unchecked": ("", "a state that an agent comes back with is taken for one that it was given"),
    "state-of-another-run": ("", "a state that one run was given is good for another one"),
    "offers-ignored": ("", "what is not switched on for a connection crosses it all the same"),
    "passing-ungoverned": ("", "what crosses besides tools stands under no rule of the run"),
    "subscriptions-unjudged": ("", "whoever asks for news of a connection gets them, whatever its run may use"),
    "kept-blocked-forgotten": ("", "a tool that an operator kept blocked is in use again after the next look at the provider"),
    "cursor-loop-accepted": ("", "a tool list whose cursor comes back is taken for a whole one"),
    "duplicate-last-wins": ("", "of two tools with one name the later one takes the place of the first"),
    "nameless-listed": ("", "a tool without a name is listed"),
    "unprintable-listed": ("", "a tool whose name holds control characters, or has no end, is listed and can be called"),
    "bare-name-guessed": ("", "a name that says no connection leads to the first one that has such a tool"),
    "unreadable-policy-ignored": ("", "a policy that cannot be read is passed over"),
    "ended-run-calls": ("", "the token of a run that has ended still opens what it opened"),
    "token-lasts": ("", "a run's token is good beyond its time"),
    "expiry-ignored": ("", "a request that nobody decided in time still waits, and can be approved"),
    "decline-forgotten": ("", "a call that was declined is asked for anew when it is repeated"),
    "claim-unguarded": ("", "whoever comes to an approval takes it, whatever has become of it since they looked"),
    "arguments-alike": ("", "arguments that only look alike, as 7 and \"7\" do, count as those that were asked for"),
    "asks-twice": ("", "the repetition of a call that waits is a request of its own"),
    "loosened-still-asks": ("", "what waits for a person goes on waiting, and can be approved, when its tool asks nobody any more"),
    "arguments-unchecked": ("", "arguments are sent whatever the tool's schema says of them"),
    "approval-of-any-tenant": ("", "whoever knows an approval's id may read it and decide, in whichever tenant"),
    "first-list-lasts": ("", "a run goes on being shown the tools that it was shown first"),
    "refused-shown": ("", "tools that a run may not use now are refused, and yet shown to it"),
    "audit-rewritten": ("", "records read back are not those that were written"),
    "audit-chain-broken": ("", "records read back do not follow from one another, though each is whole by itself"),
    "audit-seq-repeats": ("", "records read back share their numbers"),
    "audit-two-ends": ("", "the end of a call is recorded twice"),
    "task-unrecorded": ("", "no record says which task it belongs to"),
    "normalise-schema": ("", "input schemas are re-serialised, so that their hash changes"),
}


class UnknownDefect(ValueError):
    """`fix` names what was probably meant."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


class Defects:
    """The switchboard. `"drop-page" in defects`, and `defects["bypass-tap"]` for a value ("" when none was given)."""

    def __init__(self, switched_on: Iterable[str] = ()) -> None:
        self._on: dict[str, str] = {}
        for word in switched_on:
            name, _, value = word.partition("=")
            if name not in KNOWN:
                close = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
                fix = f"Did you mean {close[0]!r}?" if close else f"Use one of: {', '.join(KNOWN)}"
                raise UnknownDefect(f"unknown defect {name!r}", fix)
            if KNOWN[name][0] == "ADDRESS" and not value:
                raise UnknownDefect(f"defect {name!r} needs a value", f"Write {name}={KNOWN[name][0]}")
            if value and not KNOWN[name][0]:
                raise UnknownDefect(f"defect {name!r} takes no value", f"Write {name}")
            self._on[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._on

    def __getitem__(self, name: str) -> str:
        return self._on[name]


def normalised(schema: Any) -> Any:
    """What a careless re-serialiser makes of a schema: keywords it does not know are gone, one it likes is written out."""
    stripped = _without(schema, ("additionalProperties", "default"))
    if stripped == schema and isinstance(stripped, dict):
        return {**stripped, "additionalProperties": True}
    return stripped


def _without(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {k: _without(v, names) for k, v in value.items() if k not in names}
    return [_without(v, names) for v in value] if isinstance(value, list) else value


def truncated(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result whose long texts are cut to half, in text blocks and in structured content alike."""
    cut = {**result, "content": [_cut_block(block) for block in result.get("content", [])]}
    if "structuredContent" in result:
        cut["structuredContent"] = _cut(result["structuredContent"])
    return cut


def _cut_block(block: Any) -> Any:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return {**block, "text": _cut(block["text"])}
    return block


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[: len(value) // 2] if len(value) > 16 else value
    if isinstance(value, dict):
        return {k: _cut(v) for k, v in value.items()}
    return [_cut(v) for v in value] if isinstance(value, list) else value


def redirected(url: str, address: str) -> str:
    """`url` at another address: ADDRESS is a whole URL, or HOST:PORT that keeps the path."""
    if "://" in address:
        return address
    scheme, _, rest = url.partition("://")
    _, slash, path = rest.partition("/")
    return f"{scheme}://{address}{slash}{path}"
