"""How the oracle reads a tool name: into words, with capitals, acronyms and look-alike letters taken apart.

Not the gateway's rules, on purpose: those match segments in a fixed order, this takes every word and keeps the worst.
"""

from __future__ import annotations

import re
import unicodedata

DESTROY = frozenset(
    "clear delete destroy drop erase expunge forget prune purge remove reset shred truncate unlink unpublish wipe".split()  # noqa: SIM905
)
CHANGE = frozenset(
    """add append archive cognify commit create edit execute import ingest insert invoke mark merge move mutate patch post publish put
    record remember rename save select send set share store submit update upload upsert write""".split()  # noqa: SIM905
)
LOOK = frozenset("get list query recall retrieve search who".split())  # noqa: SIM905

# Letters of other scripts that print like Latin ones: a name that looks like "delete" is read as "delete".
_LOOKALIKES = str.maketrans(
    "аеорсухіјԁһӏмнткв" + "αεοριτνκ",
    "aeopcyxijdhlmhtkb" + "aeopitvk",
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W_A-Za-z]+")


def words(name: str) -> tuple[str, ...]:
    """Lower-case words of a name: cut at capitals (`HTTPDelete` is http, delete), digits and anything that is no letter."""
    plain = unicodedata.normalize("NFKD", name)
    plain = "".join(char for char in plain if not unicodedata.combining(char) and unicodedata.category(char) != "Cf")
    folded = "".join(_fold(char) for char in plain)
    return tuple(match.group().lower() for match in _WORD.finditer(folded))


def _fold(char: str) -> str:
    if char.isascii():
        return char
    low = char.lower()
    latin = low.translate(_LOOKALIKES)
    return latin.upper() if latin != low and char != low else latin if latin != low else char
