"""Names are mapped by declaration; what does not follow it is not guessed at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.target.names import Naming

TOOL = st.from_regex(r"[a-z][a-z0-9]{0,8}(_[a-z0-9]{1,8}){0,3}", fullmatch=True)


@given(tool=TOOL, separator=st.sampled_from([None, "__", "-", "."]), dashes=st.booleans())
def test_a_shown_name_leads_back_to_its_tool(tool: str, separator: str | None, dashes: bool) -> None:
    naming = Naming(separator, (("_", "-"),) if dashes else ())
    assert naming.own(naming.shown("mem0", tool), "mem0") == ("mem0", tool)


def test_a_name_of_another_connection_or_of_none_is_left_alone() -> None:
    assert Naming("__").own("zep__add_memory", "mem0") == ("", "zep__add_memory")
    assert Naming("__").own("add_memory", "mem0") == ("", "add_memory")


def test_two_tools_shown_alike_cannot_be_mapped_back() -> None:
    naming = Naming("-", (("_", "-"),))
    assert naming.table("lab", ["add_memory", "add-memory", "search"]) == {"lab-search": "search"}
