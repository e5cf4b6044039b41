"""Which differences are faults: a table, first match wins, that a user can put own rules before. Pure, except for reading a file."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from harness.errors import LoadError
from harness.model.location import Frozen
from harness.transparency.facts import Fact, Judged
from harness.yaml_nodes import parse_yaml

T = TypeVar("T", bound=Frozen)


class Rule(Frozen):
    """`fact`: a pattern over AREA.WORD/SUBJECT. `through`: if given, the rule holds only where the gateway shows exactly this."""

    fact: str
    counts: Literal["fault", "note", "same"]
    why: str
    through: Any = None

    def matches(self, fact: Fact) -> bool:
        exact = "through" not in self.model_fields_set or self.through == fact.through
        return fnmatchcase(fact.key, self.fact) and exact


class Accepted(Frozen):
    """Of one gateway: a pattern over AREA.WORD/SUBJECT and why that difference is no news."""

    fact: str
    why: str


class Declaration(Frozen):
    """targets/ID/transparency.yaml. `declared`: what its maker says it does. `waived`: faults and notes that this version is known for."""

    version: str
    declared: tuple[Accepted, ...] = ()
    waived: tuple[Accepted, ...] = ()
    audit: str = ""
    """What a team must switch on to have a record of calls, where the gateway as started has none."""


DEFAULT: tuple[Rule, ...] = (
    Rule(fact="list.names", counts="same", why="names are compared by what the target declares of them"),
    Rule(fact="list.complete", counts="fault", why="a list that breaks off hides tools"),
    Rule(fact="list.tool/*", counts="fault", why="a tool of the provider's is hidden, or one was put beside them"),
    Rule(fact="list.unmapped", counts="fault", why="a name that does not follow the declaration cannot be traced to a tool"),
    Rule(fact="list.twice", counts="fault", why="two tools under one name: one of them cannot be reached"),
    Rule(fact="list.pages", counts="note", why="pages may be joined as long as nothing is lost"),
    Rule(fact="list.cursors", counts="note", why="an agent hands a cursor back as it came, whatever it looks like"),
    Rule(fact="list.order", counts="note", why="order carries no meaning in MCP, but changes what a model reads first"),
    Rule(fact="component.inputSchema/*", counts="fault", why="the agent calls by another contract than the provider's"),
    Rule(fact="component.outputSchema/*", counts="fault", why="the agent reads results by another contract than the provider's"),
    Rule(fact="component.annotations/*", counts="fault", why="hints decide what is asked first; the agent sees others than the provider sent"),
    Rule(fact="component.description/*", counts="fault", why="another text steers the model"),
    Rule(fact="component.*", counts="note", why="decoration of a tool"),
    Rule(fact="content.*", counts="fault", why="a content block arrives changed, or not at all"),
    Rule(fact="structured.*", counts="fault", why="structured content arrives changed, or not at all"),
    Rule(fact="result.without_structured", counts="fault", why="the provider breaks its own output schema; another answer hides whose fault it is"),
    Rule(fact="result.*", counts="note", why="an envelope around the result"),
    Rule(fact="error.unknown_tool", counts="note", why="who does not have the tool says so in own words"),
    Rule(fact="error.unknown_tool_dispatched", counts="note", why="a gateway that knows the list need not ask the provider"),
    Rule(fact="error.*", counts="fault", why="what the provider said went wrong is flattened: an agent cannot tell what to do about it"),
    Rule(fact="arguments.*", counts="fault", through="reached the provider changed", why="the provider is given other arguments than the agent's"),
    Rule(fact="arguments.missing_required", counts="note", why="the gateway checks arguments by the schema; the provider need not"),
    Rule(fact="arguments.wrong_type", counts="note", why="the gateway checks arguments by the schema; the provider need not"),
    Rule(fact="arguments.undeclared", counts="note", why="the gateway checks arguments by the schema; the provider need not"),
    Rule(fact="arguments.*", counts="fault", why="arguments that the schema allows do not get through"),
    Rule(fact="progress.*", counts="fault", why="a long call looks dead"),
    Rule(fact="cancellation.notices", counts="note", why="hanging up tells the provider as well as a notice does"),
    Rule(fact="cancellation.with_own_id", counts="same", through=True, why="each notice names the id under which the provider knows the call"),
    Rule(fact="cancellation.with_own_id", counts="same", through=None, why="no notice was sent, see cancellation.reached"),
    Rule(fact="cancellation.*", counts="fault", why="a call that nobody waits for goes on at the provider, or another suffers for it"),
    Rule(fact="protocol.*", counts="note", why="agents of that version cannot use the gateway"),
    Rule(fact="context.credential", counts="fault", why="the provider sees another credential than the connection's"),
    Rule(fact="context.header_key_of_agent", counts="note", why="a secret header of the agent's stays on this side of the gateway"),
    Rule(fact="context.*", counts="note", why="context that ties the agent's call to the provider's log"),
    Rule(fact="answers.*", counts="fault", why="calls that overlap get answers that are not theirs, or none"),
    Rule(fact="requests.per_call", counts="fault", why="a provider with a rate limit or a price per request sees several for one call"),
    Rule(fact="catalog.*", counts="fault", why="a list that is no longer the provider's is shown, and nothing mends or tells it"),
    Rule(fact="audit.*", counts="fault", why="a record that does not say what happened"),
    Rule(fact="case.*", counts="fault", why="a known trouble of gateways, see harness/transparency/cases.py"),
    Rule(fact="server.*", counts="note", why="who the agent is told it talks to"),
    Rule(fact="*", counts="fault", why="no rule knows this difference"),
)


def judge(facts: Sequence[Fact], rules: Sequence[Rule], declaration: Declaration | None, version: str) -> tuple[tuple[Judged, ...], tuple[str, ...]]:
    """(each fact with what it counts as, news). A declaration or waiver that no difference needs is news, and so is another version."""
    judged = tuple(_one(fact, rules, declaration) for fact in facts)
    news: list[str] = []
    if declaration is not None:
        if declaration.version not in (version, "any"):
            news.append(f"written down for version {declaration.version}, measured at {version}")
        differing = [fact for fact in facts if fact.differs]
        written = (*declaration.declared, *declaration.waived)
        areas = {fact.id.partition(".")[0] for fact in facts}  # what was not measured this time can be no news
        written = tuple(one for one in written if one.fact.partition(".")[0] in areas)
        gone = [one for one in written if not any(fnmatchcase(fact.key, one.fact) for fact in differing)]
        news += [f"no longer so: {one.fact} ({one.why})" for one in gone]
        news += [f"not written down: {one.fact.key} ({one.why})" for one in judged if one.counts in ("fault", "note")]
    return judged, tuple(news)


def _one(fact: Fact, rules: Sequence[Rule], declaration: Declaration | None) -> Judged:
    if not fact.differs:
        return Judged(fact=fact, counts="same")
    rule = next(rule for rule in (*rules, *DEFAULT) if rule.matches(fact))
    if rule.counts == "same":
        return Judged(fact=fact, counts="same", why=rule.why)
    accepted = _accepting(fact, declaration.declared if declaration else ())
    if accepted is not None:
        return Judged(fact=fact, counts="declared", why=accepted.why)
    accepted = _accepting(fact, declaration.waived if declaration else ())
    if accepted is not None:
        return Judged(fact=fact, counts="waived", why=accepted.why)
    return Judged(fact=fact, counts=rule.counts, why=rule.why)


def _accepting(fact: Fact, among: Sequence[Accepted]) -> Accepted | None:
    return next((one for one in among if fnmatchcase(fact.key, one.fact)), None)


def load_rules(path: Path) -> tuple[Rule, ...]:
    """A list of {fact, counts, why}, tried before the default table. Raises LoadError."""
    return tuple(_valid(Rule, item, path) for item in _plain(path, list))


def load_declaration(path: Path) -> Declaration | None:
    """What is written down of one gateway; None where nothing is. Raises LoadError."""
    return _valid(Declaration, _plain(path, dict), path) if path.is_file() else None


def _plain(path: Path, kind: type) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="check the path; it must be UTF-8") from error
    value = parse_yaml(text, str(path)).plain()
    if not isinstance(value, kind):
        raise LoadError(f"this is not a {'list of rules' if kind is list else 'mapping'}", where=str(path), fix="see docs/gateways.md")
    return value


def _valid(model: type[T], value: Any, path: Path) -> T:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LoadError(f"{place}: {first['msg']}", where=str(path), fix=f"write {', '.join(model.model_fields)}") from None
