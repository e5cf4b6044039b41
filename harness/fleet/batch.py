"""What a worker does: a few servers asked at the same time, then compared one by one. Takes and gives plain data only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from harness.discover.wire import Limits
from harness.drift.relations import RelateSchemas
from harness.errors import CredentialsMissing, HarnessError, Unreachable
from harness.fleet.check import Checked, Policy
from harness.fleet.pair import Pair, checked, could_not, http_headers, loaded_pair
from harness.fleet.relating import lasting
from harness.fleet.servers import Job
from harness.fleet.side import Access, Loaded
from harness.model.drift_result import DriftResult, FleetEntry
from harness.model.location import Frozen
from harness.report.drift.html import page
from harness.report.drift.json import FORMAT as JSON
from harness.report.drift.reading import severity_counts

LIMITS = Limits(tools=20_000, response_bytes=8 * 1024 * 1024, total_bytes=16 * 1024 * 1024, request_s=30.0)
TOGETHER = 8
"""Servers that one worker asks at the same time, and whose lists it holds."""
SERVER_S = 180.0
"""Seconds for one server's whole list; one that drips must not hold its batch for ever."""


class Outcome(Frozen):
    """One server's result as files, and the line that stays in memory."""

    entry: FleetEntry
    document: str
    page: str


def work(jobs: Sequence[str], policy: Policy) -> list[str]:
    """What a worker process is given: `check_batch` with the comparing child that lasts as long as the worker."""
    return check_batch(jobs, policy, lasting())


def check_batch(jobs: Sequence[str], policy: Policy, relate: RelateSchemas) -> list[str]:
    """JSON of `Job` in, JSON of `Outcome` out, in order. A server that cannot be checked is an outcome that says why; nothing is raised for it."""
    answers = []
    for start in range(0, len(jobs), TOGETHER):
        parsed = [Job.model_validate_json(job) for job in jobs[start : start + TOGETHER]]
        got = asyncio.run(_load_all(parsed))
        for position, job in enumerate(parsed):
            answers.append(_outcome(job, got[position], policy, relate).model_dump_json())
            got[position] = None  # a whole list may be large; it is not needed again
    return answers


Got = tuple[Loaded, Loaded, Access] | HarnessError | None


async def _load_all(jobs: Sequence[Job]) -> list[Got]:
    return list(await asyncio.gather(*(_load(job) for job in jobs)))


async def _load(job: Job) -> Got:
    try:
        access = access_of(job)
        async with asyncio.timeout(SERVER_S):
            old, new = await loaded_pair(Pair(job.old, job.new), access)
        return old, new, access
    except TimeoutError:
        return Unreachable(f"its list was not whole after {SERVER_S:g} s", where=job.server.id, fix="check the server, or check it alone")
    except HarnessError as error:
        return error


def access_of(job: Job) -> Access:
    """Secrets come from the environment of the process that asks. Raises CredentialsMissing."""
    server = job.server
    for variable in (*server.header_env.values(), *server.env):
        if not os.environ.get(variable):
            raise CredentialsMissing(f"environment variable {variable} is not set", where=server.id, fix="set it where the workers run")
    headers = http_headers((), {name: os.environ[variable] for name, variable in server.header_env.items()})
    env = {name: os.environ[name] for name in server.env}
    return Access(protocol=server.protocol, headers=headers, env=env, provider=server.provider or server.id, limits=LIMITS)


def _outcome(job: Job, got: Got, policy: Policy, relate: RelateSchemas) -> Outcome:
    pair = Pair(job.old, job.new, subject=job.server.id, against=job.server.against)
    if isinstance(got, tuple):
        try:
            done = checked(pair, got[0], got[1], got[2], policy, relate)
        except HarnessError as error:
            done = could_not(pair, policy, error)
    else:
        done = could_not(pair, policy, got or Unreachable("it was not asked", where=job.server.id))
    return outcome_of(job, done)


def outcome_of(job: Job, done: Checked) -> Outcome:
    result = done.result
    return Outcome(entry=entry_of(job, done), document=JSON.render(result).decode("utf-8"), page=page(result, back="../index.html"))


def entry_of(job: Job, done: Checked) -> FleetEntry:
    result: DriftResult = done.result
    return FleetEntry(
        id=job.server.id,
        plan="",
        exit_code=result.exit_code,
        verdict=result.verdict,
        tools=result.report.names.compared if result.report else 0,
        **severity_counts(result),
        accepted=len(result.accepted),
        unproven=result.unproven,
        reason="; ".join(result.reasons)[:500],
        used_waivers=tuple(str(waiver.at) for waiver in done.used),
    )
