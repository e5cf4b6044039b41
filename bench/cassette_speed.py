"""What recordings cost: reading a cassette of 1 MB, and one scenario replayed behind a gateway that is up."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cassette.format import content_hash
from harness.cassette.redact import Redactor
from harness.cassette.store import dump_cassette, read_cassette, read_header
from harness.engine.evidence_log import EvidenceLog
from harness.engine.item import ItemRun
from harness.engine.plan import make_plan
from harness.engine.run import bench_for, documents_for
from harness.scenario.files import cassettes_folder

SCENARIO = "MEM-1"
PROTOCOL = "2026-07-28"
BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Loaded:
    """Milliseconds of processor time: the whole cassette, and its header alone."""

    size: int
    whole_ms: tuple[float, ...]
    header_ms: tuple[float, ...]


def loading(times: int) -> Loaded:
    """A recording of many listings and calls, grown to 1 MB from a shipped one."""
    shipped = read_cassette(cassettes_folder() / "mem0" / f"{SCENARIO}.yaml")
    assert shipped.header is not None
    grown, size = [], 0
    while size < BYTES:
        for one in shipped.interactions:
            asked = json.dumps({"n": len(grown)}).encode()
            grown.append(replace(one, request_body=(one.request_body or b"") + asked))
            size += len(one.response_body) + len(one.request_body or b"") + len(asked) + 400
    header = shipped.header.model_copy(update={"content": content_hash(tuple(grown))})
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "large.yaml"
        path.write_bytes(dump_cassette(header, tuple(grown)))
        whole, alone = [], []
        for _ in range(times):
            for read, kept in ((read_cassette, whole), (read_header, alone)):
                began = time.process_time()
                read(path)
                kept.append((time.process_time() - began) * 1000)
        return Loaded(path.stat().st_size, tuple(whole), tuple(alone))


async def replaying(times: int) -> tuple[float, ...]:
    """Milliseconds from the first word of an item to its last, the gateway being up already; each run a tenant of its own."""
    (item,) = make_plan([SCENARIO], level="replayed", protocol=PROTOCOL).items
    took = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = EvidenceLog(Path(folder) / "evidence.jsonl", Redactor())
        try:
            async with bench_for([item], Path(folder), still=False) as bench:
                documents = documents_for([item])
                for number in range(times):
                    began = time.perf_counter()
                    await ItemRun(bench=bench, item=item, log=log, documents=documents, run_id=f"bench-{number}").run()
                    took.append((time.perf_counter() - began) * 1000)
        finally:
            log.close()
    return tuple(took)
