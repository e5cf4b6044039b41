"""Two classifiers that share no code, on the reviewed tools and on 200 generated names. Every difference must be one we can explain."""

from __future__ import annotations

import random
import re
from pathlib import Path

from harness.inventory.store import load_inventories
from harness.model.risk import RiskDisagreement, rank
from harness.risk.compare import RiskClaim, disagreements
from harness.risk.oracle import Oracle
from reference_gateway.classify import classify

PUBLISHED = ("cognee", "honcho", "mem0", "supermemory", "zep")  # the hosted providers of the published inventory: 82 tools
INVENTORIES = {name: found for name, found in load_inventories(Path(__file__).parents[2] / "inventories").items() if name in PUBLISHED}
ORACLE = Oracle(INVENTORIES)
SEED = 20260924

AGREED = ["delete", "remove", "destroy", "forget", "prune", "reset"]
AGREED += ["add", "remember", "save", "record", "ingest", "cognify", "update", "create", "set", "upload", "select", "rename", "share"]
AGREED += ["get", "list", "search", "recall", "query", "retrieve", "who"]
NOUNS = ["memory", "graph", "session", "settings", "records", "dataset", "peer", "listing", "address", "reset2", "whole", "setup"]
UNKNOWN = ["inspect", "chat", "fetch", "schedule", "clone", "warm", "touch"]
ONLY_ORACLE = ["wipe", "purge", "erase", "send", "insert", "merge"]


def _name(rng: random.Random, vocabulary: list[str]) -> str:
    parts = [rng.choice(vocabulary), *rng.choices([*NOUNS, *vocabulary], k=rng.randint(0, 2))]
    style = rng.choice(["snake", "kebab", "camel", "dot", "space", "acronym"])
    if style == "camel":
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style == "acronym":
        return "HTTP" + "".join(part.capitalize() for part in parts)
    return {"snake": "_", "kebab": "-", "dot": ".", "space": " "}[style].join(parts)


def _explained(found: RiskDisagreement) -> str:
    """Why the rules and the oracle may differ on this name; empty when nothing explains it."""
    if re.search(r"[A-Z]{2,}[a-z]", found.tool):
        return "acronym: the rules cut only between a small and a capital letter"
    if any(word in found.tool.lower() for word in ONLY_ORACLE):
        return "word: the rules do not know it"
    if re.search(r"\d", found.tool):
        return "digit: the oracle looks inside reset2"
    return ""


def _compare(provider: str, name: str) -> tuple[RiskDisagreement, ...]:
    theirs = classify(provider, {"name": name})
    return disagreements(ORACLE.judge_name(provider, name), [RiskClaim(by="gateway", risk=theirs.risk, why=theirs.reason)])


def test_the_gateway_and_the_oracle_agree_on_every_reviewed_tool() -> None:
    for inventory in INVENTORIES.values():
        for record in inventory.tools:
            assert _compare(inventory.provider, record.name) == ()


def test_200_generated_names_differ_only_where_it_can_be_explained() -> None:
    rng = random.Random(SEED)
    names = [_name(rng, [*AGREED, *UNKNOWN, *ONLY_ORACLE]) for _ in range(200)]
    found = [difference for name in names for difference in _compare("mem0", name)]
    assert [difference.message for difference in found if not _explained(difference)] == []
    assert found, "a test that never sees a difference proves nothing"
    assert all(difference.direction == "under" for difference in found), "the oracle never lowers what the rules raise"
    assert len(found) < len(names) // 2
    assert {_explained(difference).split(":")[0] for difference in found} >= {"acronym", "word"}


def test_where_names_are_plain_both_always_agree() -> None:
    rng = random.Random(SEED)
    plain = [word for word in [*AGREED, *UNKNOWN] if word.isalpha()]
    for _ in range(200):
        name = rng.choice("_-. ").join(rng.choices(plain, k=rng.randint(1, 3)))
        assert _compare("zep", name) == (), name
        assert rank(ORACLE.judge_name("zep", name).risk) == rank(classify("zep", {"name": name}).risk)
