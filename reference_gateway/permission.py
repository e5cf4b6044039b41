"""May this run call this tool now? One decision, from the run, the grant, the catalog and the operator's word for the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from reference_gateway.catalog import Catalog, Tool
from reference_gateway.grant import Grant, refusal
from reference_gateway.runs import Run

Word = Literal["allowed", "ask_first", "off"]
WORDS: tuple[str, ...] = get_args(Word)
DEFAULT: Word = "allowed"


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is the audit's word. `visible`: whether an agent sees the tool in its list."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str
    visible: bool = True


def decide(
    run: Run,
    *,
    grant: Grant,
    revoked: bool,
    tool: Tool,
    word: Word | None,
    agents: Sequence[str] | None = None,
    policy: Word | None = None,
) -> Decision:
    """Ask first never grants what anything else denies, so it is looked at last. `word` is None where the operator said nothing.

    `agents`: who may use the connection at all (None: everybody; empty: nobody). `policy`: the strictest word of the policies that apply.
    """
    if run.state == "ended":
        return Decision("deny", "run_ended", visible=False)
    if not run.owns_task:
        return Decision("deny", "task_not_owned", visible=False)
    if revoked:
        return Decision("deny", "grant_revoked", visible=False)
    if (reason := refusal(grant, run.subject)) is not None:
        return Decision("deny", reason, visible=False)
    if agents is not None and run.agent not in agents:
        return Decision("deny", "not_granted", visible=False)
    if tool.status == "quarantined":
        return Decision("deny", "tool_quarantined", visible=False)
    if word == "off":
        return Decision("deny", "tool_off", visible=False)
    if policy == "off":
        return Decision("deny", "policy_block", visible=False)
    if run.mode != "execute" and tool.risk != "read":
        return Decision("deny", "mode_denied", visible=False)
    if "ask_first" in (word, policy):
        return Decision("ask", "requires_approval_policy")
    if word is not None or policy is not None:
        return Decision("allow", "allow_profile")
    return Decision("allow", "allow_grant" if grant.kind == "personal" else "allow_default")


def access(catalog: Catalog, words: Mapping[str, Word]) -> dict[str, int]:
    """How many active tools stand under which word, and how many are quarantined."""
    counts = dict.fromkeys((*WORDS, "quarantined"), 0)
    for tool in catalog.tools.values():
        if tool.status == "active":
            counts[words.get(tool.name, DEFAULT)] += 1
        elif tool.status == "quarantined":
            counts["quarantined"] += 1
    return counts
