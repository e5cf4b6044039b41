"""Two legs' observations, side by side. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.digest import NotCanonical, json_digest
from harness.transparency.facts import Fact, Observations

COMPONENTS = ("title", "description", "inputSchema", "outputSchema", "annotations", "_meta", "icons")
ABSENT = "absent"


def compare(direct: Observations, through: Observations) -> tuple[Fact, ...]:
    """Every id that either leg has, in the order of the direct leg, then what only the gateway has."""
    ids = [*direct, *(each for each in through if each not in direct)]
    return tuple(_fact(each, direct.get(each), through.get(each)) for each in ids)


def _fact(key: str, direct: Any, through: Any) -> Fact:
    word, _, subject = key.partition("/")
    return Fact(id=word, subject=subject, direct=direct, through=through)


def listed(tools: Sequence[Mapping[str, Any]], own: Mapping[str, str], pages: int, trouble: str) -> dict[str, Any]:
    """What a list shows. `own`: shown name → the provider's; a name that is not in it stands as it is and is `tools.unmapped`.

    Each component has a hash of its own, since a hash of the whole tool survives no gateway. Order is that of the mapped names.
    """
    names = [own.get(str(tool.get("name")), str(tool.get("name"))) for tool in tools]
    found: dict[str, Any] = {
        "list.complete": trouble or True,
        "list.pages": pages,
        "list.order": names,
        "list.names": [str(tool.get("name")) for tool in tools],
        "list.unmapped": sorted(str(tool.get("name")) for tool in tools if str(tool.get("name")) not in own),
        "list.twice": sorted({name for name in names if names.count(name) > 1}),
    }
    for name, tool in zip(names, tools, strict=True):
        found[f"list.tool/{name}"] = "listed"
        for component in COMPONENTS:
            found[f"component.{component}/{name}"] = short_hash(tool[component]) if component in tool else ABSENT
        found[f"component.key_order/{name}"] = "sorted" if list(tool) == sorted(tool) else "as written"
        found[f"component.others/{name}"] = sorted(key for key in tool if key not in (*COMPONENTS, "name"))
    return found


def short_hash(value: Any) -> str:
    """Sixteen hexadecimal digits of the canonical text's SHA-256, or that there is none."""
    try:
        return json_digest(value)[:16]
    except NotCanonical:
        return "not canonical"
