"""Scenarios whose parts do not fit together: ids, steps, variables, claims, echoes.

Each case is one edit of the language's own example, which loads: where the loader says so, what it says, and how to mend it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

Refusal = tuple[str, str, str]

# name, text of the example, what takes its place, [(line:column, what, fix)]
CASES: list[tuple[str, str, str, list[Refusal]]] = [
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
def test_parts_that_do_not_fit_are_refused_where_they_meet(
    old: str, new: str, expected: list[Refusal], example: str, refusals: Callable[[str], list[Refusal]]
) -> None:
    assert old in example
    assert refusals(example.replace(old, new, 1)) == expected
