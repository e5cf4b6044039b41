"""What a YAML parser's complaint means to someone who wrote a scenario: most are a variable or a sign without quotes."""

from __future__ import annotations

import json
import re

import yaml

from harness.errors import LoadError

MAX_EXCERPT = 300
MAX_PROBLEMS = 100
"""More in one file help nobody, and could fill the memory."""

_BREAK = re.compile(r"\r\n|\r|\n")
_VARIABLE = re.compile(r"\$\{[^{}\s]*\}?")
_STARTS_NO_TOKEN = "cannot start any token"


def source_lines(text: str) -> list[str]:
    """Lines as the parser counts them (at least one)."""
    return _BREAK.split(text)


def excerpt_of(lines: list[str], line: int, column: int) -> str:
    """The source line (from 1) as an error shows it; of a very long one, the part around the column (from 1)."""
    source = lines[line - 1] if 0 < line <= len(lines) else ""
    if len(source) <= MAX_EXCERPT:
        return source
    start = max(0, min(column - 1 - MAX_EXCERPT // 4, len(source) - MAX_EXCERPT))
    return ("…" if start else "") + source[start : start + MAX_EXCERPT] + "…"


def quoted(text: str) -> str:
    """`text` as a YAML double-quoted scalar."""
    shown = text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…"
    return json.dumps(shown, ensure_ascii=False)


def missing_value(key: str, earlier: int) -> tuple[str, str]:
    """What and fix for an entry of a flow mapping without a value: `{fact}`, `{a:1}`, `{a: 1, b}`."""
    if re.match(r"[\w-]+:\S", key):
        name, _, value = key.partition(":")
        return f"{{{key}}} is a key {key!r} without a value", f"put a space after the colon: {{{name}: {value}}}"
    if earlier == 0 and re.match(r"[A-Za-z_][\w.-]*\Z", key):
        return (
            f"{{{key}}} is a YAML mapping with an empty value, not a variable",
            f'put quotes around the variable: "${{{key}}}" (for a mapping write {{{key}: value}})',
        )
    return f"{key!r} has no value", f"write {key}: value (or {key}: null)"


def rest_of_value(lines: list[str], line: int, column: int) -> str:
    """The value that begins at line:column (from 0), up to a comment or, in a flow collection, to its end."""
    source = lines[line] if line < len(lines) else ""
    rest = re.split(r"\s#", source[column:])[0].rstrip()
    in_flow = re.search(r"[\[{]", _without_quoted(source[:column])) is not None
    return re.split(r"[,\]}]", rest)[0].rstrip() if in_flow else rest


def _without_quoted(line: str) -> str:
    """The line with every quoted part blanked, so that columns stay true."""
    return re.sub(r"""(?<![^\s\[{,:])("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)""", lambda m: " " * len(m.group()), line)


def _unquoted_variable(line: str, column: int) -> re.Match[str] | None:
    """The last unquoted ${…} that begins at or before `column`."""
    found = [m for m in _VARIABLE.finditer(_without_quoted(line)) if m.start() <= column]
    return found[-1] if found else None


def explain_parser_error(error: yaml.MarkedYAMLError, name: str, lines: list[str], innermost: tuple[int, int] | None = None) -> LoadError:
    """A LoadError that says what the writer did, and what to write instead. `innermost`: where the collection being read begins."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if line >= len(lines):  # the parser has read on, past the end
        line, column = len(lines) - 1, len(lines[-1])
    source = lines[line] if line < len(lines) else ""
    problem, context = error.problem or "", error.context or ""

    def refuse(what: str, fix: str, at: tuple[int, int] = (line, column)) -> LoadError:
        return LoadError(what, where=f"{name}:{at[0] + 1}:{at[1] + 1}", fix=fix, excerpt=excerpt_of(lines, at[0] + 1, at[1] + 1))

    if variable := _unquoted_variable(source, column):
        return refuse(*_variable_without_quotes(variable, source, problem), at=(line, variable.start()))
    if "tab" in problem or source[column : column + 1] == "\t":
        return refuse("a tab where YAML wants spaces", "indent with spaces")
    if _STARTS_NO_TOKEN in problem:
        written = rest_of_value(lines, line, column)
        return refuse(f"a value may not begin with {source[column : column + 1]!r}", f"put quotes around the value: {quoted(written)}")
    if "alias" in context or "anchor" in context:
        start = (error.context_mark.line, error.context_mark.column) if error.context_mark else (line, column)
        written = rest_of_value(lines, *start)
        return refuse("anchors and aliases are not part of the language", f"put quotes around the value: {quoted(written)}", at=start)
    opened = innermost if "flow" in context and innermost else (line, column)
    if error.context_mark and "quoted" in context:
        opened = (error.context_mark.line, error.context_mark.column)
    return _structure(error, (line, column), opened, name, lines)


def _variable_without_quotes(variable: re.Match[str], source: str, problem: str) -> tuple[str, str]:
    written = variable.group() if variable.group().endswith("}") else variable.group() + "}"
    fix = f'put quotes around the variable: "{written}"'
    rest = re.split(r"\s#", source[variable.start() :])[0].rstrip()
    if "mapping values" in problem and rest != variable.group():
        fix += f", here around the whole value: {quoted(rest)}"
    return f"the variable {written} has no quotes, and YAML reads its {{ }} and : as its own signs", fix


def _structure(error: yaml.MarkedYAMLError, refuse_at: tuple[int, int], opened: tuple[int, int], name: str, lines: list[str]) -> LoadError:
    """Brackets, quotes and indentation: the place that helps is where the thing was opened."""
    problem, context = error.problem or "", error.context or ""
    source = lines[refuse_at[0]]
    what, fix, at = f"this is not YAML: {', '.join(filter(None, (context, problem)))}", "check quotes, brackets and indentation", refuse_at
    if "mapping values" in problem:
        start = len(source) - len(source.lstrip()) if ":" not in source[: refuse_at[1]] else source.index(":") + 2
        value = re.split(r"\s#", source[start:])[0].rstrip()
        what, fix = 'a second ": " in one line: YAML takes it for another key', f"put quotes around the value: {quoted(value)}"
    elif "quoted scalar" in context:
        what, fix, at = "the quote that is opened here is never closed", "close it, or check the line above", opened
    elif "flow" in context:
        sign = "]" if lines[opened[0]][opened[1] : opened[1] + 1] == "[" else "}"
        kind = "list" if sign == "]" else "mapping"
        at_end = not source[refuse_at[1] :].strip() and not any(rest.strip() for rest in lines[refuse_at[0] + 1 :])
        if at_end:
            what, fix, at = f"the {kind} that is opened here is never closed", f"close it with {sign}", opened
        else:
            what = f"the {kind} opened at line {opened[0] + 1}, column {opened[1] + 1} does not go on or end here"
            fix = f"put a comma between entries, close it with {sign}, and quote text that holds brackets"
    elif "block" in context:
        what, fix = (
            "the indentation or the sign here does not fit the lines above",
            "align the line with its neighbours, and quote text with signs in it",
        )
    return LoadError(what, where=f"{name}:{at[0] + 1}:{at[1] + 1}", fix=fix, excerpt=excerpt_of(lines, at[0] + 1, at[1] + 1))
