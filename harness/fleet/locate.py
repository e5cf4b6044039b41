"""Where in the agreed side's own file a tool or a part of it stands."""

from __future__ import annotations

from harness.errors import HarnessError
from harness.model.location import Location
from harness.yaml_nodes import MAX_CHARACTERS, MapNode, Node, ScalarNode, SeqNode, parse_yaml

_KEYS = {
    "inputSchema": ("shape",),
    "outputSchema": ("components", "output_schema"),
    "annotations": ("components", "annotations"),
    "title": ("components", "title"),
    "description": ("components", "description"),
}
"""First token of a pointer into a wire tool → where an inventory keeps that part."""


class Locator:
    """Positions in one file: an inventory of ours, a published document, or a tool list. JSON is read as the YAML that it is."""

    def __init__(self, file: str, text: str | None, provider: str = "") -> None:
        self._file, self._provider = file, provider
        self._root = _parsed(file, text)
        self._tools = _tools(self._root, provider)

    def locate(self, tool: str, pointer: str) -> Location | None:
        """The nearest place that the file has; None when the side is no file."""
        if not self._file:
            return None
        at = self._tools.get(tool)
        if at is None:
            return self._root.location if self._root else Location(file=self._file, line=1, column=1)
        return _follow(at[0], at[1], _tokens(pointer))


def _parsed(file: str, text: str | None) -> Node | None:
    if not file or text is None or len(text) > MAX_CHARACTERS:
        return None
    try:
        return parse_yaml(text, file)
    except HarnessError:  # JSON that is no YAML of ours (too deep, odd characters): the file then stands for the place
        return None


def _tools(root: Node | None, provider: str) -> dict[str, tuple[MapNode, Location]]:
    """Name → the tool's node and the place of its name."""
    found: dict[str, tuple[MapNode, Location]] = {}
    for item in _list_of_tools(root, provider):
        if isinstance(item, MapNode) and isinstance(name := item.entries.get("name"), ScalarNode):
            found.setdefault(str(name.value), (item, item.keys["name"]))
    return found


def _list_of_tools(root: Node | None, provider: str) -> list[Node]:
    if isinstance(root, SeqNode):
        return [tool for item in root.items for tool in (_list_of_tools(item, provider) or [item])]
    if not isinstance(root, MapNode):
        return []
    if isinstance(tools := root.entries.get("tools"), SeqNode):
        return list(tools.items)
    for key in ("result", "providers"):
        below = root.entries.get(key)
        if isinstance(below, MapNode):
            return _list_of_tools(below.entries.get(provider) if key == "providers" else below, provider)
    return []


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _follow(node: Node, mark: Location, tokens: list[str]) -> Location:
    if tokens and isinstance(node, MapNode) and tokens[0] not in node.entries:
        tokens = [*_KEYS.get(tokens[0], (tokens[0],)), *tokens[1:]]
    for token in tokens:
        if isinstance(node, MapNode) and token in node.entries:
            mark, node = node.keys[token], node.entries[token]
        elif isinstance(node, SeqNode) and token.isdecimal() and int(token) < len(node.items):
            node = node.items[int(token)]
            mark = node.location
        else:
            break
    return mark
