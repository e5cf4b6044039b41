"""The one YAML dialect of cassettes: plain data and `!!binary`, nothing else. Errors name file, line and column.

Parsed and composed in C; what the nodes mean is decided here, which is both stricter and twice as fast as PyYAML's own constructors.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import yaml

from harness.cassette.format import BadCassette

FIX = "use the file as the recorder wrote it"
MAX_DEPTH = 40
_PREFIX = "tag:yaml.org,2002:"
_TEXT = frozenset({_PREFIX + "str", _PREFIX + "timestamp"})
"""An unquoted date stays the text it is: vcr's files hold none, and readers disagree on what it means."""
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})\Z")
_WORDS = {"true": True, "True": True, "false": False, "False": False}


class _Refused(yaml.MarkedYAMLError):
    """Something that the dialect has not."""


def load_yaml(text: str, where: str) -> Any:
    """One document. Raises BadCassette."""
    try:
        loader = yaml.CSafeLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
        return None if node is None else _value(node, set(), 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise BadCassette(f"not a cassette: {error.problem or error.context}", where=at, fix=FIX) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadCassette(f"not a cassette: {type(error).__name__}: {str(error)[:200]}", where=where, fix=FIX) from None


def _value(node: yaml.Node, seen: set[int], depth: int) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.tag in _TEXT else _scalar(node)
    if id(node) in seen:  # an alias leads to the same node again; one of a scalar is only a copy
        raise _refused(node, "anchors and aliases are not part of a cassette")
    seen.add(id(node))
    if depth > MAX_DEPTH:
        raise _refused(node, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, yaml.SequenceNode):
        _plain(node, "seq")
        return [_value(item, seen, depth + 1) for item in node.value]
    _plain(node, "map")
    found: dict[str, Any] = {}
    for key, item in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag not in _TEXT:
            raise _refused(key, "a key must be text")
        if key.value in found:
            raise _refused(key, f"the key {key.value[:40]!r} stands twice")
        found[key.value] = _value(item, seen, depth + 1)
    return found


def _scalar(node: yaml.ScalarNode) -> Any:
    kind, text = node.tag.removeprefix(_PREFIX), node.value
    if kind == "null":
        return None
    if kind == "int" and _INT.match(text):
        return int(text)
    if kind == "bool" and text in _WORDS:
        return _WORDS[text]
    if kind == "float":
        return float(text)
    if kind == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise _refused(node, "!!binary that is no base64") from None
    raise _refused(node, f"{text[:40]!r} is not part of a cassette: quote it if it is text" if kind in ("int", "bool") else _tag(node))


def _plain(node: yaml.Node, kind: str) -> None:
    if node.tag != _PREFIX + kind:
        raise _refused(node, _tag(node))


def _tag(node: yaml.Node) -> str:
    return f"the tag {str(node.tag).replace(_PREFIX, '!!')} is not part of a cassette; only !!binary is"


def _refused(node: yaml.Node, what: str) -> _Refused:
    return _Refused(None, None, what, node.start_mark)
