"""What Papr's schemas cannot say, judged before anything is sent. Stricter than Papr where Papr would do too much.

Papr deletes the developer's own memories when `delete all` names nobody, and `all` in place of a memory's id names that operation:
neither ever leaves the gateway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from reference_gateway.addresses import refused_host
from reference_gateway.bridge.exchange import ArgumentsRefused, BridgeError
from reference_gateway.bridge.papr_tools import CATEGORIES, LEAST_RESULTS, MAX_BATCH, MAX_CONTENT_BYTES, MOST_RESULTS, TOOLS, TYPES
from reference_gateway.egress import UrlRejected, split_url

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,198}[A-Za-z0-9])?")
_RESERVED = frozenset({"all", "batch", "search", "status"})
"""Path segments at a memory's place that mean an operation. Papr matches its fixed paths first."""
_HEADER_VALUE = re.compile(r"[\x21-\x7e]{1,1024}")
_NAMES = ("user_id", "external_user_id", "organization_id", "namespace_id", "schema_id")

USER_UNNAMED, ID_UNCHECKED, WEBHOOK_UNCHECKED, LIMITS_UNCHECKED, ERROR_TRUSTED = RELAXED = (
    "papr-deletes-unnamed",
    "papr-id-unchecked",
    "papr-webhook-unchecked",
    "papr-limits-unchecked",
    "papr-error-as-success",
)
"""Deliberate defects: rules that may be left out, so that a judge of gateways can be judged."""


@dataclass(frozen=True, slots=True)
class Rules:
    """`without` names rules that are left out (see above); none outside an exercise."""

    without: frozenset[str] = frozenset()

    def check(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Pure. Raises ArgumentsRefused, or BridgeError `tool_not_found`."""
        if name not in _CHECKS:
            known = ", ".join(tool["name"] for tool in TOOLS)
            raise BridgeError("tool_not_found", "the bridge has no such tool", where=name[:100], fix=f"use one of: {known}")
        _sendable(arguments)
        _named_places(arguments)
        _CHECKS[name](arguments, self.without)


def _refused(message: str, fix: str) -> ArgumentsRefused:
    return ArgumentsRefused(message, fix)


def _sendable(arguments: Mapping[str, Any]) -> None:
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise _refused("the arguments hold what JSON in UTF-8 cannot carry", "give whole Unicode text and finite numbers") from None


def _named_places(arguments: Mapping[str, Any]) -> None:
    """A blank name is not nobody: to Papr it is no name at all, and so the developer."""
    for name in _NAMES:
        if name in arguments and (not isinstance(arguments[name], str) or not arguments[name].strip()):
            raise _refused(f"{name} is blank", f"name it, or leave {name} out")


def _content(text: Any, where: str, without: Collection[str]) -> None:
    if not isinstance(text, str) or not text.strip():
        raise _refused(f"{where} is missing or blank", "give the text to remember")
    size = len(text.encode())
    if size > MAX_CONTENT_BYTES and LIMITS_UNCHECKED not in without:
        raise _refused(f"{where} has {size} bytes, and Papr takes at most {MAX_CONTENT_BYTES}", "split it into several memories")


def _kind(arguments: Mapping[str, Any], where: str) -> None:
    """Type, and who said it with what it can then be; a category without a role is anybody's."""
    if arguments.get("type", TYPES[0]) not in TYPES:
        raise _refused(f"{where}type is unknown", f"use one of: {', '.join(TYPES)}")
    metadata = arguments.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise _refused(f"{where}metadata is no object", "give an object")
    for name in ("user_id", "external_user_id"):
        if name in metadata and not str(metadata[name]).strip():
            raise _refused(f"{where}metadata.{name} is blank", "name the user, or leave it out")
    role, category = metadata.get("role"), metadata.get("category")
    if role is not None and role not in CATEGORIES:
        raise _refused(f"{where}metadata.role is unknown", f"use one of: {', '.join(CATEGORIES)}")
    allowed = CATEGORIES[role] if role is not None else tuple(each for names in CATEGORIES.values() for each in names)
    if category is not None and category not in allowed:
        raise _refused(f"{where}metadata.category does not fit the role", f"use one of: {', '.join(allowed)}")


def _memory_id(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    found = arguments.get("memory_id")
    if not isinstance(found, str) or not found:
        raise _refused("memory_id is missing", "give the id that add_memory or search_memory answered with")
    if ID_UNCHECKED not in without and (not _ID.fullmatch(found) or found.lower() in _RESERVED):
        raise _refused("memory_id is not the id of a memory", "give the id that add_memory or search_memory answered with")


def _add(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    _content(arguments.get("content"), "content", without)
    _kind(arguments, "")


def _update(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    _memory_id(arguments, without)
    if not set(arguments) - {"memory_id", "organization_id", "namespace_id"}:
        raise _refused("nothing is to be changed", "give content, type, metadata, context or relationships_json")
    if "content" in arguments:
        _content(arguments["content"], "content", without)
    _kind(arguments, "")


def _batch(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    memories = arguments.get("memories")
    if not isinstance(memories, list) or not 1 <= len(memories) <= MAX_BATCH:
        raise _refused(f"a batch has 1 to {MAX_BATCH} memories", "split it into several batches")
    for index, each in enumerate(memories):
        if not isinstance(each, Mapping):
            raise _refused(f"memories[{index}] is no object", "give each memory as an object with content")
        _named_places(each)
        _content(each.get("content"), f"memories[{index}].content", without)
        _kind(each, f"memories[{index}].")
    _whole(arguments, "batch_size", 1, MAX_BATCH)
    _webhook(arguments, without)


def _webhook(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    """Papr is told to dial it, so it must not be where only we, or only Papr, should reach."""
    url, secret = arguments.get("webhook_url"), arguments.get("webhook_secret")
    if url is not None and WEBHOOK_UNCHECKED not in without and (reason := _unfit(url)):
        raise _refused(f"webhook_url is refused: {reason}", "give a public https address")
    if secret is None:
        return
    if url is None:
        raise _refused("webhook_secret without webhook_url", "give both, or leave both out")
    if not isinstance(secret, str) or not _HEADER_VALUE.fullmatch(secret):
        raise _refused("webhook_secret is blank or holds characters that a header cannot carry", "use visible ASCII characters without blanks")


def _unfit(url: Any) -> str:
    try:
        scheme, host, _port = split_url(url)
    except UrlRejected as refused:
        return refused.reason
    return "the scheme is not https" if scheme != "https" else refused_host(host) or ""


def _delete_all(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    if USER_UNNAMED not in without and not {"user_id", "external_user_id"} & set(arguments):
        raise _refused("no user is named, so the developer's own memories would be deleted", "name the user: user_id, or external_user_id")


def _search(arguments: Mapping[str, Any], without: Collection[str]) -> None:
    query = arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        raise _refused("query is missing or blank", "give the text to search for")
    if LIMITS_UNCHECKED not in without:
        _whole(arguments, "max_memories", LEAST_RESULTS, MOST_RESULTS)
        _whole(arguments, "max_nodes", LEAST_RESULTS, MOST_RESULTS)


def _whole(arguments: Mapping[str, Any], name: str, least: int, most: int) -> None:
    value = arguments.get(name, least)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _refused(f"{name} is not a whole number from {least} to {most}", f"give {least} to {most}, or leave {name} out")


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Collection[str]], None]] = {
    "add_memory": _add,
    "update_memory": _update,
    "delete_memory": _memory_id,
    "get_memory": _memory_id,
    "add_memory_batch": _batch,
    "delete_all_memories": _delete_all,
    "search_memory": _search,
}
