"""Development only (`--lab`): names that resolve as an operator says, and addresses whose connections end at a listener on loopback.

So an attack with names and addresses can be tried without dialling any of them: which listener was reached tells which address the
gateway would have dialled. Whatever a scripted name leads to and no listener stands for is not dialled at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to every address the host has, as text, in order of preference. Raises OSError when it has none."""


class Lab:
    """`resolver` answers for names that are not scripted."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._names: dict[str, list[Sequence[str]]] = {}
        self._leads: dict[tuple[str, int], tuple[str, int]] = {}
        self._asked: dict[str, int] = {}

    def script(self, names: Mapping[str, Sequence[Sequence[str]]], leads: Mapping[tuple[str, int], tuple[str, int]]) -> None:
        """Replaces what was scripted. `names`: host to its answers, given in turn, the last one for ever; `leads`: address and port to a listener."""
        self._names = {host.lower(): list(answers) for host, answers in names.items()}
        self._leads = dict(leads)
        self._asked = {}

    @property
    def asked(self) -> dict[str, int]:
        """How often each scripted name was resolved."""
        return dict(self._asked)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        answers = self._names.get(host.lower())
        if answers is None:
            return await self._resolver(host, port)
        turn = self._asked.get(host.lower(), 0)
        self._asked[host.lower()] = turn + 1
        if not answers:
            raise OSError("the name has no address here")
        return answers[min(turn, len(answers) - 1)]

    def led(self, address: str, port: int) -> tuple[str, int]:
        """Where a connection to this address ends. Raises ConnectionRefusedError where it must not be made."""
        if (lead := self._leads.get((address, port))) is not None:
            return lead
        if address == "127.0.0.1" and port != 443:
            return address, port
        if not self._names and not self._leads:
            return address, port
        raise ConnectionRefusedError("nothing stands for this address")
