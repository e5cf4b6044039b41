"""Every way a scenario can be wrong that the loader knows: where it says so, what it says, and how to mend it.

Each case is one edit of the language's own example, which loads.
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
        [("15:5", "step 'allow' does nothing: it has no verb", "add one of: advance, approve, call, refresh, set_permission")],
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
                "use one of: cleanup, connections, does_not_prove, exclusive, expect, let, protocols, proves, scenario, steps, tags, title, when",
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
                "dispatched may not be 'lots': it should be a valid integer, unable to parse string as an integer",
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
    ("approve of an unknown step", "approve: write", "approve: wirte", [("16:14", "approve: there is no step 'wirte'", "did you mean 'write'?")]),
    ("approve of a later step", "approve: write", "approve: recall", [("16:14", "step 'recall' has not run by then", "move approve after it")]),
    ("an unknown step in an expectation", "{step: write", "{step: writ", [("20:50", "there is no step 'writ'", "did you mean 'write'?")]),
    (
        "a taken id",
        "id: held",
        "id: write",
        [
            ("13:9", "the id 'write' of this expectation is taken (line 9)", "ids are unique in a scenario: rename one"),
            (
                "33:11",
                "the claim is tied to 'held', which is no expectation's id",
                "use one of: clean, dispatched-once, exact, not-dispatched, quiet, trail, write",
            ),
        ],
    ),
    (
        "an id that is built in",
        "id: write",
        "id: run",
        [
            ("9:9", "'run' is built in", "choose another id"),
            ("16:14", "approve: there is no step 'write'", "use one of: allow, recall, run"),
            ("20:50", "there is no step 'write'", "use one of: allow, recall, run"),
        ],
    ),
    (
        "an id with a sign",
        "id: held",
        "id: he.ld",
        [
            ("13:14", "'he.ld' cannot be an id", "use letters, digits, _ and -, a letter first"),
            ("33:11", "the claim is tied to 'held', which is no expectation's id", "did you mean 'he.ld'?"),
        ],
    ),
    (
        "an undefined variable",
        'text: "${fact}", user_id',
        'text: "${fcat}", user_id',
        [("11:18", "undefined variable ${fcat}", "did you mean 'fact'?")],
    ),
    (
        "an undefined capture",
        '{allow.memory_id}", scope',
        '{allow.memory}", scope',
        [("26:53", "undefined variable ${allow.memory}", "did you mean 'allow.memory_id'?")],
    ),
    (
        "a capture of a later step",
        'with: {text: "${fact}"',
        'with: {text: "${fact} ${allow.memory_id}"',
        [("11:18", "${allow.memory_id} is captured by step 'allow', which has not run by then", "use it in a later step")],
    ),
    (
        "a capture judged by itself",
        "step: write, count: 1",
        'step: "${allow.memory_id}", count: 1',
        [("20:50", "${allow.memory_id} is read from the very answer that is judged here", "capture it in an earlier step")],
    ),
    (
        "a capture in let",
        'user: "harness-${run.id}"',
        'user: "harness-${allow.memory_id}"',
        [("6:9", "${allow.memory_id} is captured by step 'allow', which has not run by then", "use it in a later step")],
    ),
    (
        "an unused variable",
        'user: "harness-${run.id}"',
        'user: "harness-${run.id}"\n  spare: 1',
        [("7:3", "the variable 'spare' is never used", 'use it as "${spare}", or remove it')],
    ),
    (
        "an unused capture",
        "capture: {memory_id",
        'capture: {spare: {at: "/id"}, memory_id',
        [("18:15", "the capture 'spare' of step 'allow' is never used", 'use it as "${allow.spare}", or remove it')],
    ),
    (
        "a circular let",
        'user: "harness-${run.id}"',
        'user: "${fact}"\n  b: "${user}${b}"',
        [("7:3", "circular let: b -> b", "give one of them a value of its own")],
    ),
    (
        "a longer ring",
        'fact: "The ${nonce}',
        'fact: "The ${user} ${nonce}" \n  x: "${fact}',
        [("8:3", "the variable 'x' is never used", 'use it as "${x}", or remove it')],
    ),
    (
        "a malformed variable",
        "The ${nonce}",
        "The ${ nonce }",
        [("7:9", "'${ nonce }' is not a variable", 'write ${name} or ${step.capture}, without spaces; for a literal "${" write "$${"')],
    ),
    (
        "an open variable",
        "The ${nonce}",
        "The ${nonce",
        [("7:9", "'${nonce navigator ke' is not a variable", 'write ${name} or ${step.capture}, without spaces; for a literal "${" write "$${"')],
    ),
    (
        "a variable as key",
        'user_id: "${user}", infer',
        '"${user}": 1, infer',
        [("11:29", "a variable cannot stand in a key: '${user}'", "write the key out; variables stand in values")],
    ),
    ("a reserved let", "let:\n", "let:\n  nonce: 1\n", [("6:3", "'nonce' is built in", "choose another name")]),
    (
        "a let name",
        "let:\n",
        'let:\n  "a b": 1\n',
        [
            ("6:3", "'a b' cannot name a variable", "use letters, digits, _ and -, a letter first"),
            ("6:3", "the variable 'a b' is never used", 'use it as "${a b}", or remove it'),
        ],
    ),
    (
        "a capture without pointer",
        'at: "/results/0/id"',
        "to: x",
        [
            ("18:26", "capture 'memory_id' needs 'at'", 'add at: "/results/0/id"'),
            ("18:41", "unknown key 'to' in capture 'memory_id'", "use one of: at, from"),
        ],
    ),
    (
        "a capture that is no pointer",
        '"/results/0/id"',
        "results.id",
        [("18:45", "at must be a JSON pointer", 'begin it with /, as in "/results/0/id"; "" is the whole answer')],
    ),
    ("a capture source", "from: result", "from: results", [("18:33", "unknown source 'results'", "did you mean 'result'?")]),
    (
        "a claim tied to nothing",
        "by: [exact]",
        "by: []",
        [
            (
                "34:51",
                "the claim 'the written fact is recalled exactly' is tied to no expectation",
                "add by: [id, …] with the ids of the expectations that prove it",
            )
        ],
    ),
    (
        "a claim without by",
        "recalled exactly, by: [exact]}",
        "recalled exactly}",
        [
            (
                "34:5",
                "the claim 'the written fact is recalled exactly' is tied to no expectation",
                "add by: [id, …] with the ids of the expectations that prove it",
            )
        ],
    ),
    (
        "a claim on an unknown id",
        "by: [exact]",
        "by: [exat]",
        [("34:56", "the claim is tied to 'exat', which is no expectation's id", "did you mean 'exact'?")],
    ),
    (
        "a claim without text",
        "{claim: the written fact is recalled exactly, by",
        "{by",
        [("34:5", "a claim needs 'claim'", "say what is proven: claim: …")],
    ),
    (
        "a claim said twice",
        "{claim: the written fact is recalled exactly, by: [exact]}",
        "{claim: x, by: [exact]}\n  - {claim: x, by: [exact]}",
        [("35:5", "this claim stands twice (line 34)", "merge their `by`")],
    ),
    ("a protocol", "tags:", 'protocols: ["2025-11-26"]\ntags:', [("4:13", "unknown protocol version '2025-11-26'", "did you mean '2025-11-25'?")]),
    (
        "an unquoted date",
        "tags:",
        "protocols: [2025-11-25]\ntags:",
        [("4:13", "an unquoted date: YAML readers disagree on what 2025-11-25 is", 'quote it: "2025-11-25"')],
    ),
    ("a level", "tags:", "when: {level: fakes}\ntags:", [("4:15", "unknown level 'fakes'", "did you mean 'fake'?")]),
    (
        "yes is text",
        "tags:",
        "exclusive: yes\ntags:",
        [("4:12", "exclusive must be true or false, not 'yes'", "write true or false (yes and no are text)")],
    ),
    (
        "a recall that repeats the question",
        'query: "What',
        'query: "${fact} What',
        [
            (
                "26:38",
                "the expected text '${fact}' is already in the request of step 'recall'",
                "ask in other words, without the fact: a provider that repeats the question would pass",
            )
        ],
    ),
    (
        "a recall whose question holds the written-out fact",
        'query: "What does',
        'query: "the  ${nonce} NAVIGATOR keeps a silver compass in a maple cabinet. What does',
        [
            (
                "26:38",
                "the expected text '${fact}' is already in the request of step 'recall'",
                "ask in other words, without the fact: a provider that repeats the question would pass",
            )
        ],
    ),
    (
        "the same key twice",
        "tags: [release, nightly]",
        "tags: [release]\ntags: [nightly]",
        [("5:1", "the key 'tags' stands twice (first at line 4)", "remove or rename one of them")],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), [case[1:] for case in CASES], ids=[case[0].replace(" ", "-") for case in CASES])
def test_a_wrong_scenario_is_refused_where_it_is_wrong(
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


ECHO = """\
scenario: ECHO
title: A recall that an echo would pass
connections: [mem0]
let: {fact: "The ${nonce} navigator", user: "u-${run.id}"}
steps:
  - id: recall
    call: search_memories
    with: {query: "${fact}", filters: {user_id: "${user}"}}
    eventually: {within: 30s}
    expect:
      - result: {contains: "${fact}", is_error: false}
