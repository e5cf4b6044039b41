"""The one YAML dialect of cassettes: plain data and `!!binary`, nothing else. Errors name file, line and column."""

from __future__ import annotations

from typing import Any

import yaml

from harness.cassette.format import BadCassette

FIX = "use the file as the recorder wrote it"
_KNOWN = ("null", "bool", "int", "float", "str", "seq", "map", "binary")
_PREFIX = "tag:yaml.org,2002:"


class _Refused(yaml.constructor.ConstructorError):
    """Something that the dialect has not."""


class _Loader(yaml.CSafeLoader):
    """PyYAML's C parser with its safe constructors, less the tags, aliases, merge keys and duplicate keys that make a file mean something else."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node in self.constructed_objects:
            raise _Refused(None, None, "anchors and aliases are not part of a cassette", node.start_mark)
        return super().construct_object(node, deep=deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Refused(None, None, "a key must be text", key.start_mark)
            if key.value in seen:
                raise _Refused(None, None, f"the key {key.value[:40]!r} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge keys are refused as keys of an unknown tag; there is nothing to flatten."""

    def refuse(self, node: yaml.Node) -> Any:
        shown = str(node.tag).replace(_PREFIX, "!!")
        raise _Refused(None, None, f"the tag {shown} is not part of a cassette; only !!binary is", node.start_mark)


_Loader.yaml_constructors = {
    tag: constructor for tag, constructor in yaml.CSafeLoader.yaml_constructors.items() if tag in {_PREFIX + known for known in _KNOWN}
} | {None: _Loader.refuse}
# An unquoted date stays the text it is: vcr's files hold none, and readers disagree on what it means.
_DATES = _PREFIX + "timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rows if tag != _DATES] for first, rows in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_yaml(text: str, where: str) -> Any:
    """One document. Raises BadCassette."""
    try:
        return yaml.load(text, Loader=_Loader)  # a safe loader, and stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise BadCassette(f"not a cassette: {error.problem or error.context}", where=at, fix=FIX) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadCassette(f"not a cassette: {type(error).__name__}: {str(error)[:200]}", where=where, fix=FIX) from None
