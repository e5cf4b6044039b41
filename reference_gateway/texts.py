"""What no name may hold: characters that are not seen, or that no store can keep. A name is read by people, and is one line of a log."""

from __future__ import annotations

import re

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, the separators of lines and paragraphs, and halves of surrogate pairs."""

SAID = "control characters are not allowed here"


def unprintable(text: str) -> bool:
    return UNPRINTABLE.search(text) is not None
