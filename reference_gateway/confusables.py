"""Names of tools that look like other names. A person who allows one by its looks must not have allowed the other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_CYRILLIC = "аасеԁһіјӏорԛѕуԝхАВСЕНІЈКМОРЅТУХ"
_LATIN = "aacedhijlopqsywxABCEHIJKMOPSTYX"
_GREEK, _LATIN_OF_GREEK = "αενικορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aevikoptuxwABEZHIKMNOPTYX"
_LOOKS = str.maketrans(_CYRILLIC + _GREEK + "ıɑɡ", _LATIN + _LATIN_OF_GREEK + "iag")
_UNSEEN = {"Cf", "Mn", "Cc"}
"""Categories of characters that are not seen: format, combining, control."""


def looks(name: str) -> str:
    """What a name looks like: names that a person cannot tell apart have this in common."""
    shown = "".join(each for each in unicodedata.normalize("NFKD", name) if unicodedata.category(each) not in _UNSEEN)
    return shown.translate(_LOOKS).casefold().strip()


def imitations(names: Iterable[str]) -> set[str]:
    """Those that look like another name which is plain ASCII, or like one that came before them."""
    first: dict[str, str] = {}
    found: set[str] = set()
    for name in sorted(names, key=lambda name: not name.isascii()):
        look = looks(name)
        if not name.isascii() and first.get(look, name) != name:
            found.add(name)
        first.setdefault(look, name)
    return found
