"""Setting up one plan item: tenant, accounts, mounts, connections, run token, agent session, and what stood there before."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from harness.action.base import Leg, Stage
from harness.clock import TestClock
from harness.errors import HarnessError
from harness.model.manifest import Manifest
from harness.model.scenario import ConnectionSpec
from harness.target.base import ConnectionRequest
from harness.target.wire import wire_session

if TYPE_CHECKING:
    from harness.engine.item import ItemRun


class SetUp:
    """Fills an ItemRun's legs and credentials as it goes, so that whatever was opened is closed even when it breaks off midway."""

    def __init__(self, run: ItemRun) -> None:
        self.run_ = run
        self.bench = run.bench
        self.tenant = run.tenant
        self.subject = f"user-{run.tenant}"

    async def run(self, stack: AsyncExitStack) -> Stage:
        gateway, run = self.bench.gateway, self.run_
        await gateway.open_tenant(self.tenant)
        for name, spec in run.item.scenario.connections.items():
            await self._connect(name, spec)
        grant = await gateway.start_run(self.tenant, list(run.legs), task=run.item.scenario.id, agent="scripted-agent", subject=self.subject)
        run.gateway_run = grant.run
        run.log.redactor.know({"run-token": grant.token})
        client = await stack.enter_async_context(self.bench.agent_client({"Authorization": f"Bearer {grant.token}"}))
        agent = await stack.enter_async_context(wire_session(grant.url, client, run.item.protocol))
        stage = Stage(
            item=run.item.id,
            target=gateway,
            tenant=self.tenant,
            grant=grant,
            agent=agent,
            legs=run.legs,
            clock=self.bench.clock,
            sequencer=self.bench.sequencer,
            emit=run.emit,
            new_trace=self.bench.options.names.trace,
            time=self.bench,
            protocol=run.item.protocol,
        )
        for name, leg in run.legs.items():
            await self._read_before(stage, name, leg)
        return stage

    async def _connect(self, name: str, spec: ConnectionSpec) -> None:
        run = self.run_
        provider = spec.provider or name
        manifest, source = self.bench.options.manifests[provider], self.bench.sources[provider]
        secret = source.fixed_credential or self.bench.options.names.secret(provider)
        run.log.redactor.know({f"{name}:{manifest.auth.paths[-1]}": secret})
        clock = self.bench.still_clock or TestClock()
        consent = spec.consent.model_validate(run.bindings.render(spec.consent.model_dump()))
        source.admit(secret, name, consent, run.bindings.render(dict(spec.fake)), clock)
        host = host_of(manifest, f"{self.tenant}-{name}") if source.mapped else None
        operations = [(o.method, o.path, o.tool) for o in manifest.operations]
        mount = self.bench.tap.mount(f"{name}-{self.tenant}", source.base_url, host=host, operations=operations)
        settle = clock.advance if source.fake is not None else None
        run.legs[name] = Leg(name=name, provider=provider, spec=spec, mount=mount, settle=settle)
        run.credentials[name] = (provider, secret)
        request = self._request(name, spec, manifest, source.pin(run.item.protocol), mount.url(source.path), secret)
        await self.bench.gateway.connect(self.tenant, request)

    def _request(self, name: str, spec: ConnectionSpec, manifest: Manifest, protocol: str, url: str, secret: str) -> ConnectionRequest:
        """Permissions are set later, so that access can be read before the scenario's first change."""
        auth = manifest.auth
        bridge = manifest.transport != "mcp_http"
        scheme = "bearer" if auth.scheme == "oauth" else auth.scheme
        return ConnectionRequest(
            name=name,
            provider=manifest.id,
            transport=manifest.transport,
            url=None if bridge else url,
            protocol=protocol,
            auth={} if bridge else {"scheme": scheme, "path": auth.paths[-1]},
            credentials={auth.paths[0]: url, auth.paths[-1]: secret} if bridge else {auth.paths[-1]: secret},
            spec=spec.model_copy(update={"permissions": {}}),
            subject=self.subject,
        )

    async def _read_before(self, stage: Stage, name: str, leg: Leg) -> None:
        gateway = self.bench.gateway
        stage.control("catalog", dict(await gateway.catalog(self.tenant, name)), phase="before", connection=name)
        stage.control("access", dict(await gateway.access(self.tenant, name)), phase="before", connection=name)
        self.run_.permissions_before[name] = dict(await gateway.permissions(self.tenant, name))
        wanted = leg.spec.permissions
        if not wanted:
            return
        unknown = [tool for tool in wanted if tool not in self.run_.permissions_before[name]]
        if unknown:
            raise HarnessError(f"{name} has no tool {unknown[0]!r} to set a permission on", fix="compare with `harness discover`")
        stage.changed_permissions.add(name)
        answer = await gateway.set_permissions(self.tenant, name, wanted)
        stage.control("permissions", {tool: answer.get(tool) for tool in wanted}, phase="before", connection=name)


def host_of(manifest: Manifest, tenant: str) -> str:
    """The provider's real host for this tenant label: each connection gets one of its own, so that exchanges are attributed by name."""
    return manifest.endpoint.split("://", 1)[-1].split("/", 1)[0].replace("{tenant}", tenant)
