"""Connection headers whose values come from the environment: on a command line every process of the machine could read them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from harness.errors import CredentialsMissing, UsageError

OPTION = "--header-env"
HELP = "Send header NAME with the value of environment variable VARIABLE; repeatable."


def headers_from(given: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`NAME=VARIABLE` each. Raises UsageError for another form, CredentialsMissing for a variable that is not set."""
    found: dict[str, str] = {}
    for pair in given:
        name, equals, variable = pair.partition("=")
        if not (name and equals and variable):
            raise UsageError(f"{pair!r} is not NAME=VARIABLE", where=OPTION, fix=f"for example: {OPTION} Authorization=MEM0_AUTHORIZATION")
        if not environment.get(variable):
            raise CredentialsMissing(f"environment variable {variable} is not set", where=OPTION, fix=f"set it to the value of header {name}")
        found[name] = environment[variable]
    return found
