"""Scenarios that are wrong in one part: a key, a verb, an expectation, a connection, a duration.

Each case is one edit of the language's own example, which loads: where the loader says so, what it says, and how to mend it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.errors import Exit, LoadErrors
from harness.model.scenario import Scenario

Refusal = tuple[str, str, str]

# name, text of the example, what takes its place, [(line:column, what, fix)]
CASES: list[tuple[str, str, str, list[Refusal]]] = [
    (
        "a top-level key",
        "title:",
        "titel:",
        [
            ("1:1", "a scenario needs 'title'", "add title: one sentence on what it shows"),
            ("2:1", "unknown key 'titel' in a scenario", "did you mean 'title'?"),
        ],
    ),
    (
        "no title",
        "title: A Mem0 write waits for approval, runs once, and is recalled exactly\n",
        "",
        [("1:1", "a scenario needs 'title'", "add title: one sentence on what it shows")],
    ),
    (
        "a number as title",
        "A Mem0 write waits for approval, runs once, and is recalled exactly",
        "12",
        [("2:8", "title must be text, not the number 12", 'quote it: "12"')],
    ),
    ("an id with spaces", "scenario: MEM-1", "scenario: MEM 1", [("1:11", "'MEM 1' cannot be a scenario's id", "use letters, digits, - _ and .")]),
    ("a verb", "call: mem0.add_memory", "cal: mem0.add_memory", [("10:5", "unknown verb 'cal'", "did you mean 'call'?")]),
    (
        "a step without a verb",
        "    approve: write\n",
        "",
        [("15:5", "step 'allow' does nothing: it has no verb", "add one of: advance, approve, call, refresh, say, set_permission")],
    ),
    (
        "two verbs",
        "as: operator",
        "as: operator\n    refresh: mem0",
        [("18:5", "step 'allow' does 2 things: 'approve' and 'refresh'", "make it one step for each")],
    ),
    ("a verb's key", "with: {query", "wiht: {query", [("23:5", "unknown key 'wiht' in step 'recall'", "did you mean 'with'?")]),
    (
        "the model's own name",
        "approve: write",
        "approve: write\n    target: x",
        [("17:5", "unknown key 'target' in step 'allow'", "write it as the value of approve:")],
    ),
    ("an expectation", "pending: approval", "pendign: approval", [("13:20", "unknown expectation 'pendign'", "did you mean 'pending'?")]),
    (
        "two words in one expectation",
        "pending: approval",
        "pending: approval, dispatched: 0",
        [("13:39", "one expectation with 2 words: pending, dispatched", "write each as its own `- ` entry")],
    ),
    (
        "no word in an expectation",
        "{id: held, pending: approval}",
        "{id: held}",
        [("13:9", "an expectation without a word", "add one of: audited, dispatched, no_secret, nothing_else, pending, recalled, result")],
    ),
    (
        "an expectation as text",
        "{id: held, pending: approval}",
        "pending",
        [
            ("13:9", "an expectation must be a mapping, not 'pending'", "write `name: value` entries"),
            (
                "33:11",
                "the claim is tied to 'held', which is no expectation's id",
                "use one of: clean, dispatched-once, exact, not-dispatched, quiet, trail",
            ),
        ],
    ),
    (
        "expect as a mapping",
        "expect:                       # on the whole run",
        "expect: {quiet: true}\nx:",
        [
            ("27:9", "expect must be a list, not a mapping", "begin each entry with `- `"),
            (
                "28:1",
                "unknown key 'x' in a scenario",
                "use one of: cleanup, connections, does_not_prove, exclusive, expect, formerly, let, place, "
                "protocols, proves, scenario, steps, tags, title, when",
            ),
            ("34:50", "the claim is tied to 'trail', which is no expectation's id", "use one of: dispatched-once, exact, held, not-dispatched"),
            ("34:57", "the claim is tied to 'quiet', which is no expectation's id", "use one of: dispatched-once, exact, held, not-dispatched"),
        ],
    ),
    ("a value of a closed list", "pending: approval", "pending: aproval", [("13:29", "pending may not be 'aproval'", "did you mean 'approval'?")]),
    (
        "a value of the wrong type",
        "dispatched: 0",
        "dispatched: lots",
        [
            (
                "14:42",
                "dispatched may not be 'lots': it should be a valid integer",
                "write a number without quotes",
            )
        ],
    ),
    (
        "a nested key",
        "count: 1",
        "cuont: 1",
        [("20:43", "dispatched needs 'count'", "add count: …"), ("20:57", "unknown key 'cuont' in dispatched", "did you mean 'count'?")],
    ),
    (
        "a nested value",
        "is: approved_success",
        "is: aproved_success",
        [("28:49", "is of audited may not be 'aproved_success'", "did you mean 'approved_success'?")],
    ),
    (
        "the wrong scope",
        "nothing_else: true",
        "recalled: {text: x}",
        [("29:17", "'recalled' cannot judge the whole run", "move it to a step (its own expect:)")],
    ),
    (
        "a run word at a step",
        "pending: approval",
        "nothing_else: true",
        [("13:20", "'nothing_else' cannot judge a step", "move it to the whole run (expect: at the left margin)")],
    ),
    (
        "an undeclared connection",
        "call: mem0.add_memory",
        "call: mem.add_memory",
        [("10:11", "the connection 'mem' is not declared", "did you mean 'mem0'? (or declare it under connections:)")],
    ),
    ("a connection without a tool", "call: mem0.add_memory", 'call: "mem0."', [("10:11", "'mem0.' names no tool", "write mem0.<tool>")]),
    (
        "an unused connection",
        "{mem0: {grant",
        "{zep: , mem0: {grant",
        [
            (
                "3:15",
                "{zep} is a YAML mapping with an empty value, not a variable",
                'put quotes around the variable: "${zep}" (for a mapping write {zep: value})',
            )
        ],
    ),
    (
        "an unused connection, block",
        "{mem0: {grant: personal, permissions: {add_memory: ask_first}}}",
        "[mem0, zep]",
        [("3:21", "the connection 'zep' is declared and never used", "use it in a step or an expectation, or remove it")],
    ),
    (
        "a twin connection",
        "{mem0: {grant: personal, permissions: {add_memory: ask_first}}}",
        "[mem0, mem0]",
        [("3:21", "the connection 'mem0' stands twice", "remove one of them")],
    ),
    ("an unknown provider", "{mem0: {grant", "{mem0: {provider: men0, grant", [("3:32", "unknown provider 'men0'", "did you mean 'mem0'?")]),
    (
        "a nameless provider",
        "{mem0: {grant",
        "{memory: {}, mem0: {grant",
        [
            ("3:15", "unknown provider 'memory'", "did you mean 'supermemory'? (a name that is no provider needs provider: …)"),
            ("3:15", "the connection 'memory' is declared and never used", "use it in a step or an expectation, or remove it"),
        ],
    ),
    (
        "a connection name",
        "{mem0: {grant",
        "{Zep_1: {provider: zep}, mem0: {grant",
        [
            ("3:15", "'Zep_1' cannot name a connection", "use lower-case letters, digits and -, a letter first, at most 40"),
            ("3:15", "the connection 'Zep_1' is declared and never used", "use it in a step or an expectation, or remove it"),
        ],
    ),
    ("a grant", "grant: personal", "grant: persnal", [("3:29", "grant of connection mem0 may not be 'persnal'", "did you mean 'personal'?")]),
    (
        "a permission",
        "ask_first",
        "ask",
        [("3:65", "permissions.add_memory of connection mem0 may not be 'ask'", "use one of: allowed, ask_first, off")],
    ),
    ("a connection key", "permissions:", "permission:", [("3:39", "unknown key 'permission' in connection mem0", "did you mean 'permissions'?")]),
    ("a duration without unit", "within: 30s", "within: 30", [("24:26", "within is no duration", 'say the unit: "30s"')]),
    ("a duration", "{within: 30s}", "soon", [("24:17", "within is no duration", 'write a duration such as "30s", "5m" or "200ms"')]),
    ("no duration", "{within: 30s}", "{every: 1s}", [("24:17", "eventually needs 'within'", "add within: 30s")]),
    ("nothing as duration", "within: 30s", "within: 0s", [("24:26", "within must be more than nothing", "write a duration such as 30s")]),
    (
        "eventually on approve",
        "as: operator",
        "as: operator\n    eventually: 3s",
        [("18:5", "eventually repeats reads, but this step's verb is 'approve'", "move it to the call that reads the result")],
    ),
    (
        "eventually without expectations",
        "- call: mem0.delete_memory",
        "- call: mem0.delete_memory\n    eventually: 3s",
        [("40:5", "eventually has no meaning in cleanup", "remove it: cleanup is judged apart, by whether it worked")],
    ),
    (
        "expectations in cleanup",
        "- call: mem0.delete_memory",
        "- call: mem0.delete_memory\n    expect: [result: {is_error: false}]",
        [("40:5", "expect has no meaning in cleanup", "remove it: cleanup is judged apart, by whether it worked")],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), [case[1:] for case in CASES], ids=[case[0].replace(" ", "-") for case in CASES])
def test_a_wrong_part_is_refused_where_it_is_wrong(
    old: str, new: str, expected: list[Refusal], example: str, refusals: Callable[[str], list[Refusal]]
) -> None:
    assert old in example
    assert refusals(example.replace(old, new, 1)) == expected


def test_every_refusal_shows_its_line_and_ends_the_process_with_2(example: str, load: Callable[[str], Scenario]) -> None:
    text = example.replace("title:", "titel:").replace("pending: approval", "pendign: approval")
    with pytest.raises(LoadErrors) as caught:
        load(text)
    assert caught.value.exit_code is Exit.USAGE
    lines = text.splitlines()
    for error in caught.value.errors:
        line = int(error.where.split(":")[1])
        assert error.excerpt == lines[line - 1]
        assert error.fix
        assert error.excerpt in str(caught.value)