"""


def test_c03_text_that_the_request_already_holds_proves_no_recall(refusals: Callable[[str], list[Refusal]]) -> None:
    fix = "expect text that only the answer can hold, or name the place (at: …, equals: …), or use `recalled`, which judges result items"
    assert refusals(ECHO) == [("11:27", "the expected text '${fact}' is already in the request of step 'recall'", fix)]


def test_a_part_of_the_request_is_an_echo_too_whatever_its_case(refusals: Callable[[str], list[Refusal]]) -> None:
    text = ECHO.replace('contains: "${fact}"', 'contains: "NAVIGATOR"')
    assert [what for _, what, _ in refusals(text)] == ["the expected text 'NAVIGATOR' is already in the request of step 'recall'"]


def test_text_that_only_the_answer_can_hold_is_accepted(load: Callable[[str], Scenario]) -> None:
    load(ECHO.replace('query: "${fact}"', 'query: "who keeps the compass?"'))


def test_an_expectation_on_an_approval_is_held_against_the_call_it_carries_out(example: str, refusals: Callable[[str], list[Refusal]]) -> None:
    text = example.replace("    as: operator\n    capture", "    as: operator\n    capture").replace(
        "      - {id: dispatched-once,", '      - {id: stored, result: {contains: "${fact}"}}\n      - {id: dispatched-once,'
    )
    assert [(where, what) for where, what, _ in refusals(text)] == [
        ("20:38", "the expected text '${fact}' is already in the request of step 'allow'")
    ]
