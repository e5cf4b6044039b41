"""`PROVIDER@TARGET`: the tools of a provider as a gateway shows them in its catalog, with the bench that scenarios run on."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.clock import TestClock
from harness.engine.bench import Bench, BenchOptions
from harness.engine.legs import LegSource
from harness.engine.plan import targets
from harness.engine.set_up import host_of, path_of
from harness.errors import UsageError
from harness.fake.kit import providers as stand_ins
from harness.inventory.side import Side, catalog_side
from harness.model.manifest import Manifest
from harness.model.scenario import LEVELS, NEWEST_PROTOCOL, ConnectionSpec, Level
from harness.scenario.files import providers_folder
from harness.scenario.manifest import load_manifests, need_manifest
from harness.target.base import ConnectionRequest

_TENANT, _CONNECTION = "drift", "drift"


async def gateway_side(provider: str, gateway: str, word: str) -> tuple[Side, Level]:
    """The catalog, and the level that was asked for.

    Raises UsageError for an unknown provider or gateway, Untestable for a level that cannot be had, Unreachable for a gateway that is not.
    """
    manifest = need_manifest(load_manifests(providers_folder()), provider, where=f"{provider}@{gateway}")
    target = targets().need(gateway, where=f"{provider}@{gateway}")
    level = _level(word)
    options = BenchOptions(level, [manifest.id], {manifest.id: manifest})
    with tempfile.TemporaryDirectory(prefix="harness-drift-") as folder:
        async with Bench(target, options, Path(folder)) as bench:
            await _connect(bench, manifest)
            catalog = await bench.gateway.catalog(_TENANT, _CONNECTION)
    label = f"{manifest.id} ({level}) through {gateway}"
    complete = bool(catalog.get("complete", True))
    assumed = stand_ins()[manifest.id].assumed_shapes if level == "fake" and manifest.id in stand_ins() else ()
    return catalog_side(label, catalog.get("tools", []), complete=complete, assumed=assumed), level


def _level(word: str) -> Level:
    for level in LEVELS:
        if level == word:
            return level
    raise UsageError(f"unknown level {word!r}", where="--level", fix=f"use one of: {', '.join(LEVELS)}")


async def _connect(bench: Bench, manifest: Manifest) -> None:
    """One tenant, one account at the provider, one mount, one connection; nothing is ever called."""
    source: LegSource = bench.sources[manifest.id]
    secret = source.fixed_credential or bench.options.names.secret(manifest.id)
    spec = ConnectionSpec.model_validate({"provider": manifest.id, "grant": "personal"})
    source.admit(secret, _CONNECTION, spec.consent, {}, TestClock())
    host = host_of(manifest, f"{_TENANT}-{_CONNECTION}") if source.mapped else None
    operations = [(o.method, o.path, o.tool) for o in manifest.operations]
    url = bench.tap.mount(_CONNECTION, source.base_url, host=host, operations=operations).url(source.path)
    bridge, auth = manifest.transport != "mcp_http", manifest.auth
    await bench.gateway.open_tenant(_TENANT)
    request = ConnectionRequest(
        name=_CONNECTION,
        provider=manifest.id,
        transport=manifest.transport,
        url=None if manifest.transport == "cognee_cloud" else url,
        protocol=source.pin(NEWEST_PROTOCOL),
        auth={} if bridge else {"scheme": "bearer" if auth.scheme == "oauth" else auth.scheme, "path": auth.paths[-1]},
        credentials={**({auth.paths[0]: url} if manifest.transport == "cognee_cloud" else {}), path_of(manifest, spec): secret},
        spec=spec,
        subject="drift",
    )
    await bench.gateway.connect(_TENANT, request)
