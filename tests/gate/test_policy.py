"""Policies: every mistake is named with its place and a remedy, all at once; the shipped example is sound."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import Exit, HarnessError, LoadError, LoadErrors
from harness.gate.policy import KEYS, load_policy, parse_policy
from harness.model.scenario import LEVELS

ROOT = Path(__file__).parents[2]


def test_the_example_does_not_accept_fakes() -> None:
    found = load_policy(ROOT / "release.yaml")
    for provider in ("mem0", "zep", "someone-else"):
        assert LEVELS.index(found.rule_of(provider).level) >= LEVELS.index("local")
    assert found.require[0].select == "tag:release"
    assert all(LEVELS.index(rule.level) >= LEVELS.index("local") for rule in found.coverage)
    assert found.providers["mem0"].max_age == 7 * 86_400.0


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("policy: p\nrequire: [x]\nbuget: []\n", "release.yaml:3:1", "did you mean 'budget'?"),
        ("policy: p\nrequire: [x]\nproviders:\n  mem0: {levle: live}\n", "release.yaml:4:10", "did you mean 'level'?"),
        ("policy: p\nrequire: [x]\ncoverage: [{level: live, caled: 3}]\n", "release.yaml:3:26", "did you mean 'called'?"),
        ("policy: p\nrequire: [x]\ndrift: {atmost: 3}\n", "release.yaml:3:9", "did you mean 'at_most'?"),
        ("policy: p\nrequire: [{selct: x}]\n", "release.yaml:2:12", "did you mean 'select'?"),
        ("policy: p\nrequire: [x]\nproviders: {mem0: {level: liv}}\n", "release.yaml:3:20", "fake, replayed, local or live"),
        ("policy: p\nrequire: [x]\nproviders: {mem0: {level: live, max_age: 7}}\n", "release.yaml:3:33", '"7d"'),
        ("policy: p\nrequire: [x]\ncoverage: [{level: live, called: 101}]\n", "release.yaml:3:26", "less than or equal to 100"),
        ("policy: p\nrequire: [x]\ndrift: {at_most: -1}\n", "release.yaml:3:9", "greater than or equal to 0"),
        ("policy: p\nrequire: [x]\nbudget: [{select: a, seconds: 3}]\n", "release.yaml:3:22", "say the unit"),
        ("policy: p\n", "release.yaml:1:1", "require is missing"),
        ("[]\n", "release.yaml:1:1", "a policy is a mapping"),
        ("policy: p\nrequire: [x]\nrequire: [y]\n", "release.yaml:3:1", "require"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: str, said: str) -> None:
    with pytest.raises((LoadError, LoadErrors)) as caught:
        parse_policy(text, "release.yaml")
    assert caught.value.exit_code == Exit.USAGE
    assert f"{place}" in str(caught.value)
    assert said in str(caught.value)


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(LoadErrors) as caught:
        parse_policy("policy: p\nrequire: [x]\nbuget: []\nwaiver: x\ndrift: {x: 1}\n", "p.yaml")
    assert len(caught.value.errors) == 3


def test_a_missing_file_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        load_policy(tmp_path / "none.yaml")


@given(key=st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=12).filter(lambda k: k not in KEYS))
@settings(deadline=None, max_examples=50)
def test_any_unknown_rule_is_refused(key: str) -> None:
    with pytest.raises(HarnessError) as caught:
        parse_policy(f'policy: p\nrequire: [x]\n"{key}": 1\n', "p.yaml")
    assert caught.value.exit_code == Exit.USAGE
